"""From class moments to a classifier: what both halves compute."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from fedgeom.arrays import Floats, Ints
from fedgeom.data.validation import FaultsError, fault
from fedgeom.geometry.gaussians import ClassSums, length
from fedgeom.geometry.hyperbolic.poincare import exp0, from_hyperboloid, log0, to_hyperboloid
from fedgeom.methods.aggregation import GroupMedian
from fedgeom.methods.moments.model import MomentsModel
from fedgeom.methods.moments.settings import MomentsSettings
from fedgeom.privacy.bounded_sums import BITS, in_whole_numbers, products, summed
from fedgeom.privacy.mechanism import SumNoise
from fedgeom.protocols.secure_sum.messages import SumResult


def check_width(settings: MomentsSettings, classes: int, columns: int, limit: int) -> None:
    """Refuse moments of so many columns that no message of ``limit`` bytes could hold them; say what to do."""
    size = 8 * length(classes, columns, squares=settings.squares)
    if size <= limit:
        return
    most = columns
    while 8 * length(classes, most, squares=settings.squares) > limit:
        most = most * 9 // 10
    instead = 'take rule="centroid", which needs none, or ' if settings.squares else ""
    what = "covariances" if settings.squares else "means"
    said = (
        f"the {what} of {classes} classes and {columns:,} columns are a message of {size:,} bytes; the limit is "
        f"{limit:,} (max_message_bytes in the policy)"
    )
    raise FaultsError([fault(said, f"{instead}take fewer columns, some {most:,} or less", topic="size")])


def build_model(
    settings: MomentsSettings, total: npt.NDArray[np.float64], classes: Sequence[str], columns: int
) -> MomentsModel:
    """Turn the sum of all sites' moments into a classifier.

    total: all classes' moments in one vector, f8, as `ClassSums` reads it.
    """
    sums = ClassSums(total, classes, columns, min_rows=settings.min_rows, squares=settings.squares)
    centroids = sums.centroids(c=settings.c)
    if not settings.squares:
        priors, means = sums.priors_and_means()
        none = np.empty((len(classes), 0, 0))
        return MomentsModel(tuple(classes), settings.rule, priors, means, none, centroids, settings.c)
    pull = settings.shrinkage if settings.shrinkage is not None else columns + 1.0
    priors, means, covariances = sums.gaussians(pull)
    return MomentsModel(tuple(classes), settings.rule, priors, means, covariances, centroids, settings.c)


def middle(settings: MomentsSettings, sums: Sequence[Floats], classes: int, columns: int) -> Floats:
    """Return class moments, as `ClassSums` reads them, that the moments of most groups are near to.

    sums: for each group the moments of all classes in one vector, f8; returns one of the same length. A class's count
    is the median of the groups' that have it, times their number; one that no group has keeps zeros.
    """
    rule = settings.aggregation
    assert isinstance(rule, GroupMedian)
    tables = np.array(sums).reshape(len(sums), classes, -1)
    found = np.zeros(tables.shape[1:])
    for at in range(classes):
        counts = np.rint(tables[:, at, 0])
        present = tables[counts >= 1, at]
        if len(present):
            count = max(1.0, float(np.rint(np.median(counts[counts >= 1]) * len(present))))
            found[at] = count * _typical_row(present / counts[counts >= 1, None], rule, columns, settings)
            found[at, 0] = count
    return found.ravel()


def _typical_row(rows: Floats, rule: GroupMedian, columns: int, settings: MomentsSettings) -> Floats:
    """Return one class's moments per row, from those of each group, (groups, numbers)."""
    d = columns
    squares = settings.squares
    upper = np.triu_indices(d if squares else 0)
    pairs = len(upper[0])
    means = rows[:, 1 : 1 + d]
    products = rows[:, 1 + d : 1 + d + pairs]
    lifted = rows[:, 1 + d + pairs :]
    if squares:  # covariances are comparable, squares are not: they have the means in them
        products = products - means[:, upper[0]] * means[:, upper[1]]
    centre = rule(means, np.ones(len(rows)))
    between = rule(products, np.ones(len(rows))) if pairs else np.empty(0)
    if pairs:
        covariance = np.zeros((d, d))
        covariance[upper] = between
        covariance = covariance + np.triu(covariance, 1).T
        # A median taken entry by entry need not be a covariance; the nearest one has no negative eigenvalues.
        values, vectors = np.linalg.eigh(covariance)
        covariance = (vectors * np.maximum(values, 0.0)) @ vectors.T
        between = covariance[upper] + centre[upper[0]] * centre[upper[1]]
    last = np.append(1.0, centre) if settings.c is None else _typical_lift(lifted, rule, settings.c)
    return np.concatenate([[1.0], centre, between, last])


def _typical_lift(lifted: Floats, rule: GroupMedian, c: float) -> Floats:
    """Return the middle of the groups' mean points in hyperboloid coordinates, (groups, 1 + d).

    A median of these coordinates can leave the cone in which all means of points lie. So the groups' centroids are
    compared in the tangent space at 0, and their Lorentz norms, which say how far a group spreads, beside them.
    """
    space = lifted[:, 1:]
    away = np.linalg.norm(space, axis=1)
    # No rows have a mean outside the cone; what a liar made so is put to its edge.
    time = np.maximum(lifted[:, 0], away * (1 + 1e-15) + 1e-300)
    norm = np.sqrt(np.maximum((time - away) * (time + away), 1e-30 * time**2)) * math.sqrt(c)
    points = from_hyperboloid(np.column_stack([time, space]) / norm[:, None], c=c)
    ones = np.ones(len(lifted))
    centre = np.asarray(exp0(rule(np.asarray(log0(points, c=c)), ones), c=c))
    return np.asarray(to_hyperboloid(centre, c=c) * float(np.median(norm)))


UNIT = 2 * BITS + 8
"""Binary digits of 1: those of products of two rows, and 8 for the weights."""
WITH_SQUARES = (0.4, 0.6, 0.7)
WITHOUT = (0.4, 0.92, 0.0)
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
    """Return what the noise of the sum follows from (`fedgeom.protocols.noise.sum_noise`)."""
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
    w = weights(squares)
    upper = np.triu_indices(whole.shape[1] if squares else 0)
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
    table = total.reshape(len(classes), -1)
    w = weights(settings.squares)
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
