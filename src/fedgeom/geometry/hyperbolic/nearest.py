"""The nearest corner of each of many hulls, to many points: all distances and then their least, up to rounding.

All distances of twenty thousand corners are 400 million numbers. They are made here in tiles that stay in the
processor's cache, one corner of each hull at a time, and only the least square is kept: of it alone a root is taken.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fedgeom.arrays import Floats
from fedgeom.geometry.hyperbolic.poincare import _gap

_POINTS, _HULLS = 512, 32
"""How many points and hulls a tile has: 128 KiB."""


class NearestCorners:
    """Hulls, each (corners, d), f8, none empty; the largest first, so that those with a k-th corner are together."""

    def __init__(self, hulls: Sequence[Floats], *, c: float = 1.0):
        self._c, self._sizes = c, np.array([len(hull) for hull in hulls])
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
