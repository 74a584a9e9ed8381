"""Steps in runs with privacy: what is learnt of columns whose numbers lie in ranges from the terms, by one sum each.

Numbers outside a range are moved to its nearer end, for learning only. All sums are of whole numbers, and exact, so
that one row moves them by no more than is said.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np

from fedgeom.arrays import Bools, Floats, Ints
from fedgeom.errors import InputError, ProtocolError
from fedgeom.federation.steps import Columns, FitContext, FittedByBoundedSums, PreparedRows, StepFit, SumKind
from fedgeom.preparation.quantiles import as_dense
from fedgeom.privacy.bounded_sums import BITS, ONE, in_whole_numbers, products, summed

SQUARE = ONE * ONE
QUANTILE_BINS = 32
"""Into how many bins a range is divided to find a median: more would each have more noise than rows."""
MOST_VALUES = 1024
"""How many whole numbers a range may have, of which the most frequent is wanted."""
OTHERS = "*"
"""The range of all columns that are not named."""
_CERTAIN = 3.0
"""A count is one of something, and not of nothing, from so many deviations of its noise on."""


Ranges = Annotated[Any, "a pair [low, high], a table of these by column, or None"]
"""The type of the setting ``ranges``."""


def read_ranges(value: Any, step: str) -> dict[str, list[float]] | None:
    """Return the ranges of columns by name, from one pair for all columns, or a table; None where nothing is given."""
    if value is None:
        return None
    given = value if isinstance(value, Mapping) else {OTHERS: value}
    found = {}
    for name, pair in given.items():
        numbers = list(pair) if isinstance(pair, list | tuple | np.ndarray) else []
        real = [isinstance(one, int | float | np.number) and not isinstance(one, bool) for one in numbers]
        if len(numbers) != 2 or not all(real) or not -math.inf < numbers[0] < numbers[1] < math.inf:
            raise InputError(
                f"{step}: ranges={value!r} given; wanted [low, high] for all columns, or a table of these by column, "
                '"*" for those that are not named, with low below high'
            )
        found[str(name)] = [float(one) for one in numbers]
    return found


def need(step: Any, setting: str, example: str) -> None:
    """Refuse a step without the bound that privacy needs."""
    if getattr(step, setting) is None:
        raise InputError(
            f"privacy with the step {step.name!r} given, which then needs {setting}={example}, chosen without a look "
            "at the rows: otherwise nothing bounds what one row adds"
        )


def ranges_of(step: Any, columns: Columns) -> tuple[Floats, Floats]:
    """Return the middle and half the width of each column's range, (columns,), f8 each."""
    known: dict[str, list[float]] = step.ranges
    names = columns.names or (OTHERS,) * columns.width
    lacking = [name for name in names if name not in known and OTHERS not in known]
    if lacking:
        raise ProtocolError(
            f"the step {step.name!r} has no range for {lacking[0]!r} and {len(lacking) - 1} more columns; name them in "
            'ranges, or give one for all others, "*" = [0, 1]'
        )
    pairs = np.array([known.get(name, known.get(OTHERS)) for name in names], np.float64)
    return (pairs[:, 0] + pairs[:, 1]) / 2, (pairs[:, 1] - pairs[:, 0]) / 2


@dataclass(frozen=True)
class InRanges(FittedByBoundedSums):
    """What is learnt of columns whose numbers lie in ranges of the terms."""

    def cells(self, ground: FitContext, rows: PreparedRows) -> Iterable[tuple[Floats, Bools]]:
        """Yield the rows' cells, from -1 at the low end of their range to 1 at the high one, and which there are."""
        middle, half = ranges_of(self.step, ground.columns)
        for block in rows.blocks():
            cells = as_dense(block).astype(np.float64)
            there = np.isfinite(cells)
            yield np.clip((np.where(there, cells, middle) - middle) / half, -1.0, 1.0), there


