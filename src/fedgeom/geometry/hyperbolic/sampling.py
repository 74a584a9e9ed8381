"""Random points on the Poincaré disc, and the labelled synthetic sets of Section 6.2."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedgeom.arrays import Floats
from fedgeom.errors import InputError
from fedgeom.geometry._checks import check_curvature, check_radius
from fedgeom.geometry.hyperbolic.poincare import euclidean_radius, hyperbolic_radius, hyperplane_distance

__all__ = ["LabelledDisc", "labelled_disc", "uniform_disc"]

# Each class must hold this share of the points drawn, or the hyperplane is drawn again.
_MIN_SHARE = 0.05
_MAX_TRIES = 200


def uniform_disc(n: int, radius: float, rng: np.random.Generator, *, c: float = 1.0) -> Floats:
    """Draw n points of norm at most R, uniform with respect to hyperbolic area (Algorithm 3).

    Returns (n, 2), f8.

    The paper uses the number ζ ∈ (0, 1] as an angle; it means 2πζ, which is what is used here.
    """
    c = check_curvature(c)
    radius = check_radius(radius, c)
    if n < 0:
        raise InputError(f"n is {n}, but a number of points is wanted; pass 0 or more.")
    s = 1.0 / math.sqrt(c)
    outer = float(hyperbolic_radius(radius, c=c))
    eta = 1.0 - rng.random(n)  # (0, 1], as the paper has it
    zeta = 1.0 - rng.random(n)
    tau = 2.0 * s * np.arcsinh(np.sqrt(eta) * math.sinh(outer / (2.0 * s)))
    alpha = np.minimum(euclidean_radius(tau, c=c), radius)
    angle = 2.0 * np.pi * zeta
    return np.stack([alpha * np.cos(angle), alpha * np.sin(angle)], axis=-1)


@dataclass(frozen=True)
class LabelledDisc:
    """A synthetic set of two classes and the hyperplane between them."""

    X: Floats  # (m, 2), m ≤ n: points in the margin have been removed
    """(points, 2)"""
    y: NDArray[np.int64]  # (m,), +1 on the normal's side and -1 on the other
    """(points,): 1 or -1."""
    reference: Floats  # p, a point on the hyperplane
    """(2,)"""
    normal: Floats  # w, its unit normal in the tangent space at p
    """(2,)"""


def labelled_disc(
    n: int,
    radius: float,
    margin: float,
    rng: np.random.Generator,
    *,
    reference_norm: float,
    c: float = 1.0,
) -> LabelledDisc:
    """Draw a labelled set as in Section 6.2: uniform points, split by a random geodesic with a margin.

    The reference point p is uniform on the circle of radius `reference_norm` (the paper's μR), the direction
    of the normal w is uniform, and points within hyperbolic distance γ = `margin` of the hyperplane are
    removed. A hyperplane that leaves a class with less than 5 % of n is drawn again.
    """
    c = check_curvature(c)
    if n < 2:
        raise InputError(f"n is {n}, but two classes need at least two points; the paper takes 20,000.")
    if not (math.isfinite(margin) and margin >= 0.0):
        raise InputError(f"margin is {margin!r}, but it is a hyperbolic distance; pass 0 or more.")
    points = uniform_disc(n, radius, rng, c=c)
    if not 0.0 <= reference_norm <= radius:
        raise InputError(
            f"reference_norm is {reference_norm!r}, but it must lie between 0 and the radius {radius}, "
            "so that the hyperplane cuts the disc."
        )
    for _ in range(_MAX_TRIES):
        place, direction = 2.0 * np.pi * rng.random(2)
        reference = reference_norm * np.array([math.cos(place), math.sin(place)])
        normal = np.array([math.cos(direction), math.sin(direction)])
        offset = hyperplane_distance(points, reference, normal, c=c)
        positive = offset > margin
        negative = offset < -margin
        if min(int(positive.sum()), int(negative.sum())) >= _MIN_SHARE * n:
            kept = positive | negative
            labels = np.where(positive[kept], 1, -1).astype(np.int64)
            return LabelledDisc(points[kept], labels, reference, normal)
    raise InputError(
        f"in {_MAX_TRIES} tries no hyperplane at norm {reference_norm} with margin {margin} left both classes "
        f"{_MIN_SHARE:.0%} of the {n} points; take a smaller margin or a reference nearer to the origin."
    )
