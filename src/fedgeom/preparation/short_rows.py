"""Steps in runs with privacy: what is learnt of rows that are no longer than a bound from the terms, by one sum each.

Longer rows are shortened, for learning only; depths of rows need no bound, as a row is in one bin. All sums are of
whole numbers, and exact, so that one row moves them by no more than is said.
"""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np

from fedgeom.arrays import Floats, Ints
from fedgeom.errors import ProtocolError
from fedgeom.federation.steps import BoundedLearning, Fit, Ground, PreparedRows, SumKind
from fedgeom.preparation.in_ranges import SQUARE, middle_of
from fedgeom.preparation.numbers import as_dense
from fedgeom.privacy.bounded_sums import BITS, ONE, in_whole_numbers, products, summed

DEPTH_BINS, DEPTH_OCTAVES = 128, 32
"""Depths of rows are counted by quarters of an octave, from 1 on."""


class BoundedDepth(BoundedLearning):
    """The median depth of rows: a row adds 1 to one bin."""

    kind: ClassVar[SumKind] = "bins"

    def sensitivity(self, ground: Ground) -> float:
        """One."""
        return 1.0

    def numbers(self, ground: Ground) -> int:
        """The bins."""
        return DEPTH_BINS

    def whole(self, ground: Ground, rows: PreparedRows) -> Ints:
        """Count rows by the logarithm of their depth."""
        total = np.zeros(DEPTH_BINS, np.int64)
        for block in rows.blocks():
            depths = np.asarray(block.sum(axis=1, dtype=np.float64), np.float64).ravel()
            place = np.log2(np.maximum(depths[depths > 0], 1.0)) * (DEPTH_BINS / DEPTH_OCTAVES)
            total += np.bincount(np.minimum(place, DEPTH_BINS - 1).astype(np.int64), minlength=DEPTH_BINS)
        return total

    def learn(self, ground: Ground, fit: Fit, total: Floats, spread: float) -> None:
        """Find the middle."""
        fit.put(depth=np.array([2.0 ** (DEPTH_OCTAVES * middle_of(total, spread))]))


class BoundedVariances(BoundedLearning):
    """Variances of columns: a row, shortened and divided by ``clip``, adds 1 to the count, u and u² (both |·| ≤ 1)."""

    kind: ClassVar[SumKind] = "moments"

    def sensitivity(self, ground: Ground) -> float:
        """√3, in units of `SQUARE`."""
        return float(SQUARE * math.sqrt(3))

    def numbers(self, ground: Ground) -> int:
        """Rows, sums and squares; none where all columns are kept."""
        width = ground.columns.width
        return 1 + 2 * width if width > self.step.count else 0

    def whole(self, ground: Ground, rows: PreparedRows) -> Ints:
        """Add up rows, columns and squares."""
        total = np.zeros((2, ground.columns.width), np.int64)
        for block in rows.blocks():
            u = in_whole_numbers(as_dense(block), self.step.clip)
            total += [ONE * summed(u), summed(u * u)]
        return np.concatenate([[SQUARE * len(rows)], *total])

    def learn(self, ground: Ground, fit: Fit, total: Floats, spread: float) -> None:
        """Keep the columns that vary most."""
        first, second = total[1:].reshape(2, -1) / max(total[0], 2 * spread, SQUARE)
        order = np.argsort(first**2 - second, kind="stable")[: self.step.count]
        fit.put(kept=np.sort(order).astype(np.int64))


class BoundedPCA(BoundedLearning):
    """The covariance of rows that are shortened to ``clip``: a row adds (w₀, w₁u, w₂uuᵀ), |u| ≤ 1 and |w| = 1."""

    kind: ClassVar[SumKind] = "products"
    WEIGHTS: ClassVar[tuple[int, int, int]] = (
        round(0.3 * SQUARE) * 2**8,
        round(0.5 * ONE) * 2**8,
        round(0.81 * 2**8),
    )

    def sensitivity(self, ground: Ground) -> float:
        """About one, in units of `SQUARE` · 2⁸."""
        return math.sqrt(sum((weight << (at * BITS)) ** 2 for at, weight in enumerate(self.WEIGHTS)))

    def numbers(self, ground: Ground) -> int:
        """Rows, sums, and the upper triangle of products."""
        width = ground.columns.width
        if width > self.step.exact_columns:
            raise ProtocolError(
                f"components of {width:,} columns with privacy; all products of two are added up, of at most "
                f"{self.step.exact_columns:,} (exact_columns): choose columns first"
            )
        return 1 + width + width * (width + 1) // 2

    def whole(self, ground: Ground, rows: PreparedRows) -> Ints:
        """Add up rows, columns and products."""
        width = ground.columns.width
        first, second = np.zeros(width, np.int64), np.zeros((width, width), np.int64)
        for block in rows.blocks():
            u = in_whole_numbers(as_dense(block), self.step.clip)
            first, second = first + summed(u), second + products(u, u)
        w = self.WEIGHTS
        return np.concatenate([[len(rows) * w[0]], first * w[1], second[np.triu_indices(width)] * w[2]])

    def learn(self, ground: Ground, fit: Fit, total: Floats, spread: float) -> None:
        """Take the leading directions of the covariance."""
        width, clip, w = ground.columns.width, self.step.clip, self.WEIGHTS
        n = max(total[0] / w[0], 2 * spread / w[0], 1.0)
        mean = total[1 : 1 + width] * (clip / ONE / w[1] / n)
        mean *= min(1.0, clip / max(float(np.linalg.norm(mean)), 1e-300))
        square, upper = np.zeros((width, width)), np.triu_indices(width)
        square[upper] = total[1 + width :] * (clip**2 / SQUARE / w[2] / n)
        covariance = square + np.triu(square, 1).T - np.outer(mean, mean)
        values, vectors = np.linalg.eigh(covariance)
        count = min(self.step.components, width)
        components, variances = vectors[:, ::-1][:, :count], values[::-1][:count]
        signs = np.sign(components[np.abs(components).argmax(axis=0), np.arange(count)])
        fit.put(mean=mean, components=components * signs, variances=np.maximum(variances, 0.0))