class BoundedScale(InRanges):
    """Means and deviations: a row adds 1 to the count, and u and u² of each column, |u| ≤ 1."""

    kind: ClassVar[SumKind] = "moments"

    def sensitivity(self, ground: FitContext) -> float:
        """√(1 + 2d), in units of `SQUARE`."""
        return float(SQUARE * math.sqrt(1 + 2 * ground.columns.width))

    def numbers(self, ground: FitContext) -> int:
        """Rows, and sums and squares of each column."""
        return 1 + 2 * ground.columns.width

    def whole(self, ground: FitContext, rows: PreparedRows) -> Ints:
        """Add up rows, columns and squares."""
        total = np.zeros((2, ground.columns.width), np.int64)
        for cells, _ in self.cells(ground, rows):
            u = np.trunc(cells * ONE)
            total += [ONE * summed(u), summed(u * u)]
        return np.concatenate([[SQUARE * len(rows)], *total])

    def learn(self, ground: FitContext, fit: StepFit, total: Floats, spread: float) -> None:
        """Keep all columns; no deviation is below what noise alone would make of one."""
        middle, half = ranges_of(self.step, ground.columns)
        n = max(total[0], 2 * spread, SQUARE)
        first, second = total[1:].reshape(2, -1) / n
        first = np.clip(first, -1.0, 1.0)
        least = max(2 * spread / n, 2.0**-BITS)
        variance = np.clip(second - first**2, least, 1.0)
        kept = np.arange(ground.columns.width, dtype=np.int64)
        fit.put(kept=kept, mean=middle + half * first, deviation=half * np.sqrt(variance))


class BoundedMeans(InRanges):
    """Means of columns with gaps: a row adds (1, u) to a column where it has a number, and 1 to its gaps where not."""

    kind: ClassVar[SumKind] = "moments"

    def sensitivity(self, ground: FitContext) -> float:
        """√(2d), in units of `ONE`."""
        return float(ONE * math.sqrt(2 * ground.columns.width))

    def numbers(self, ground: FitContext) -> int:
        """Cells with a number, gaps, and the sum, of each column."""
        return 3 * ground.columns.width

    def whole(self, ground: FitContext, rows: PreparedRows) -> Ints:
        """Count cells, and add them up."""
        total = np.zeros((3, ground.columns.width), np.int64)
        for cells, there in self.cells(ground, rows):
            counts = there.sum(axis=0)
            total += [
                ONE * counts,
                ONE * (len(cells) - counts),
                summed(np.trunc(np.where(there, cells, 0.0) * ONE)),
            ]
        return total.ravel()

    def learn(self, ground: FitContext, fit: StepFit, total: Floats, spread: float) -> None:
        """Keep all columns; one with hardly a number has the middle of its range."""
        middle, half = ranges_of(self.step, ground.columns)
        there, gaps, sums = total.reshape(3, -1)
        mean = np.clip(sums / np.maximum(there, max(2 * spread, ONE)), -1.0, 1.0)
        _keep(fit, middle + half * mean, gaps, max(_CERTAIN * spread, ONE / 2))


