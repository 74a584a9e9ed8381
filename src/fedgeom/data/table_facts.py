"""What can be said of a table's columns at one pass over its rows, in blocks, so that a wide one is not copied."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from fedgeom.arrays import Floats
from fedgeom.data.rows import Rows, dense, no_gaps
from fedgeom.data.sites import SiteData
from fedgeom.data.tables import is_sparse

BLOCK = 2**21
"""About how many cells of a sparse table are looked at at once."""
CACHED = 2**16
"""And of a dense one: they stay in the processor's cache."""
FIRST = 1024
"""How many rows are the first ones, which tell enough of most tables."""


@dataclass(frozen=True)
class _Seen:
    """What was seen in some rows of a table."""

    low: Floats
    high: Floats
    spread: Floats
    zeros: npt.NDArray[np.int64]
    finite: npt.NDArray[np.int64]
    whole: npt.NDArray[np.bool_]
    depths: tuple[float, float]


class TableFacts:
    """What a table's columns are like; cells that are not finite are left out.

    Of most tables the first rows tell enough: that no column has one value only, that some numbers are below 0 or not
    whole. All rows are looked at cell by cell where they do not, and when a number is asked for that all have a part
    in. Gaps are looked for in all rows at once.
    """

    def __init__(self, table: Rows, where: str) -> None:
        self._table, self._where = table, where
        self.rows, self.columns = int(table.shape[0]), int(table.shape[1])

    @classmethod
    def of(cls, site: SiteData) -> TableFacts:
        """Look at a site's table."""
        return cls.of_table(site.table, site.name)

    @classmethod
    def of_table(cls, table: Rows, where: str) -> TableFacts:
        """Look at a table, dense or sparse, (rows, columns)."""
        return cls(table, where)

    @cached_property
    def _first(self) -> _Seen:
        return _look_at(self._table[: min(FIRST, _step(self._table))], self._where)

    @cached_property
    def _all(self) -> _Seen:
        return _look_at(self._table, self._where)

    @property
    def low(self) -> Floats:
        """(columns,), f8: the smallest number of each column; inf where there is none."""
        return self._all.low

    @property
    def high(self) -> Floats:
        """(columns,), f8: the largest; -inf where there is none."""
        return self._all.high

    @property
    def spread(self) -> Floats:
        """(columns,), f8: standard deviations."""
        return self._all.spread

    @property
    def zeros(self) -> npt.NDArray[np.int64]:
        """(columns,): how many cells are 0."""
        return self._all.zeros

    @property
    def depths(self) -> tuple[float, float]:
        """The smallest and the largest sum of a row."""
        return self._all.depths

    @cached_property
    def finite(self) -> npt.NDArray[np.int64]:
        """(columns,): how many cells are finite numbers."""
        if "_all" not in self.__dict__ and no_gaps(self._table):
            return np.full(self.columns, self.rows, np.int64)
        return self._all.finite

    @property
    def whole(self) -> npt.NDArray[np.bool_]:
        """(columns,): whether all numbers are whole."""
        return self._all.whole if self._first.whole.any() else self._first.whole

    @property
    def negative(self) -> bool:
        """Whether any number is below 0."""
        return bool((self._first.low < 0).any() or (self._all.low < 0).any())

    @property
    def constant(self) -> npt.NDArray[np.bool_]:
        """Which columns have one value in all rows, (columns,)."""
        if (self._first.low < self._first.high).all():
            return np.zeros(self.columns, bool)
        return np.asarray((self._all.finite > 0) & (self._all.low == self._all.high))

    @property
    def sparsity(self) -> float:
        """The share of the numbers that are 0."""
        return float(self.zeros.sum()) / max(int(self.finite.sum()), 1)


def _step(table: Rows) -> int:
    """Return how many rows are looked at at once."""
    return max(1, (BLOCK if is_sparse(table) else CACHED) // max(int(table.shape[1]), 1))


def _look_at(table: Rows, where: str) -> _Seen:
    """Look at rows, cell by cell, in one pass."""
    n, columns = int(table.shape[0]), int(table.shape[1])
    low, high = np.full(columns, np.inf), np.full(columns, -np.inf)
    first = np.zeros(columns)  # sums are taken around a row of the table, which keeps digits
    total, squares = np.zeros(columns), np.zeros(columns)
    zeros, finite = np.zeros(columns, np.int64), np.zeros(columns, np.int64)
    whole, depths = np.ones(columns, bool), [np.inf, -np.inf]
    step = _step(table)
    for at in range(0, n, step):
        block = dense(table[at : at + step], where)
        ones = np.ones(len(block))
        good = None if _all_finite(ones, block) else np.isfinite(block)
        some = block if good is None else np.where(good, block, 0.0)
        if at == 0:
            first = some[0]
        low = np.minimum(low, (block if good is None else np.where(good, block, np.inf)).min(axis=0))
        high = np.maximum(high, (block if good is None else np.where(good, block, -np.inf)).max(axis=0))
        moved = some - first if good is None else np.where(good, some - first, 0.0)
        total, squares = total + ones @ moved, squares + ones @ np.square(moved, out=moved)
        there = len(block) if good is None else good.sum(axis=0)
        finite += there
        if good is not None or np.count_nonzero(some) < some.size:
            zeros += there - np.count_nonzero(some, axis=0)  # what is not finite is 0 in `some`, not `there`
        if whole.any():
            whole &= (some == np.floor(some)).all(axis=0)
        sums = some @ np.ones(columns)
        depths = [min(depths[0], float(sums.min())), max(depths[1], float(sums.max()))]
    count = np.maximum(finite, 1)
    spread = np.sqrt(np.maximum(squares / count - (total / count) ** 2, 0.0))
    return _Seen(low, high, spread, zeros, finite, whole, (depths[0], depths[1]))


def _all_finite(ones: Floats, block: Floats) -> bool:
    """Say whether all numbers are finite; where a sum overflows they may be, and are looked at one by one."""
    with np.errstate(all="ignore"):
        return bool(np.isfinite(ones @ block).all())
