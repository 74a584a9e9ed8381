"""Gaps, filled in with what all sites together have in the column."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt

from fedgeom.arrays import Ints, Words
from fedgeom.federation.onnx import Graph
from fedgeom.federation.settings import Between
from fedgeom.federation.steps import Block, Columns, FitContext, PreparedRows, Step, StepFit, SumKind
from fedgeom.preparation.private_steps import BoundedCounts, BoundedMeans, Ranges, need, read_ranges
from fedgeom.preparation.quantiles import (
    ALL_BITS,
    DEEP,
    SortedColumns,
    as_dense,
    bins_length,
    from_deep,
    from_keys,
    is_settled,
    medians,
    rounds,
    some_columns,
    sort_keys,
    take_bins,
    to_deep,
)

DIRECT = 1024
HASHED = 1024
LOWEST = -64
BUCKETS = DIRECT + HASHED
_MULTIPLIER = np.uint32(2654435761)
SORTED = "sorted columns"
"""Where a site keeps its numbers in order from one sum to the next."""


def frequent_length(columns: int, done: int) -> int:
    """Return how many counts the next sum has."""
    return columns * (BUCKETS if done == 0 else 1 + ALL_BITS)


def buckets(cells: npt.NDArray[Any]) -> Ints:
    """Return the bucket of each number, (…), i8."""
    whole = (cells == np.floor(cells)) & (cells >= LOWEST) & (cells < LOWEST + DIRECT)
    hashed = (sort_keys(cells) * _MULTIPLIER) >> np.uint32(22)
    return np.where(whole, np.where(whole, cells, 0) - LOWEST, DIRECT + hashed.astype(np.int64)).astype(np.int64)


def count_frequent(cells: npt.NDArray[Any], there: npt.NDArray[np.bool_], fit: StepFit, done: int) -> Ints:
    """Return how many of a site's numbers are in each bucket, or have each bit among those of the fullest.

    cells (rows, columns), 0 where there is none; there (rows, columns).
    """
    columns = cells.shape[1]
    place = buckets(cells)
    if done == 0:
        flat = (place + BUCKETS * np.arange(columns))[there]
        return np.bincount(flat, minlength=columns * BUCKETS).astype(np.int64)
    inside = there & (place == fit.get("bucket"))
    keys = sort_keys(cells)
    found = np.zeros((columns, 1 + ALL_BITS), np.int64)
    found[:, 0] = inside.sum(axis=0)
    for bit in range(ALL_BITS):
        found[:, 1 + bit] = (inside & ((keys >> np.uint32(bit)) & np.uint32(1) > 0)).sum(axis=0)
    return found.ravel()


def in_multiples(counts: npt.NDArray[Any], least: int, *, down: bool) -> Ints:
    """Return counts as whole multiples of ``least``: the next one below, or the nearest.

    Below: a number that fewer rows have is not counted at all.
    """
    shift = 0 if down else least // 2
    return np.asarray((counts + shift) // least * least, np.int64)


def take_frequent(fit: StepFit, total: Ints, done: int) -> None:
    """Choose the fullest bucket of each column; then the number that most of its rows have."""
    if done == 0:
        fit.put(bucket=total.reshape(-1, BUCKETS).argmax(axis=1).astype(np.int64))
        return
    counts = total.reshape(-1, 1 + ALL_BITS)
    ones = 2 * counts[:, 1:] > counts[:, :1]
    keys = (ones.astype(np.uint64) << np.arange(ALL_BITS, dtype=np.uint64)).sum(axis=1).astype(np.uint32)
    fit.put(value=from_keys(keys))
    fit.drop("bucket")


@dataclass(frozen=True)
class Impute(Step):
    """Put the joint mean, median or most frequent number of a column into its gaps (SimpleImputer).

    Columns that have no number anywhere, or too few by the sites' policies, are left out.
    """

    name: ClassVar[str] = "impute"
    fills_gaps: ClassVar[bool] = True

    strategy: Literal["mean", "median", "most-frequent"] = "median"
    """What is put into gaps. "most-frequent": the number that most rows have (`fedgeom.preparation.impute`)."""
    add_indicator: bool = True
    """Whether each column with gaps gets another beside it, with 1 where the number is missing."""
    absent: Literal["intersection", "union"] = "intersection"
    """Columns that some sites lack: left out, or kept and filled in there."""
    bits: Annotated[int, Between(12, 32)] = 24
    """How many bits of a number a median is found by: its bin is 2^-(bits - 9) of it wide, 3·10⁻⁵ with 24."""

    ranges: Ranges = None
    """Wanted in runs with privacy: between which numbers the columns lie, by what is known without the rows: one pair
    [low, high] for all, or a table {"age": [0, 100], "*": [0, 1]}. Numbers outside count as the nearer end."""

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "ranges", read_ranges(self.ranges, self.name))

    def bounded(self) -> BoundedMeans | BoundedCounts:
        """Learn what is put into gaps from numbers in the ranges, by one sum."""
        need(self, "ranges", "[low, high]")
        return BoundedMeans(self) if self.strategy == "mean" else BoundedCounts(self)

    def sums(self) -> tuple[SumKind, ...]:
        """Return which cells have numbers, then what the values follow from."""
        if self.strategy == "mean":
            return ("cells", "moments")
        counts: list[SumKind] = ["bins"] * (rounds(self.bits) if self.strategy == "median" else 2)
        return ("cells", *counts)

    def length(self, ground: FitContext, fit: StepFit) -> int:
        """Return how many words the next sum has."""
        if fit.taken == 0:
            return 1 + 2 * ground.columns.width
        kept = len(fit.get("kept"))
        done = fit.taken - 1
        if self.strategy == "mean":
            return DEEP * kept
        if self.strategy == "most-frequent":
            return frequent_length(kept, done)
        return 0 if "value" in fit.arrays else bins_length(kept)

    def summand(self, ground: FitContext, fit: StepFit, rows: PreparedRows) -> npt.NDArray[Any]:
        """Count cells with a number; add up columns; or count numbers in bins."""
        width = ground.columns.width
        if fit.taken == 0:
            there = np.zeros(width, np.int64)
            for block in rows.blocks():
                there += np.isfinite(as_dense(block)).sum(axis=0)
            enough = 1 if self.strategy == "mean" else ground.floors[1]  # fewer are in no count of bins
            return np.concatenate([[len(rows)], there, there >= max(enough, 1)]).astype(np.int64)
        kept = fit.get("kept")
        mean = self.strategy == "mean"
        done = fit.taken - 1
        total = np.zeros(len(kept) if mean else self.length(ground, fit), np.float64 if mean else np.int64)
        if self.strategy == "median":
            return self._sorted(ground, kept, rows).count(fit, done)
        for block in rows.blocks():
            # Column by column: sums of a column's numbers side by side are quicker, and more exact.
            filled = np.array(some_columns(as_dense(block), kept), order="F")
            there = np.isfinite(filled)
            np.copyto(filled, 0, where=~there)
            if mean:
                total += filled.sum(axis=0, dtype=np.float64)
            else:
                total += count_frequent(filled, there, fit, done)
        if self.strategy == "most-frequent":
            return in_multiples(total, ground.floors[1], down=done == 0)
        return to_deep(total, sites=ground.sites) if mean else total

    def _sorted(self, ground: FitContext, kept: Ints, rows: PreparedRows) -> SortedColumns:
        """Return the site's numbers in order, from one sum to the next."""
        known: tuple[bytes, SortedColumns] | None = rows.scratch.get(SORTED)
        if known is None or known[0] != kept.tobytes():
            cells = (some_columns(as_dense(block), kept) for block in rows.blocks())
            rows.scratch[SORTED] = known = (
                kept.tobytes(),
                SortedColumns.of(cells, (len(rows), len(kept)), ground.floors[1]),
            )
        return known[1]

    def take(self, ground: FitContext, fit: StepFit, total: Words) -> None:
        """Take which columns can be filled in, then their values."""
        if fit.taken == 0:
            rows = total[0].view(np.int64)
            there, sites = total[1:].view(np.int64).reshape(2, -1)
            kept = np.flatnonzero((there >= max(ground.floors[1], 1)) & (sites >= max(ground.floors[0], 1)))
            gaps = (there < rows) & ~np.isin(np.arange(len(there)), ground.columns.few_gaps)
            fit.put(kept=kept.astype(np.int64), there=there[kept], gaps=gaps[kept].astype(np.uint8))
            return
        counts = total.view(np.int64)
        if self.strategy == "mean":
            fit.put(value=from_deep(total) / fit.get("there"))
            fit.drop("there")
            return
        if fit.taken == 1:
            counts = self._leave_out_uncounted(fit, counts)
        if self.strategy == "median":
            take_bins(fit, counts, fit.taken - 1, ground.floors)
            if is_settled(fit, self.bits, fit.taken):
                fit.put(value=medians(fit, self.bits, shortest=ground.floors[1] > 1))
        else:
            take_frequent(fit, counts, fit.taken - 1)
        if "value" in fit.arrays:
            fit.drop("there")

    def _leave_out_uncounted(self, fit: StepFit, counts: Ints) -> Ints:
        """Leave out columns of which no site counts anything, and return the others' counts."""
        of_columns = counts.reshape(len(fit.get("kept")), -1)
        some = of_columns.any(axis=1)
        if not some.all():
            fit.put(**{name: fit.get(name)[some] for name in ("kept", "there", "gaps")})
        return of_columns[some].ravel()

    def transform(self, ground: FitContext, fit: StepFit, block: Block) -> Block:
        """Return a block without gaps, and which there were beside it."""
        cells = some_columns(as_dense(block), fit.get("kept"))
        gaps = np.flatnonzero(fit.get("gaps")) if self.add_indicator else np.arange(0)
        found = np.empty((len(cells), cells.shape[1] + len(gaps)), cells.dtype, order="F")
        filled = found[:, : cells.shape[1]]
        filled[...] = cells
        missing = ~np.isfinite(filled)
        np.copyto(filled, fit.get("value").astype(cells.dtype), where=missing)
        found[:, cells.shape[1] :] = some_columns(missing, gaps)
        return found

    def onnx(self, graph: Graph, ground: FitContext, fit: StepFit, rows: str) -> str:
        """Add what fills gaps, and which there were."""
        cells = graph.columns(rows, fit.get("kept"))
        missing = graph.add("Or", graph.add("IsNaN", cells), graph.add("IsInf", cells))
        filled = graph.add("Where", missing, graph.constant(fit.get("value").astype(np.float64)), cells)
        gaps = np.flatnonzero(fit.get("gaps")) if self.add_indicator else np.arange(0)
        if not len(gaps):
            return filled
        return graph.beside(filled, graph.as_numbers(graph.columns(missing, gaps)))

    def output(self, ground: FitContext, fit: StepFit) -> Columns:
        """Return the columns that were filled in, and those that say where."""
        kept = ground.columns.kept(fit.get("kept").astype(np.intp))
        gaps = np.flatnonzero(fit.get("gaps")) if self.add_indicator else np.arange(0)
        names = (*kept.names, *(f"{kept.names[at]} is missing" for at in gaps)) if kept.names else ()
        return Columns(width=kept.width + len(gaps), names=names)

    def output_bytes(self, ground: FitContext, fit: StepFit, rows: int, came: int) -> int:
        """Return the size of dense rows."""
        gaps = int(np.count_nonzero(fit.get("gaps"))) if self.add_indicator else 0
        return 8 * rows * (fit.get("kept").size + gaps)
