"""The questions of the hulls method, and what their answers reveal."""

from __future__ import annotations

from typing import ClassVar

from fedgeom.federation.messages import Array, Message, Question
from fedgeom.methods.hulls.embedding import FRACTION_BITS
from fedgeom.methods.hulls.encoding import HullPlan
from fedgeom.methods.hulls.matching import MatchEvidence
from fedgeom.protocols.secure_sum.messages import SumQuestion, SumResult


class SumHullScales(SumQuestion, kind="hulls.scales", fraction_bits=FRACTION_BITS, checked=True):
    """Ask for a site's masked column means and deviations, from which the joint scale is made."""

    answer_reveals: ClassVar[str] = "masked; with all others: column means and deviations and row counts, added up"


class SumScatter(SumQuestion, kind="hulls.scatter", fraction_bits=FRACTION_BITS, checked=True):
    """Ask for a site's masked scatter matrices, from which a joint map to the disc is made."""

    answer_reveals: ClassVar[str] = (
        "masked; with all others: the sites' scatter matrices, column means and deviations and row counts, added up"
    )
    scales: SumResult | None = None
    """What came of `SumHullScales`, where the terms say that all sites' rows have one scale."""


class HullExtent(SumQuestion, kind="hulls.extent"):
    """Ask for masked levels: how many classes, how many hull points, how far out (Section 5.5's K_max).

    Behind them stands the number of hull points, rounded up to its level: a word needs room for the sum of them.
    """

    answer_reveals: ClassVar[str] = (
        "masked; with all others: the most hull points, the largest radius and, with own names, the most classes at "
        "any site, not whose, and about how many hull points there are in all"
    )
    embedding: Array | None
    """The joint map, (columns, 2), f8; None: rows are points of the disc."""
    scatter: SumResult | None = None
    """What came of `SumScatter`, from which the map follows: with the first question that has the map."""


class EncodeHulls(SumQuestion, kind="hulls.encode"):
    """Ask for a site's masked word: its quantised hulls under its labels (Sections 5.4 and 5.5)."""

    answer_reveals: ClassVar[str] = (
        "masked; with all others: the quantised hulls of all sites' classes, not whose and not their names"
    )
    plan: HullPlan
    embedding: Array | None
    """(columns, 2), f8, as in `HullExtent`."""
    scatter: SumResult | None = None
    """As in `HullExtent`, where that is not asked."""


class EncodeCorners(SumQuestion, kind="hulls.corners"):
    """Ask for a site's masked word with shared names: its quantised hulls under the labels of their classes."""

    answer_reveals: ClassVar[str] = (
        "masked; with all others: the quantised corners of each class by its name, of all sites together, and how many "
        "sites have each corner; neither whose they are nor which belong to one hull (of a class that one site alone "
        "has, that site's hull, unless a policy leaves such classes out)"
    )
    plan: HullPlan
    embedding: Array | None
    """(columns, 2), f8, as in `HullExtent`."""
    scatter: SumResult | None = None
    """As in `HullExtent`, where that is not asked."""


class HullModelTaken(Message, kind="hulls.model-taken", harmless=True):
    """A site has the model."""

    reveals: ClassVar[str] = "nothing: a receipt"


class TakeHullModel(Question, kind="hulls.take-model", answer=HullModelTaken):
    """Give the sites the model, and the group of every label; each finds its own labels among them."""

    groups: tuple[int, ...]
    """For each label of each block the class, or -1; nothing with shared names, where labels are classes."""
    evidence: tuple[MatchEvidence, ...] = ()
    """For each label how near its class and the next best one are."""
    model: bytes
