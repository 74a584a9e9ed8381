"""Principal components of all sites' rows: from the joint covariance, or for many columns by subspace iteration."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np
import numpy.typing as npt

from fedgeom.arrays import Floats, Words
from fedgeom.data.tables import is_sparse
from fedgeom.errors import ProtocolError
from fedgeom.federation.settings import POSITIVE, Between
from fedgeom.federation.steps import Block, Columns, FitContext, PreparedRows, Step, StepFit, SumKind
from fedgeom.memo import memoize
from fedgeom.preparation.private_steps import BoundedPCA, need
from fedgeom.preparation.quantiles import DEEP, as_dense, column_sums, from_deep, square_sums, to_deep
from fedgeom.privacy.bounded_sums import row_products
from fedgeom.protocols.fixed_point import from_fixed, to_fixed

ROUNDS = 12
"""How many times the subspace is multiplied with the covariance."""
FIRST_COMPONENT = "component 1"
"""What the first component is called as a column."""
BESIDE = 30
"""How many directions more than components are followed."""


@dataclass(frozen=True)
class PCA(Step):
    """Take the directions in which all sites' rows vary most (PCA); each points where its largest weight is positive.

    Up to ``exact_columns`` columns from the covariance over all rows: equal to the components of pooled rows. Beyond,
    by twelve sums of the covariance times a random subspace, from the terms' seed: nearly equal.
    """

    name: ClassVar[str] = "pca"
    makes_reals: ClassVar[bool] = True
    mixes_columns: ClassVar[bool] = True
    n_components: Annotated[int, Between(1, 1000)] = 50
    """How many directions are kept; fewer where there are fewer columns."""
    exact_columns: Annotated[int, Between(1, 4000)] = 3000
    """Up to so many columns all products of two are added up."""

    clip: Annotated[float, POSITIVE] | None = None
    """Wanted in runs with privacy: the longest that a row may be that components are learnt from (L2)."""

    def bounded(self) -> BoundedPCA:
        """Learn from shortened rows, by one sum."""
        need(self, "clip", "…")
        return BoundedPCA(self)

    def _count(self, ground: FitContext) -> int:
        return min(self.n_components, ground.columns.width)

    def _exact(self, ground: FitContext) -> bool:
        return ground.columns.width <= max(self.exact_columns, self._count(ground) + BESIDE)

    @property
    def most_features(self) -> int:
        """All products of so many columns may be added up."""
        return max(self.exact_columns, self.n_components + BESIDE)

    def sums(self) -> tuple[SumKind, ...]:
        """Return the moments of columns, then the covariance, or the steps of the iteration."""
        rounds: list[SumKind] = ["directions"] * ROUNDS
        return ("moments", "products", *rounds)

    def length(self, ground: FitContext, fit: StepFit) -> int:
        """Return how many words the next sum has; 0 for the ways that are not taken."""
        width = ground.columns.width
        exact = self._exact(ground)
        if fit.taken == 0:
            return DEEP * (1 + 2 * width)
        if fit.taken == 1:
            return width * (width + 1) // 2 if exact else 0
        return 0 if exact else width * (self._count(ground) + BESIDE)

    def summand(self, ground: FitContext, fit: StepFit, rows: PreparedRows) -> npt.NDArray[Any]:
        """Add up columns and squares, products about the joint mean, or these times directions."""
        width = ground.columns.width
        blocks = rows.blocks()
        if fit.taken == 0:
            sums = np.zeros(width)
            squares = np.zeros(width)
            for block in blocks:
                sums = sums + column_sums(block)
                squares = squares + square_sums(block)
            return to_deep(np.concatenate([[len(rows)], sums, squares]), sites=ground.sites)
        if fit.taken == 1:
            found = _products(blocks, width)
            mean = fit.get("mean")
            n = len(rows)
            first = found.first
            found.second -= np.outer(first, mean) + np.outer(mean, first) - n * np.outer(mean, mean)
            vector = found.second[np.triu_indices(width)]
        else:
            vector = _images(blocks, fit.get("mean"), self._directions(ground, fit)).ravel()
        return to_fixed(vector, fraction_bits=int(fit.get("bits")[0]), sites=ground.sites)

    def _directions(self, ground: FitContext, fit: StepFit) -> Floats:
        """Return orthonormal directions, (columns, components + 30), f8: random ones first."""
        if "directions" in fit.arrays:
            return np.asarray(fit.get("directions"))
        rng = np.random.default_rng([ground.seed % 2**63, 11])
        shape = ground.columns.width, self._count(ground) + BESIDE
        return np.linalg.qr(rng.standard_normal(shape))[0]

    def take(self, ground: FitContext, fit: StepFit, total: Words) -> None:
        """Take the moments; then the components, or better directions."""
        width = ground.columns.width
        count = self._count(ground)
        if fit.taken == 0:
            values = from_deep(total)
            n = max(values[0], 1.0)
            mean = values[1 : 1 + width] / n
            squares = values[1 + width :]
            trace = float(np.maximum(squares - n * mean**2, 0.0).sum())
            largest = max(
                float(np.maximum(squares - n * mean**2, 0.0).max()), trace if not self._exact(ground) else 0.0
            )
            bits = int(np.clip(60 - np.ceil(np.log2(max(largest * ground.sites, 2.0**-60))), 8, 61))
            fit.put(mean=mean, bits=np.array([bits], np.int64), rows=np.array([n]))
            return
        values = from_fixed(total, fraction_bits=int(fit.get("bits")[0]))
        n = float(fit.get("rows")[0])
        if fit.taken == 1:
            components, variances = leading(values.tobytes(), width, count)
        else:
            Y = values.reshape(width, -1)
            Q = self._directions(ground, fit)
            if fit.taken + 1 < len(self.sums()):
                fit.put(directions=np.linalg.qr(Y)[0])
                return
            small = Q.T @ Y
            found, turn = np.linalg.eigh((small + small.T) / 2)
            components = (Q @ turn[:, ::-1])[:, :count]
            variances = found[::-1][:count]
        if not np.isfinite(components).all():
            raise ProtocolError("no components follow from the sum")
        signs = np.sign(components[np.abs(components).argmax(axis=0), np.arange(components.shape[1])])
        fit.put(components=components * signs, variances=np.maximum(variances, 0.0) / max(n - 1, 1.0))
        fit.drop("bits", "rows", "directions")

    def transform(self, ground: FitContext, fit: StepFit, block: Block) -> Block:
        """Return a block's components."""
        components = fit.get("components")
        mean = fit.get("mean")
        if self.clip is not None:  # with privacy, no row may have a part in another one's digits
            found = row_products(as_dense(block), components) - mean @ components
        elif is_sparse(block):
            found = np.asarray(block @ components) - mean @ components
        else:
            rows = as_dense(block)
            found = rows @ components.astype(rows.dtype) - (mean @ components).astype(rows.dtype)
        return found.astype(as_dense(block[:0]).dtype, copy=False)

    @property
    def affine(self) -> bool:
        """Whether it is a linear map and a shift: always."""
        return True

    def output(self, ground: FitContext, fit: StepFit) -> Columns:
        """Return the components, counted from 1."""
        count = self._count(ground)
        return Columns(width=count, names=tuple(f"component {at + 1}" for at in range(count)))

    def output_bytes(self, ground: FitContext, fit: StepFit, rows: int, came: int) -> int:
        """Return the size of the components."""
        return 8 * rows * self._count(ground)


