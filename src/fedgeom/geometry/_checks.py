"""Checks at the borders of the geometry room: they say what was given, what is wanted and what to do."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from fedgeom.arrays import Floats
from fedgeom.errors import InputError


def check_curvature(c: float) -> float:
    """Return the curvature magnitude c as a float, refusing anything that is not positive and finite."""
    value = float(c)
    if not (math.isfinite(value) and value > 0.0):
        raise InputError(
            f"c is {c!r}, but the ball has curvature -c with c > 0; "
            "pass a positive number (1.0 is the unit ball, a small one is almost Euclidean)."
        )
    return value


def check_positive(value: float, name: str, hint: str) -> float:
    """Return a float that is positive and finite; the hint says what the number means to the caller."""
    number = float(value)
    if not (math.isfinite(number) and number > 0.0):
        raise InputError(f"{name} is {value!r}, but it must be positive and finite; {hint}.")
    return number


def check_radius(radius: float, c: float) -> float:
    """Return a Euclidean radius R with 0 < R < 1/√c, the largest norm that points may have."""
    edge = 1.0 / math.sqrt(c)
    value = float(radius)
    if not 0.0 < value < edge or math.sqrt(c) * value >= 1.0:
        raise InputError(
            f"radius is {radius!r}, but it must lie strictly between 0 and 1/√c = {edge:.6g}; "
            "take the largest norm in the data plus a small margin."
        )
    return value


def check_points(X: ArrayLike, *, c: float = 1.0, name: str = "points", dim: int | None = None) -> Floats:
    """Return X as a float64 array of shape (n, d) whose rows all lie in the open ball of radius 1/√c.

    Arithmetic functions do not call this, so that they stay fast; estimators, hulls and grids do, once, at
    the border. An empty list counts as zero points.
    """
    c = check_curvature(c)
    raw = np.asarray(X)
    if raw.dtype.kind not in "biuf" and raw.size:
        raise InputError(f"{name} has dtype {raw.dtype}, but real numbers are wanted; convert it to float64.")
    points: Floats = raw.astype(np.float64, copy=False)
    if points.ndim == 1 and points.size == 0:
        points = points.reshape(0, 2 if dim is None else dim)
    if points.ndim != 2 or points.shape[1] == 0:
        raise InputError(
            f"{name} has shape {points.shape}, but (n, d) is wanted, one point per row; "
            "write one point x as x[None, :]."
        )
    if dim is not None and points.shape[1] != dim:
        raise InputError(
            f"{name} has {points.shape[1]} columns, but points of dimension {dim} are wanted; "
            "embed or project the data to that dimension first."
        )
    squares = np.einsum("ij,ij->i", points, points)
    inside = c * squares < 1.0  # False for NaN as well, so that one pass finds every kind of bad row
    if not inside.all():
        _refuse(points, int(np.argmin(inside)), int(inside.size - inside.sum()), c, name)
    return points


def _refuse(points: Floats, index: int, count: int, c: float, name: str) -> None:
    row = points[index]
    others = "" if count == 1 else f" ({count} rows are refused in all)"
    if not np.isfinite(row).all():
        raise InputError(
            f"{name}[{index}] is {row.tolist()}, but every coordinate must be finite{others}; "
            "drop or impute the rows with missing values."
        )
    norm = float(np.linalg.norm(row))
    raise InputError(
        f"{name}[{index}] has norm {norm!r}, but it must be below 1/√c = {1.0 / math.sqrt(c)!r} "
        f"to lie in the ball of curvature -{c:g}{others}; rescale the points or pass the c they came with."
    )
