"""What columns are like over all sites, in all rows and in each class: means, deviations, quantiles and gaps.

Sums are of the distances to a column's joint median, so that they are exact whatever the column's unit and where its
numbers lie. Quantiles are found by counting groups of numbers (`fedgeom.preparation.quantiles`), in each class by
itself.

Gaps
    How many rows have a gap is summed as it is only where enough rows and sites have one, and lack one
    (`federation.disclosure`). Elsewhere each site rounds its number to the nearest multiple of ``min_rows``: it is off
    by half of that at most. A mean is then off by the same share of its distance to the median.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np
import numpy.typing as npt

from fedgeom.arrays import Bools, Floats, Ints, Words
from fedgeom.errors import InputError
from fedgeom.federation.settings import Between
from fedgeom.federation.steps import Block, FitContext, PreparedRows, Step, StepFit, SumKind
from fedgeom.preparation.impute import in_multiples
from fedgeom.preparation.quantiles import (
    BINS,
    DEEP,
    SortedColumns,
    as_dense,
    from_deep,
    is_settled,
    quantiles,
    rounds,
    take_bins,
    to_deep,
)

MIDDLE = 0.5
"""The quantile about which numbers are summed."""
TINY = 2.0**-100
"""The middle of the bin of 0 is smaller than this."""
PER_COLUMN = 3
"""Numbers that are summed of each column: distances to the median, their squares, gaps."""
GROUPS = "groups of each class"
"""Where a site keeps its groups' means from one sum to the next."""


