"""The coordinator's half of a secure sum: collect masked vectors, have the living confirmed, unmask the sum."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

import msgspec
import numpy as np

from fedgeom.arrays import Words, many_zeros
from fedgeom.crypto import shamir
from fedgeom.crypto.keys import verify
from fedgeom.crypto.masks import Ring, add_masks, key_at, mask_key, open_keys, proof_of
from fedgeom.errors import ProtocolError, TooFewSitesError
from fedgeom.federation.coordinator import Answers
from fedgeom.federation.messages import Array, Question
from fedgeom.protocols.join.coordinator import Joined
from fedgeom.protocols.join.messages import lock_seal, seal_of
from fedgeom.protocols.secure_sum.messages import (
    Confirm,
    Confirmation,
    MaskedVector,
    SumQuestion,
    Ticket,
    Unmask,
    UnmaskShares,
    Witness,
    hash_content,
    hash_question,
    masking_statement,
    own_key,
    uneven,
)

Q = TypeVar("Q", bound=SumQuestion)


def make_out(
    question: Q, joined: Joined, round: int, modulus: int, participants: tuple[str, ...], content: bytes = b""
) -> Q:
    """Return the question with a ticket for one round over these sites, still without anybody's mail.

    ``content`` is `hash_content` where that is known.
    """
    ticket = Ticket(round=round, modulus=str(modulus), members=joined.names, participants=participants)
    blank = msgspec.structs.replace(question, ticket=ticket)
    stamped = msgspec.structs.replace(ticket, question_hash=hash_question(blank, content))
    return msgspec.structs.replace(blank, ticket=stamped)


def with_mail(question: Q, letters: Mapping[str, bytes]) -> Q:
    """Return the question with one site's mail in its ticket; without any, the very same, which is encoded once."""
    if not letters:
        return question
    return msgspec.structs.replace(
        question, ticket=msgspec.structs.replace(question.ticket, letters=dict(letters))
    )


@dataclass(frozen=True)
class SumRequest:
    """One sum as it is put to sites."""

    asked: SumQuestion
    """The question, its ticket made out, without anybody's mail."""
    content: bytes
    """`hash_content` of it."""
    length: int
    questions: Mapping[str, SumQuestion]
    """The question for each site that is asked, with its mail."""


@dataclass(frozen=True)
class Collected:
    """What came for one sum, before anything is unmasked."""

    request: SumRequest
    total: Words
    """(length,): the masked vectors, added up."""
    masked: Answers[MaskedVector]
    """Whose they are, with their signatures; the vectors themselves are not kept."""

    def again(self, living: Iterable[str]) -> SumRequest:
        """Return the request for the same sum over some of its sites: they send the same again, under the same masks.

        The coordinator keeps no masked vectors, so those of sites that no longer count cannot be taken out of a total.
        """
        return replace(self.request, questions=dict.fromkeys(sorted(living), self.request.asked))


def request_sum(
    joined: Joined, round: int, question: SumQuestion, *, modulus: int, length: int, participants: Iterable[str]
) -> SumRequest:
    """Return a question as it is put to the participants of one round; its ticket is made out here."""
    summed = tuple(sorted(participants))
    content = hash_content(question) if joined.sites.masked else bytes(32)  # nobody compares it in a plain run
    asked = make_out(question, joined, round, modulus, summed, content)
    return SumRequest(asked, content, length, {name: with_mail(asked, joined.mail[name]) for name in summed})


def collect(joined: Joined, request: SumRequest, *, min_sites: int = 2) -> Collected:
    """Ask for masked vectors and add them up as they come; sites whose vectors cannot be added are left out in words.

    None is kept: the coordinator needs room for two vectors, not for one of each site.
    """
    ring = request.asked.ticket.ring
    length = request.length
    while True:
        total = many_zeros(length, np.uint64)
        problems: dict[str, str] = {}
        add = partial(_add, total, ring, problems)
        masked = joined.sites.ask(request.questions, expect=MaskedVector, take=add)
        joined.delivered(masked)
        _leave_out(joined, masked, problems)
        masked.need(min_sites, "with their masked vectors")
        found = Collected(request, total, masked)
        if not _keep_to_policies(joined, masked):
            return found
        masked.need(min_sites, "with their masked vectors")
        request = found.again(masked)