class BoundedCounts(InRanges):
    """Medians, or most frequent whole numbers: a row adds 1 to one bin of each column, of which one is for gaps."""

    kind: ClassVar[SumKind] = "bins"

    def _bins(self, ground: FitContext) -> Ints:
        """Return how many bins each column has, the one for gaps not counted, (columns,)."""
        if self.step.strategy == "median":
            return np.full(ground.columns.width, QUANTILE_BINS)
        half = ranges_of(self.step, ground.columns)[1]
        found = np.floor(2 * half).astype(np.int64) + 1
        if (found > MOST_VALUES).any():
            raise ProtocolError(
                f"the most frequent of more than {MOST_VALUES:,} whole numbers is lost in noise: take smaller ranges, "
                'or strategy="median"'
            )
        return found

    def sensitivity(self, ground: FitContext) -> float:
        """√d."""
        return math.sqrt(ground.columns.width)

    def numbers(self, ground: FitContext) -> int:
        """All bins."""
        return int((1 + self._bins(ground)).sum())

    def whole(self, ground: FitContext, rows: PreparedRows) -> Ints:
        """Count cells by bins."""
        bins = self._bins(ground)
        half = ranges_of(self.step, ground.columns)[1]
        starts = np.concatenate([[0], np.cumsum(1 + bins)])
        total = np.zeros(int(starts[-1]), np.int64)
        for cells, there in self.cells(ground, rows):
            place = (cells + 1) / 2 * bins if self.step.strategy == "median" else np.rint((cells + 1) * half)
            place = np.clip(place.astype(np.int64), 0, bins - 1)
            total += np.bincount((starts[:-1] + np.where(there, place, bins)).ravel(), minlength=len(total))
        return total

    def learn(self, ground: FitContext, fit: StepFit, total: Floats, spread: float) -> None:
        """Find the middle of each column's counts, or the largest."""
        middle, half = ranges_of(self.step, ground.columns)
        values = np.zeros(len(middle))
        gaps = np.zeros(len(middle))
        edges = np.cumsum(1 + self._bins(ground))[:-1]
        for at, counts in enumerate(np.split(total, edges)):
            gaps[at] = counts[-1]
            low = middle[at] - half[at]
            if self.step.strategy == "median":
                values[at] = low + 2 * half[at] * middle_of(counts[:-1], spread)
            else:
                values[at] = low + int(counts[:-1].argmax())
        _keep(fit, values, gaps, max(_CERTAIN * spread, 0.5))


def middle_of(counts: Floats, spread: float) -> float:
    """Return at which share of a range the median lies, by noisy counts in equal bins, (bins,); 1/2 for none."""
    upto = np.maximum.accumulate(np.cumsum(counts))
    n = float(upto[-1])
    if n <= 2 * spread * math.sqrt(len(counts)):
        return 0.5
    at = int(np.searchsorted(upto, n / 2))
    before = float(upto[at - 1]) if at else min(0.0, n / 2)
    inside = (n / 2 - before) / max(float(upto[at]) - before, 1e-9)
    return (at + min(max(inside, 0.0), 1.0)) / len(counts)


def _keep(fit: StepFit, values: Floats, gaps: Floats, least: float) -> None:
    fit.put(kept=np.arange(len(values), dtype=np.int64), value=values, gaps=(gaps > least).astype(np.uint8))


DEPTH_BINS = 128
DEPTH_OCTAVES = 32
"""Depths of rows are counted by quarters of an octave, from 1 on."""


class BoundedDepth(FittedByBoundedSums):
    """The median depth of rows: a row adds 1 to one bin."""

    kind: ClassVar[SumKind] = "bins"

    def sensitivity(self, ground: FitContext) -> float:
        """One."""
        return 1.0

    def numbers(self, ground: FitContext) -> int:
        """The bins."""
        return DEPTH_BINS

    def whole(self, ground: FitContext, rows: PreparedRows) -> Ints:
        """Count rows by the logarithm of their depth."""
        total = np.zeros(DEPTH_BINS, np.int64)
        for block in rows.blocks():
            depths = np.asarray(block.sum(axis=1, dtype=np.float64), np.float64).ravel()
            place = np.log2(np.maximum(depths[depths > 0], 1.0)) * (DEPTH_BINS / DEPTH_OCTAVES)
            total += np.bincount(np.minimum(place, DEPTH_BINS - 1).astype(np.int64), minlength=DEPTH_BINS)
        return total

    def learn(self, ground: FitContext, fit: StepFit, total: Floats, spread: float) -> None:
        """Find the middle."""
        fit.put(depth=np.array([2.0 ** (DEPTH_OCTAVES * middle_of(total, spread))]))


