"""The coordinator's half of joining: invite, collect signed keys and sealed letters, see who can take part."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from fedgeom.crypto.keys import KEY_BYTES, verify
from fedgeom.crypto.neighbours import COMPLETE_UP_TO, neighbours
from fedgeom.data.validation import check_columns, check_same_names
from fedgeom.errors import ProtocolError, TooFewSitesError
from fedgeom.federation.coordinator import Answers, Coordinator
from fedgeom.federation.policy import hash_terms
from fedgeom.protocols.join.messages import (
    DRAWS,
    Ciphertexts,
    DrawRing,
    Hello,
    Letters,
    Meet,
    PublicKeys,
    RingNumber,
    Share,
    cohort_seed,
    follow_chain,
    holder_numbers,
)
from fedgeom.protocols.join.site import SumParts


@dataclass(frozen=True)
class Joined:
    """The sites that joined, as the coordinator knows them."""

    sites: Coordinator
    keys: dict[str, PublicKeys]
    peers: Mapping[str, tuple[str, ...]]
    mail: dict[str, dict[str, bytes]]
    """For each recipient, the sealed letters by sender; empty once they are delivered."""
    needed: dict[str, int]
    """For each site, how many shares give a secret of it back."""
    seed: bytes
    """What the neighbourhoods follow from (`cohort_seed`)."""
    locked: dict[str, tuple[bytes, ...]]
    """For each site and sum the locked keys of its pairs, in the order of its peers."""

    @property
    def names(self) -> tuple[str, ...]:
        """The sites that joined and sent their letters."""
        return tuple(sorted(self.needed))

    def delivered(self, names: Iterable[str]) -> None:
        """Take note that sites have read their mail: it need not be sent again."""
        for name in names:
            self.mail[name] = {}

    def numbers(self) -> dict[str, int]:
        """Return each site's number as a holder of shares: its place on the ring, from 1."""
        return holder_numbers(self.keys, self.seed)


def invite(
    sites: Coordinator,
    *,
    rounds: int,
    terms: Mapping[str, Any],
    min_sites: int,
    prepares: bool = False,
    draw: bool = False,
    smallest_sum: Callable[[int], int] | None = None,
    sum_sites: Callable[[Sequence[str], int], Sequence[Collection[str]] | None] | None = None,
) -> Joined:
    """Bring the sites together for ``rounds`` secure sums; those that fail to answer stay outside.

    ``prepares``: rows are prepared, and sites agree on columns later. ``draw``: the order of the sites is drawn also
    where there are few, since groups follow from it. ``smallest_sum`` says over how few of so many sites a sum may go,
    ``sum_sites`` which of the cohort may be in which sum, by the seed; None: they go over all.
    """
    hello = Hello(
        rounds=rounds,
        seed=sites.seed,
        terms=dict(terms),
        participants=sites.participants,
        purpose=sites.purpose,
        table=sites.table,
    )
    shown = sites.ask(hello, expect=PublicKeys)
    if sites.roster is not None:
        _leave_out_strangers(shown, sites, hello)
    shown.need(min_sites, "the invitation")
    if not prepares:
        check_columns({name: keys.columns for name, keys in shown.items()})
        check_same_names({name: keys.columns_hash for name, keys in shown.items()})
    if not sites.masked:
        return _meet(sites, shown)
    numbers, number = _draw_ring(shown, sites, min_sites, always=draw)
    seed = cohort_seed(sites.run, shown, numbers, number)
    peers = neighbours(shown, seed, smallest_sum(len(shown)) if smallest_sum else None)
    met = sites.ask(Meet(cohort=dict(shown), numbers=numbers, draw=number), of=shown, expect=Ciphertexts)
    met.need(min_sites, "with secrets for the others")
    sent = sites.ask(_ciphertexts_for(met), expect=Letters)
    parts = SumParts(rounds, sum_sites(tuple(sorted(shown)), sites.seed) if sum_sites else None)
    _leave_out_unlocked(sent, sites, peers, parts)
    _leave_out_unrecoverable(sent, sites, peers)
    sent.need(min_sites, "with letters to the others")
    mail: dict[str, dict[str, bytes]] = {name: {} for name in sent}
    for sender, answer in sent.items():
        for recipient, letter in answer.letters.items():
            if recipient in mail:
                mail[recipient][sender] = letter
    needed = {name: answer.needed for name, answer in sent.items()}
    locked = {name: answer.locked for name, answer in sent.items()}
    return Joined(sites, dict(shown), peers, mail, needed, seed, locked)


