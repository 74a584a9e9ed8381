"""Joining: sites show signed keys, check each other against their rosters, and share recovery secrets.

The steps follow Bonawitz et al. 2017 (rounds 0 and 1) with the neighbourhoods of SecAgg+. Letters open
only between sites that were told the same cohort, and signatures fit only if they were told the same
terms. Beside the shares some *heralds* (when sites are few: everyone) send all sites a random secret,
end-to-end encrypted; all sites use that of the first herald still there. From it follows what the
sites must agree on behind the coordinator's back, for example the hidden order of Appendix B of the
hulls paper: sorting by keyed hashes instead of exchanging n² random numbers, with the same trust (a
site may know the order, the coordinator may not).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

import msgspec

from fedgeom import __version__
from fedgeom.crypto import shamir
from fedgeom.crypto.keys import fingerprint, verify
from fedgeom.crypto.neighbours import COMPLETE_UP_TO, neighbours, ring_order
from fedgeom.errors import InputError, ProtocolError
from fedgeom.federation.conversation import Answers, Sites
from fedgeom.federation.messages import Key, Message, Name, Question, Signature
from fedgeom.federation.site import Memory

SecretShare = Annotated[bytes, msgspec.Meta(min_length=shamir.SHARE_BYTES, max_length=shamir.SHARE_BYTES)]
Term = bool | int | float | Annotated[str, msgspec.Meta(max_length=1000)] | None

HERALDS = 8
"""How many sites write to all others when not everyone does."""
MOST_ROUNDS = 2048
"""The most secure sums in a run: each has keys and shares of its own, made when joining."""


class PublicKeys(Message, frozen=True, kw_only=True):
    """A site's keys for this run, signed by its identity: one for letters, one for each planned sum."""

    kind: ClassVar[str] = "join.keys"
    reveals: ClassVar[str] = "public keys; the number of columns"
    letters: Key
    masks: Annotated[tuple[Key, ...], msgspec.Meta(max_length=MOST_ROUNDS)]
    seals: Annotated[tuple[Key, ...], msgspec.Meta(max_length=MOST_ROUNDS)]
    """Hashes of the self-mask seeds: a seed put together from wrong shares is noticed."""
    columns: Annotated[int, msgspec.Meta(ge=0)]
    signature: Signature

    def statement(self, run: bytes, name: str, terms: bytes) -> tuple[bytes, ...]:
        """Return what the signature covers: the keys, and (as a hash) the terms on which the site joins."""
        counts = f"{len(self.masks)} {len(self.seals)} {self.columns}".encode()
        return (run, name.encode(), terms, counts, self.letters, *self.masks, *self.seals)


class Hello(Question, frozen=True, kw_only=True):
    """Invite a site to a run with this many secure sums, on these terms."""

    kind: ClassVar[str] = "join.hello"
    answer: ClassVar[type[Message]] = PublicKeys
    rounds: Annotated[int, msgspec.Meta(ge=0, le=MOST_ROUNDS)]
    release: Annotated[str, msgspec.Meta(max_length=50)] = __version__
    """The coordinator's release: sites and coordinator must compute the same."""
    terms: Annotated[dict[Name, Term], msgspec.Meta(max_length=100)] = {}
    """The method's parameters; a site looks at its data in their light before it answers."""


class Letters(Message, frozen=True, kw_only=True):
    """Sealed letters to other sites."""

    kind: ClassVar[str] = "join.letters"
    reveals: ClassVar[str] = "nothing: letters sealed for other sites, with shares of this run's mask keys"
    letters: dict[Name, bytes]
    needed: Annotated[int, msgspec.Meta(ge=1)]
    """How many shares give a secret of this site back."""


class Share(Question, frozen=True, kw_only=True):
    """Show a site everybody's keys and ask for its letters to the others."""

    kind: ClassVar[str] = "join.share"
    answer: ClassVar[type[Message]] = Letters
    cohort: dict[Name, PublicKeys]


