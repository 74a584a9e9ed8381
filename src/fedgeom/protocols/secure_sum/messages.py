"""What travels for a secure sum, and what both halves derive from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, ClassVar

import msgspec
import numpy as np

from fedgeom.arrays import Floats, Ints
from fedgeom.crypto import shamir
from fedgeom.crypto.keys import fingerprint, hash_names
from fedgeom.crypto.masks import PROOF_BYTES, Ring
from fedgeom.crypto.tags import WORDS
from fedgeom.federation.messages import (
    Array,
    Key,
    LongNames,
    Message,
    Name,
    Names,
    Question,
    Signature,
    check_characters,
    decode,
    encode,
    pieces,
)
from fedgeom.federation.plan import words
from fedgeom.memo import memoize_last
from fedgeom.protocols.fixed_point import from_fixed

Shares = dict[Name, Annotated[bytes, msgspec.Meta(max_length=shamir.SHARE_BYTES)]]
Proofs = dict[Name, Annotated[bytes, msgspec.Meta(max_length=PROOF_BYTES)]]


class Ticket(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A site's admission to one sum: which round, over whom, and the mail that came for it."""

    round: Annotated[int, msgspec.Meta(ge=0)] = 0
    modulus: Annotated[str, msgspec.Meta(pattern=r"\A[1-9][0-9]{0,19}\Z")] = "2"
    """In decimal: 2^64 does not fit into the wire format's integers."""
    members: LongNames = ()
    """All sites whose letters went out; the hidden order is theirs."""
    participants: LongNames = ()
    """Those among them whose vectors are summed."""
    question_hash: Key = bytes(32)
    """A hash of the question, the same for all sites (see `hash_question`)."""
    letters: dict[Name, bytes] = {}

    def __post_init__(self) -> None:
        check_characters(self.members, self.participants)

    @property
    def ring(self) -> Ring:
        """Where the sum is taken."""
        return Ring(int(self.modulus))


class MaskedVector(Message, kind="sum.masked", harmless=True):
    """A vector that is uniformly random to all who lack the masks."""

    reveals: ClassVar[str] = "nothing by itself: a masked vector; with all others, the sum"
    vector: Array
    """(length,), u8: ring elements."""
    signature: Signature
    """Of the site's identity, for the very sum that it masked for (`masking_statement`)."""


BY_GROUP = "; where the terms draw groups (aggregation), of each group apart"
"""What is to be said of a sum that groups take apart (`SumQuestion.in_groups`)."""


class SumQuestion(Question, kind="sum.question", answer=MaskedVector):
    """The base of all questions whose answers are summed; the cohort makes out the ticket.

    A handler answers with `SummingSite.contribute`; admission and masking are not its business.
    """

    fraction_bits: ClassVar[int] = 28
    """Binary digits after the point where real numbers are summed: 28 are 4·10⁻⁹, and numbers up to 10¹⁰."""
    checked: ClassVar[bool] = False
    """Whether sites add a tag, so that each can check the sum when it is shown to them (`SumResult`)."""
    reals: ClassVar[bool] = False
    """Whether sites add real numbers as they are: then the terms' ``max_abs_value`` holds for each."""
    packed: ClassVar[bool] = False
    """Whether several numbers share a word (`fedgeom.protocols.fixed_point`), which has bounds of its own."""
    in_groups: ClassVar[bool] = False
    """Whether it is summed in each of the groups that the terms draw, apart (`fedgeom.protocols.secure_sum.rules`);
    where the terms draw none, over all sites."""
    words_per_number: ClassVar[int] = 1
    """How many words of the ring a number takes (`fedgeom.protocols.fixed_point.numbers_of`)."""
    row_sum: ClassVar[bool] = False
    """Whether each site learns its own rows of the sum, and nobody more (`fedgeom.protocols.row_sums`)."""
    decides_floors: ClassVar[bool] = False
    """Whether it only counts sites and rows, to find what too few of them have to be summed: such counts may be
    small, since nothing else is summed of what they find too rare."""
    rounded: ClassVar[bool] = False
    """Whether, where policies have floors, sites add numbers of groups of ``min_rows`` rows or more, so that no row
    counts by itself."""
    counts_rows_aside: ClassVar[bool] = False
    """Whether it counts rows that are kept aside, and no more: these are in no other sum, so that nothing else of a row
    that is counted by itself can be told."""
    over_rows: ClassVar[bool] = True
    """Whether each number is a sum over rows, so that it must not rest on few of them. Parameters that a site trains
    are none: each depends on all rows at once."""
    ticket: Ticket = Ticket()

    @property
    def weights(self) -> Mapping[str, float]:
        """What each participant's numbers are multiplied by; empty where the question has no weights."""
        return {}


