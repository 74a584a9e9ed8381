"""Minimal convex hulls in the Poincaré ball (Definition 1, Section 5.1), and hulls without outliers.

Geodesics are straight lines in the Klein model, so that the hyperbolic hull of a set is the Euclidean hull of
its Klein coordinates: `convex_hull` is Qhull behind a filter. `graham_scan` is the paper's own algorithm, slow
and easy to read, against which it is tested.
"""

from __future__ import annotations

import math
import warnings

import numpy as np
from numpy.typing import ArrayLike

from fedgeom.arrays import Floats, Indices
from fedgeom.errors import InputError
from fedgeom.geometry._checks import check_points
from fedgeom.geometry.hyperbolic._affine_hull import ROUNDING, hull_indices
from fedgeom.geometry.hyperbolic.poincare import log_map, lorentz_centroid

__all__ = ["convex_hull", "default_trim", "graham_scan", "trimmed_hull"]

_MAX_DIM = 6
_WARN_DIM = 5


def convex_hull(points: ArrayLike, *, c: float = 1.0) -> Indices:
    """Return the indices of the extreme points of the minimal convex hull CH(D) of Definition 1.

    points (n, d); returns (corners,), indices.

    In the disc they go counter-clockwise from the vertex whose Klein coordinates are lexicographically
    smallest; in three to six dimensions they ascend. Of points that are equal the first stands for all; points
    on the geodesic between two others are no vertices, so that collinear points give the two ends.

    Klein coordinates resolve the edge to 1e-16: beyond √c‖x‖ ≈ 1 - 1e-7 rounding decides between neighbours.
    """
    X = check_points(points, c=c)
    dim = X.shape[1]
    if dim == 1:
        raise InputError("points have one column, but hulls need 2 to 6; use the minimum and the maximum.")
    if dim > _MAX_DIM:
        raise InputError(
            f"points have {dim} dimensions, but hulls are made in at most {_MAX_DIM}, because beyond that "
            "nearly every point is a vertex and a hull hides nothing; embed the data in fewer dimensions."
        )
    if dim >= _WARN_DIM and len(X) > dim + 1:
        warnings.warn(
            f"In {dim} dimensions most points are vertices of their hull: sending it sends most of the data.",
            UserWarning,
            stacklevel=2,
        )
    if len(X) <= 1:
        return np.arange(len(X), dtype=np.intp)
    return hull_indices(X, float(c))


def graham_scan(points: ArrayLike, *, c: float = 1.0) -> Indices:
    """Return the hull's indices by the Poincaré Graham scan, Algorithm 1, counter-clockwise from b.

    points (n, 2); returns (corners,), indices.

    The reference for `convex_hull`, for tests and for reading. The comments give the algorithm's lines. Two
    things are added that exact arithmetic would not need: equal points are merged first, and an angle counts
    as zero up to the error with which it is known, a few rounding errors over the distance it is seen from.
    """
    X = check_points(points, c=c, dim=2)
    _, first = np.unique(X + 0.0, axis=0, return_index=True)
    D = np.sort(first)
    if len(D) <= 1:
        return np.asarray(D, dtype=np.intp)
    b = int(D[np.argmax(np.einsum("ij,ij->i", X[D], X[D]))])  # line 2
    outward = -log_map(X[b], np.zeros(2), c=c)  # line 3
    normal = outward / np.linalg.norm(outward)
    tangent = np.array([-normal[1], normal[0]])  # line 4
    stack = [b]  # line 8
    for j in _by_angle(X, b, D[b != D], tangent, c):  # lines 5 to 7 and 9
        while len(stack) > 1:  # line 10
            x, t, z = X[stack[-2]], X[stack[-1]], X[j]
            if _ccw(x, t, z, c) > _angle_error(x, t, c) + _angle_error(x, z, c):
                break
            stack.pop()  # line 11
        stack.append(j)  # line 13
    return np.asarray(stack, dtype=np.intp)  # line 15


