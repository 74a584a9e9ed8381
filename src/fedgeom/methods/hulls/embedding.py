"""A joint map from any table to the Poincaré disc, found without showing rows or agreeing on label names.

Each site standardises its columns by its own means and deviations, which also takes out most of the
shift between instruments, and adds its within-class and between-class scatter to a secure sum. A site that lacks
classes would so put those it has where others have theirs in between, one with a single class at the origin: then
all sites standardise by their average means and deviations, which come from a secure sum before. Scatter
does not depend on what classes are called. The two directions with the largest ratio (Fisher's
discriminant) span the disc; the exponential map at the origin bends them into it.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from fedgeom.arrays import Floats
from fedgeom.data.validation import FaultsError, fault
from fedgeom.errors import InputError
from fedgeom.geometry.discriminant import discriminant_plane
from fedgeom.geometry.hyperbolic.poincare import exp0

FRACTION_BITS = 20
"""Fewer than elsewhere: means of raw columns may be large."""
SMALLEST = 2.0**-FRACTION_BITS
"""The smallest number that a sum holds."""
CONSTANT = 1e-12
"""A column with a smaller deviation is constant."""
SPREAD = 1.0
"""The root mean square of tangent vectors: most points lie between radius 0.5 and 0.95."""


def column_scales(X: Floats) -> Floats:
    """Return a site's column means and deviations, as two rows; a constant column has deviation 1."""
    deviation = X.std(axis=0)
    return np.vstack([X.mean(axis=0), np.where(deviation > CONSTANT, deviation, 1.0)])


def scatter_length(columns: int) -> int:
    """Return how many numbers a site contributes."""
    return 1 + columns * (columns + 1) + 2 * columns


def check_width(columns: int, limit: int) -> None:
    """Refuse so many columns that no message of ``limit`` bytes could hold their scatter; say what to do."""
    size = 8 * scatter_length(columns)
    if size > limit:
        most = math.isqrt(limit // 8) - 2  # (d + 2)² is more than d·(d + 1) + 2·d + 1
        what = (
            f"a joint map of {columns:,} columns needs their scatter, a message of {size:,} bytes; the limit is "
            f"{limit:,} (max_message_bytes in the policy)"
        )
        raise FaultsError([fault(what, f"take fewer columns, {most:,} or less", topic="size")])


def scale_length(columns: int) -> int:
    """Return how many numbers a site contributes to the joint scale."""
    return 1 + 2 * columns


def site_scale(X: Floats) -> Floats:
    """Return the row count and, times it, the site's column means and deviations; that of a constant column is 0.

    X (n, d), f8; returns (1 + 2·d,), f8.
    """
    deviation = X.std(axis=0)  # of a column that varies it must not be rounded to one that does not
    own = np.where(deviation > CONSTANT, np.maximum(len(X) * deviation, SMALLEST), 0.0)
    return np.concatenate([[len(X)], len(X) * X.mean(axis=0), own])


def site_scatter(X: Floats, y: npt.NDArray[Any], scales: Floats | None = None) -> Floats:
    """Return the row count, the upper triangles of the within-class and between-class scatter, and the site's scale.

    Rows are standardised by the site's own scale, or by the one given; scatter between classes is about its mean.

    X (n, d), f8, y (n,), scales (2, d), f8; returns (1 + d·(d + 1) + 2·d,), f8.
    """
    mean, deviation = column_scales(X) if scales is None else scales
    Z = (X - mean) / deviation
    between = np.zeros((X.shape[1], X.shape[1]))
    for label in np.unique(y):
        members = Z[y == label]
        centre = members.mean(axis=0)
        between += len(members) * np.outer(centre, centre)  # the mean of the scale is 0
    within = Z.T @ Z - between
    upper = np.triu_indices(X.shape[1])
    scale = site_scale(X)
    return np.concatenate([scale[:1], within[upper], between[upper], scale[1:]])


def joint_scales(total: Floats, columns: int) -> Floats | None:
    """Return the sites' average scale, for rows of no particular site: means and deviations, as two rows.

    None where a column varies so little that the sums say too little about its mean.

    total as of `site_scatter` or `site_scale`; returns (2, d), f8.
    """
    mean, deviation = total[-2 * columns :].reshape(2, columns) / total[0]
    if ((deviation > 0) & (deviation < 10 * SMALLEST)).any():
        return None
    return np.vstack([mean, np.where(deviation > 0, deviation, 1.0)])


def projection(total: Floats, columns: int) -> Floats:
    """Return the (columns, 2) matrix that takes standardised rows to tangent vectors at the origin."""
    n = total[0]
    size = columns * (columns + 1) // 2
    if columns < 2:
        raise InputError(f"a map to the disc needs at least 2 columns, the sites have {columns}")
    within, between = (_symmetric(total[1 + i * size :][:size] / n, columns) for i in (0, 1))
    return discriminant_plane(within, between, SPREAD)


def _symmetric(upper: Floats, columns: int) -> Floats:
    matrix = np.zeros((columns, columns))
    matrix[np.triu_indices(columns)] = upper
    return matrix + np.triu(matrix, 1).T


def tangent_length(X: Floats, matrix: Floats, scales: Floats) -> float:
    """Return the root mean square of a site's tangent vectors; over all sites it is `SPREAD`.

    X (n, d), matrix (d, 2), scales (2, d): means and deviations; all f8.
    """
    tangent = (X - scales[0]) / scales[1] @ matrix
    return float(np.sqrt(np.mean(np.sum(tangent**2, axis=1))))


def embed(X: Floats, matrix: Floats, scales: Floats, *, c: float) -> Floats:
    """Take rows to the disc, standardised by the statistics of the site they belong to."""
    return np.asarray(exp0((X - scales[0]) / scales[1] @ matrix / np.sqrt(c), c=c))
