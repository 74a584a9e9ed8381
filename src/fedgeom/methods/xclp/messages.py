"""The questions of cross-client label propagation, and what their answers reveal."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

import msgspec
import numpy as np

from fedgeom.crypto.keys import fingerprint
from fedgeom.federation.messages import Array, Key, Message, Name, Names, Question
from fedgeom.methods.xclp.core import GRID
from fedgeom.methods.xclp.settings import Comparison
from fedgeom.protocols.secure_sum.messages import SumQuestion, Ticket

MOST_ROWS = 10_000_000
"""No site has more rows to compare."""

Bits = Annotated[int, msgspec.Meta(ge=8, le=65_528, multiple_of=8)]
Rate = Annotated[float, msgspec.Meta(ge=0, lt=0.5)]
Wave = Annotated[int, msgspec.Meta(ge=0, lt=100_000)]
"""Where all letters at once would be too large, pairs are compared in waves (`plan_waves`)."""
RoundNumber = Annotated[int, msgspec.Meta(ge=0, lt=2**31)]
GroupNumber = Annotated[int, msgspec.Meta(ge=0, lt=10_000)]
"""Which of the groups of sites (`XclpSettings.groups`) a sum is over; 0 where there are none."""


class Reading(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How a site reads labels from its scores (lines 15 and 16)."""

    variant: Literal["ours", "paper", "code"]
    prior: Literal["em", "em-unchecked", "own", "none"]
    counts: Array
    """(classes,), f8: how many labels each class has over all sites."""

    def stamp(self, model: bytes) -> bytes:
        """Hash what all sites are told to read labels with: those whose labels are counted must know the same."""
        counts = self.counts.numpy().astype(np.float64)
        return fingerprint(b"reading", model, self.variant.encode(), self.prior.encode(), counts.tobytes())


class Hashing(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How rows become bits (lines 3 and 4 of Algorithm 1) and how bits are compared (line 5)."""

    bits: Bits
    """L, the length of a hash."""
    flip: Rate
    """The share of bits that a site turns over at random, to disclose less."""
    comparison: Comparison
    seed: Annotated[bytes, msgspec.Meta(max_length=32)] = b""
    """The projection's seed; empty: it follows from the secret that the sites share."""


class PairLetters(Message, kind="xclp.letters"):
    """Sealed letters of the secure Hamming protocol, and a site's shares of the distances that are done."""

    reveals: ClassVar[str] = (
        "shares of the Hamming distances between this site's rows and its partners': to the coordinator the "
        "distances, that is, the angles between rows"
    )
    letters: dict[Name, bytes]
    shares: dict[Name, Array]
    """(asker's rows, helper's rows), u2, by partner."""


class Rows(Message, kind="xclp.rows"):
    """How many rows a site has, and which of them want an influence column."""

    reveals: ClassVar[str] = "how many rows there are and which have a label"
    labelled: Array
    """(rows,), u1: 1 where the site wants an influence column; at least one row, and as many as a partner may have."""

    def __post_init__(self) -> None:
        shape = self.labelled.shape
        if self.labelled.dtype != "u1" or len(shape) != 1 or not 1 <= shape[0] <= MOST_ROWS:
            raise ValueError(f"a mark (u1) for each of 1 to {MOST_ROWS:,} rows is wanted, not {shape} numbers")


class CountRows(Question, kind="xclp.ask-rows", answer=Rows):
    """Bring a site the mail of the joining, and ask how many rows it has."""

    members: Names
    letters: dict[Name, bytes]
    hide: bool
    """Whether sites hide which rows are labelled by asking for every column."""
    round: RoundNumber = 0
    """In which round labels spread; `XCLP` has one."""


class FirstRowMessages(Message, kind="xclp.first"):
    """The first letters to partners, and the distances within the site."""

    reveals: ClassVar[str] = "the Hamming distances between the site's own rows: the angles between them"
    letters: dict[Name, bytes]
    own: Array
    """(rows·(rows − 1)/2,), u2: the distances of the site's rows to each other, upper triangle."""


class BeginComparison(Question, kind="xclp.begin", answer=FirstRowMessages):
    """Ask a site to hash its rows and to begin with its partners."""

    hashing: Hashing
    partners: dict[Name, Annotated[int, msgspec.Meta(ge=1, le=MOST_ROWS)]]
    """The partners' numbers of rows."""
    now: Names | None = None
    """The partners of this wave; None: all of them."""
    wave: Wave = 0
    round: RoundNumber = 0
    """In which round labels spread; `XCLP` has one."""


class RelayRowMessages(Question, kind="xclp.relay", answer=PairLetters, between_sites=True):
    """Bring a site its partners' letters."""

    hashing: Hashing
    number: Annotated[int, msgspec.Meta(ge=1, le=16)]
    """Which letter of the protocol these are, from 1."""
    letters: dict[Name, bytes]
    wave: Wave = 0
    round: RoundNumber = 0
    """In which round labels spread; `XCLP` has one."""


class CountClasses(SumQuestion, kind="xclp.count", in_groups=True):
    """Ask for a site's masked number of labelled rows in each class."""

    answer_reveals: ClassVar[str] = "masked; with all others: how many labelled rows each class has in all"
    classes: Names
    group: GroupNumber = 0
    round: RoundNumber = 0
    """In which round labels spread; `XCLP` has one."""


class Spread(SumQuestion, kind="xclp.spread", fraction_bits=32, row_sum=True, in_groups=True):
    """Give a site its influence columns (line 12) and ask for its masked contribution (lines 13 and 14)."""

    answer_reveals: ClassVar[str] = (
        "nothing to the coordinator: every block of the sum stays masked for all but its owner. The site "
        "has received the columns of its labelled rows: their influence on every row of all sites"
    )
    per_site_fields: ClassVar[dict[str, Array]] = {"columns": Array.of(np.zeros((0, 0)))}
    classes: Names
    layout: dict[Name, tuple[int, int]]
    columns: Array
    """(rows of all sites, wanted rows), f4"""


class ResultKept(Message, kind="xclp.result-kept", harmless=True):
    """A site has its result."""

    reveals: ClassVar[str] = "nothing: a receipt"


class Collect(Question, kind="xclp.collect", answer=ResultKept):
    """Give a site its block of the sum; only it can read it."""

    of: Ticket
    """The ticket of the sum."""
    block: Array
    """(rows·classes,), u8"""
    reading: Reading
    round: RoundNumber = 0
    """In which round labels spread; `XCLP` has one."""


class CountLabels(SumQuestion, kind="xclp.label-counts", in_groups=True):
    """Ask, masked, how many of a site's rows got each label, and how confident the surest of them is.

    Only for ``confidence="code"``. As in `fedgeom.protocols.fixed_point`, with the counts behind the levels.
    """

    answer_reveals: ClassVar[str] = (
        "masked; with all others: how many rows of all sites got each label, and the largest confidence of any row, "
        f"rounded up to 1/{GRID}"
    )
    classes: Names
    group: GroupNumber = 0
    stamp: Key
    """What all sites were told (`Reading.stamp`): told otherwise, all but one could be made to give no label."""
    round: RoundNumber = 0
    """In which round labels spread; `XCLP` has one."""


class Weigh(Question, kind="xclp.weigh", answer=ResultKept):
    """Give a site the joint numbers by which the reference code scales confidences."""

    level: Annotated[int, msgspec.Meta(ge=0, le=GRID)]
    """The largest confidence of any row, in steps of 1/4096, rounded up."""
    sizes: Array
    """(classes,), f8: how many rows of all sites got each label."""
    round: RoundNumber = 0
    """In which round labels spread; `XCLP` has one."""