class GroupPart(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The sum over one drawn group, as a part of a `SumResult`."""

    group: Annotated[int, msgspec.Meta(ge=0)]
    round: Annotated[int, msgspec.Meta(ge=0)]
    asked: Names
    """The sites of the group that were asked."""
    sites: Names
    """Those whose vectors it contains."""
    total: Array
    tag: Array


class SumResult(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A sum that sites can check: what the coordinator got, with the sites' tags added up (`fedgeom.crypto.tags`).

    What follows from it, such as a scale or a model, is then worked out at the sites and not told by the coordinator.
    """

    round: Annotated[int, msgspec.Meta(ge=0)]
    sites: Names
    """Whose vectors it contains."""
    total: Array
    """(length,), u8: elements of Z_2^64, which stand for signed numbers."""
    tag: Array
    """(3,), u8; zeros where there are groups: their sums have tags."""
    groups: Annotated[tuple[GroupPart, ...], msgspec.Meta(max_length=500)] = ()
    """The sums over groups that the total was put together from, where the terms draw groups."""

    def counts(self) -> Ints:
        """Return the sum of whole numbers."""
        found: Ints = self.total.numpy().view(np.int64)
        return found

    def reals(self, question: type[SumQuestion]) -> Floats:
        """Return the sum of the real numbers that this kind of question asks for."""
        return from_fixed(self.total.view(), fraction_bits=question.fraction_bits)


def blank_result(round: int, sites: tuple[str, ...], length: int = 0) -> SumResult:
    """Return a result as long as that of a sum, for plans: it carries no numbers of anybody."""
    return SumResult(round=round, sites=sites, total=words(length), tag=words(WORDS))


def tag_key(secret: bytes, round: int, question_hash: bytes) -> bytes:
    """Derive the key of one sum's tags from the secret that sites share."""
    return fingerprint(b"tag", secret, str(round).encode(), question_hash)


def hash_content(question: SumQuestion, *, came: bool = False) -> bytes:
    """Hash what a question asks for, whichever round and sites its ticket is made out for.

    What is each site's own is left out. It is hashed as it is read, not as it was written: a receiver may find
    0.0 where 0 was put. One that ``came`` was read already.
    """
    bare = encode(msgspec.structs.replace(question, ticket=Ticket(), **question.per_site_fields))
    return fingerprint(b"content", question.kind.encode(), bare if came else encode(decode(bare, type(question))))


def hash_question(question: SumQuestion, content: bytes = b"") -> bytes:
    """Hash a question and its ticket, apart from the mail in it; ``content`` is `hash_content` where that is known."""
    return hash_ticket(question.ticket, content or hash_content(question))


def hash_ticket(ticket: Ticket, content: bytes) -> bytes:
    """Hash a ticket, apart from the mail in it, and what is asked for with it."""
    blank = msgspec.structs.replace(ticket, question_hash=bytes(32), letters={})
    return fingerprint(b"about", msgspec.msgpack.encode(blank), content)


@memoize_last  # the very same question comes to many sites of a process
def hashes_of(question: SumQuestion) -> tuple[bytes, bytes]:
    """Return `hash_content` and `hash_question` of a question that came."""
    content = hash_content(question, came=True)
    return content, hash_question(question, content)


@memoize_last
def hash_asked(question: Question) -> bytes:
    """Hash a question that came, so that another one of its kind is told from it."""
    return fingerprint(b"asked", *pieces(question))[:16]


class Confirmation(Message, kind="sum.confirmation", harmless=True):
    """A site's signature under the list of those still there."""

    reveals: ClassVar[str] = "nothing: a signature"
    signature: Signature


class Confirm(Question, kind="sum.confirm", answer=Confirmation):
    """Tell a site whose vectors arrived and ask it to sign that list."""

    round: int
    alive: LongNames
    dropped: LongNames

    def __post_init__(self) -> None:
        check_characters(self.alive, self.dropped)


class Witness(Question, kind="sum.witness", answer=Confirmation):
    """Ask a site that is not summed, but holds shares, to sign the list too.

    When some of the sites are summed, the shares of the others may be needed. A witness signs one list a round like
    everybody else, for the very question that the summed sites masked for, so it can help with no second sum.
    """

    round: Annotated[int, msgspec.Meta(ge=0)]
    question_hash: Key
    content: Key
    """`hash_content` of the question: a witness helps with no second sum of the same over other sites."""
    members: LongNames
    participants: LongNames
    alive: LongNames
    dropped: LongNames
    factors: dict[Name, Annotated[float, msgspec.Meta(ge=0, le=1)]] = {}
    """What the participants' weights were multiplied by, where they are not all alike."""
    letters: dict[Name, bytes] = {}

    def __post_init__(self) -> None:
        check_characters(self.members, self.participants, self.alive, self.dropped)


class UnmaskShares(Message, kind="sum.shares", harmless=True):
    """Shares that remove own masks of the living and pairwise masks of the dropped."""

    reveals: ClassVar[str] = "shares of mask seeds: with enough of them, the sum over the sites still there"
    self_shares: Shares
    mask_shares: Shares
    proofs: Proofs
    """Of the pair's key that this site and a dropped one have: the coordinator notices if it opens another."""


class Unmask(Question, kind="sum.unmask", answer=UnmaskShares):
    """Show a site the others' signatures and ask for its shares."""

    round: int
    alive: LongNames
    dropped: LongNames
    signatures: dict[Name, Signature]
    masked: dict[Name, Signature]
    """The signatures that came with the masked vectors of living sites that signed no list, as they were lost since."""

    def __post_init__(self) -> None:
        check_characters(self.alive, self.dropped)


def masking_statement(
    run: bytes,
    round: int,
    question_hash: bytes,
    content: bytes,
    participants: Sequence[str],
    factors: Mapping[str, float],
) -> bytes:
    """Return what a site signs when it masks a vector: for which sum, over whom and with which weights.

    The question's hash covers all of it, but a witness has no question to hash: it sees from these signatures that what
    it was told about the sum is what the summed sites were asked.
    """
    over = hash_names(tuple(participants))
    weights = msgspec.msgpack.encode(dict(factors), order="sorted")
    return fingerprint(run, str(round).encode(), question_hash, content, over, weights)


def uneven(factors: Mapping[str, float]) -> dict[str, float]:
    """Return what sites' weights are multiplied by; nothing where they are all alike."""
    return dict(factors) if set(factors.values()) - {1.0} else {}


def own_key(seed: bytes, question_hash: bytes) -> bytes:
    """Derive the key of a site's own mask for one question."""
    return fingerprint(b"own mask", seed, question_hash)
