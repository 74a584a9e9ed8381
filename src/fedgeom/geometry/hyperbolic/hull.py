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
from fedgeom.geometry.hyperbolic.poincare import log_map, lorentz_centroid

# How far a point may be from a line or face and still count as lying on it: eight rounding errors.
ROUNDING = 8.0 * float(np.finfo(np.float64).eps)
# Below this number of points Qhull alone is faster than filtering first.
_FILTER_FROM = 1500
# Points per block of the filter; its temporaries stay in the processor's cache.
_BLOCK = 1 << 15


def to_klein_unit(points: Floats, c: float) -> Floats:
    """Return the Klein coordinates of Poincaré points, scaled by √c to the unit ball.

    points (n, d), f8; returns (n, d), f8.
    """
    squares = np.einsum("ij,ij->i", points, points)
    squares *= c
    squares += 1.0
    return np.asarray(points * (2.0 * c**0.5 / squares)[:, None])


def hull_indices(points: Floats, c: float) -> Indices:
    """Return the indices of the vertices: counter-clockwise in the plane, ascending in more dimensions.

    >>> hull_indices(np.array([[0.0, 0.0], [0.5, 0.0], [0.0, 0.5], [0.1, 0.1]]), 1.0).tolist()
    [0, 1, 2]
    """
    planar = points.shape[1] == 2
    if planar and len(points) >= _FILTER_FROM:
        candidates = _not_inside(points, c)
        return candidates[_vertices(to_klein_unit(points[candidates], c))]
    vertices = _vertices(to_klein_unit(points, c))
    return vertices if planar else np.sort(vertices)


def _vertices(klein: Floats) -> Indices:
    """Return the vertices' indices, whatever the dimension of the points' affine hull."""
    first = _first_of_each(klein)
    distinct = klein[first]
    if len(first) <= 1:
        return first
    if klein.shape[1] == 2:
        return first[_planar(distinct)]
    flat = _own_dimension(distinct)
    if flat.shape[1] <= 1:
        return first[_ends(distinct)]
    return first[_planar(flat) if flat.shape[1] == 2 else _solid(flat)]


def _ends(points: Floats) -> Indices:
    """Return the two ends of points on a line, or the first point if the line has no length."""
    flat = _own_dimension(points)
    if flat.shape[1] == 0:
        return np.zeros(1, dtype=np.intp)
    ends = np.array([np.argmin(flat[:, 0]), np.argmax(flat[:, 0])], dtype=np.intp)
    return ends[np.lexsort(points[ends].T[::-1])]


def _first_of_each(klein: Floats) -> Indices:
    """Return, for every distinct row, the index of its first occurrence; the rows come out sorted."""
    order = np.lexsort(klein.T[::-1])  # stable, so that among equal rows the first index leads
    ordered = klein[order]
    fresh = np.ones(len(order), dtype=np.bool_)
    fresh[1:] = (ordered[1:] != ordered[:-1]).any(axis=1)
    return order[fresh]


def _own_dimension(points: Floats, at_most: int | None = None) -> Floats:
    """Return coordinates in the points' affine hull: only shifted if that is the whole space, else projected.

    The singular values of the centred points tell the extents; an extent within rounding is none.
    """
    centred = points - 0.5 * (points.min(axis=0) + points.max(axis=0))
    _, extents, axes = np.linalg.svd(centred - centred.mean(axis=0), full_matrices=False)
    # A set at most ROUNDING thick has root-mean-square thickness at most that, whence the √n.
    rank = int(np.sum(extents > ROUNDING * np.sqrt(len(points))))
    if at_most is not None:
        rank = min(rank, at_most)
    if rank == points.shape[1]:
        return np.asarray(centred)
    return np.asarray(centred @ axes[:rank].T)


def _qhull(points: Floats):  # type: ignore[no-untyped-def]
    """Run Qhull on the points stretched to unit breadth, so that its tolerances are relative to the set.

    Stretching the axes is enough unless the set is thin in a slanting direction; then its own axes are taken.
    Affine maps that keep the orientation change neither the vertices nor their order.
    """
    from scipy.spatial import ConvexHull  # slow to import

    low = points.min(axis=0)
    high = points.max(axis=0)
    stretched = (points - 0.5 * (low + high)) / np.where(high > low, high - low, 1.0)
    spread = np.linalg.eigvalsh(stretched.T @ stretched)
    if spread[0] < 1e-6 * spread[-1]:
        stretched = stretched - stretched.mean(axis=0)
        _, extents, axes = np.linalg.svd(stretched, full_matrices=False)
        if extents[-1] > 0.0 and len(axes) == points.shape[1]:
            axes[-1] *= np.sign(np.linalg.det(axes))
            stretched = stretched @ (axes / extents[:, None]).T
    return ConvexHull(stretched)


def _planar(points: Floats) -> Indices:
    """Return the vertices of a planar set counter-clockwise, from the lexicographically smallest."""
    from scipy.spatial import QhullError  # slow to import

    if len(points) < 3:
        return _ends(points)
    try:
        vertices: Indices = np.asarray(_qhull(points).vertices, dtype=np.intp)
    except QhullError:  # Qhull refuses points on a line
        return _ends(points)
    ring = points[vertices]
    if _own_dimension(ring).shape[1] < 2:  # a line so thin that Qhull took its rounding errors for breadth
        return vertices[_ends(ring)]
    start = int(np.lexsort(ring.T[::-1])[0])
    vertices = np.roll(vertices, -start)
    return vertices[_corners(points[vertices])]


