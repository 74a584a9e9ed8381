"""What travels while sites join, and what both halves compute from it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, ClassVar

import msgspec

from fedgeom.crypto import shamir
from fedgeom.crypto.keys import CIPHERTEXT_BYTES, ED25519_BYTES, KEM_PUBLIC_BYTES, SIGNATURE_BYTES, fingerprint
from fedgeom.crypto.neighbours import COMPLETE_UP_TO, ring_order
from fedgeom.federation.messages import Key, Message, Name, Names, Question
from fedgeom.federation.policy import MOST_PURPOSE, Invitation, JobTerms, job_terms
from fedgeom.federation.settings import is_finite
from fedgeom.memo import memoize, memoize_last
from fedgeom.version import __version__

SecretShare = Annotated[bytes, msgspec.Meta(min_length=shamir.SHARE_BYTES, max_length=shamir.SHARE_BYTES)]
Text = Annotated[str, msgspec.Meta(max_length=1000)]
Scalar = bool | int | float | Text | None
Several = Annotated[tuple[Scalar, ...], msgspec.Meta(max_length=10_000)]
Lists = Annotated[dict[Name, Several], msgspec.Meta(max_length=10_000)]
"""A setting for each of some columns: their words, or the range that they lie in."""
Table = dict[Name, Scalar | Several | Lists]
"""A choice with settings of its own."""
Term = Scalar | Table | Annotated[tuple[Scalar | Table, ...], msgspec.Meta(max_length=10_000)]
"""A setting: a number, a text, nothing, a choice, or several of these (class names, a shape, feature maps)."""
Terms = Annotated[dict[Name, Term], msgspec.Meta(max_length=100)]

KemKey = Annotated[bytes, msgspec.Meta(min_length=KEM_PUBLIC_BYTES, max_length=KEM_PUBLIC_BYTES)]
Ciphertext = Annotated[bytes, msgspec.Meta(min_length=CIPHERTEXT_BYTES, max_length=CIPHERTEXT_BYTES)]

IdentitySignature = Annotated[bytes, msgspec.Meta(min_length=ED25519_BYTES, max_length=SIGNATURE_BYTES)]
"""By Ed25519 and ML-DSA-65, or by an identity from before by Ed25519 alone."""

Floor = Annotated[int, msgspec.Meta(ge=1, lt=2**62)]

SEED_CONTRIBUTORS = 8
"""How many sites write to all others when not everyone does."""
DRAWS = 8
"""How often the ring of many sites can be drawn, each time over fewer sites."""
MOST_ROUNDS = 2048
"""The most secure sums in a run: each has keys and shares of its own, made when joining."""


class PublicKeys(Message, kind="join.keys", harmless=True):
    """A site's key for this run, and what binds it to its secrets of each planned sum, signed by its identity."""

    reveals: ClassVar[str] = (
        "public keys; the number of columns and a hash of their names; how many sites and rows its policy asks for, of "
        "sums and of rare classes"
    )
    letters: Key
    """For Diffie–Hellman (X25519)."""
    kem: KemKey
    """For encapsulated secrets (ML-KEM-768); with both kinds two sites agree on the keys of letters and masks."""
    masks: Annotated[tuple[Key, ...], msgspec.Meta(max_length=MOST_ROUNDS)]
    """Hashes of the secrets by which the site locks its pairs' keys of each sum (`fedgeom.crypto.masks`)."""
    seals: Annotated[tuple[Key, ...], msgspec.Meta(max_length=MOST_ROUNDS)]
    """Hashes of the self-mask seeds: a seed put together from wrong shares is noticed."""
    columns: Annotated[int, msgspec.Meta(ge=0)]
    columns_hash: Annotated[bytes, msgspec.Meta(max_length=32)] = b""
    """A hash of the columns' names in their order (`hash_columns`); empty where the site has no names."""
    floors: tuple[Floor, Floor] = (1, 1)
    """How many sites and how many rows in all a class must have to be summed, by this site's policy."""
    ring_commit: Key
    """The end of a chain of hashes: the site is bound to the numbers by which a ring is drawn (`DrawRing`)."""
    min_cohort: Annotated[int, msgspec.Meta(ge=2)]
    """The site's policy: the others help with no sum with this site in it over fewer sites."""
    min_difference: Annotated[int, msgspec.Meta(ge=0)]
    """The site's policy: the others help with no two sums that differ by fewer sites, this one among them."""
    signature: IdentitySignature

    def statement(self, run: bytes, name: str, terms: bytes) -> tuple[bytes, ...]:
        """Return what the signature covers: the keys, and (as a hash) the terms on which the site joins."""
        policy = self.min_cohort, self.min_difference, *self.floors
        counts = " ".join(map(str, (len(self.masks), len(self.seals), self.columns, *policy)))
        own = (
            counts.encode(),
            self.columns_hash,
            self.letters,
            self.kem,
            self.ring_commit,
            *self.masks,
            *self.seals,
        )
        return (run, name.encode(), terms, *own)


