"""What can be said of a table's columns at one pass over its rows, in blocks, so that a wide one is not copied."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fedgeom.arrays import Floats
from fedgeom.data.rows import Rows, dense
from fedgeom.data.sites import SiteData
from fedgeom.data.tables import is_sparse

BLOCK = 2**21
"""About how many cells of a sparse table are looked at at once."""
CACHED = 2**16
"""And of a dense one: they stay in the processor's cache."""


@dataclass(frozen=True)
class TableFacts:
    """What a table's columns are like; cells that are not finite are left out."""

    rows: int
    low: Floats
    """(columns,), f8: the smallest number of each column; inf where there is none."""
    high: Floats
    """(columns,), f8: the largest; -inf where there is none."""
    spread: Floats
    """(columns,), f8: standard deviations."""
    zeros: npt.NDArray[np.int64]
    """(columns,): how many cells are 0."""
    finite: npt.NDArray[np.int64]
    """(columns,): how many cells are finite numbers."""
    whole: npt.NDArray[np.bool_]
    """(columns,): whether all numbers are whole."""
    depths: tuple[float, float]
    """The smallest and the largest sum of a row."""

    @classmethod
    def of(cls, site: SiteData) -> TableFacts:
        """Look at a site's table."""
        return cls.of_table(site.table, site.name)

    @classmethod
    def of_table(cls, table: Rows, where: str) -> TableFacts:
        """Look at a table, dense or sparse, (rows, columns)."""
        n, columns = int(table.shape[0]), int(table.shape[1])
        low, high = np.full(columns, np.inf), np.full(columns, -np.inf)
        first = np.zeros(columns)  # sums are taken around a row of the table, which keeps digits
        total, squares = np.zeros(columns), np.zeros(columns)
        zeros, finite = np.zeros(columns, np.int64), np.zeros(columns, np.int64)
        whole, depths = np.ones(columns, bool), [np.inf, -np.inf]
        step = max(1, (BLOCK if is_sparse(table) else CACHED) // max(columns, 1))
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
        return cls(n, low, high, spread, zeros, finite, whole, (depths[0], depths[1]))

    @property
    def constant(self) -> npt.NDArray[np.bool_]:
        """Which columns have one value in all rows, (columns,)."""
        return np.asarray((self.finite > 0) & (self.low == self.high))

    @property
    def sparsity(self) -> float:
        """The share of the numbers that are 0."""
        return float(self.zeros.sum()) / max(int(self.finite.sum()), 1)


def _all_finite(ones: Floats, block: Floats) -> bool:
    """Say whether all numbers are finite; where a sum overflows they may be, and are looked at one by one."""
    with np.errstate(all="ignore"):
        return bool(np.isfinite(ones @ block).all())
