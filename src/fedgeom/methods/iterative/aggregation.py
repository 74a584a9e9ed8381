"""Aggregations: how the coordinator makes one vector out of many.

The mean needs only a sum, so it can run under secure sum. The robust ones look at each site's vector.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from fedgeom.errors import InputError
from fedgeom.methods.iterative.vectors import Vector
from fedgeom.protocols.fixed_point import from_fixed, to_fixed

FRACTION_BITS = 28
"""Binary digits after the point in sums: 4·10⁻⁹ per site, and room for numbers up to 10¹⁰."""
LARGEST = 2.0 ** (62 - FRACTION_BITS)
"""No sum may reach this."""

Matrix = npt.NDArray[np.float64]


def fixed_sum(vectors: Matrix, weights: Vector, *, fraction_bits: int = FRACTION_BITS) -> Vector:
    """Return Σ weight·vector, rounded site by site exactly as a secure sum rounds it."""
    options = {"fraction_bits": fraction_bits, "sites": len(vectors)}
    parts = [to_fixed(weight * vector, **options) for weight, vector in zip(weights, vectors, strict=True)]
    total = np.add.reduce(np.array(parts, np.uint64), axis=0, dtype=np.uint64)
    return from_fixed(total, fraction_bits=fraction_bits)


def mean(vectors: Matrix, weights: Vector) -> Vector:
    """Return the weighted mean (McMahan et al. 2017)."""
    return fixed_sum(vectors, weights) / fixed_sum(np.ones((len(weights), 1)), weights)


def median(vectors: Matrix, weights: Vector) -> Vector:
    """Return the median of each coordinate (Yin et al. 2018); every site counts the same."""
    return np.asarray(np.median(vectors, axis=0))


def trimmed_mean(vectors: Matrix, weights: Vector, *, trim: float = 0.2) -> Vector:
    """Return the mean of each coordinate without the lowest and highest share ``trim`` (Yin et al. 2018)."""
    cut = min(int(trim * len(vectors) + 1e-9), (len(vectors) - 1) // 2)
    return np.asarray(np.sort(vectors, axis=0)[cut : len(vectors) - cut].mean(axis=0))


def krum(vectors: Matrix, weights: Vector, *, bad: int) -> Vector:
    """Return the vector nearest to its n − f − 2 nearest neighbours (Blanchard et al. 2017), f = ``bad``.

    With fewer than f + 3 vectors there are no such neighbours; then one neighbour decides. Of equally good vectors
    (two that are each other's only neighbour are) the first in lexical order is taken: the sites' order plays no part.
    """
    gaps = ((vectors[:, None, :] - vectors[None, :, :]) ** 2).sum(axis=2)
    np.fill_diagonal(gaps, np.inf)
    near = max(1, min(len(vectors) - bad - 2, len(vectors) - 1))
    if len(vectors) == 1:
        return np.array(vectors[0])
    scores = np.sort(gaps, axis=1)[:, :near].sum(axis=1)
    return np.array(min(vectors[scores <= scores.min()].tolist()))


def geometric_median(vectors: Matrix, weights: Vector, *, steps: int = 200, tolerance: float = 1e-10) -> Vector:
    """Return the point with the least weighted sum of distances (Weiszfeld's steps; Pillutla et al. 2022).

    A step that lands on one of the vectors goes on as Vardi and Zhang (2000) say: there, Weiszfeld's own would stay.
    Where the median is one of the vectors the steps come near it ever more slowly, so all are tried in the end.
    """
    share = weights / weights.sum()
    at = share @ vectors
    for _ in range(steps):
        away = vectors - at
        gaps = np.linalg.norm(away, axis=1)
        here = gaps <= 1e-12 * (1 + np.linalg.norm(at))
        if here.all():
            break
        pull = share[~here] / gaps[~here]
        step = (pull @ away[~here]) / pull.sum()
        held, force = float(share[here].sum()), float(np.linalg.norm(pull @ away[~here]))
        if held:
            step = step * max(0.0, 1 - held / force) if force else 0 * step
        at = at + step
        if np.linalg.norm(step) <= tolerance * (1 + np.linalg.norm(at)):
            break
    tried = np.vstack([at, vectors])
    costs = np.array([share @ np.linalg.norm(vectors - one, axis=1) for one in tried])
    # On a line many points may be as good; then rounding must not decide which of the vectors it is.
    return np.array(tried[int(np.argmax(costs <= costs.min() * (1 + 1e-9)))])


NAMES = ("mean", "median", "trimmed", "krum", "geometric")
"""What ``aggregation`` can be."""


def aggregate(name: str, vectors: Matrix, weights: Vector, *, trim: float, bad: int | None) -> Vector:
    """Aggregate by the name of the rule; ``bad=None`` lets Krum expect as many bad sites as it can bear."""
    if name == "mean":
        return mean(vectors, weights)
    if name == "median":
        return median(vectors, weights)
    if name == "trimmed":
        return trimmed_mean(vectors, weights, trim=trim)
    if name == "krum":
        return krum(vectors, weights, bad=max(0, (len(vectors) - 3) // 2) if bad is None else bad)
    if name == "geometric":
        return geometric_median(vectors, weights)
    raise InputError(f"aggregation={name!r} is unknown; there are: {', '.join(NAMES)}")
