"""A smooth curve through points, by local quadratic regression with tricube weights (Cleveland and Devlin 1988).

As Cleveland's own programs do, the regression is solved at a few places, the corners of a tree of cells, and between
them the curve is the cubic that has their values and slopes.
"""

from __future__ import annotations

import numpy as np

from fedgeom.arrays import Floats

CELL = 0.2
"""A cell of the tree has at most this share of the points that one regression looks at."""
MARGIN = 0.005
"""How far the outer corners lie beyond the points, as a share of their range."""


def _corners(x: Floats, most: int) -> Floats:
    """Return where the regression is solved: cells are cut at the median of their points until each has few."""
    found: list[float] = []

    def cut(points: Floats) -> None:
        if len(points) <= most or points[0] == points[-1]:
            return
        middle = (len(points) - 1) // 2
        at = (points[middle] + points[middle + 1]) / 2
        if at in found:
            return
        found.append(float(at))
        cut(points[: middle + 1])
        cut(points[middle + 1 :])

    cut(x)
    reach = max(float(x[-1] - x[0]), 1e-10 * float(np.abs(x).max()) + 1e-30)
    return np.array(sorted([float(x[0]) - MARGIN * reach, *found, float(x[-1]) + MARGIN * reach]))


def _local(x: Floats, y: Floats, at: float, near: int) -> tuple[float, float]:
    """Return the value and slope at a place of the quadratic through its nearest points."""
    away = np.abs(x - at)
    radius = np.partition(away, near - 1)[near - 1] * 1.000001 + 1e-300
    some = away < radius
    weight = np.sqrt((1 - (away[some] / radius) ** 3) ** 3)
    t = (x[some] - at) / radius
    design = np.column_stack([np.ones_like(t), t, t**2]) * weight[:, None]
    solution, *_ = np.linalg.lstsq(design, y[some] * weight, rcond=1e-7)
    return float(solution[0]), float(solution[1] / radius)


def loess(x: Floats, y: Floats, span: float = 0.3) -> Floats:
    """Return the smoothed y at each x; both (points,), f8."""
    order = np.argsort(x, kind="stable")
    xs, ys = x[order], y[order]
    near = max(3, int(np.floor(len(x) * span)))
    corners = _corners(xs, max(1, int(np.floor(len(x) * span * CELL))))
    values, slopes = np.array([_local(xs, ys, float(at), min(near, len(xs))) for at in corners]).T
    cell = np.clip(np.searchsorted(corners, x, side="right") - 1, 0, len(corners) - 2)
    width = corners[cell + 1] - corners[cell]
    t = (x - corners[cell]) / width
    h = [(1 + 2 * t) * (1 - t) ** 2, t * (1 - t) ** 2, t**2 * (3 - 2 * t), t**2 * (t - 1)]
    return np.asarray(
        h[0] * values[cell]
        + h[1] * width * slopes[cell]
        + h[2] * values[cell + 1]
        + h[3] * width * slopes[cell + 1]
    )
