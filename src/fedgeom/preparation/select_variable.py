"""Columns that vary more than their mean explains: highly variable genes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt

from fedgeom.arrays import Floats, Words
from fedgeom.data.sites import SiteData
from fedgeom.data.tables import is_sparse
from fedgeom.data.validation import Finding
from fedgeom.errors import InputError
from fedgeom.federation.settings import POSITIVE, Between
from fedgeom.federation.steps import Block, Columns, FitContext, PreparedRows, Step, StepFit, SumKind
from fedgeom.preparation.log_counts import no_counts
from fedgeom.preparation.private_steps import BoundedVariances, need
from fedgeom.preparation.quantiles import DEEP, as_dense, column_sums, from_deep, square_sums, to_deep

CELL = 0.2
"""A cell of the tree has at most this share of the points that one regression looks at."""
MARGIN = 0.005
"""How far the outer corners lie beyond the points, as a share of their range."""


def _corners(x: Floats, most: int) -> Floats:
    """Return where the regression is solved: cells are cut at the median of their points until each has few."""
    found: list[float] = []

    def cut(points: Floats) -> None:
        if len(points) <= most or points[0] == points[-1]:
            return
        middle = (len(points) - 1) // 2
        at = (points[middle] + points[middle + 1]) / 2
        if at in found:
            return
        found.append(float(at))
        cut(points[: middle + 1])
        cut(points[middle + 1 :])

    cut(x)
    reach = max(float(x[-1] - x[0]), 1e-10 * float(np.abs(x).max()) + 1e-30)
    return np.array(sorted([float(x[0]) - MARGIN * reach, *found, float(x[-1]) + MARGIN * reach]))


def _local(x: Floats, y: Floats, at: float, near: int) -> tuple[float, float]:
    """Return the value and slope at a place of the quadratic through its nearest points."""
    away = np.abs(x - at)
    radius = np.partition(away, near - 1)[near - 1] * 1.000001 + 1e-300
    some = away < radius
    weight = np.sqrt((1 - (away[some] / radius) ** 3) ** 3)
    t = (x[some] - at) / radius
    design = np.column_stack([np.ones_like(t), t, t**2]) * weight[:, None]
    solution, *_ = np.linalg.lstsq(design, y[some] * weight, rcond=1e-7)
    return float(solution[0]), float(solution[1] / radius)


def loess(x: Floats, y: Floats, span: float = 0.3) -> Floats:
    """Return the smoothed y at each x; both (points,), f8."""
    order = np.argsort(x, kind="stable")
    xs = x[order]
    ys = y[order]
    near = max(3, int(np.floor(len(x) * span)))
    corners = _corners(xs, max(1, int(np.floor(len(x) * span * CELL))))
    values, slopes = np.array([_local(xs, ys, float(at), min(near, len(xs))) for at in corners]).T
    cell = np.clip(np.searchsorted(corners, x, side="right") - 1, 0, len(corners) - 2)
    width = corners[cell + 1] - corners[cell]
    t = (x - corners[cell]) / width
    h = [(1 + 2 * t) * (1 - t) ** 2, t * (1 - t) ** 2, t**2 * (3 - 2 * t), t**2 * (t - 1)]
    return np.asarray(
        h[0] * values[cell]
        + h[1] * width * slopes[cell]
        + h[2] * values[cell + 1]
        + h[3] * width * slopes[cell + 1]
    )


BINS = 20
"""Into how many bins of their mean columns are put, to compare like with like."""
DIGITS = 2.0**30
"""Dispersions of single sites are added up in multiples of one part of this."""


def mean_and_variance(n: float, sums: Floats, squares: Floats) -> tuple[Floats, Floats]:
    """Return means and variances, (columns,) each, from sums of columns and of their squares."""
    mean = sums / max(n, 1.0)
    return mean, np.maximum(squares / max(n, 1.0) - mean**2, 0.0) * (n / max(n - 1, 1.0))


def normalised_dispersions(mean: Floats, variance: Floats) -> Floats:
    """Return by how many deviations a column's log dispersion is above that of columns of like mean; NaN: no variance.

    The "seurat" rule of Satija et al. 2015, as scanpy computes it. mean, variance (columns,): of counts at one depth.
    """
    mean = np.where(mean == 0, 1e-12, mean)
    with np.errstate(divide="ignore", invalid="ignore"):
        dispersion = np.log(np.where(variance > 0, variance / mean, np.nan))
    place = np.log1p(mean)
    edges = np.linspace(place.min(), place.max(), BINS + 1)
    edges[0] -= 0.001 * (place.max() - place.min())
    bins = np.clip(np.searchsorted(edges, place, side="left") - 1, 0, BINS - 1)
    found = np.full(len(mean), np.nan)
    for number in range(BINS):
        own = (bins == number) & np.isfinite(dispersion)
        some = dispersion[own]
        if len(some) == 1:  # nothing to compare it with
            found[own] = 1.0
        elif len(some):
            found[own] = (some - some.mean()) / some.std(ddof=1)
    return found


def highest(scores: Floats, count: int) -> npt.NDArray[np.bool_]:
    """Say which columns are among those with the highest scores; equal ones at the edge are all taken."""
    scores = np.round(scores, 10)  # two columns in a bin have the same score but for the last digits
    known = np.sort(scores[np.isfinite(scores)])[::-1]
    if not len(known):
        return np.zeros(len(scores), bool)
    return np.asarray(np.nan_to_num(scores) >= known[min(count, len(known)) - 1])


@dataclass(frozen=True)
class SelectVariable(Step):
    """Keep the columns that vary most for their mean, over all sites (scanpy's `highly_variable_genes`).

    "seurat" wants logarithms (after `LogCounts`), "seurat-v3" raw counts (before it). "sites" is "seurat" at each site
    by itself; columns that most sites choose are kept, by their mean score: differences between sites do not count.
    """

    name: ClassVar[str] = "select-variable"
    n_columns: Annotated[int, Between(1, 100_000)] = 2000
    """How many columns are kept."""
    flavor: Literal["seurat", "seurat-v3", "sites", "variance"] = "seurat"
    """By which rule. "variance": the columns that vary most as they come, whatever their mean."""
    span: Annotated[float, Between(0.05, 1)] = 0.3
    """Of "seurat-v3": the share of columns that each place of the curve through variances looks at."""

    clip: Annotated[float, POSITIVE] | None = None
    """Wanted in runs with privacy: the longest that a row may be that variances are learnt from (L2)."""

    def bounded(self) -> BoundedVariances:
        """Learn variances of shortened rows, by one sum."""
        if self.flavor != "variance":
            raise InputError(
                f'privacy with the step {self.name!r} and flavor="{self.flavor}" given; ratios of variance and mean '
                'have no bound for columns of few counts: wanted flavor="variance", or columns chosen beforehand'
            )
        need(self, "clip", "…")
        return BoundedVariances(self)

    @property
    def wants_counts(self) -> bool:
        """Whether only counts may come in: only "seurat-v3" is defined for them."""
        return self.flavor == "seurat-v3"

    def check(self, site: SiteData) -> list[Finding]:
        """Refuse what are no counts, where they are wanted."""
        return no_counts(site, self.name) if self.wants_counts else []

    def against_floors(self) -> str:
        """Return that clipped counts show what was clipped: their sum beside that of all counts."""
        if self.flavor != "seurat-v3":
            return ""
        return (
            'flavor = "seurat-v3" sums counts both as they are and clipped, and the difference shows single ones: take '
            'flavor = "seurat" or "sites"'
        )

    def sums(self) -> tuple[SumKind, ...]:
        """Return the moments; "seurat-v3" then needs those of clipped counts."""
        once: dict[str, tuple[SumKind, ...]] = {"seurat-v3": ("moments", "moments"), "sites": ("ranks",)}
        return once.get(self.flavor, ("moments",))

    def length(self, ground: FitContext, fit: StepFit) -> int:
        """Return how many words the next sum has; 0 where all columns are kept."""
        width = ground.columns.width
        if width <= self.n_columns:
            return 0
        if self.flavor == "sites":
            return 2 * width
        return DEEP * ((1 if fit.taken == 0 else 0) + 2 * width)

    def summand(self, ground: FitContext, fit: StepFit, rows: PreparedRows) -> npt.NDArray[Any]:
        """Add up columns and squares; or choose columns here."""
        width = ground.columns.width
        sums = np.zeros(width)
        squares = np.zeros(width)
        for block in rows.blocks():
            raw = self.flavor in ("seurat-v3", "variance")
            some = self._clipped(fit, block) if fit.taken else block if raw else _expm1(block)
            sums = sums + column_sums(some)
            squares = squares + square_sums(some)
        if self.flavor == "sites":
            mean, variance = mean_and_variance(len(rows), sums, squares)
            scores = np.full(width, np.nan)
            there = sums > 0
            if there.any():
                scores[there] = normalised_dispersions(mean[there], variance[there])
            chosen = highest(scores, self.n_columns) & there
            kept = np.rint(DIGITS * np.clip(np.nan_to_num(scores), -1e6, 1e6)).astype(np.int64)
            return np.concatenate([chosen.astype(np.int64), kept])
        head = [[len(rows)]] if fit.taken == 0 else []
        return to_deep(np.concatenate([*head, sums, squares]), sites=ground.sites)

    def _clipped(self, fit: StepFit, block: Block) -> Block:
        top = fit.get("top")
        if not is_sparse(block):
            return np.minimum(as_dense(block).astype(np.float64), top)
        found = block.astype(np.float64)
        found.data = np.minimum(found.data, top[found.indices])
        return found

    def take(self, ground: FitContext, fit: StepFit, total: Words) -> None:
        """Choose the columns; for "seurat-v3" first where counts are clipped."""
        width = ground.columns.width
        if self.flavor == "sites":
            chosen, scores = total.view(np.int64).reshape(2, width)  # where a column is empty its score is 0
            order = np.lexsort((np.arange(width), -scores, -chosen))
            fit.put(kept=np.sort(order[: self.n_columns]).astype(np.int64))
            return
        values = from_deep(total)
        if fit.taken == 0:
            n = values[0]
            sums, squares = values[1:].reshape(2, width)
            mean, variance = mean_and_variance(n, sums, squares)
            if self.flavor in ("seurat", "variance"):
                plain = self.flavor == "variance"
                self._keep(fit, variance if plain else normalised_dispersions(mean, variance))
                return
            varied = variance > 0
            deviation = np.ones(width)
            curve = loess(np.log10(mean[varied]), np.log10(variance[varied]), self.span)
            deviation[varied] = np.sqrt(10**curve)
            fit.put(rows=np.array([n]), mean=mean, deviation=deviation, top=deviation * np.sqrt(n) + mean)
            return
        n = float(fit.get("rows")[0])
        mean = fit.get("mean")
        deviation = fit.get("deviation")
        sums, squares = values.reshape(2, width)
        self._keep(fit, (n * mean**2 + squares - 2 * sums * mean) / (max(n - 1, 1.0) * deviation**2))
        fit.drop("rows", "mean", "deviation", "top")

    def _keep(self, fit: StepFit, scores: Floats) -> None:
        fit.put(kept=np.flatnonzero(highest(scores, self.n_columns)).astype(np.int64))

    def transform(self, ground: FitContext, fit: StepFit, block: Block) -> Block:
        """Return the chosen columns of a block."""
        return block[:, fit.get("kept")] if "kept" in fit.arrays else block

    @property
    def affine(self) -> bool:
        """Whether it is a linear map and a shift: always."""
        return True

    def output(self, ground: FitContext, fit: StepFit) -> Columns:
        """Return the chosen columns."""
        return ground.columns.kept(fit.get("kept").astype(np.intp)) if "kept" in fit.arrays else ground.columns

    def output_bytes(self, ground: FitContext, fit: StepFit, rows: int, came: int) -> int:
        """Return the share of the size that is kept: chosen columns are not emptier than others by much."""
        return came * self.output(ground, fit).width // max(ground.columns.width, 1)


def _expm1(block: Block) -> Block:
    if not is_sparse(block):
        return np.expm1(as_dense(block))
    found = block.copy()
    found.data = np.expm1(found.data)
    return found
