"""The questions of Ellipses, and what their answers reveal."""

from __future__ import annotations

from typing import Annotated, ClassVar

import msgspec

from fedgeom.federation.messages import Message, Question
from fedgeom.methods.hulls.embedding import FRACTION_BITS
from fedgeom.methods.hulls.matching import MatchEvidence
from fedgeom.protocols.secure_sum.messages import BY_GROUP, SumQuestion, SumResult

Classes = Annotated[int, msgspec.Meta(ge=2, le=4096)]


class SumEllipseScales(
    SumQuestion, kind="ellipses.scales", fraction_bits=FRACTION_BITS, checked=True, in_groups=True
):
    """Ask for a site's masked column means and deviations, from which the joint scale is made."""

    answer_reveals: ClassVar[str] = (
        "masked; with all others: column means and deviations and row counts, added up"
    ) + BY_GROUP


class HowMany(SumQuestion, kind="ellipses.classes"):
    """Ask for a masked level: how many classes there are at a site."""

    answer_reveals: ClassVar[str] = "masked; with all others: the most classes at any site, not whose"
    scales: SumResult | None = None
    """What came of `SumEllipseScales`, where the terms say that all sites' rows have one scale."""


class SumGaussians(SumQuestion, kind="ellipses.sum", fraction_bits=24, in_groups=True):
    """Ask for the masked counts, sums and products of a site's classes, in the slots of its hidden block."""

    answer_reveals: ClassVar[str] = (
        "masked; with all others: row count, mean and covariance of each class of each site, not whose and not their "
        "names (with shared names: of each name over all sites together; of small classes variances only), and the "
        "scatter inside all classes, added up"
    ) + BY_GROUP
    classes: Classes
    scales: SumResult | None = None
    """As in `HowMany`, where that is not asked."""


class EllipseModelTaken(Message, kind="ellipses.model-taken", harmless=True):
    """A site has the model."""

    reveals: ClassVar[str] = "nothing: a receipt"


class TakeEllipseModel(Question, kind="ellipses.take-model", answer=EllipseModelTaken):
    """Give the sites the model, and the joint class of every slot; each finds its own slots among them."""

    groups: tuple[int, ...]
    """For each slot of each block the class; -1: it is not used, or is made of several; nothing with shared names."""
    evidence: tuple[MatchEvidence, ...] = ()
    """For each slot how near its class and the next best one are."""
    model: bytes


class SumCovers(SumQuestion, kind="ellipses.covers"):
    """Ask for masked ticks: which joint classes each of a site's words covers, in the slots of its hidden block."""

    answer_reveals: ClassVar[str] = (
        "masked; with all others: which joint classes each word of each site covers, not whose and not the words"
    )


class TakeTree(Question, kind="ellipses.tree", answer=EllipseModelTaken):
    """Give the sites the joint tree: the sets of joint classes that some site has a word for."""

    tree: tuple[tuple[int, ...], ...]