class Hello(Invitation, kind="join.hello", answer=PublicKeys):
    """Invite a site to a run with this many secure sums, on these terms."""

    rounds: Annotated[int, msgspec.Meta(ge=0, le=MOST_ROUNDS)]
    release: Annotated[str, msgspec.Meta(max_length=50)] = __version__
    """The coordinator's release: sites and coordinator must compute the same."""
    seed: int = 0
    """The seed of learning; with the terms it says what the run computes."""
    terms: Terms = {}
    """The method's settings; a site looks at its data in their light before it answers."""
    participants: Names = ()
    """Everyone who may take part, in alphabetical order: nobody else will be in the cohort."""
    purpose: Annotated[str, msgspec.Meta(max_length=MOST_PURPOSE)] = ""
    """What the job is for, in its author's words."""
    table: Annotated[str, msgspec.Meta(max_length=100)] = ""
    """Which of a site's tables the run is about, by its name in site.toml; "": the usual one."""

    def __post_init__(self) -> None:
        if not is_finite(self.terms):  # a steward would be shown null, and approve a hash of something else
            raise ValueError("the terms have a number that is infinite or NaN; wanted finite ones")

    def job(self, method: str) -> JobTerms:
        """Return the job's terms, whose hash every site signs with its keys."""
        return job_terms(method, self.terms, self.seed, self.participants, self.release, self.purpose, self.table)


class RingNumber(Message, kind="join.number", harmless=True):
    """The number that a site had committed to for a draw of the ring."""

    reveals: ClassVar[str] = "nothing: a random number, from which with all others' the neighbourhoods follow"
    number: Key


class DrawRing(Question, kind="join.draw", answer=RingNumber):
    """Show a site the whole cohort and ask for its number in a draw, where few mask with all or groups are drawn."""

    cohort: dict[Name, PublicKeys]
    draw: Annotated[int, msgspec.Meta(ge=0)]
    """From 0; another one when a site was lost in the last."""


class Letters(Message, kind="join.letters", harmless=True):
    """Sealed letters to other sites."""

    reveals: ClassVar[str] = (
        "nothing: letters sealed for other sites, with shares of this run's mask keys; locked keys"
    )
    letters: dict[Name, bytes]
    needed: Annotated[int, msgspec.Meta(ge=1)]
    """How many shares give a secret of this site back."""
    locked: Annotated[tuple[bytes, ...], msgspec.Meta(max_length=MOST_ROUNDS)]
    """For each sum the keys of this site's pairs, locked: they are opened when it is lost in that sum."""


class Share(Question, kind="join.share", answer=Letters):
    """Bring a site the others' ciphertexts and ask for its letters to them."""

    ciphertexts: dict[Name, Ciphertext]
    """By sender; those of sites that were lost since the cohort was told are missing."""