@dataclass(frozen=True)
class ColumnSummaries(Step):
    """Learn each column's mean, deviation, quantiles and number of gaps, in all rows and in each class.

    `fedgeom.Describe` is made of it. Rows go on as they are, with the joint median in gaps.
    """

    name: ClassVar[str] = "summaries"
    fills_gaps: ClassVar[bool] = True
    add_indicator: ClassVar[bool] = True
    """Gaps are counted, so they have floors as columns have."""
    absent: ClassVar[str] = "union"
    """Columns that some sites lack are kept: all their cells are gaps there."""

    quantiles: tuple[float, ...] = (0.25, 0.5, 0.75)
    """Which quantiles are told, each from 0 to 1; none: means and deviations alone."""
    by_class: bool = True
    """Whether each class is summed by itself, too."""
    bits: Annotated[int, Between(12, 32)] = 20
    """How many bits of a number a quantile is found by: its bin is 2^-(bits - 9) of it wide, 5·10⁻⁴ with 20."""

    def __post_init__(self) -> None:
        given = self.quantiles
        if not isinstance(given, list | tuple) or not all(
            isinstance(one, int | float) and 0 <= one <= 1 for one in given
        ):
            raise InputError(
                f"quantiles={given!r} given; wanted a list of numbers from 0 to 1, such as [0.25, 0.75]"
            )
        object.__setattr__(self, "quantiles", tuple(sorted({float(one) for one in given})))
        super().__post_init__()

    @property
    def shares(self) -> tuple[float, ...]:
        """The quantiles that are found: the middle is always among them."""
        return tuple(sorted({*self.quantiles, MIDDLE}))

    def _summed(self, ground: FitContext) -> int:
        """Return how many kinds of rows are summed: the classes, or all rows."""
        return len(ground.classes) if self.by_class and ground.classes else 1

    def _counted(self, ground: FitContext) -> int:
        """Return of how many kinds of rows quantiles are found: of all rows, and of the classes."""
        classes = self._summed(ground)
        return 1 + classes if classes > 1 and self.quantiles else 1

    def _told(self, ground: FitContext) -> Bools:
        """Return of which columns the gaps are summed as they are, (columns,)."""
        found = np.ones(ground.columns.width, bool)
        found[list(ground.columns.few_gaps)] = False
        return found

    def sums(self) -> tuple[SumKind, ...]:
        """Return counts of groups of numbers, as often as it takes, and the sums."""
        counts: list[SumKind] = ["class-bins"] * rounds(self.bits)
        return (*counts, "summaries")

    def length(self, ground: FitContext, fit: StepFit) -> int:
        """Return how many words the next sum has."""
        width = ground.columns.width
        if fit.taken == rounds(self.bits):
            return DEEP * self._summed(ground) * (1 + PER_COLUMN * width)
        if "centre" in fit.arrays:
            return 0
        gaps = (1 + self._summed(ground)) * width if fit.taken == 0 else 0
        return gaps + self._bins(ground)

    def _bins(self, ground: FitContext) -> int:
        return self._counted(ground) * ground.columns.width * 2 * len(self.shares) * BINS

    def summand(self, ground: FitContext, fit: StepFit, rows: PreparedRows) -> npt.NDArray[Any]:
        """Count groups of numbers in bins, or add up distances to the median and their squares."""
        if fit.taken == rounds(self.bits):
            return to_deep(self._sums(ground, fit, rows), sites=ground.sites)
        total = self._count(ground, fit, rows)
        if fit.taken:
            return total
        gaps = self._gaps(ground, rows)
        some = (gaps.sum(axis=0) > 0).astype(np.int64)
        told = self._told(ground)
        rounded = np.where(told, 0, in_multiples(gaps, max(ground.floors[1], 1), down=False))
        return np.concatenate([np.where(told, 0, some), rounded.ravel(), total])

    def _blocks(self, ground: FitContext, rows: PreparedRows) -> Iterator[tuple[npt.NDArray[Any], Ints]]:
        """Yield the rows in order, and which kind each is of that is summed: its class, or 0."""
        names = {name: at for at, name in enumerate(ground.classes)}
        kinds = np.zeros(len(rows), np.int64)
        if self._summed(ground) > 1:
            kinds = np.array([names.get(name, -1) for name in rows.labels.tolist()], np.int64)
        start = 0
        for block in rows.blocks():
            cells = as_dense(block)
            yield cells, kinds[start : start + len(cells)]
            start += len(cells)

    def _gaps(self, ground: FitContext, rows: PreparedRows) -> Ints:
        """Return how many rows of each kind have a gap, (kinds, columns)."""
        found = np.zeros((self._summed(ground), ground.columns.width), np.int64)
        for cells, kinds in self._blocks(ground, rows):
            for at in range(len(found)):
                found[at] += (~np.isfinite(cells[kinds == at])).sum(axis=0)
        return found

    def _count(self, ground: FitContext, fit: StepFit, rows: PreparedRows) -> Ints:
        """Return how many of the site's groups of numbers lie in each bin: of all rows, and of each class."""
        kinds = self._counted(ground)
        if GROUPS not in rows.scratch:
            rows.scratch[GROUPS] = [self._sorted(ground, rows, at) for at in range(kinds)]
        width = ground.columns.width
        places = [slice(at * width, (at + 1) * width) for at in range(kinds)]
        counts = [
            one.count(fit, fit.taken, shares=self.shares, of=of)
            for one, of in zip(rows.scratch[GROUPS], places, strict=True)
        ]
        return np.concatenate(counts)

    def _sorted(self, ground: FitContext, rows: PreparedRows, at: int) -> SortedColumns:
        """Return the numbers of one kind of rows in order: of all rows (0), or of a class."""
        blocks = [cells[kinds >= 0 if at == 0 else kinds == at - 1] for cells, kinds in self._blocks(ground, rows)]
        return SortedColumns.of(blocks, (sum(map(len, blocks)), ground.columns.width), ground.floors[1])

    def _sums(self, ground: FitContext, fit: StepFit, rows: PreparedRows) -> Floats:
        """Return for each kind its rows, and for each column the sums, of squares too, and gaps; (numbers,)."""
        width = ground.columns.width
        found = np.zeros((self._summed(ground), 1 + PER_COLUMN * width))
        centre = fit.get("centre")
        unit = fit.get("unit")
        told = self._told(ground)
        for cells, kinds in self._blocks(ground, rows):
            for at, own in enumerate(found):
                some = cells[kinds == at].astype(np.float64)
                there = np.isfinite(some)
                away = np.where(there, (np.where(there, some, 0.0) - centre) / unit, 0.0)
                own[0] += len(some)
                own[1:] += np.concatenate([away.sum(axis=0), (away**2).sum(axis=0), told * (~there).sum(axis=0)])
        return found.ravel()

    def take(self, ground: FitContext, fit: StepFit, total: Words) -> None:
        """Take the bins that quantiles lie in, and in the end the sums."""
        width = ground.columns.width
        kinds = self._summed(ground)
        if fit.taken == rounds(self.bits):
            sums = from_deep(total).reshape(kinds, -1)
            parts = sums[:, 1:].reshape(kinds, PER_COLUMN, width)
            fit.put(rows=np.rint(sums[:, 0]), sums=parts[:, 0], squares=parts[:, 1], gaps=np.rint(parts[:, 2]))
            return
        counts = total.view(np.int64)
        if fit.taken == 0:
            gaps, counts = np.split(counts, [(1 + kinds) * width])
            some, rounded = np.split(gaps, [width])
            fit.put(gap_sites=some, about=rounded.reshape(kinds, width))
            first = counts.reshape(-1, 2 * len(self.shares), BINS)[:, 0]
            fit.put(counted=first.sum(axis=1).reshape(-1, width))
        take_bins(fit, counts, fit.taken, ground.floors, self.shares, smooth=True)
        if is_settled(fit, self.bits, fit.taken + 1):
            self._settle(fit, width)

    def _settle(self, fit: StepFit, width: int) -> None:
        """Keep the quantiles, and about which numbers and in which units is summed."""
        found = quantiles(fit, self.bits).reshape(-1, width, len(self.shares))
        known = fit.get("counted") > 0
        found = np.where(known[:, :, None] & np.isfinite(found) & (np.abs(found) > TINY), found, 0.0)
        spread = found[0].max(axis=1) - found[0].min(axis=1)
        unit = np.where(spread > 0, 2.0 ** np.ceil(np.log2(np.maximum(spread, 2.0**-80))), 1.0)
        fit.put(quantiles=found, centre=found[0, :, self.shares.index(MIDDLE)], unit=unit)

    def transform(self, ground: FitContext, fit: StepFit, block: Block) -> Block:
        """Return a block with the joint median in gaps."""
        cells = as_dense(block)
        return np.where(np.isfinite(cells), cells, fit.get("centre").astype(cells.dtype))

    def output_bytes(self, ground: FitContext, fit: StepFit, rows: int, came: int) -> int:
        """Return the size of dense rows."""
        return 8 * rows * ground.columns.width
