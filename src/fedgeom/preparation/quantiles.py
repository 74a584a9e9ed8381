"""Quantiles over all sites by secure counts: each round divides the bin that a quantile lies in by sixteen.

Numbers are ordered by the bits of their float32: the first bits say sign and size, the later ones more digits. So no
range has to be known, and a bin's width is a share of the number, 2^-(bits - 9): with all 32 bits a quantile of numbers
that float32 holds, such as whole ones below 2²⁴, is exact; with 24 it is to 3·10⁻⁵ of itself.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from fedgeom.arrays import Floats, Ints, Words
from fedgeom.data.tables import is_sparse
from fedgeom.federation.steps import Block, StepFit
from fedgeom.protocols.fixed_point import from_wide, to_wide

DIGIT = 4
"""How many bits are settled in one round."""
BINS = 16
ALL_BITS = 32


def sort_keys(values: npt.ArrayLike) -> npt.NDArray[np.uint32]:
    """Return numbers as whole ones in the same order; (…), u4."""
    bits = (np.asarray(values, np.float32) + np.float32(0.0)).view(np.uint32)  # no -0
    return np.where(bits >> 31, ~bits, bits | np.uint32(2**31)).astype(np.uint32)


def from_keys(keys: npt.NDArray[np.uint32]) -> Floats:
    """Return the numbers of keys, (…), f8."""
    bits = np.where(keys >> 31, keys & np.uint32(2**31 - 1), ~keys).astype(np.uint32)
    return bits.view(np.float32).astype(np.float64)


def rounds(bits: int) -> int:
    """Return how many sums it takes."""
    return (bits + DIGIT - 1) // DIGIT


def bins_length(columns: int) -> int:
    """Return how many counts a round has: for the two middle numbers of each column."""
    return columns * 2 * BINS


def count_bins(keys: npt.NDArray[np.uint32], there: npt.NDArray[np.bool_], fit: StepFit, done: int) -> Ints:
    """Return how many of a site's numbers lie in each part of the bins that are left, (columns·2·16,).

    keys (rows, columns), u4; there (rows, columns): which cells have a number; done: how many rounds were taken.
    """
    columns = keys.shape[1]
    settled = DIGIT * done
    found = np.zeros((columns, 2, BINS), np.int64)
    prefix = fit.get("prefix") if done else np.zeros((columns, 2), np.int64)
    digit = (keys >> np.uint32(ALL_BITS - settled - DIGIT)) & np.uint32(BINS - 1)
    before = (keys.astype(np.uint64) >> np.uint64(ALL_BITS - settled)).astype(np.int64)
    offsets = BINS * np.arange(columns)
    for which in (0, 1):
        inside = there & (before == prefix[:, which])
        cells = (digit + offsets)[inside]
        found[:, which] = np.bincount(cells.astype(np.int64), minlength=columns * BINS).reshape(columns, BINS)
    return found.ravel()


def take_bins(fit: StepFit, total: Ints, done: int) -> None:
    """Settle the next bits of the two middle numbers of each column from the counts over all sites."""
    counts = total.reshape(-1, 2, BINS)
    if done == 0:
        n = counts[:, 0].sum(axis=1)
        fit.put(prefix=np.zeros((len(n), 2), np.int64))
        fit.put(rank=np.column_stack([np.maximum(n - 1, 0) // 2, np.maximum(n, 1) // 2]).astype(np.int64))
    rank = fit.get("rank")
    prefix = fit.get("prefix")
    upto = counts.cumsum(axis=2)
    digit = np.minimum((upto <= rank[:, :, None]).sum(axis=2), BINS - 1)
    passed = np.where(digit > 0, np.take_along_axis(upto, np.maximum(digit - 1, 0)[:, :, None], 2)[:, :, 0], 0)
    fit.put(prefix=prefix * BINS + digit, rank=np.maximum(rank - passed, 0))


def medians(fit: StepFit, bits: int) -> Floats:
    """Return the median of each column, (columns,), f8: the mean of the middles of two bins."""
    left = ALL_BITS - DIGIT * rounds(bits)
    low = fit.get("prefix").astype(np.uint64) << np.uint64(left)
    high = np.minimum(low + np.uint64(2**left - 1), np.uint64(2**32 - 1))
    edges = [from_keys(edge.astype(np.uint32)) for edge in (low, high)]
    fit.drop("prefix", "rank")
    return np.asarray(((edges[0] + edges[1]) / 2).mean(axis=1))


DEEP = 4
"""How many words a deep number has."""
_FINER = 2.0**40


def to_deep(values: npt.ArrayLike, *, sites: int) -> Words:
    """Write real numbers as four words each, so that their sums are exact to 2⁻⁸⁰, and hold numbers up to 2⁶² / sites.

    values (n,), real numbers; returns (4·n,), u8.
    """
    numbers = np.asarray(values, np.float64).ravel()
    coarse = to_wide(numbers, sites=sites)
    rest = (numbers - from_wide(coarse)) * _FINER
    return np.concatenate([coarse, to_wide(rest, sites=sites)])


def from_deep(vector: Words) -> Floats:
    """Read a sum of deep numbers back.

    vector (4·n,), u8; returns (n,), f8.
    """
    coarse, rest = np.split(vector, 2)
    return from_wide(coarse) + from_wide(rest) / _FINER


def small_type(block: Block) -> type[np.floating[Any]]:
    """Return in which type a block is computed with: float32 where its numbers take no more room, otherwise float64."""
    return np.float64 if np.dtype(block.dtype).itemsize > 4 else np.float32


def as_dense(block: Block) -> npt.NDArray[Any]:
    """Return a block as a dense array of float32 or float64."""
    kind = small_type(block)
    return np.asarray(block.toarray() if is_sparse(block) else block).astype(kind, copy=False)


def some_columns(cells: npt.NDArray[Any], places: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return some columns, to be read only: without a copy where they are the first ones, in order."""
    first = len(places) and places[0] == 0 and places[-1] == len(places) - 1 and bool((np.diff(places) == 1).all())
    return cells[:, : len(places)] if first else cells[:, places]


def column_sums(block: Block) -> Floats:
    """Return the sums of a block's columns, (columns,), f8."""
    return np.asarray(block.sum(axis=0, dtype=np.float64), np.float64).ravel()


def square_sums(block: Block) -> Floats:
    """Return the sums of squares of a block's columns, (columns,), f8."""
    if is_sparse(block):
        squares = np.square(block.data, dtype=np.float64)
        return np.asarray(np.bincount(block.indices, squares, block.shape[1]), np.float64)
    rows = np.asarray(block)
    return np.asarray(np.einsum("ij,ij->j", rows, rows, dtype=np.float64))
