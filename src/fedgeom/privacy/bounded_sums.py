"""Sums over rows that one row moves by no more than is said: rows are shortened, and summed as whole numbers.

Sums of doubles depend on the order of the rows and on how large the rest is, so that one row may move them by more than
its length. Here each row is first cut down to whole numbers, towards zero, which makes nothing longer; products and
sums of these are exact.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from fedgeom.arrays import Floats, Ints

BITS = 14
"""Binary digits of a row of full length: 6·10⁻⁵ of the bound."""
ONE = 2**BITS
FINE = 2 * BITS
"""Binary digits of a row of full length where rows are summed and not multiplied."""
FINE_ONE = 2**FINE
_BLOCK = 2**20
"""Products of two numbers of `BITS` digits, so many of them added up, are exact in doubles."""


def _safe(numbers: int) -> float:
    """Return by what a bound is multiplied: more than rounding can be off in the length of so many numbers."""
    return 1.0 - max(2.0**-40, (numbers + 4) * 2.0**-52)


def shortened(rows: npt.ArrayLike, bound: float) -> Floats:
    """Return rows that are no longer than ``bound`` (L2): longer ones keep their direction.

    rows (n, d), finite; returns (n, d), f8.
    """
    values, factors = _factors(rows, bound)
    return np.asarray(values * factors)


def in_whole_numbers(rows: npt.ArrayLike, bound: float, bits: int = BITS) -> Floats:
    """Return rows as whole numbers, of which one of length ``bound`` has length 2^bits at most (`ONE`, `FINE_ONE`).

    rows (n, d), finite; returns (n, d), f8, all of them whole.
    """
    values, factors = _factors(rows, bound)
    whole = values * (factors * (2**bits / bound))
    return np.asarray(np.trunc(whole, out=whole))


class BoundedVector:
    """One long vector, no longer than a bound, that is cut down to whole numbers piece by piece, as a row is."""

    def __init__(self, values: npt.ArrayLike, bound: float, bits: int = FINE):
        vector = np.asarray(values, np.float64).ravel()
        most = bound * _safe(len(vector))
        with np.errstate(over="ignore", invalid="ignore"):
            length = float(np.linalg.norm(vector))
        if np.isfinite(length):
            factor = most / length if length > most else 1.0
        else:  # What is no number would pass through shortening and undo the bound; the squares of huge ones are none.
            scaled, factors = _factors(np.nan_to_num(vector)[None, :], bound)
            vector = scaled[0]
            factor = float(factors[0, 0])
        self._vector = vector
        self._factor = factor * (2**bits / bound)
        self.shape = vector.shape
        self.length = 2.0**bits
        """The length of a vector of full length, in whole numbers."""

    def cut_to_whole(self, first: int, last: int, times: float, room: Floats, into: Ints) -> None:
        """Write some of the numbers, multiplied by a power of two, cut off towards zero; room (PIECE,), f8."""
        some = np.multiply(self._vector[first:last], self._factor * times, out=room[: last - first])
        np.copyto(into, some, casting="unsafe")  # towards zero, as numbers become whole ones

    def whole(self) -> Ints:
        """Return all numbers, (d,), i8."""
        into = np.empty(self.shape, np.int64)
        self.cut_to_whole(0, len(into), 1.0, np.empty(self.shape), into)
        return into


def _factors(rows: npt.ArrayLike, bound: float) -> tuple[Floats, Floats]:
    """Return rows, and what each has to be multiplied by to be no longer than the bound, (n, 1).

    Both are a row's own affair: whatever another row is, not a bit of them changes.
    """
    values, lengths = _lengths(rows)
    huge = np.flatnonzero(~np.isfinite(lengths))
    if len(huge):  # the squares of huge numbers are none; those rows are made smaller first
        some = np.nan_to_num(values[huge])
        values = values.copy()
        values[huge] = some / np.maximum(np.abs(some).max(axis=1, keepdims=True) / bound, 1.0)
        lengths[huge] = _lengths(values[huge])[1]
    with np.errstate(divide="ignore", invalid="ignore"):
        most = bound * _safe(values.shape[1])
        factors = np.where(lengths > most, most / lengths, 1.0)
    return values, factors[:, None]


def _lengths(rows: npt.ArrayLike) -> tuple[Floats, Floats]:
    """Return rows, one after the other in memory so that each is added up by itself, and their lengths, (n,)."""
    values = np.ascontiguousarray(rows, np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        return values, np.asarray(np.linalg.norm(values, axis=1))


def unit_rows(rows: npt.ArrayLike) -> tuple[Floats, Floats]:
    """Return rows of length 1, (n, d), and the lengths that they had, (n, 1); finite whatever the rows are."""
    values = np.nan_to_num(np.ascontiguousarray(rows, np.float64))
    # Dividing by a power of two changes no digit, and squares of what is left are finite.
    scale = np.exp2(np.frexp(np.abs(values).max(axis=1, keepdims=True, initial=0.0))[1] - 1.0)
    small = values / scale
    short = np.maximum(_lengths(small)[1][:, None], 1e-300)
    return small / short, np.minimum(short, 2.0**100) * np.minimum(scale, 2.0**900)


def row_products(rows: npt.ArrayLike, matrix: npt.ArrayLike) -> Floats:
    """Return rows·matrix, (n, k), to six digits or more: each row's numbers are its own, to the last bit.

    How a library adds up the products of one row depends on how many rows there are, which moves the last digits of
    others. Here rows and columns are rounded to whole numbers of so few digits that all sums are exact, in any order.
    rows (n, d), matrix (d, k); numbers that are none count as 0.
    """
    left, right = (np.nan_to_num(np.asarray(one, np.float64)) for one in (rows, matrix))
    bits = (53 - max(left.shape[1], 1).bit_length()) // 2
    up = np.frexp(np.abs(left).max(axis=1, keepdims=True, initial=0.0))[1]
    across = np.frexp(np.abs(right).max(axis=0, keepdims=True, initial=0.0))[1]
    with np.errstate(over="ignore"):
        found = np.rint(np.ldexp(left, bits - up)) @ np.rint(np.ldexp(right, bits - across))
        return np.asarray(np.nan_to_num(np.ldexp(found, up + across - 2 * bits)))


def summed(whole: Floats) -> Ints:
    """Return the exact sum of rows of whole numbers: (n, d), f8; returns (d,), i8."""
    total = np.zeros(whole.shape[1], np.int64)
    for first in range(0, len(whole), _BLOCK):
        total += whole[first : first + _BLOCK].sum(axis=0).astype(np.int64)
    return total


def products(left: Floats, right: Floats) -> Ints:
    """Return Σ left·rightᵀ over rows of whole numbers of `BITS` digits, exactly: (n, d), (n, e); returns (d, e), i8."""
    total = np.zeros((left.shape[1], right.shape[1]), np.int64)
    for first in range(0, len(left), _BLOCK):
        total += (left[first : first + _BLOCK].T @ right[first : first + _BLOCK]).astype(np.int64)
    return total
