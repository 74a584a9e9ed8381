"""The sum of the sites' vectors, and nothing else, for the coordinator.

Double masking as in Bonawitz et al. 2017, rounds 2 to 4. A site adds to its vector one mask of its own
and, for each peer, a mask both share, with opposite signs. When all masked vectors are in, the sites
confirm to each other who is still there, then help to remove the own masks of those that are (from
shares of their seeds) and the pairwise masks of those that are not (from shares of their mask keys).
Nobody ever helps with both for one site. Every round has keys of its own, so what is revealed in one
round opens nothing in another. The masks follow from these keys *and from the question*: sites that
were asked different things have masks that do not cancel, and their sum stays random.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import msgspec
import numpy as np

from fedgeom.crypto import shamir
from fedgeom.crypto.keys import exchange_public, fingerprint, shared_key
from fedgeom.crypto.masks import add_masks
from fedgeom.crypto.rings import Ring, Vector
from fedgeom.errors import ProtocolError, TooFewSitesError
from fedgeom.federation.messages import Array, Key, Message, Name, Names, Question, Signature, decode, encode
from fedgeom.protocols.cohort import Cohort, seal_of

Shares = dict[Name, Annotated[bytes, msgspec.Meta(max_length=shamir.SHARE_BYTES)]]


class Ticket(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A site's admission to one sum: which round, among whom, and the mail that came for it.

    The question that carries it has it in a field called ``ticket``.
    """

    round: Annotated[int, msgspec.Meta(ge=0)]
    modulus: Annotated[str, msgspec.Meta(pattern="^[1-9][0-9]{0,19}$")]
    """In decimal: 2^64 does not fit into the wire format's integers."""
    members: Names
    """All sites whose letters went out; the hidden order is theirs."""
    participants: Names
    """Those among them whose vectors are summed."""
    about: Key = bytes(32)
    """A hash of the question, the same for all sites (see `about`)."""
    letters: dict[Name, bytes] = {}

    @property
    def ring(self) -> Ring:
        """Where the sum is taken."""
        return Ring(int(self.modulus))


def about(question: Any) -> bytes:
    """Hash all that a question says, apart from the mail in its ticket and what is each site's own.

    The question is hashed as it is read, not as it was written: a receiver may find 0.0 where 0 was put.
    """
    blank = msgspec.structs.replace(question.ticket, about=bytes(32), letters={})
    same = msgspec.structs.replace(question, ticket=blank, **question.apart)
    read = decode(encode(same), type(question))
    return fingerprint(b"about", read.kind.encode(), encode(read))


class MaskedVector(Message, frozen=True, kw_only=True):
    """A vector that is uniformly random to all who lack the masks."""

    kind: ClassVar[str] = "sum.masked"
    reveals: ClassVar[str] = "nothing by itself: a masked vector; with all others, the sum"
    vector: Array


class Confirmation(Message, frozen=True, kw_only=True):
    """A site's signature under the list of those still there."""

    kind: ClassVar[str] = "sum.confirmation"
    reveals: ClassVar[str] = "nothing: a signature"
    signature: Signature


class Confirm(Question, frozen=True, kw_only=True):
    """Tell a site whose vectors arrived and ask it to sign that list."""

    kind: ClassVar[str] = "sum.confirm"
    answer: ClassVar[type[Message]] = Confirmation
    round: int
    alive: Names
    dropped: Names


class Witness(Question, frozen=True, kw_only=True):
    """Ask a site that is not summed, but holds shares, to sign the list too.

    When some of the sites are summed, the shares of the others may be needed. A witness signs one list a round like
    everybody else, for the very question that the summed sites masked for, so it can help with no second sum.
    """

    kind: ClassVar[str] = "sum.witness"
    answer: ClassVar[type[Message]] = Confirmation
    round: Annotated[int, msgspec.Meta(ge=0)]
    about: Key
    members: Names
    participants: Names
    alive: Names
    dropped: Names
    letters: dict[Name, bytes] = {}


class UnmaskShares(Message, frozen=True, kw_only=True):
    """Shares that remove own masks of the living and pairwise masks of the dropped."""

    kind: ClassVar[str] = "sum.shares"
    reveals: ClassVar[str] = "shares of mask seeds: with enough of them, the sum over the sites still there"
    self_shares: Shares
    mask_shares: Shares


class Unmask(Question, frozen=True, kw_only=True):
    """Show a site the others' signatures and ask for its shares."""

    kind: ClassVar[str] = "sum.unmask"
    answer: ClassVar[type[Message]] = UnmaskShares
    round: int
    alive: Names
    dropped: Names
    signatures: dict[Name, Signature]


@dataclass(frozen=True)
class Total:
    """The sum and whose vectors it contains."""

    vector: Vector
    sites: tuple[str, ...]


Ask = Callable[[Ticket], Question]


