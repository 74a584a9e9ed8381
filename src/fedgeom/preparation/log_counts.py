"""Counts of molecules: every row to one depth, then logarithms."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np
import numpy.typing as npt

from fedgeom.arrays import Floats, Words
from fedgeom.data.sites import SiteData
from fedgeom.data.tables import is_sparse
from fedgeom.data.validation import Finding, fault
from fedgeom.federation.onnx import Graph
from fedgeom.federation.settings import POSITIVE
from fedgeom.federation.steps import Block, FitContext, PreparedRows, Step, StepFit, SumKind
from fedgeom.preparation.private_steps import BoundedDepth
from fedgeom.preparation.quantiles import (
    ALL_BITS,
    SortedColumns,
    bins_length,
    is_settled,
    medians,
    rounds,
    small_type,
    take_bins,
)


def depths_of(block: Block) -> Floats:
    """Return the sum of each row, (rows,), f8."""
    return np.asarray(block.sum(axis=1, dtype=np.float64), np.float64).ravel()


@dataclass(frozen=True)
class LogCounts(Step):
    """Divide every row by its depth, multiply by a depth that all share, and take log(1 + x).

    Equal to scanpy's `normalize_total` and `log1p` on pooled rows. Rows without a count stay as they are.
    """

    name: ClassVar[str] = "log-counts"
    makes_reals: ClassVar[bool] = True
    target_sum: Annotated[float, POSITIVE] | None = None
    """The depth of every row, such as 10000; None: the median depth over all sites (exact up to 2²⁴ counts a row)."""

    def bounded(self) -> BoundedDepth | None:
        """Learn the median depth by one sum, to a quarter of an octave or so; a given depth needs none."""
        return BoundedDepth(self) if self.target_sum is None else None

    def sums(self) -> tuple[SumKind, ...]:
        """Return the rounds in which the median is found."""
        counts: list[SumKind] = ["bins"] * rounds(ALL_BITS)
        return tuple(counts) if self.target_sum is None else ()

    def length(self, ground: FitContext, fit: StepFit) -> int:
        """Return how many bins are counted; none once the median is known."""
        return 0 if "depth" in fit.arrays else bins_length(1)

    def summand(self, ground: FitContext, fit: StepFit, rows: PreparedRows) -> npt.NDArray[Any]:
        """Count rows by their depth."""
        if "depths" not in rows.scratch:
            found = [np.zeros(0), *map(depths_of, rows.blocks())]
            depths = np.concatenate(found)
            counted = depths[depths > 0][:, None]
            rows.scratch["depths"] = SortedColumns.of([counted], counted.shape, ground.floors[1])
        depths_in_order: SortedColumns = rows.scratch["depths"]
        return depths_in_order.count(fit, fit.taken)

    def take(self, ground: FitContext, fit: StepFit, total: Words) -> None:
        """Come nearer to the median depth."""
        if ground.floors[1] > 1 and not total.any():
            raise ValueError(f"no site has {ground.floors[1]} rows with a count")
        take_bins(fit, total.view(np.int64), fit.taken, ground.floors)
        if is_settled(fit, ALL_BITS, fit.taken + 1):
            fit.put(depth=medians(fit, ALL_BITS))

    def transform(self, ground: FitContext, fit: StepFit, block: Block) -> Block:
        """Return a block's logarithms."""
        target = float(fit.get("depth")[0]) if self.target_sum is None else self.target_sum
        depths = depths_of(block)
        kind = small_type(block)
        factors = np.where(depths > 0, target / np.where(depths > 0, depths, 1.0), 1.0)
        if not is_sparse(block):
            return np.log1p(np.asarray(block, kind) * factors.astype(kind)[:, None])
        found = block.astype(kind)  # a copy: rows stay as they came
        found.data *= np.repeat(factors.astype(kind), np.diff(found.indptr))
        np.log1p(found.data, out=found.data)
        return found

    def onnx(self, graph: Graph, ground: FitContext, fit: StepFit, rows: str) -> str:
        """Add the division by each row's depth, and the logarithm."""
        target = float(fit.get("depth")[0]) if self.target_sum is None else self.target_sum
        one = graph.constant(np.ones(1))
        depths = graph.add("ReduceSum", rows, graph.constant(np.array([1])), keepdims=1)
        some = graph.add("Greater", depths, graph.constant(np.zeros(1)))
        factors = graph.add("Div", graph.constant(np.array([target])), graph.add("Where", some, depths, one))
        scaled = graph.add("Mul", rows, graph.add("Where", some, factors, one))
        return graph.add("Log", graph.add("Add", scaled, one))

    @property
    def wants_counts(self) -> bool:
        """Whether only counts may come in: yes."""
        return True

    def check(self, site: SiteData) -> list[Finding]:
        """Refuse what are no counts."""
        return no_counts(site, self.name)


def no_counts(site: SiteData, step: str) -> list[Finding]:
    """Return what makes numbers unfit for a step that wants counts."""
    cells = site.table.data if is_sparse(site.table) else site.table
    if not cells.size or cells.dtype.kind == "u" or not bool((cells < 0).any()):
        return []
    what = f"has numbers below 0, down to {float(np.nanmin(cells)):.6g}, which are no counts"
    return [fault(what, f"give raw counts, or leave the step {step} out", site=site.name, topic="counts")]