def _add(total: Words, ring: Ring, problems: dict[str, str], name: str, answer: MaskedVector) -> MaskedVector:
    """Add a masked vector to the total, or note why it cannot be; return the answer without it."""
    values = answer.vector.view()
    if values.shape != total.shape or values.dtype != np.uint64 or _too_large(values, ring):
        problems[name] = (
            f"sent {values.shape} numbers of {values.dtype} where {len(total)} ring elements were wanted"
        )
    else:
        ring.add_to(total, values)
    return msgspec.structs.replace(answer, vector=Array.of(np.empty(0, np.uint64)))


def _too_large(values: Words, ring: Ring) -> bool:
    return ring.bits < 64 and bool(len(values)) and int(values.max()) >= ring.modulus


def _keep_to_policies(joined: Joined, masked: Answers[MaskedVector]) -> bool:
    """Leave out sites whose policy asks for more sites than are left: the others would refuse to sum with them.

    Return whether there were any.
    """
    wanted = {name: joined.keys[name].min_cohort for name in masked}
    came = len(masked)
    while few := [name for name in masked if wanted[name] > len(masked)]:
        left = len(masked)
        problems = {name: f"{left} sites are left; its policy asks for at least {wanted[name]}" for name in few}
        _leave_out(joined, masked, problems)
    return len(masked) < came


def _leave_out(joined: Joined, masked: Answers[MaskedVector], problems: Mapping[str, str]) -> None:
    for name, problem in problems.items():
        masked.missing[name] = problem
        del masked.came[name]
        joined.sites.leave_out(name, problem)


@dataclass(frozen=True)
class Total:
    """The sum and whose vectors it contains."""

    vector: Words
    """(length,)"""
    sites: tuple[str, ...]


def unmask(joined: Joined, found: Collected, *, min_sites: int = 2) -> Total:
    """Have the living of a sum confirmed and unmask the sum of their vectors, and only that.

    Fewer than ``min_sites`` survivors, or than the recovery of some mask needs, abort the run: what the coordinator has
    by then is uniformly random.
    """
    if not joined.sites.masked:
        return Total(found.total, tuple(sorted(found.masked)))
    request = found.request
    sites = joined.sites
    ticket = request.asked.ticket
    masked = found.masked
    factors = uneven(request.asked.weights)
    summed = ticket.participants
    round = ticket.round
    alive = tuple(sorted(masked))
    dropped = tuple(sorted(set(summed) - set(alive)))
    witnesses = _witnesses(joined, summed, alive)
    there = {*alive, *witnesses}
    for name in summed:  # once sites have confirmed who is there, those who are lost cannot come back
        _check_holders(joined, name, len(there.intersection((name, *joined.peers[name]))))

    lists = {"alive": alive, "dropped": dropped}
    requests: dict[str, Question] = dict.fromkeys(alive, Confirm(round=round, **lists))
    for name in witnesses:
        requests[name] = Witness(
            round=round,
            question_hash=ticket.question_hash,
            content=request.content,
            members=ticket.members,
            participants=summed,
            factors=factors,
            letters=joined.mail[name],
            **lists,
        )
    signed = sites.ask(requests, expect=Confirmation)
    joined.delivered(signed)
    signed.need(min_sites, "with a signature")
    signed_for = masking_statement(sites.run, round, ticket.question_hash, request.content, summed, factors)
    _check_silent(joined, {name: masked[name] for name in alive if name not in signed}, signed_for)
    shares = sites.ask(_unmasking(joined, round, lists, masked, signed), expect=UnmaskShares)

    plus, minus = _keys_to_remove(joined, ticket, alive, dropped, dict(shares))
    return Total(add_masks(found.total, ticket.ring, plus=plus, minus=minus, in_place=True), alive)


def _witnesses(joined: Joined, participants: Collection[str], alive: Collection[str]) -> tuple[str, ...]:
    """Return the sites outside the sum whose shares are needed: none where those in it hold enough."""
    living = set(alive)
    near = {name: len(living.intersection((name, *joined.peers[name]))) for name in participants}
    if all(near[name] >= joined.needed[name] for name in participants):
        return ()
    holders = {peer for name in participants for peer in joined.peers[name]}
    return tuple(sorted((holders & set(joined.names)) - set(participants)))


