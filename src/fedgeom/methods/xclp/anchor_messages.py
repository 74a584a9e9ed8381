"""The questions of label propagation through anchors, and what their answers reveal."""

from __future__ import annotations

from typing import Annotated, ClassVar

import msgspec

from fedgeom.federation.messages import Key, Message, Names, Question
from fedgeom.methods.xclp.messages import Reading, RoundNumber
from fedgeom.protocols.secure_sum.messages import SumQuestion, SumResult


class SumRows(SumQuestion, frozen=True, kw_only=True):
    """Ask for the masked sum of a site's unit rows, and their number."""

    kind: ClassVar[str] = "xclp.mean"
    answer_reveals: ClassVar[str] = (
        "masked; with all others, to everybody: the mean direction of all rows (of their features where a network is "
        "trained), and how many there are"
    )
    checked: ClassVar[bool] = True
    features: Key | None = None
    """A hash of what all sites make features with, and of the round; None: the rows are the table's own. Sites that
    were told otherwise refuse, so that no sum mixes features of different models."""


class CountCells(SumQuestion, frozen=True, kw_only=True):
    """Ask, masked, how many of a site's rows are in each cell, and whether there are any."""

    kind: ClassVar[str] = "xclp.cell-counts"
    answer_reveals: ClassVar[str] = (
        "masked; with all others, to everybody: the sizes of clusters over all sites, and how many sites have a part"
    )
    checked: ClassVar[bool] = True
    last: SumResult
    """The sum before this one, from which the cells follow."""


class SumCells(SumQuestion, frozen=True, kw_only=True):
    """Ask for the masked sums of a site's unit rows in each cell that is large enough, and their numbers."""

    kind: ClassVar[str] = "xclp.cell-sums"
    answer_reveals: ClassVar[str] = (
        "masked; with all others, to everybody: the centres of clusters of rows, or of their features, over all sites"
    )
    checked: ClassVar[bool] = True
    last: SumResult
    """The sizes of the cells, from which it follows which are large enough."""


class SumCodes(SumQuestion, frozen=True, kw_only=True):
    """Ask for a site's masked ZᵀZ and ZᵀY."""

    kind: ClassVar[str] = "xclp.codes"
    answer_reveals: ClassVar[str] = (
        "masked; with all others: how strongly clusters are tied, and how many labels of each class are near each"
    )
    last: SumResult
    """The last sums over cells, from which the anchors follow."""
    nearest: Annotated[int, msgspec.Meta(ge=1, le=100)]
    classes: Names


class ModelRead(Message, frozen=True, kw_only=True):
    """A site has the model and its labels."""

    kind: ClassVar[str] = "xclp.model-read"
    reveals: ClassVar[str] = "nothing: a receipt"
    harmless: ClassVar[bool] = True


class ReadModel(Question, frozen=True, kw_only=True):
    """Give the sites the anchors and their class scores."""

    kind: ClassVar[str] = "xclp.read-model"
    answer: ClassVar[type[Message]] = ModelRead
    model: bytes
    reading: Reading
    round: RoundNumber = 0
    """In which round labels spread; `XCLP` has one."""