def secure_sum(
    cohort: Cohort,
    round: int,
    ask: Ask,
    *,
    modulus: int,
    length: int,
    among: Iterable[str],
    smallest: int = 2,
) -> Total:
    """Ask the sites in ``among`` for masked vectors and return the exact sum of those that stayed.

    ``ask`` makes the question from a site's ticket; its answer must be a `MaskedVector`. Fewer than
    ``smallest`` survivors, or than the recovery of some mask needs, abort the run: what the
    coordinator has by then is uniformly random.
    """
    sites, ring = cohort.sites, Ring(modulus)
    participants = tuple(sorted(among))
    ticket = Ticket(round=round, modulus=str(modulus), members=cohort.names, participants=participants)
    ticket = msgspec.structs.replace(ticket, about=about(ask(ticket)))
    questions = {name: ask(msgspec.structs.replace(ticket, letters=cohort.mail[name])) for name in participants}
    masked = sites.ask(questions, expect=MaskedVector)
    vectors = {name: _vector(answer, ring, length) for name, answer in masked.items()}
    for name, problem in [(n, v) for n, v in vectors.items() if isinstance(v, str)]:
        masked.missing[name] = problem
        del masked.came[name]
    masked.need(smallest, "with their masked vectors")
    alive = tuple(sorted(masked))
    dropped = tuple(sorted(set(participants) - set(alive)))
    witnesses = _witnesses(cohort, participants, alive)
    for name in participants:  # once sites have confirmed who is there, those who are lost cannot come back
        _check_holders(cohort, name, len({name, *cohort.peers[name]} & {*alive, *witnesses}))

    lists = {"alive": alive, "dropped": dropped}
    requests: dict[str, Question] = dict.fromkeys(alive, Confirm(round=round, **lists))
    for name in witnesses:
        requests[name] = Witness(
            round=round,
            about=ticket.about,
            members=ticket.members,
            participants=participants,
            letters=cohort.mail[name],
            **lists,
        )
    signed = sites.ask(requests, expect=Confirmation)
    signed.need(smallest, "with a signature")
    signatures = {name: answer.signature for name, answer in signed.items()}
    requests = {}
    for name in signed:
        seen = {peer: signatures[peer] for peer in (name, *cohort.peers[name]) if peer in signatures}
        requests[name] = Unmask(round=round, alive=alive, dropped=dropped, signatures=seen)
    shares = sites.ask(requests, expect=UnmaskShares)

    total = np.zeros(length, np.uint64)
    for name in alive:
        total = ring.add(total, vectors[name])  # type: ignore[arg-type]
    plus, minus = _keys_to_remove(cohort, ticket, alive, dropped, dict(shares))
    return Total(add_masks(total, ring, plus=plus, minus=minus), alive)


def _witnesses(cohort: Cohort, participants: Collection[str], alive: Collection[str]) -> tuple[str, ...]:
    """Return the sites outside the sum whose shares are needed: none where those in it hold enough."""
    living = set(alive)
    if all(len({name, *cohort.peers[name]} & living) >= cohort.needed[name] for name in participants):
        return ()
    holders = {peer for name in participants for peer in cohort.peers[name]}
    return tuple(sorted((holders & set(cohort.names)) - set(participants)))


def _vector(answer: MaskedVector, ring: Ring, length: int) -> Vector | str:
    values = answer.vector.numpy()
    if values.shape != (length,) or values.dtype != np.uint64 or (length and values.max() > ring.modulus - 1):
        return f"sent {values.shape} numbers of {values.dtype} where {length} ring elements were wanted"
    return values


def _keys_to_remove(
    cohort: Cohort,
    ticket: Ticket,
    alive: Collection[str],
    dropped: Collection[str],
    shares: Mapping[str, UnmaskShares],
) -> tuple[list[bytes], list[bytes]]:
    """Return the mask keys to add to the masked sum, and those to take away."""
    numbers, round = cohort.numbers(), ticket.round
    plus: list[bytes] = []
    minus: list[bytes] = []
    for name in alive:
        pieces = {numbers[h]: s.self_shares[name] for h, s in shares.items() if name in s.self_shares}
        seed = _recover(cohort, name, pieces)
        if seal_of(seed) != cohort.keys[name].seals[round]:
            raise ProtocolError(f"the shares of the own mask of {name!r} do not fit; a holder sent wrong ones")
        minus.append(own_key(seed, ticket.about))
    living = set(alive)
    for name in dropped:
        pieces = {numbers[h]: s.mask_shares[name] for h, s in shares.items() if name in s.mask_shares}
        secret = _recover(cohort, name, pieces)
        if exchange_public(secret) != cohort.keys[name].masks[round]:
            raise ProtocolError(f"the shares of the mask key of {name!r} do not fit; a holder sent wrong ones")
        for peer in living & set(cohort.peers[name]):
            key = pair_key(secret, cohort.keys[peer].masks[round], cohort.sites.run, ticket.about, name, peer)
            (minus if peer < name else plus).append(key)  # the opposite of what the living peer did
    return plus, minus


def _recover(cohort: Cohort, name: str, pieces: Mapping[int, bytes]) -> bytes:
    _check_holders(cohort, name, len(pieces))
    return shamir.recover(pieces, cohort.needed[name])


def _check_holders(cohort: Cohort, name: str, holders: int) -> None:
    """Raise `TooFewSitesError` when too few holders of a site's shares are left."""
    needed = cohort.needed[name]
    if holders < needed:
        raise TooFewSitesError(
            f"{holders} of the {needed} shares needed to unmask around {name!r} came; too many sites were "
            f"lost ({'; '.join(f'{n}: {why}' for n, why in sorted(cohort.sites.lost.items())) or 'none'}). "
            "Nothing was revealed; run again"
        )


def own_key(seed: bytes, asked: bytes) -> bytes:
    """Derive the key of a site's own mask for one question (`about`)."""
    return fingerprint(b"own mask", seed, asked)


def pair_key(secret: bytes, peer_public: bytes, run: bytes, asked: bytes, one: str, other: str) -> bytes:
    """Derive the mask key of two sites for one question (`about`); both get the same."""
    first, second = sorted((one, other))
    return shared_key(secret, peer_public, b"mask", run, asked, first.encode(), second.encode())
