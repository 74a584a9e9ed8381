"""One scale for all sites' columns, from sums over the columns."""

from __future__ import annotations

import numpy as np

from fedgeom.arrays import Floats

FRACTION_BITS = 20
"""Fewer than elsewhere: squares of raw columns are large."""


def column_sums(X: Floats) -> Floats:
    """Return the number of rows, Σx and Σx²: they add across sites."""
    return np.concatenate([[float(len(X))], X.sum(axis=0), (X**2).sum(axis=0)])


def scale_from(sums: Floats) -> tuple[Floats, Floats]:
    """Return mean and deviation of each column; a constant column is divided by 1.

    sums (1 + 2·columns,), f8: rows, sums, sums of squares; returns two of (columns,), f8.
    """
    columns = (len(sums) - 1) // 2
    rows = max(sums[0], 1.0)
    centre = sums[1 : 1 + columns] / rows
    variance = sums[1 + columns :] / rows - centre**2
    # What is left of a constant column after the sums were rounded is not a deviation.
    noise = 1e-9 * (1 + centre**2) + 2.0 ** (1 - FRACTION_BITS)
    return centre, np.sqrt(np.where(variance > noise, variance, 1.0))
