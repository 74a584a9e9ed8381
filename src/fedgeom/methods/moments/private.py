"""Class moments with a bound on what one row adds, and classifiers that stand the noise in them.

A row of class k, shortened to the length ``clip`` and divided by it, is u; to its class it adds (w₀, w₁u, w₂uuᵀ) with
w₀² + w₁² + w₂² = 1, so that one row more or less moves all numbers together by at most 1 (the upper triangle of uuᵀ has
no larger norm than uuᵀ, which is |u|²). All of it is in whole numbers (`bounded_sums`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from fedgeom.arrays import Floats, Ints
from fedgeom.geometry.hyperbolic.poincare import exp0, log0
from fedgeom.methods.moments.model import MomentsModel
from fedgeom.methods.moments.settings import MomentsSettings
from fedgeom.privacy.bounded_sums import BITS, in_whole_numbers, products, summed
from fedgeom.privacy.mechanism import SumNoise
from fedgeom.protocols.secure_sum.messages import SumResult

UNIT = 2 * BITS + 8
"""Binary digits of 1: those of products of two rows, and 8 for the weights."""
WITH_SQUARES, WITHOUT = (0.4, 0.6, 0.7), (0.4, 0.92, 0.0)
"""w₀, w₁ and w₂, before they are rounded: means and squares need more than counts."""


def weights(squares: bool) -> tuple[int, int, int]:
    """Return what counts, rows and products, as whole numbers, are multiplied by."""
    w = WITH_SQUARES if squares else WITHOUT
    return round(w[0] * 2**UNIT), round(w[1] * 2 ** (UNIT - BITS)), round(w[2] * 2 ** (UNIT - 2 * BITS))


def sensitivity(squares: bool) -> float:
    """Return by how much one row moves all numbers together at most (L2)."""
    w = weights(squares)
    return math.sqrt(sum((factor << (at * BITS)) ** 2 for at, factor in enumerate(w)))


def numbers(classes: int, columns: int, *, squares: bool) -> int:
    """Return how many numbers are summed: per class 1 + d, and d(d+1)/2 more for squares."""
    return classes * (1 + columns + (columns * (columns + 1) // 2 if squares else 0))


def bounds(settings: MomentsSettings, classes: int, columns: int) -> dict[str, Any]:
    """Return what the noise of the sum follows from (`fedgeom.protocols.noising.sum_noise`)."""
    squares = settings.squares
    return {"sensitivity": sensitivity(squares), "numbers": numbers(classes, columns, squares=squares)}


def read_model(
    settings: MomentsSettings, result: SumResult, noise: SumNoise, classes: Sequence[str], columns: int
) -> MomentsModel:
    """Return the model that follows from a sum with noise."""
    assert settings.clip is not None
    total = noise.read(result.counts())
    return private_model(settings, total, classes, columns, clip=settings.clip, spread=noise.spread)


def bounded_moments(
    X: Floats, y: npt.NDArray[Any], classes: Sequence[str], settings: MomentsSettings, clip: float
) -> Ints:
    """Return a site's moments, class by class: count, sums and the upper triangle of products, (numbers,), i8."""
    tangent = X if settings.c is None else np.asarray(log0(X, c=settings.c))
    labels = y.astype(str)
    members = [labels == name for name in classes]
    return moments_of(in_whole_numbers(tangent, clip), members, squares=settings.squares)


def moments_of(whole: Floats, members: Iterable[npt.NDArray[Any]], *, squares: bool) -> Ints:
    """Return count, sums and the upper triangle of products of some rows, and some others, …, (numbers,), i8.

    whole (n, d), f8, whole numbers; members: which rows (no row is in two). One row more or less moves all numbers
    together by no more than `sensitivity`.
    """
    w, upper = weights(squares), np.triu_indices(whole.shape[1] if squares else 0)
    found = []
    for some in members:
        u = whole[some]
        second = products(u, u)[upper] if squares else np.empty(0, np.int64)
        found.append(np.concatenate([[len(u) * w[0]], summed(u) * w[1], second * w[2]]))
    return np.concatenate(found)


def private_model(
    settings: MomentsSettings, total: Floats, classes: Sequence[str], columns: int, *, clip: float, spread: float
) -> MomentsModel:
    """Turn the noisy sum of all sites' moments into a classifier.

    total (numbers,), f8; ``spread`` is the deviation of its noise. What the noise has made impossible (negative counts,
    means outside, covariances of no rows) is mended, by what is known of the noise; nobody's rows are looked at again.
    """
    table, w = total.reshape(len(classes), -1), weights(settings.squares)
    error = spread / w[0]
    counts = np.maximum(table[:, 0] / w[0], 1.0)
    # A class whose count is lost in the noise would have a mean of noise alone: it is drawn to 0.
    divisors = np.maximum(counts, 2 * error)
    means = inside(table[:, 1 : 1 + columns] * (clip / 2**BITS / w[1]) / divisors[:, None], clip)
    log_priors = np.log(counts / counts.sum())
    centroids = means if settings.c is None else np.asarray(exp0(means, c=settings.c))
    covariances = np.empty((len(classes), 0, 0))
    if settings.squares:
        scale = clip**2 / 4**BITS / w[2]
        covariances = mended_covariances(
            table[:, 1 + columns :] * scale, spread * scale, counts, means, settings.shrinkage
        )
    return MomentsModel(tuple(classes), settings.rule, log_priors, means, covariances, centroids, settings.c)


def inside(means: Floats, clip: float) -> Floats:
    """Return means of shortened rows, (k, d): none is longer than these can be."""
    lengths = np.maximum(np.linalg.norm(means, axis=1, keepdims=True), 1e-300)
    return np.asarray(means * np.minimum(1.0, clip / lengths))


def mended_covariances(
    upper: Floats, spread: float, counts: Floats, means: Floats, shrinkage: float | None
) -> Floats:
    """Return a covariance for each class, (classes, columns, columns): pulled together, and never below the noise.

    upper (classes, columns·(columns + 1)/2): products, whose noise has the deviation ``spread``. A symmetric matrix of
    noise of deviation s in d columns has eigenvalues up to 2s√d (Wigner 1955).
    """
    classes, columns = means.shape
    at = np.triu_indices(columns)
    squares = np.zeros((classes, columns, columns))
    squares[:, at[0], at[1]] = upper
    squares[:, at[1], at[0]] = upper
    scatter = squares - counts[:, None, None] * means[:, :, None] * means[:, None, :]
    edge = 2 * spread * math.sqrt(columns)
    pooled = _floored(scatter.sum(axis=0) / counts.sum(), edge * math.sqrt(classes) / float(counts.sum()))
    # Rows' worth of pull: as without noise, and as many as bring the noise below what the classes have in common.
    size = max(float(np.trace(pooled)) / columns, 1e-300)
    pull = (shrinkage if shrinkage is not None else columns + 1.0) + edge / size
    found = [
        _floored((own + pull * pooled) / (n + pull), 0.05 * size)
        for own, n in zip(scatter, counts.tolist(), strict=True)
    ]
    return np.array(found)


def _floored(matrix: Floats, least: float) -> Floats:
    values, vectors = np.linalg.eigh((matrix + matrix.T) / 2)
    return np.asarray((vectors * np.maximum(values, max(least, 1e-12))) @ vectors.T)
