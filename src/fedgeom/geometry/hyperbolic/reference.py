"""Reference points: where the hyperplane between two classes on the Poincaré ball is put.

Section 3 of the hulls paper takes the geodesic midpoint of the closest pair of extreme points of the two
classes; Appendix I.2 tries the three closest pairs. The answers depend on the points only, never on the
order in which they are listed.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import numpy as np

from fedgeom.arrays import Floats
from fedgeom.geometry.hyperbolic.hull import convex_hull
from fedgeom.geometry.hyperbolic.poincare import _gap, midpoint, pairwise_distance

# Above this dimension nearly every point is a vertex and Qhull's work explodes: all points are used instead.
MAX_HULL_DIM = 6
# Entries of the distance matrix held at once while looking for the closest pairs.
BLOCK = 1 << 22


def extreme_points(points: Floats, *, c: float = 1.0) -> Floats:
    """Give the distinct vertices of the hyperbolic convex hull, in lexicographic order.

    points (n, d), f8; returns (corners, d), f8.
    """
    distinct = np.unique(points, axis=0)
    dim = distinct.shape[1]
    if dim > MAX_HULL_DIM or len(distinct) <= 2:
        return distinct
    if dim == 1:
        return distinct[[0, -1]]
    with warnings.catch_warnings():
        # In many dimensions convex_hull warns that a hull hides little. Here nothing is sent.
        warnings.simplefilter("ignore", UserWarning)
        return distinct[np.sort(convex_hull(distinct, c=c))]


def with_start_twice(hull: Floats) -> Floats:
    """Append the point farthest from the origin once more, as the reference code lists larger hulls.

    hull (corners, d), f8; returns (corners or corners + 1, d), f8.

    Its Graham scan starts at that point and closes the polygon there; up to three points are never scanned.
    """
    if len(hull) <= 3:
        return hull
    return np.vstack([hull, hull[np.argmax(np.sum(hull * hull, axis=1))]])


def closest_pairs(left: Floats, right: Floats, k: int, *, c: float = 1.0) -> list[tuple[int, int]]:
    """List the k pairs of smallest distance, nearest first; equal distances are listed by index.

    left (m, d), right (n, d), f8.
    """
    found: list[tuple[float, int, int]] = []
    rows = max(1, BLOCK // max(1, len(right)))
    for start in range(0, len(left), rows):
        block = pairwise_distance(left[start : start + rows], right, c=c)
        size = min(k, block.size)
        limit = np.partition(block, size - 1, axis=None)[size - 1]
        i, j = np.nonzero(block <= limit)
        near = zip(block[i, j].tolist(), (i + start).tolist(), j.tolist(), strict=True)
        found = sorted([*found, *near])[:k]
    return [(i, j) for _, i, j in found]


def reference_points(left: Floats, right: Floats, k: int = 1, *, c: float = 1.0) -> list[Floats]:
    """Give the midpoints of the k closest pairs between two sets of extreme points, nearest pair first.

    left (m, d), right (n, d), f8; each point returned is (d,), f8.
    """
    return [midpoint(left[i], right[j], c=c) for i, j in closest_pairs(left, right, k, c=c)]


_POINTS = 512
_HULLS = 32
"""How many points and hulls a tile has: 128 KiB."""


class NearestCorners:
    """Hulls, each (corners, d), f8, none empty; the largest first, so that those with a k-th corner are together."""

    def __init__(self, hulls: Sequence[Floats], *, c: float = 1.0):
        self._c = c
        self._sizes = np.array([len(hull) for hull in hulls])
        self._order = np.argsort(-self._sizes, kind="stable")
        self._corners: list[tuple[Floats, Floats]] = []
        """For each k the k-th corners of the hulls that have so many, (hulls, d), and what squared distances to them
        are multiplied by."""
        for k in range(int(self._sizes.max())):
            some = self._order[: int(np.count_nonzero(self._sizes > k))]
            corners = np.array([hulls[hull][k] for hull in some.tolist()])
            self._corners.append((corners, c / _gap(corners, c)))

    def __call__(self, points: Floats) -> Floats:
        """Return sinh(√c·d/2) from each point to the nearest corner of each hull, (points, hulls), f8.

        See `pairwise_sinh_half`, of whose rows it is the least by hulls.
        """
        found = np.empty((len(points), len(self._sizes)))
        left = 1.0 / _gap(points, self._c)[:, 0]
        room = np.empty((3, _HULLS * _POINTS))
        for start in range(0, len(points), _POINTS):
            some = slice(start, start + _POINTS)
            for first in range(0, len(self._sizes), _HULLS):
                hulls = self._order[first : first + _HULLS]
                found[some, hulls] = self._tile(points[some].T, left[some], first, room).T
        return found

    def _tile(self, points: Floats, left: Floats, first: int, room: Floats) -> Floats:
        """Return the least distances of some hulls to some points, (hulls, points); points (d, points)."""
        width = points.shape[1]
        count = min(_HULLS, len(self._sizes) - first)
        least = room[0, : count * width].reshape(count, width)
        for k, (corners, right) in enumerate(self._corners):
            some = corners[first : first + count]
            if not len(some):
                break
            total = room[1, : len(some) * width].reshape(len(some), width)
            step = room[2, : len(some) * width].reshape(len(some), width)
            np.subtract(points[0], some[:, :1], out=total)
            total *= total
            for axis in range(1, len(points)):
                np.subtract(points[axis], some[:, axis : axis + 1], out=step)
                step *= step
                total += step
            total *= right[first : first + count]
            if k:
                np.minimum(least[: len(some)], total, out=least[: len(some)])
            else:
                least[:] = total
        least *= left
        return np.sqrt(least, out=least)