class BoundedVariances(FittedByBoundedSums):
    """Variances of columns: a row, shortened and divided by ``clip``, adds 1 to the count, u and u² (both |·| ≤ 1)."""

    kind: ClassVar[SumKind] = "moments"

    def sensitivity(self, ground: FitContext) -> float:
        """√3, in units of `SQUARE`."""
        return float(SQUARE * math.sqrt(3))

    def numbers(self, ground: FitContext) -> int:
        """Rows, sums and squares; none where all columns are kept."""
        width = ground.columns.width
        return 1 + 2 * width if width > self.step.n_columns else 0

    def whole(self, ground: FitContext, rows: PreparedRows) -> Ints:
        """Add up rows, columns and squares."""
        total = np.zeros((2, ground.columns.width), np.int64)
        for block in rows.blocks():
            u = in_whole_numbers(as_dense(block), self.step.clip)
            total += [ONE * summed(u), summed(u * u)]
        return np.concatenate([[SQUARE * len(rows)], *total])

    def learn(self, ground: FitContext, fit: StepFit, total: Floats, spread: float) -> None:
        """Keep the columns that vary most."""
        first, second = total[1:].reshape(2, -1) / max(total[0], 2 * spread, SQUARE)
        order = np.argsort(first**2 - second, kind="stable")[: self.step.n_columns]
        fit.put(kept=np.sort(order).astype(np.int64))


class BoundedPCA(FittedByBoundedSums):
    """The covariance of rows that are shortened to ``clip``: a row adds (w₀, w₁u, w₂uuᵀ), |u| ≤ 1 and |w| = 1."""

    kind: ClassVar[SumKind] = "products"
    WEIGHTS: ClassVar[tuple[int, int, int]] = (
        round(0.3 * SQUARE) * 2**8,
        round(0.5 * ONE) * 2**8,
        round(0.81 * 2**8),
    )

    def sensitivity(self, ground: FitContext) -> float:
        """About one, in units of `SQUARE` · 2⁸."""
        return math.sqrt(sum((weight << (at * BITS)) ** 2 for at, weight in enumerate(self.WEIGHTS)))

    def numbers(self, ground: FitContext) -> int:
        """Rows, sums, and the upper triangle of products."""
        width = ground.columns.width
        if width > self.step.exact_columns:
            raise ProtocolError(
                f"components of {width:,} columns with privacy; all products of two are added up, of at most "
                f"{self.step.exact_columns:,} (exact_columns): choose columns first"
            )
        return 1 + width + width * (width + 1) // 2

    def whole(self, ground: FitContext, rows: PreparedRows) -> Ints:
        """Add up rows, columns and products."""
        width = ground.columns.width
        first = np.zeros(width, np.int64)
        second = np.zeros((width, width), np.int64)
        for block in rows.blocks():
            u = in_whole_numbers(as_dense(block), self.step.clip)
            first = first + summed(u)
            second = second + products(u, u)
        w = self.WEIGHTS
        return np.concatenate([[len(rows) * w[0]], first * w[1], second[np.triu_indices(width)] * w[2]])

    def learn(self, ground: FitContext, fit: StepFit, total: Floats, spread: float) -> None:
        """Take the leading directions of the covariance."""
        width = ground.columns.width
        clip = self.step.clip
        w = self.WEIGHTS
        n = max(total[0] / w[0], 2 * spread / w[0], 1.0)
        mean = total[1 : 1 + width] * (clip / ONE / w[1] / n)
        mean *= min(1.0, clip / max(float(np.linalg.norm(mean)), 1e-300))
        square = np.zeros((width, width))
        upper = np.triu_indices(width)
        square[upper] = total[1 + width :] * (clip**2 / SQUARE / w[2] / n)
        covariance = square + np.triu(square, 1).T - np.outer(mean, mean)
        values, vectors = np.linalg.eigh(covariance)
        count = min(self.step.n_components, width)
        components = vectors[:, ::-1][:, :count]
        variances = values[::-1][:count]
        signs = np.sign(components[np.abs(components).argmax(axis=0), np.arange(count)])
        fit.put(mean=mean, components=components * signs, variances=np.maximum(variances, 0.0))