@dataclass
class _Products:
    first: Floats
    second: Floats


def _products(blocks: Iterator[Block], width: int) -> _Products:
    """Return sums of columns, (columns,), and of their products, (columns, columns), f8."""
    found = _Products(np.zeros(width), np.zeros((width, width)))
    for block in blocks:
        found.first += column_sums(block)
        if is_sparse(block):
            found.second += (block.T @ block).toarray()
        else:
            rows = np.asarray(block, np.float64)
            found.second += rows.T @ rows
    return found


def _images(blocks: Iterator[Block], mean: Floats, Q: Floats) -> Floats:
    """Return the products of the centred columns times directions, (columns, directions), f8."""
    found = np.zeros(Q.shape)
    shift = mean @ Q
    total = np.zeros(Q.shape[1])
    for block in blocks:
        rows = block if is_sparse(block) else as_dense(block)
        seen = np.asarray(rows @ Q) - shift
        found += np.asarray(rows.T @ seen)
        total += seen.sum(axis=0)
    return found - np.outer(mean, total)


@memoize(2)  # the same for all sites of a process
def leading(upper: bytes, columns: int, count: int) -> tuple[Floats, Floats]:
    """Return the leading eigenvectors, (columns, count), and eigenvalues, of a symmetric matrix's upper triangle."""
    from scipy.linalg import eigh  # slow to import

    matrix = np.zeros((columns, columns))
    matrix[np.triu_indices(columns)] = np.frombuffer(upper)
    values, vectors = eigh(matrix, lower=False, subset_by_index=[columns - count, columns - 1])
    return np.ascontiguousarray(vectors[:, ::-1]), values[::-1].copy()
