"""Columns of mean 0 and deviation 1, over all sites; and numbers kept within limits before anything is summed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np
import numpy.typing as npt

from fedgeom.arrays import Words
from fedgeom.errors import InputError
from fedgeom.federation.onnx import Graph
from fedgeom.federation.settings import POSITIVE
from fedgeom.federation.steps import Block, Columns, FitContext, PreparedRows, Step, StepFit, SumKind
from fedgeom.preparation.private_steps import OTHERS, BoundedScale, Ranges, need, read_ranges
from fedgeom.preparation.quantiles import DEEP, as_dense, column_sums, from_deep, to_deep

CONSTANT = 1e-10
"""A column whose deviation is a smaller share of its size is constant; it is left out."""


@dataclass(frozen=True)
class Scale(Step):
    """Subtract each column's mean and divide by its deviation, over all rows of all sites (StandardScaler).

    Columns that are the same in all rows of all sites are left out.
    """

    name: ClassVar[str] = "scale"
    makes_reals: ClassVar[bool] = True
    max_value: Annotated[float, POSITIVE] | None = None
    """Numbers farther from 0, in deviations, are moved to here, as `scanpy.pp.scale` does with max_value. Sites whose
    policy has floors refuse it; there, `Clip` keeps numbers within limits."""

    ranges: Ranges = None
    """Wanted in runs with privacy: between which numbers the columns lie, by what is known without the rows: one pair
    [low, high] for all, or a table {"age": [0, 100], "*": [0, 1]}. Numbers outside count as the nearer end."""

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "ranges", read_ranges(self.ranges, self.name))

    def bounded(self) -> BoundedScale:
        """Learn means and deviations in the ranges, by one sum."""
        need(self, "ranges", "[low, high]")
        return BoundedScale(self)

    def against_floors(self) -> str:
        """Return that a limit shows what lies beyond it: the sum before less the sum behind."""
        if self.max_value is None:
            return ""
        return (
            f"max_value = {self.max_value:g} moves single numbers after their sum has left, and the difference of both "
            'sums shows them: leave it out, or put the step {name = "clip", ranges = …} first'
        )

    def sums(self) -> tuple[SumKind, ...]:
        """Return rows, sums of columns and of their sizes, then squares about the mean."""
        return ("moments", "moments")

    def length(self, ground: FitContext, fit: StepFit) -> int:
        """Return how many words the next sum has."""
        return DEEP * (1 + 2 * ground.columns.width if fit.taken == 0 else ground.columns.width)

    def summand(self, ground: FitContext, fit: StepFit, rows: PreparedRows) -> npt.NDArray[Any]:
        """Add up the columns, or their squares about the joint mean."""
        total, size = np.zeros((2, ground.columns.width))
        if fit.taken == 0:
            for block in rows.blocks():
                total += column_sums(block)
                size += column_sums(abs(block))
            # Only a unit is made of it, and Σ|x| - Σx would be twice the one negative number of a column.
            size = np.where(size > 0, 2.0 ** np.ceil(np.log2(np.maximum(size, 2.0**-80))), 0.0)
            return to_deep(np.concatenate([[len(rows)], total, size]), sites=ground.sites)
        mean = fit.get("mean")
        unit = fit.get("unit")
        for block in rows.blocks():
            away = (as_dense(block).astype(np.float64) - mean) / unit
            total += np.einsum("ij,ij->j", away, away)
        return to_deep(total, sites=ground.sites)

    def take(self, ground: FitContext, fit: StepFit, total: Words) -> None:
        """Take the joint means, then the joint deviations."""
        values = from_deep(total)
        if fit.taken == 0:
            mean, size = values[1:].reshape(2, -1) / max(values[0], 1.0)
            unit = 2.0 ** np.ceil(
                np.log2(np.maximum(size, 2.0**-80))
            )  # squares are summed in the column's own unit
            fit.put(rows=values[:1], mean=mean, unit=unit)
            return
        deviation = fit.get("unit") * np.sqrt(np.maximum(values, 0.0) / max(float(fit.get("rows")[0]), 1.0))
        kept = np.flatnonzero(deviation > CONSTANT * fit.get("unit"))
        fit.put(kept=kept.astype(np.int64), mean=fit.get("mean")[kept], deviation=deviation[kept])
        fit.drop("rows", "unit")

    def transform(self, ground: FitContext, fit: StepFit, block: Block) -> Block:
        """Return a block on the joint scale."""
        kept = fit.get("kept")
        some = block if len(kept) == block.shape[1] else block[:, kept]
        rows = as_dense(some)
        found = (rows - fit.get("mean").astype(rows.dtype)) / fit.get("deviation").astype(rows.dtype)
        return found if self.max_value is None else np.clip(found, -self.max_value, self.max_value)

    @property
    def affine(self) -> bool:
        """Whether no number is moved to a bound."""
        return self.max_value is None

    def output(self, ground: FitContext, fit: StepFit) -> Columns:
        """Return the columns that vary."""
        return ground.columns.kept(fit.get("kept").astype(np.intp))

    def output_bytes(self, ground: FitContext, fit: StepFit, rows: int, came: int) -> int:
        """Return the size of dense rows."""
        return 8 * rows * len(fit.get("kept"))


@dataclass(frozen=True)
class Clip(Step):
    """Move numbers outside a range to its nearer end, before anything is summed of them.

    The ranges stand in the terms and follow from no row, so that nothing of what lies outside is in any sum.
    """

    name: ClassVar[str] = "clip"
    keeps_gaps: ClassVar[bool] = True
    before_sums: ClassVar[bool] = True

    ranges: Ranges = None
    """Between which numbers columns are kept: one pair [low, high] for all, or a table {"age": [0, 100]}; those that
    are not named, and have no "*", stay as they are."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.ranges is None:
            raise InputError('clip without ranges given; wanted ranges={"age": [0, 100]}, or [low, high] for all')
        object.__setattr__(self, "ranges", read_ranges(self.ranges, self.name))

    def transform(self, ground: FitContext, fit: StepFit, block: Block) -> Block:
        """Return a block with all numbers within their ranges; gaps stay."""
        rows = as_dense(block)
        low, high = self._ends(ground).astype(rows.dtype)
        return np.where(np.isfinite(rows), np.clip(rows, low, high), rows)

    def _ends(self, ground: FitContext) -> npt.NDArray[np.float64]:
        """Return the lowest and the highest number of each column, (2, columns)."""
        names = ground.columns.names or (OTHERS,) * ground.columns.width
        free = [-np.inf, np.inf]
        pairs = [self.ranges.get(name, self.ranges.get(OTHERS, free)) for name in names]
        return np.array(pairs, np.float64).reshape(-1, 2).T

    def onnx(self, graph: Graph, ground: FitContext, fit: StepFit, rows: str) -> str:
        """Add the limits; gaps stay."""
        low, high = self._ends(ground)
        kept = graph.add("Min", graph.add("Max", rows, graph.constant(low)), graph.constant(high))
        gap = graph.add("Or", graph.add("IsNaN", rows), graph.add("IsInf", rows))
        return graph.add("Where", gap, rows, kept)

    def output_bytes(self, ground: FitContext, fit: StepFit, rows: int, came: int) -> int:
        """Return the size of dense rows."""
        return 8 * rows * ground.columns.width