class Letter(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a letter says: shares of the sender's mask keys and self masks, and a herald's secret."""

    mask_shares: tuple[SecretShare, ...] = ()
    self_shares: tuple[SecretShare, ...] = ()
    secret: bytes = b""


class SecureMemory(Memory, kw_only=True):
    """What a site remembers of its keys, its peers and its answers."""

    letter_secret: bytes = b""
    mask_secrets: tuple[bytes, ...] = ()
    self_seeds: tuple[bytes, ...] = ()
    herald_secret: bytes = b""
    private: bytes = b""
    """The seed of randomness that is never shared, not even in shares."""
    joined_on: bytes = b""
    """A hash of the terms on which the site joined."""
    terms: dict[str, Term] = {}
    """The terms themselves: later questions must keep to them."""
    sums: tuple[str, ...] = ()
    """The questions whose answers are summed, by round; empty: any."""
    cohort: dict[str, PublicKeys] = {}
    peers: tuple[str, ...] = ()
    own_letter: Letter | None = None
    opened: dict[str, Letter] = {}
    secret: bytes = b""
    order: tuple[str, ...] = ()
    """All sites that shared their keys, in the hidden order."""
    participants: dict[int, tuple[str, ...]] = {}
    """In each round, the sites it was masked for."""
    asked: dict[str, bytes] = {}
    """Fingerprints of the questions answered in each round: no mask serves twice."""
    sealed: dict[str, bytes] = {}
    """What was sealed, by the question that asked for it: asked again, the site sends the very same."""


def seal_of(seed: bytes) -> bytes:
    """Commit to a self-mask seed; 256 random bits cannot be guessed from their hash."""
    return fingerprint(b"self mask", seed)


def print_of_terms(terms: Mapping[str, Term]) -> bytes:
    """Hash the terms of a run, which every site signs with its keys."""
    return fingerprint(b"terms", msgspec.msgpack.encode(dict(terms), order="sorted"))


def cohort_seed(run: bytes, cohort: Mapping[str, PublicKeys]) -> bytes:
    """Hash everybody's keys: it fixes the neighbourhoods, and stands for the cohort in every letter."""
    return fingerprint(b"cohort", run, msgspec.msgpack.encode(dict(cohort), order="sorted"))


def holder_numbers(run: bytes, cohort: Mapping[str, PublicKeys]) -> dict[str, int]:
    """Number the sites from 1 in ring order."""
    return {name: at + 1 for at, name in enumerate(ring_order(sorted(cohort), cohort_seed(run, cohort)))}


def heralds_of(order: Sequence[str]) -> Sequence[str]:
    """Return the sites that send everyone a secret, given all in ring order.

    As long as everyone writes to everyone anyway, all are heralds: then no loss that the sums survive
    can take the secret away.
    """
    return order if len(order) <= COMPLETE_UP_TO else order[:HERALDS]


def threshold(holders: int, share: float = 2 / 3) -> int:
    """Return how many of a secret's holders must come together."""
    return max(2, math.ceil(share * holders - 1e-9))


@dataclass(frozen=True)
class Cohort:
    """The sites that joined, as the coordinator knows them."""

    sites: Sites
    keys: dict[str, PublicKeys]
    peers: dict[str, tuple[str, ...]]
    mail: dict[str, dict[str, bytes]]
    """For each recipient, the sealed letters by sender."""
    needed: dict[str, int]
    """For each site, how many shares give a secret of it back."""

    @property
    def names(self) -> tuple[str, ...]:
        """The sites that joined and sent their letters."""
        return tuple(sorted(self.needed))

    def numbers(self) -> dict[str, int]:
        """Return each site's number as a holder of shares: its place on the ring, from 1."""
        return holder_numbers(self.sites.run, self.keys)


def join(sites: Sites, *, rounds: int, terms: Mapping[str, Term] | None = None, smallest: int = 2) -> Cohort:
    """Bring the sites together for ``rounds`` secure sums; those that fail to answer stay outside."""
    hello = Hello(rounds=rounds, terms=dict(terms or {}))
    shown = sites.ask(hello, expect=PublicKeys)
    if sites.roster is not None:
        _leave_out_strangers(shown, sites, hello)
    shown.need(smallest, "the invitation")
    check_columns({name: keys.columns for name, keys in shown.items()})
    peers = neighbours(sorted(shown), cohort_seed(sites.run, shown))
    sent = sites.ask(Share(cohort=dict(shown)), of=shown, expect=Letters)
    _leave_out_unrecoverable(sent, sites, peers)
    sent.need(smallest, "with letters to the others")
    mail: dict[str, dict[str, bytes]] = {name: {} for name in sent}
    for sender, answer in sent.items():
        for recipient, letter in answer.letters.items():
            if recipient in mail:
                mail[recipient][sender] = letter
    needed = {name: answer.needed for name, answer in sent.items()}
    return Cohort(sites, dict(shown), peers, mail, needed)


def _leave_out_strangers(shown: Answers[PublicKeys], sites: Sites, hello: Hello) -> None:
    """Leave out sites that the others would refuse: one wrong key must not stop everybody."""
    signed_on = print_of_terms(hello.terms)
    for name, keys in list(shown.items()):
        try:
            if sites.roster is None or name not in sites.roster:
                raise ProtocolError(f"{name!r} is not in the roster")
            verify(
                sites.roster[name],
                keys.signature,
                "keys",
                *keys.statement(sites.run, name, signed_on),
                signer=name,
            )
        except ProtocolError as error:
            del shown.came[name]
            shown.missing[name] = sites.lost[name] = f"refused: {error}; was it admitted with another key?"


def _leave_out_unrecoverable(sent: Answers[Letters], sites: Sites, peers: Mapping[str, tuple[str, ...]]) -> None:
    """Leave out sites of whose shares too few hold one: no sum with them in it could ever be unmasked.

    Noticed later, it would be too late: once the hidden order is settled, nobody who is lost can come back.
    """
    while True:
        holders = {name: len({name, *peers[name]} & set(sent)) for name in sent}
        few = [name for name, answer in sent.items() if answer.needed > holders[name]]
        if not few:
            return
        for name in few:
            reason = f"{holders[name]} of the {sent[name].needed} holders that its shares need are left. "
            reason += "Nothing was revealed"
            sent.missing[name] = sites.lost[name] = reason
        for name in few:
            del sent.came[name]


def check_columns(columns: Mapping[str, int]) -> None:
    """Raise `InputError`, naming the odd ones out, unless all sites have the same number of columns."""
    counts = Counter(columns.values())
    if len(counts) > 1:
        usual = counts.most_common(1)[0][0]
        odd = ", ".join(f"{name!r} has {n}" for name, n in sorted(columns.items()) if n != usual)
        raise InputError(f"sites must have the same columns: most have {usual}, but site {odd}")