def _by_angle(X: Floats, b: int, others: Indices, tangent: Floats, c: float) -> list[int]:
    """Sort by the principal angle seen from b; of each direction keep the farthest (lines 5 and 6)."""
    logs = log_map(X[b], X[others], c=c)
    # All points are on one side of the tangent (Lemma A.2); a sine below zero is rounding.
    sines = np.maximum(tangent[0] * logs[:, 1] - tangent[1] * logs[:, 0], 0.0)
    angles = np.arctan2(sines, logs @ tangent)
    lengths = np.linalg.norm(logs, axis=1)
    errors = [_angle_error(X[b], X[j], c) for j in others]
    kept: list[int] = []
    for i in np.lexsort((-lengths, angles)).tolist():
        if kept and angles[i] - angles[kept[-1]] <= errors[i] + errors[kept[-1]]:
            if lengths[i] > lengths[kept[-1]]:
                kept[-1] = i
        else:
            kept.append(i)
    return [int(others[i]) for i in kept]


def _ccw(x: Floats, t: Floats, z: Floats, c: float) -> float:
    """Return the sine of the turn from t to z as seen from x: positive for a left turn (Algorithm 2)."""
    to_t, to_z = log_map(x, t, c=c), log_map(x, z, c=c)
    u1, u2 = to_t / np.linalg.norm(to_t), to_z / np.linalg.norm(to_z)
    return float(u1[0] * u2[1] - u1[1] * u2[0])


def _angle_error(x: Floats, t: Floats, c: float) -> float:
    """Bound the error of the direction from x to t that comes from rounding their coordinates."""
    return ROUNDING / (math.sqrt(c) * float(np.linalg.norm(t - x)))


def default_trim(n: int) -> float:
    """Return the share of a class of n points that `trim="auto"` leaves out of its hull.

    Nothing up to 10 points, where every point is needed to tell the class's shape; 10 % from 100 points on,
    where the outermost points are outliers that pull the hulls of classes into one another; in between the
    share grows with the logarithm of n. Measured: on 2-D Fashion-MNIST embeddings 10 % raises the accuracy from
    84 to 89 %; on Olsson, with a dozen points per class and site, it lowers it from 88 to 84 %, while this rule
    leaves it as it is (89.3 to 89.4 %) and raises Paul's 19 clusters from 54 to 56 %.
    """
    return 0.10 * min(max(math.log10(max(n, 1)) - 1.0, 0.0), 1.0)


def trimmed_hull(points: ArrayLike, *, trim: float | str, c: float = 1.0) -> Indices:
    """Return the indices of the hull of the deepest (1 - trim) share of the points; the others stay home.

    points (n, d); returns (corners,), indices.

    Depth is Mahalanobis depth in the tangent space at the Lorentz centroid. ⌈(1 - trim) n⌉ points are kept,
    at least one; of equally deep points the first are. trim = 0 is `convex_hull`; "auto" asks `default_trim`.
    """
    X = check_points(points, c=c)
    if isinstance(trim, str):
        if trim != "auto":
            raise InputError(f'trim is {trim!r}, but a share from 0 to below 1 or "auto" is wanted.')
        share = default_trim(len(X))
    else:
        share = float(trim)
    if not 0.0 <= share < 1.0:
        raise InputError(
            f"trim is {trim!r}, but it is the share of points left out, from 0 to below 1; try 0.1, a tenth."
        )
    # (1 - 0.7) * 10 is a little more than 3 in floating point; it should still keep 3.
    count = max(1, math.ceil((1.0 - share) * len(X) - 1e-9))
    if count >= len(X):
        return convex_hull(X, c=c)
    deepest = np.sort(np.argsort(_outlyingness(X, c), kind="stable")[:count])
    return np.asarray(deepest[convex_hull(X[deepest], c=c)])


def _outlyingness(X: Floats, c: float) -> Floats:
    """Return squared Mahalanobis distances in the tangent space at the Lorentz centroid."""
    logs = log_map(lorentz_centroid(X, c=c), X, c=c)
    logs = logs - logs.mean(axis=0)
    # The pseudo-inverse ignores directions in which the points have no extent.
    precision = np.linalg.pinv(logs.T @ logs / len(logs), rcond=1e-12, hermitian=True)
    return np.asarray(np.einsum("ij,jk,ik->i", logs, precision, logs))
