"""What travels while rows are prepared."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Annotated, ClassVar

import msgspec

from fedgeom.crypto.keys import fingerprint
from fedgeom.federation.messages import Key, Message, Name, Names, Question
from fedgeom.federation.steps import MOST_COLUMNS, Columns, SumKind
from fedgeom.protocols.secure_sum.messages import SumQuestion, SumResult

SLOTS = 256
"""Categories are counted under numbers up to a multiple of this."""
PAGE = 4096
"""Sealed lists are padded to whole pages, so that their length says little."""
MOST_WORDS = 2**20
"""How many categories there may be in all."""

Last = SumResult | None
"""The sum before, which the next one builds upon; None for the first."""
Sealed = Annotated[bytes, msgspec.Meta(max_length=2**24)]


class SealedColumns(Message, frozen=True, kw_only=True):
    """A site's columns and categories, sealed for the other sites."""

    kind: ClassVar[str] = "prepare.sealed"
    reveals: ClassVar[str] = (
        "nothing to the coordinator; to the other sites the names of the site's columns, and of its categories those "
        "that its policy's min_rows_per_class lets it name"
    )
    harmless: ClassVar[bool] = True
    columns: Sealed


class SealColumns(Question, frozen=True, kw_only=True):
    """Bring a site its mail and ask for its sealed columns."""

    kind: ClassVar[str] = "prepare.seal"
    answer: ClassVar[type[Message]] = SealedColumns
    participants: Names
    letters: dict[Name, bytes]


class ColumnsHeld(Message, frozen=True, kw_only=True):
    """A site has everybody's columns."""

    kind: ClassVar[str] = "prepare.held"
    reveals: ClassVar[str] = f"how many categories there are in all, rounded up to a multiple of {SLOTS}"
    harmless: ClassVar[bool] = True
    slots: Annotated[int, msgspec.Meta(ge=0, le=MOST_WORDS)]
    """0: there is no column of categories."""


class HoldColumns(Question, frozen=True, kw_only=True):
    """Bring a site everybody's sealed columns."""

    kind: ClassVar[str] = "prepare.hold"
    answer: ClassVar[type[Message]] = ColumnsHeld
    sealed: dict[Name, Sealed]


class CountCategories(SumQuestion, frozen=True, kw_only=True):
    """Ask which categories a site has and how many rows of each, masked, under numbers that only sites understand."""

    kind: ClassVar[str] = "prepare.categories"
    answer_reveals: ClassVar[str] = (
        "masked; with all others: at how many sites and in how many rows each category occurs, without the words"
    )
    checked: ClassVar[bool] = True
    lists: Key
    """A hash of the lists that were opened."""
    slots: Annotated[int, msgspec.Meta(ge=SLOTS, le=MOST_WORDS)]


class JointColumns(Message, frozen=True, kw_only=True):
    """The columns that the run goes on with."""

    kind: ClassVar[str] = "prepare.joint"
    reveals: ClassVar[str] = "the names of the joint columns, and the categories that enough sites and rows have"
    harmless: ClassVar[bool] = True
    columns: Columns

    def __post_init__(self) -> None:
        if not 0 < self.columns.width <= MOST_COLUMNS or len(self.columns.names) not in (0, self.columns.width):
            raise ValueError("the joint columns do not fit together")


class KeepColumns(Question, frozen=True, kw_only=True):
    """Show a site the counts of categories, where there are any, and ask for the joint columns."""

    kind: ClassVar[str] = "prepare.keep"
    answer: ClassVar[type[Message]] = JointColumns
    result: SumResult | None = None


class SumCells(SumQuestion, frozen=True, kw_only=True):
    """Ask how many cells of each column have a number, and more counts of cells."""

    kind: ClassVar[str] = "prepare.cells"
    answer_reveals: ClassVar[str] = (
        "masked; with all others: in how many rows, and at how many sites, columns have a value"
    )
    checked: ClassVar[bool] = True
    last: Last = None


class SumBins(SumQuestion, frozen=True, kw_only=True):
    """Ask how many numbers lie in bins around a quantile."""

    kind: ClassVar[str] = "prepare.bins"
    answer_reveals: ClassVar[str] = (
        "masked; with all others: how many numbers of a column (or depths of rows) lie in bins around a quantile, and "
        "in the end the quantile, to the terms' bin width"
    )
    checked: ClassVar[bool] = True
    last: Last = None


class SumMoments(SumQuestion, frozen=True, kw_only=True):
    """Ask for sums of columns and of their squares."""

    kind: ClassVar[str] = "prepare.moments"
    answer_reveals: ClassVar[str] = (
        "masked; with all others: the sums of each column, or of its squares, over all rows"
    )
    checked: ClassVar[bool] = True
    last: Last = None


class SumProducts(SumQuestion, frozen=True, kw_only=True):
    """Ask for sums of products of two columns."""

    kind: ClassVar[str] = "prepare.products"
    answer_reveals: ClassVar[str] = "masked; with all others: the covariances of all columns, over all rows"
    checked: ClassVar[bool] = True
    last: Last = None


class SumDirections(SumQuestion, frozen=True, kw_only=True):
    """Ask for the covariance times some directions."""

    kind: ClassVar[str] = "prepare.directions"
    answer_reveals: ClassVar[str] = "masked; with all others: the covariance of all columns times some directions"
    checked: ClassVar[bool] = True
    last: Last = None


class SumRanks(SumQuestion, frozen=True, kw_only=True):
    """Ask how a site ranks the columns."""

    kind: ClassVar[str] = "prepare.ranks"
    answer_reveals: ClassVar[str] = (
        "masked; with all others: how many sites choose each column, and the sums of its ranks"
    )
    checked: ClassVar[bool] = True
    last: Last = None


SumPreparation = SumCells | SumBins | SumMoments | SumProducts | SumDirections | SumRanks
"""The sums that steps are fitted from."""
SUMS: dict[SumKind, type[SumPreparation]] = {
    "cells": SumCells,
    "bins": SumBins,
    "moments": SumMoments,
    "products": SumProducts,
    "directions": SumDirections,
    "ranks": SumRanks,
}


class RowsPrepared(Message, frozen=True, kw_only=True):
    """A site has prepared its rows."""

    kind: ClassVar[str] = "prepare.prepared"
    reveals: ClassVar[str] = "nothing: a receipt"
    harmless: ClassVar[bool] = True


class PrepareRows(Question, frozen=True, kw_only=True):
    """Show a site the last sum; it checks it and prepares its rows."""

    kind: ClassVar[str] = "prepare.rows"
    answer: ClassVar[type[Message]] = RowsPrepared
    last: SumResult | None = None


def hash_columns(sealed: Mapping[str, bytes]) -> bytes:
    """Hash sealed lists of columns, with whose they are."""
    return fingerprint(b"columns", *(part for name in sorted(sealed) for part in (name.encode(), sealed[name])))


def slots_for(pairs: int) -> int:
    """Return under how many numbers so many categories are counted: none for none."""
    return SLOTS * -(-pairs // SLOTS)


@lru_cache(maxsize=4)  # the same at all sites of a process, and for counting and for reading
def hidden_order(key: bytes, slots: int) -> tuple[int, ...]:
    """Return the numbers under which categories are counted, in an order that only the holders of a key know."""
    return tuple(sorted(range(slots), key=lambda slot: fingerprint(key, str(slot).encode())))
