"""Real numbers in secure sums of columns, whatever unit they are in; and blocks of rows, dense or sparse."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from fedgeom.arrays import Floats, Words
from fedgeom.data.tables import is_sparse
from fedgeom.federation.steps import Block
from fedgeom.protocols.fixed_point import from_wide, to_wide

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