def _unmasking(
    joined: Joined,
    round: int,
    lists: Mapping[str, tuple[str, ...]],
    masked: Mapping[str, MaskedVector],
    signed: Mapping[str, Confirmation],
) -> dict[str, Unmask]:
    """Return for each site that signed the question for its shares, with the signatures of those around it.

    Sites with the same holders, as all are while everybody masks with everybody, get the same question: it is encoded
    once.
    """
    made: dict[frozenset[str], Unmask] = {}
    found = {}
    for name in signed:
        around = frozenset((name, *joined.peers[name]))
        if around not in made:
            made[around] = Unmask(
                round=round,
                alive=lists["alive"],
                dropped=lists["dropped"],
                signatures={peer: signed[peer].signature for peer in sorted(around) if peer in signed},
                masked={p: masked[p].signature for p in sorted(around) if p in masked and p not in signed},
            )
        found[name] = made[around]
    return found


def _check_silent(joined: Joined, silent: Mapping[str, MaskedVector], signed_for: bytes) -> None:
    """Raise `TooFewSitesError` for living sites that signed no list, and their masked vectors for another sum.

    The others refuse to unmask a sum with such a site in it. They have signed the list by then, so it stays on it;
    most sites sign the list, and nobody needs to look at their vectors' signatures.
    """
    sites = joined.sites
    for name, answer in silent.items():
        try:
            if sites.roster is not None:
                verify(sites.roster.get(name, b""), answer.signature, "masked", signed_for)
        except ProtocolError as error:
            reason = "signed its masked vector for another sum, or with another key than the roster's"
            sites.leave_out(name, reason)
            raise TooFewSitesError(
                f"{name!r} {reason}, and was then lost: the others do not unmask a sum with it. Nothing was revealed; "
                "run again without it"
            ) from error


def _keys_to_remove(
    joined: Joined,
    ticket: Ticket,
    alive: Collection[str],
    dropped: Collection[str],
    shares: Mapping[str, UnmaskShares],
) -> tuple[list[bytes], list[bytes]]:
    """Return the mask keys to add to the masked sum, and those to take away."""
    numbers = joined.numbers()
    round = ticket.round
    plus: list[bytes] = []
    minus: list[bytes] = []
    for name in alive:
        given = {h: shares[h].self_shares for h in (name, *joined.peers[name]) if h in shares}
        pieces = {numbers[h]: held[name] for h, held in given.items() if name in held}
        seed = _recover(joined, name, pieces)
        if seal_of(seed) != joined.keys[name].seals[round]:
            raise ProtocolError(f"the shares of the own mask of {name!r} do not fit; a holder sent wrong ones")
        minus.append(own_key(seed, ticket.question_hash))
    living = set(alive)
    for name in dropped:
        given = {h: shares[h].mask_shares for h in joined.peers[name] if h in shares}
        pieces = {numbers[h]: held[name] for h, held in given.items() if name in held}
        secret = _recover(joined, name, pieces)
        if lock_seal(secret) != joined.keys[name].masks[round]:
            raise ProtocolError(f"the shares of the mask secret of {name!r} do not fit; a holder sent wrong ones")
        keys = open_keys(joined.locked[name][round], secret, len(joined.peers[name]))
        for place, peer in enumerate(joined.peers[name]):
            if peer in living:
                key = key_at(keys, place)
                if peer in shares and shares[peer].proofs.get(name) != proof_of(key):
                    raise ProtocolError(
                        f"{name!r}, which was lost, left another key for its mask with {peer!r} than {peer!r} has"
                    )
                made = mask_key(key, ticket.question_hash)
                (minus if peer < name else plus).append(made)  # the opposite of what the living peer did
    return plus, minus


def _recover(joined: Joined, name: str, pieces: Mapping[int, bytes]) -> bytes:
    _check_holders(joined, name, len(pieces))
    return shamir.recover(pieces, joined.needed[name])


def _check_holders(joined: Joined, name: str, holders: int) -> None:
    """Raise `TooFewSitesError` when too few holders of a site's shares are left."""
    needed = joined.needed[name]
    if holders < needed:
        raise TooFewSitesError(
            f"{holders} of the {needed} shares needed to unmask around {name!r} came; too many sites were "
            f"lost ({'; '.join(f'{n}: {why}' for n, why in sorted(joined.sites.lost.items())) or 'none'}). "
            "Nothing was revealed; run again"
        )