class Ciphertexts(Message, kind="join.ciphertexts", harmless=True):
    """Secrets for other sites, encapsulated for their keys."""

    reveals: ClassVar[str] = "nothing: random secrets, encapsulated for other sites"
    ciphertexts: dict[Name, Ciphertext]
    """By recipient."""


class Meet(Question, kind="join.meet", answer=Ciphertexts):
    """Show a site everybody's keys and ask for secrets encapsulated for those it writes to."""

    cohort: dict[Name, PublicKeys]
    numbers: dict[Name, Key] = {}
    """What the sites showed in the last draw of the ring; empty where nothing is drawn."""
    draw: Annotated[int, msgspec.Meta(ge=0)] = 0


class SealedShares(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a letter says: shares of the sender's mask secrets and self masks, and a seed contributor's secret."""

    mask_shares: tuple[SecretShare, ...] = ()
    self_shares: tuple[SecretShare, ...] = ()
    secret: bytes = b""


def seal_of(seed: bytes) -> bytes:
    """Commit to a self-mask seed; 256 random bits cannot be guessed from their hash."""
    return fingerprint(b"self mask", seed)


def lock_seal(secret: bytes) -> bytes:
    """Commit to the secret by which a site locks its pairs' keys of a sum."""
    return fingerprint(b"mask secret", secret)


def hash_columns(run: bytes, names: Sequence[str]) -> bytes:
    """Return what sites show each other of their columns' names: a hash, another one in each run; nothing for none."""
    return fingerprint(b"columns", run, msgspec.msgpack.encode(list(names))) if names else b""


def follow_chain(number: bytes, links: int) -> bytes:
    """Return what a chain of hashes that begins with a number comes to after so many links."""
    for _ in range(links):
        number = fingerprint(b"ring number", number)
    return number


@memoize_last
def cohort_seed(
    run: bytes, cohort: Mapping[str, PublicKeys], numbers: Mapping[str, bytes] | None = None, draw: int = 0
) -> bytes:
    """Hash everybody's keys, and the numbers of the draw where there was one.

    It fixes the neighbourhoods, and stands for the cohort in every letter.
    """
    drawn = msgspec.msgpack.encode([dict(numbers or {}), draw], order="sorted")
    return fingerprint(b"cohort", run, msgspec.msgpack.encode(dict(cohort), order="sorted"), drawn)


@memoize(4)  # the same for all sites of a process
def hidden_order(secret: bytes, members: tuple[str, ...]) -> tuple[str, ...]:
    """Return the members in the order that follows from the sites' common secret."""
    return tuple(sorted(members, key=lambda name: fingerprint(b"order", secret, name.encode())))


def holder_numbers(names: Iterable[str], seed: bytes) -> dict[str, int]:
    """Number the sites from 1 in ring order, which follows from a seed (`cohort_seed`)."""
    return {name: at + 1 for at, name in enumerate(ring_order(names, seed))}


def class_floors(cohort: Mapping[str, PublicKeys]) -> tuple[int, int]:
    """Return how many sites and rows a class must have: of all sites' policies the strictest holds."""
    floors = [keys.floors for keys in cohort.values()]
    return max(sites for sites, _ in floors), max(rows for _, rows in floors)


def seed_contributors(order: Sequence[str]) -> Sequence[str]:
    """Return the sites that send everyone a secret, given all in ring order.

    As long as everyone writes to everyone anyway, all are seed contributors: then no loss that the sums survive can
    take the secret away.
    """
    return order if len(order) <= COMPLETE_UP_TO else order[:SEED_CONTRIBUTORS]


def correspondents(me: str, peers: Iterable[str], order: Sequence[str], *, everybody: bool) -> tuple[str, ...]:
    """Return those with whom a site exchanges letters: its peers and the seed contributors, or all if it is one.

    ``order`` is that of the ring; ``everybody``: the method compares all pairs of sites.
    """
    contributors = seed_contributors(order)
    others = order if everybody or me in contributors else {*peers, *contributors}
    return tuple(sorted(set(others) - {me}))
