"""One scale for all sites' columns, from sums over the columns."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from fedgeom.arrays import Floats
from fedgeom.data.sites import SiteData

FRACTION_BITS = 20
"""Fewer than elsewhere: squares of raw columns are large."""

BLOCK = 4096
"""How many rows of small numbers are made double at once."""


def fixed_scale(name: str, columns: int) -> tuple[Floats, Floats] | None:
    """Return what is taken off columns and what they are divided by, where no rows decide that; None where they do.

    Returns two of (columns,), f8.
    """
    factors = {"none": 1.0, "pixels": 255.0}
    return (np.zeros(columns), np.full(columns, factors[name])) if name in factors else None


def rows_of(site: SiteData, dtype: type[np.floating[Any]]) -> npt.NDArray[Any]:
    """Return a site's rows, (rows, columns): as they came for learners of single precision, otherwise as double.

    A sparse table is made dense.
    """
    single = np.dtype(dtype).itemsize < 8 and isinstance(site.table, np.ndarray)
    return site.table if single else site.X


def scaled(rows: npt.NDArray[Any], centre: Floats, spread: Floats, dtype: type[np.floating[Any]]) -> Floats:
    """Return rows on the agreed scale, in the learner's precision.

    Rows that came as small numbers (bytes of images, single precision) for a learner of single precision are never made
    double. rows (n, columns), centre and spread (columns,); returns (n, columns).
    """
    small = np.dtype(dtype).itemsize < 8 and rows.dtype.itemsize < 8
    kind: type[np.floating[Any]] = np.float32 if small else np.float64
    found = rows.astype(kind)
    found -= centre.astype(kind)
    found /= spread.astype(kind)
    return np.asarray(found, dtype)


def double_rows(site: SiteData) -> Iterator[Floats]:
    """Yield a site's rows as f8, (some, columns); those of small numbers block by block, so that none are kept."""
    table = site.table
    if not isinstance(table, np.ndarray) or table.dtype.itemsize >= 8:
        yield site.X
        return
    for start in range(0, max(len(table), 1), BLOCK):
        yield table[start : start + BLOCK].astype(np.float64)


def column_sums(X: Floats) -> Floats:
    """Return the number of rows, Σx and Σx²: they add across sites."""
    return np.concatenate([[float(len(X))], X.sum(axis=0), (X**2).sum(axis=0)])


def site_sums(site: SiteData) -> Floats:
    """Return `column_sums` of a site's rows, (1 + 2·columns,), f8."""
    return np.asarray(sum(column_sums(some) for some in double_rows(site)))


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
