"""The one large sum: all products of features with each other and with the classes, row by row of an upper triangle.

With A = [1, Φ, Y], the constant, D features and C classes one-hot, row j ≤ D of the sum is Σ w·A_j·A_k over all k ≥ j.
A range of rows is a part; parts are as long as a message may be.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from fedgeom.arrays import Floats, Ints, Words, many_zeros

Rows = tuple[int, int]
"""The first row of a part, and the one after its last."""

_BLOCK = 2048
_PANEL = 512


def starts(features: int, classes: int) -> Ints:
    """Return where each row begins in the whole vector, and at the end how long it is: (features + 2,)."""
    lengths = features + 1 - np.arange(features + 1) + classes
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)


def cuts(features: int, classes: int, part: int) -> list[Rows]:
    """Divide the rows into parts of at most ``part`` numbers each.

    >>> cuts(3, 2, 11)
    [(0, 2), (2, 4)]
    """
    at, found, first = starts(features, classes), [], 0
    while first <= features:
        last = int(np.searchsorted(at, at[first] + part, side="right")) - 1
        last = max(last, first + 1)
        found.append((first, last))
        first = last
    return found


def fraction_bits(rows: float, mean_square: float, sites: int, heaviest: float = 1.0) -> int:
    """Return how many binary digits after the point the sum can have.

    By Cauchy and Schwarz no entry exceeds ``rows · mean_square · heaviest``; a factor of four is kept for rounding.
    """
    bound = max(rows * max(mean_square, 1.0) * heaviest * max(sites, 1), 1.0)
    return min(60 - math.ceil(math.log2(bound)), 44)


def packed_gram(
    features: Callable[[slice], npt.NDArray[Any]],
    codes: Ints,
    classes: int,
    width: int,
    weights: Floats | None = None,
) -> Floats:
    """Return this site's sums, all rows one after the other, f8.

    ``features(rows)`` gives the features of a range of rows, codes (n,) their classes, weights (classes,) what each row
    of a class counts. Products are summed over 2,048 rows at most in the features' own precision, and these sums in
    double: in single precision a sum is then off by 10⁻⁶ of what it could be at most (Cauchy and Schwarz).
    """
    at = starts(width, classes)
    total, room = many_zeros(int(at[-1])), np.empty(0)
    for block in _blocks(len(codes)):
        found = features(block)
        Y = np.zeros((len(found), classes), found.dtype)
        Y[np.arange(len(found)), codes[block]] = 1 if weights is None else weights[codes[block]]
        left = found if weights is None else found * Y.sum(axis=1, keepdims=True)
        sums = left.sum(axis=0, dtype=np.float64)
        total[: at[1]] += np.concatenate([[Y.sum(dtype=np.float64)], sums, Y.sum(axis=0, dtype=np.float64)])
        if room.dtype != found.dtype or not room.size:  # one for all: the system has to clear fresh memory
            room = np.empty((min(_PANEL, width), width), found.dtype)
        for first in range(0, width, _PANEL):
            last = min(first + _PANEL, width)
            own, ties = left[:, first:last].T, found[:, first:last].T @ Y
            products = room[: last - first, : width - first]
            # Without weights, the first of these takes half the work of a product of two matrices.
            np.matmul(own, found[:, first:last], out=products[:, : last - first])
            np.matmul(own, found[:, last:], out=products[:, last - first :])
            for one in range(last - first):
                begin, end = at[first + one + 1], at[first + one + 2]
                total[begin : end - classes] += products[one, one:]
                total[end - classes : end] += ties[one]
    return total


def _blocks(rows: int) -> Iterator[slice]:
    return (slice(first, min(first + _BLOCK, rows)) for first in range(0, rows, _BLOCK))


def lines(
    vector: Floats, rows: Rows, features: int, classes: int
) -> Iterator[tuple[int, npt.NDArray[np.float64], npt.NDArray[np.float64]]]:
    """Yield each row of a part: its number, its products with itself and all later features, its ties to classes."""
    at = starts(features, classes)[rows[0] : rows[1] + 1]
    at = at - at[0]
    for row, (begin, end) in enumerate(zip(at[:-1].tolist(), at[1:].tolist(), strict=True), start=rows[0]):
        yield row, vector[begin : end - classes], vector[end - classes : end]


def trapezoid(vector: Floats, rows: Rows, features: int, classes: int) -> tuple[Floats, Floats]:
    """Return a part as a matrix over columns from its first row on, zeros below the diagonal, and its ties to classes.

    Returns (rows, features + 1 - first) and (rows, classes), f8.
    """
    first, last = rows
    gram, ties = np.zeros((last - first, features + 1 - first)), np.empty((last - first, classes))
    for row, line, some in lines(vector, rows, features, classes):
        gram[row - first, row - first :], ties[row - first] = line, some
    return gram, ties


def fold_numbers(X: npt.NDArray[Any], folds: int) -> Ints:
    """Deal rows to folds by a checksum of what is in them: the same wherever a row is, and for rows that are alike.

    X (n, columns) of any dtype; returns (n,).
    """
    factors = _mixed(np.arange(1, X.shape[1] + 1, dtype=np.uint64))
    found = np.empty(len(X), np.uint64)
    for some in _blocks(len(X)):
        bits = (np.asarray(X[some], np.float64) + 0.0).view(np.uint64)  # -0.0 becomes 0.0
        found[some] = _mixed(np.add.reduce(bits * factors, axis=1, dtype=np.uint64))
    return (found % np.uint64(folds)).astype(np.int64)


def _mixed(words: Words) -> Words:
    """Return words whose every bit depends on all bits of those given (the last step of splitmix64), u8."""
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        words = (words ^ (words >> np.uint64(shift))) * np.uint64(factor)
    return words ^ (words >> np.uint64(31))
