"""The number that most rows of all sites have, by two secure counts.

Whole numbers from -64 to 959 have a bucket each; all others share 1,024 by a hash. The fullest bucket is chosen, and of
its numbers that one is put together, bit by bit, whose bits most rows have. It is the most frequent number where that
has more rows than all others of its bucket: always for such whole numbers, nearly always for columns of few values.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from fedgeom.arrays import Ints
from fedgeom.federation.steps import Fit
from fedgeom.preparation.quantiles import ALL_BITS, from_keys, sort_keys

DIRECT, HASHED, LOWEST = 1024, 1024, -64
BUCKETS = DIRECT + HASHED
_MULTIPLIER = np.uint32(2654435761)


def frequent_length(columns: int, done: int) -> int:
    """Return how many counts the next sum has."""
    return columns * (BUCKETS if done == 0 else 1 + ALL_BITS)


def buckets(cells: npt.NDArray[Any]) -> Ints:
    """Return the bucket of each number, (…), i8."""
    whole = (cells == np.floor(cells)) & (cells >= LOWEST) & (cells < LOWEST + DIRECT)
    hashed = (sort_keys(cells) * _MULTIPLIER) >> np.uint32(22)
    return np.where(whole, np.where(whole, cells, 0) - LOWEST, DIRECT + hashed.astype(np.int64)).astype(np.int64)


def count_frequent(cells: npt.NDArray[Any], there: npt.NDArray[np.bool_], fit: Fit, done: int) -> Ints:
    """Return how many of a site's numbers are in each bucket, or have each bit among those of the fullest.

    cells (rows, columns), 0 where there is none; there (rows, columns).
    """
    columns, place = cells.shape[1], buckets(cells)
    if done == 0:
        flat = (place + BUCKETS * np.arange(columns))[there]
        return np.bincount(flat, minlength=columns * BUCKETS).astype(np.int64)
    inside = there & (place == fit.get("bucket"))
    keys, found = sort_keys(cells), np.zeros((columns, 1 + ALL_BITS), np.int64)
    found[:, 0] = inside.sum(axis=0)
    for bit in range(ALL_BITS):
        found[:, 1 + bit] = (inside & ((keys >> np.uint32(bit)) & np.uint32(1) > 0)).sum(axis=0)
    return found.ravel()


def take_frequent(fit: Fit, total: Ints, done: int) -> None:
    """Choose the fullest bucket of each column; then the number that most of its rows have."""
    if done == 0:
        fit.put(bucket=total.reshape(-1, BUCKETS).argmax(axis=1).astype(np.int64))
        return
    counts = total.reshape(-1, 1 + ALL_BITS)
    ones = 2 * counts[:, 1:] > counts[:, :1]
    keys = (ones.astype(np.uint64) << np.arange(ALL_BITS, dtype=np.uint64)).sum(axis=1).astype(np.uint32)
    fit.put(value=from_keys(keys))
    fit.drop("bucket")