def _corners(ring: Floats) -> list[int]:
    """Return the positions at which a counter-clockwise ring turns left by more than rounding.

    Qhull keeps a few points on an edge now and then; in its order every such point is between its
    neighbours, so that one pass of a stack removes them. The ring starts at a certain corner, which stays.
    """
    xs, ys = ring.T.tolist()
    stack = [0]
    for i in [*range(1, len(xs)), 0]:
        while len(stack) > 1:
            a = stack[-2]
            b = stack[-1]
            x = xs[i] - xs[a]
            y = ys[i] - ys[a]
            if (xs[b] - xs[a]) * y - (ys[b] - ys[a]) * x > ROUNDING * (abs(x) + abs(y)):
                break
            stack.pop()
        stack.append(i)
    return stack[:-1]


def _solid(points: Floats) -> Indices:
    """Return the vertices of a set in three or more dimensions that spans its space.

    Qhull may report a point inside a face. At a true vertex the normals of the faces around it span the
    space; where they hardly do, a least-squares fit decides whether the other vertices can be mixed to it.
    """
    from scipy.spatial import QhullError  # slow to import

    dim = points.shape[1]
    try:
        hull = _qhull(points)
    except QhullError:  # thinner than Qhull can tell from flat: go on without the thinnest direction
        thinner = _own_dimension(points, at_most=dim - 1)
        return _planar(thinner) if dim == 3 else _solid(thinner)
    vertices: Indices = np.asarray(hull.vertices, dtype=np.intp)
    normals = hull.equations[:, :dim]
    spans = np.zeros((len(points), dim, dim))
    for column in hull.simplices.T:
        np.add.at(spans, column, normals[:, :, None] * normals[:, None, :])
    doubtful = vertices[np.linalg.eigvalsh(spans[vertices])[:, 0] < 1e-10]
    kept = vertices
    for vertex in doubtful:
        others = kept[kept != vertex]
        if _is_mixture(points[vertex], points[others]):
            kept = others
    return kept


def _is_mixture(point: Floats, others: Floats) -> bool:
    """Say whether the point is a convex combination of the others, up to rounding."""
    from scipy.optimize import nnls  # slow to import

    system = np.vstack([(others - point).T, np.ones(len(others))])
    target = np.zeros(len(system))
    target[-1] = 1.0
    _, residual = nnls(system, target)
    return bool(residual <= 4.0 * ROUNDING)


def _not_inside(points: Floats, c: float) -> Indices:
    """Return the indices of the planar points that are not clearly inside the hull of a small sample.

    The sample's hull is tabulated as a ceiling and a floor over narrow columns, each column taking the lower
    of the ceiling's two ends and the higher of the floor's. A million points then cost one pass: column, two
    look-ups, two comparisons. A margin far above rounding makes every discarded point safely interior.
    """
    from scipy.spatial import QhullError  # slow to import

    n = len(points)
    sample = to_klein_unit(points[:: int(0.05 * n**0.5) + 1], c)
    try:
        ring = sample[_qhull(sample).vertices]
    except QhullError:  # the sample is flat; the whole set decides
        return np.arange(n, dtype=np.intp)
    ring = np.roll(ring, -int(np.lexsort(ring.T[::-1])[0]), axis=0)
    low = ring.min(axis=0)
    high = ring.max(axis=0)
    columns = min(max(n // 4, 1024), 1 << 16)
    turn = int(np.lexsort(ring.T[::-1])[-1])
    nodes = np.linspace(low[0], high[0], columns + 1)
    floor = np.interp(nodes, ring[: turn + 1, 0], ring[: turn + 1, 1])
    upper = np.vstack([ring[turn:], ring[:1]])[::-1]
    ceiling = np.interp(nodes, upper[:, 0], upper[:, 1])
    margin = 1e-9 * (high[1] - low[1])
    highest = np.minimum(ceiling[:-1], ceiling[1:]) - margin
    lowest = np.maximum(floor[:-1], floor[1:]) + margin
    # The first and last columns may hold upright edges and take in what lies outside: they discard nothing.
    highest[[0, -1]] = -np.inf
    scale = columns / (high[0] - low[0])
    survivors = []
    for start in range(0, n, _BLOCK):
        klein = to_klein_unit(points[start : start + _BLOCK], c)
        column = ((klein[:, 0] - low[0]) * scale).astype(np.intp)
        height = klein[:, 1]
        outside = height > highest.take(column, mode="clip")
        outside |= height < lowest.take(column, mode="clip")
        survivors.append(np.flatnonzero(outside) + start)
    return np.concatenate(survivors)


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
            x = X[stack[-2]]
            t = X[stack[-1]]
            z = X[j]
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
    to_t = log_map(x, t, c=c)
    to_z = log_map(x, z, c=c)
    u1 = to_t / np.linalg.norm(to_t)
    u2 = to_z / np.linalg.norm(to_z)
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