def _ciphertexts_for(met: Answers[Ciphertexts]) -> dict[str, Share]:
    """Return for each site that is there the question that brings it the others' ciphertexts."""
    post: dict[str, dict[str, bytes]] = {name: {} for name in met}
    for sender, answer in met.items():
        for recipient, ciphertext in answer.ciphertexts.items():
            if recipient in post:
                post[recipient][sender] = ciphertext
    return {name: Share(ciphertexts=came) for name, came in post.items()}


def _meet(sites: Coordinator, shown: Answers[PublicKeys]) -> Joined:
    """Tell the sites of a plain run who is there: they have no keys to exchange, and nothing to hide among others."""
    sites.ask(Meet(cohort=dict(shown)), of=shown, expect=Ciphertexts)
    keys = {name: msgspec.structs.replace(one, min_cohort=1) for name, one in shown.items()}
    return Joined(
        sites,
        keys,
        peers={},
        mail={name: {} for name in shown},
        needed=dict.fromkeys(shown, 1),
        seed=cohort_seed(sites.run, dict(shown)),
        locked={},
    )


def _draw_ring(
    shown: Answers[PublicKeys], sites: Coordinator, min_sites: int, *, always: bool
) -> tuple[dict[str, bytes], int]:
    """Return the numbers that the ring of many sites follows from, and of which draw they are; few sites need none.

    With ``always`` they are drawn for few sites, too. Sites that are lost in a draw stay outside, and the ring is drawn
    anew.
    """
    draw = 0
    while always or len(shown) > COMPLETE_UP_TO:
        if draw == DRAWS:
            raise TooFewSitesError(
                f"sites were lost in each of {DRAWS} draws of the ring: "
                f"{'; '.join(f'{name}: {why}' for name, why in sorted(sites.lost.items()))}. "
                "Nothing was revealed; run again with those that are left"
            )
        came = sites.ask(DrawRing(cohort=dict(shown), draw=draw), of=shown, expect=RingNumber)
        numbers = {name: answer.number for name, answer in came.items()}
        for name in [n for n in numbers if follow_chain(numbers[n], draw + 1) != shown[n].ring_commit]:
            came.missing[name] = "showed another number for the ring than it had committed to"
            sites.leave_out(name, came.missing[name])
            del numbers[name]
        if len(numbers) == len(shown):
            return numbers, draw
        for name in set(shown) - set(numbers):
            shown.missing[name] = came.missing[name]
            del shown.came[name]
        shown.need(min_sites, "with their numbers for the ring")
        draw += 1
    return {}, 0


def _leave_out_strangers(shown: Answers[PublicKeys], sites: Coordinator, hello: Hello) -> None:
    """Leave out sites that the others would refuse: one wrong key must not stop everybody."""
    signed_on = hash_terms(hello.job(sites.method))
    for name, keys in list(shown.items()):
        try:
            if sites.roster is None or name not in sites.roster:
                raise ProtocolError(f"{name!r} is not in the roster")
            statement = keys.statement(sites.run, name, signed_on)
            verify(sites.roster[name], keys.signature, "keys", *statement, signer=name)
        except ProtocolError as error:
            reason = f"refused: {error}; was it admitted with another key?"
            del shown.came[name]
            shown.missing[name] = reason
            sites.leave_out(name, reason)


def _leave_out_unlocked(
    sent: Answers[Letters], sites: Coordinator, peers: Mapping[str, tuple[str, ...]], parts: SumParts
) -> None:
    """Leave out sites that did not leave the locked keys of all their pairs for each sum that they may be in."""
    for name, answer in list(sent.items()):
        own = set(parts.of(name))
        size = KEY_BYTES * len(peers[name])
        if [len(keys) for keys in answer.locked] == [size * (at in own) for at in range(parts.sums)]:
            continue
        sent.missing[name] = "left no locked keys of all its pairs, one for each sum"
        sites.leave_out(name, sent.missing[name])
        del sent.came[name]


def _leave_out_unrecoverable(
    sent: Answers[Letters], sites: Coordinator, peers: Mapping[str, tuple[str, ...]]
) -> None:
    """Leave out sites of whose shares too few hold one: no sum with them in it could ever be unmasked.

    Noticed later, it would be too late: once the hidden order is settled, nobody who is lost can come back.
    """
    while True:
        there = set(sent)
        holders = {name: len(there.intersection((name, *peers[name]))) for name in sent}
        few = [name for name, answer in sent.items() if answer.needed > holders[name]]
        if not few:
            return
        for name in few:
            reason = f"{holders[name]} of the {sent[name].needed} holders that its shares need are left. "
            reason += "Nothing was revealed"
            sent.missing[name] = reason
            sites.leave_out(name, reason)
        for name in few:
            del sent.came[name]
