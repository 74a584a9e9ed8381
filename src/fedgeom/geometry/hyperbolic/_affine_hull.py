"""Euclidean convex hulls, as the hyperbolic ones need them: minimal, and exact about degenerate input.

The points are Klein coordinates scaled to the unit ball, so that a coordinate carries a rounding error of
about 1e-16. A point that close to the segment or face between others is not a vertex: it would be one or not by
the accident of rounding.
"""

from __future__ import annotations

import numpy as np

from fedgeom.arrays import Floats, Indices

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

    low, high = points.min(axis=0), points.max(axis=0)
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
            a, b = stack[-2], stack[-1]
            x, y = xs[i] - xs[a], ys[i] - ys[a]
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
    low, high = ring.min(axis=0), ring.max(axis=0)
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
