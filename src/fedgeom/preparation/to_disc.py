"""Rows as points of the Poincaré disc: the joint map of the hulls, as a step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np
import numpy.typing as npt

from fedgeom.arrays import Words
from fedgeom.errors import InputError, ProtocolError
from fedgeom.federation.settings import POSITIVE
from fedgeom.federation.steps import Block, Columns, FitContext, PreparedRows, Step, StepFit, SumKind
from fedgeom.geometry.discriminant import discriminant_plane
from fedgeom.geometry.hyperbolic.poincare import exp0
from fedgeom.preparation.quantiles import DEEP, as_dense, column_sums, from_deep, square_sums, to_deep
from fedgeom.protocols.fixed_point import from_fixed, to_fixed

MOST_COLUMNS = 2000
"""Of more columns the scatter is larger than a message should be."""


@dataclass(frozen=True)
class ToDisc(Step):
    """Map rows to the disc in which classes lie farthest apart, whatever each site calls them.

    Columns are standardised by the joint mean and deviation; the sites add up scatter within and between their own
    classes; the two directions with the largest ratio span the disc, and the exponential map at the origin bends them
    into it. Rows without a label are mapped, but not learnt from. For methods on points of the disc, such as `Hulls`.
    """

    name: ClassVar[str] = "to-disc"
    makes_reals: ClassVar[bool] = True
    curvature: Annotated[float, POSITIVE] = 1.0
    """k: the disc has curvature -k."""
    spread: Annotated[float, POSITIVE] = 1.0
    """The root mean square of tangent vectors: with 1 most points lie between radius 0.5 and 0.95."""

    def bounded(self) -> None:
        """Refuse privacy: a site's scatter between its own classes has no bound for a row."""
        raise InputError(
            f"privacy with the step {self.name!r} given; scatter between a site's classes has no bound for a row: "
            "wanted PCA(2, clip=…), or points of the disc that each site makes by an agreed map"
        )

    def sums(self) -> tuple[SumKind, ...]:
        """Return the moments, then the scatter."""
        return ("moments", "products")

    @property
    def most_features(self) -> int:
        """All products of so many columns may be added up."""
        return MOST_COLUMNS

    def length(self, ground: FitContext, fit: StepFit) -> int:
        """Return how many words the next sum has."""
        width = ground.columns.width
        if not 2 <= width <= MOST_COLUMNS:
            raise ProtocolError(f"a map to the disc takes 2 to {MOST_COLUMNS:,} columns, not {width:,}")
        return DEEP * (1 + 2 * width) if fit.taken == 0 else width * (width + 1)

    def summand(self, ground: FitContext, fit: StepFit, rows: PreparedRows) -> npt.NDArray[Any]:
        """Add up columns and squares, then scatter within and between the site's classes."""
        width = ground.columns.width
        labels = rows.labels
        words = np.unique(labels[labels != ""]).tolist()
        if fit.taken == 0:
            sums = np.zeros(width)
            squares = np.zeros(width)
            at = 0
            for block in rows.blocks():
                some = as_dense(block)[labels[at : at + block.shape[0]] != ""].astype(np.float64)
                sums = sums + column_sums(some)
                squares = squares + square_sums(some)
                at = at + block.shape[0]
            return to_deep(np.concatenate([[(labels != "").sum()], sums, squares]), sites=ground.sites)
        total = np.zeros((width, width))
        firsts = {word: np.zeros(width) for word in words}
        at = 0
        for block in rows.blocks():
            own = labels[at : at + block.shape[0]]
            Z = self._standard(fit, block)
            Z = Z[own != ""]
            own = own[own != ""]
            at = at + block.shape[0]
            total += Z.T @ Z
            for word in np.unique(own).tolist():
                firsts[word] += Z[own == word].sum(axis=0)
        between = np.zeros((width, width))
        for word, first in firsts.items():
            between += np.outer(first, first) / (labels == word).sum()
        upper = np.triu_indices(width)
        vector = np.concatenate([(total - between)[upper], between[upper]])
        return to_fixed(vector, fraction_bits=int(fit.get("bits")[0]), sites=ground.sites)

    def _standard(self, fit: StepFit, block: Block) -> npt.NDArray[np.float64]:
        return np.asarray((as_dense(block).astype(np.float64) - fit.get("mean")) / fit.get("deviation"))

    def take(self, ground: FitContext, fit: StepFit, total: Words) -> None:
        """Take the joint scale, then the map."""
        width = ground.columns.width
        if fit.taken == 0:
            values = from_deep(total)
            n = max(values[0], 1.0)
            mean, squares = values[1:].reshape(2, width) / n
            deviation = np.sqrt(np.maximum(squares - mean**2, 0.0))
            deviation = np.where(deviation > 1e-9 * np.maximum(np.abs(mean), 1e-9), deviation, 1.0)
            bits = int(np.clip(58 - np.ceil(np.log2(n * ground.sites)), 8, 48))
            fit.put(rows=np.array([n]), mean=mean, deviation=deviation, bits=np.array([bits], np.int64))
            return
        scatter = from_fixed(total, fraction_bits=int(fit.get("bits")[0])) / float(fit.get("rows")[0])
        matrices = np.zeros((2, width, width))
        upper = np.triu_indices(width)
        for matrix, half in zip(matrices, scatter.reshape(2, -1), strict=True):
            matrix[upper] = half
            matrix += np.triu(matrix, 1).T
        fit.put(plane=discriminant_plane(matrices[0], matrices[1], self.spread))
        fit.drop("rows", "bits")

    def transform(self, ground: FitContext, fit: StepFit, block: Block) -> Block:
        """Return a block's points of the disc, (rows, 2), f8."""
        c = self.curvature
        return np.asarray(exp0(self._standard(fit, block) @ fit.get("plane") / np.sqrt(c), c=c))

    def output(self, ground: FitContext, fit: StepFit) -> Columns:
        """Return the two coordinates."""
        return Columns(width=2, names=("disc 1", "disc 2"))

    def output_bytes(self, ground: FitContext, fit: StepFit, rows: int, came: int) -> int:
        """Return the size of the points."""
        return 16 * rows
