"""The questions of label propagation through anchors, and what their answers reveal."""

from __future__ import annotations

from typing import Annotated, ClassVar

import msgspec

from fedgeom.federation.messages import Array, Message, Names, Question
from fedgeom.methods.xclp.messages import Reading
from fedgeom.protocols.secure_sum.messages import SumQuestion


class Cells(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How rows are dealt to cells: by random directions from a mean at first, by anchors later."""

    count: Annotated[int, msgspec.Meta(ge=1, le=100_000)]
    mean: Array | None = None
    """(columns,), f8"""
    seed: bytes = b""
    anchors: Array | None = None
    """(count, columns), f8: unit vectors."""
    kept: Array | None = None
    """(kept,), i4: which cells are summed; the others are too small. None: all."""


class SumRows(SumQuestion, frozen=True, kw_only=True):
    """Ask for the masked sum of a site's unit rows, and their number."""

    kind: ClassVar[str] = "xclp.mean"
    answer_reveals: ClassVar[str] = (
        "masked; with all others: the mean direction of all rows, and how many there are"
    )


class CountCells(SumQuestion, frozen=True, kw_only=True):
    """Ask how many of a site's rows are in each cell, masked."""

    kind: ClassVar[str] = "xclp.cell-counts"
    answer_reveals: ClassVar[str] = "masked; with all others: the sizes of clusters over all sites"
    cells: Cells


class SumCells(SumQuestion, frozen=True, kw_only=True):
    """Ask for the masked sums of a site's unit rows in each cell that is large enough, and their numbers."""

    kind: ClassVar[str] = "xclp.cell-sums"
    answer_reveals: ClassVar[str] = "masked; with all others: the centres of clusters over all sites"
    cells: Cells


class SumCodes(SumQuestion, frozen=True, kw_only=True):
    """Ask for a site's masked ZᵀZ and ZᵀY."""

    kind: ClassVar[str] = "xclp.codes"
    answer_reveals: ClassVar[str] = (
        "masked; with all others: how strongly clusters are tied, and how many labels of each class are near each"
    )
    anchors: Array
    """(anchors, columns), f8"""
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
