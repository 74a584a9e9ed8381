"""Counts, sums and squares per class: they add across sites, and two classifiers follow from them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from fedgeom.arrays import Floats
from fedgeom.errors import InputError
from fedgeom.geometry.hyperbolic.poincare import from_hyperboloid, log0, to_hyperboloid

PIECE = 8192
"""How many rows are added up at a time: they stay in the processor's cache, and no copy of a class is made."""


def length(classes: int, columns: int, *, squares: bool = True) -> int:
    """Return how many numbers a site contributes: per class 1 + d + d(d+1)/2 + (d+1), or without squares 2(d+1)."""
    return classes * (2 * (columns + 1) + (columns * (columns + 1) // 2 if squares else 0))


def class_moments(
    X: Floats, y: npt.NDArray[Any], classes: Sequence[str], *, c: float | None, squares: bool = True
) -> Floats:
    """Return, for each class: count, Σv, the upper triangle of Σvvᵀ if wanted, and Σ of hyperboloid coordinates.

    In the ball (``c`` given) v = log_0(x), twice the half-distance direction of Eq. 1 at the origin; in
    Euclidean space (``c`` None) v = x and the last block is (count, Σx).
    """
    d = X.shape[1]
    tangent = X if c is None else np.asarray(log0(X, c=c))
    labels, upper = y.astype(str), np.triu_indices(d if squares else 0)
    rows = []
    for name in classes:
        inside = np.flatnonzero(labels == name)
        count, sums, products = len(inside), *_sums(tangent, inside, squares=squares)
        last = np.append(count, sums) if c is None else np.asarray(to_hyperboloid(X[inside], c=c)).sum(axis=0)
        rows.append(np.concatenate([[count], sums, products[upper], last]))
    return np.concatenate(rows)


def _sums(X: Floats, at: npt.NDArray[np.intp], *, squares: bool) -> tuple[Floats, Floats]:
    """Return the sums and, if wanted, the products of the columns over these rows."""
    d = X.shape[1]
    sums, products = np.zeros(d), np.zeros((d, d) if squares else (0, 0))
    room = np.empty((min(PIECE, len(at)), d)) if X.flags.c_contiguous and X.dtype == np.float64 else None
    for start in range(0, len(at), PIECE):
        rows = at[start : start + PIECE]
        # Into the same memory each time takes half as long; of columns side by side that would copy the whole table.
        some = X[rows] if room is None else np.take(X, rows, axis=0, out=room[: len(rows)], mode="clip")
        sums += some.sum(axis=0)
        if squares:
            products += some.T @ some
    return sums, products


class ClassSums:
    """The added moments, taken apart again; without squares there are no covariances."""

    def __init__(
        self, total: Floats, classes: Sequence[str], columns: int, *, min_rows: int = 1, squares: bool = True
    ):
        table = total.reshape(len(classes), -1)
        d, wide = columns, columns if squares else 0
        pairs = wide * (wide + 1) // 2
        self.counts = np.rint(table[:, 0])
        few = [name for name, n in zip(classes, self.counts, strict=True) if n < min_rows]
        if few:
            raise InputError(
                f"classes with fewer than {min_rows} rows at all sites together: {', '.join(few)}; leave them out of "
                "`classes`, or merge them"
            )
        self.sums = table[:, 1 : 1 + d]
        self.squares = np.zeros((len(classes), wide, wide))
        upper = np.triu_indices(wide)
        self.squares[:, upper[0], upper[1]] = table[:, 1 + d : 1 + d + pairs]
        self.squares[:, upper[1], upper[0]] = table[:, 1 + d : 1 + d + pairs]
        self.lifted = table[:, 1 + d + pairs :]

    def priors_and_means(self) -> tuple[Floats, Floats]:
        """Return the classes' log priors and means."""
        return np.log(self.counts / self.counts.sum()), self.sums / self.counts[:, None]

    def gaussians(self, shrinkage: float) -> tuple[Floats, Floats, Floats]:
        """Return log priors, means and covariances of a Gaussian per class.

        A class's covariance is pulled to the pooled one with the weight of ``shrinkage`` rows, which
        matters for small classes only.
        """
        n = self.counts[:, None, None]
        means = self.sums / self.counts[:, None]
        scatter = self.squares - n * means[:, :, None] * means[:, None, :]
        pooled = scatter.sum(axis=0) / max(self.counts.sum() - len(means), 1)
        ridge = 1e-9 * max(float(np.trace(pooled)), 1e-12) * np.eye(pooled.shape[0])
        covariances = (scatter + shrinkage * pooled) / (n - 1 + shrinkage) + ridge
        return np.log(self.counts / self.counts.sum()), means, covariances

    def centroids(self, *, c: float | None) -> Floats:
        """Return the class means; in the ball, the Lorentz centroids (the normalised sums)."""
        if c is None:
            return self.sums / self.counts[:, None]
        time, space = self.lifted[:, :1], self.lifted[:, 1:]
        norm = np.sqrt(np.maximum(time**2 - np.sum(space**2, axis=1, keepdims=True), 1e-300))
        point = self.lifted / norm / np.sqrt(c)  # back on the hyperboloid of curvature -c
        return np.asarray(from_hyperboloid(point, c=c))
