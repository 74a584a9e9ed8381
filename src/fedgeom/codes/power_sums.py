"""Power sums of few positions, as one product of two small tables.

S_(a·s + b) = Σ_i (v_i·x_i**(a·s))·x_i**b: with s about the root of the word's length, a word is a matrix product of
(length/s, n) by (n, s) modulo q. Numbers are cut into three limbs of 21 bits, so that doubles multiply them exactly and
NumPy's fast product can be used.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import isqrt

import numpy as np

from fedgeom.arrays import Floats, Words

LIMB = 21
"""Bits of a limb: three hold any residue below 2**63."""
_ROWS, _BEGUN = 64, 1 << 10
"""How many rows of the product are made at a time, and how many powers one by one."""
FEW = 256
"""Up to so many positions: Σ of 256 products of two limbs stays far below 2**53. More are faster by polynomials."""


def power_sums(positions: Sequence[int], weights: Sequence[int], length: int, modulus: int) -> Words:
    """Return Σ_i v_i·x_i**l mod q for l = 0 … length - 1.

    At most `FEW` positions x and weights v; q < 2**63; returns (length,), u8.
    """
    step = isqrt(length - 1) + 1 if length else 1
    low = _powers([1] * len(positions), positions, step, modulus)
    leap = [pow(x, step, modulus) for x in positions]
    high = _powers([v % modulus for v in weights], leap, -(-length // step), modulus)
    lower = _limbs(low)
    # Some rows at a time: what is in between stays in the processor's cache.
    parts = [_product(high[at : at + _ROWS], lower, modulus) for at in range(0, len(high), _ROWS)]
    return np.concatenate(parts).ravel()[:length]


def _powers(first: Sequence[int], factors: Sequence[int], count: int, q: int) -> Words:
    """Return ``first``·``factors``**k for k = 0 … count - 1, (count, n), u8.

    The first ones one by one, and then twice as many with each step, for which there must be some.
    """
    begun = [list(first)]
    while len(begun) < min(count, _BEGUN // len(factors) + 1):
        begun.append([a * b % q for a, b in zip(begun[-1], factors, strict=True)])
    rows, known = np.empty((count, len(factors)), dtype=np.uint64), len(begun)
    rows[:known] = np.array(begun, dtype=np.uint64)
    while known < count:
        some = min(known, count - known)
        leap = np.array([pow(x, known, q) for x in factors], dtype=np.uint64)
        rows[known : known + some] = _times(rows[:some], leap, q)
        known += some
    return rows


def _times(a: Words, b: Words, q: int) -> Words:
    """Return a·b mod q by elements; a (m, n), b (n,), returns (m, n), u8."""
    total = np.zeros(a.shape, dtype=np.uint64)
    for shift in range(2, -1, -1):
        limb = (b >> np.uint64(LIMB * shift)) & np.uint64((1 << LIMB) - 1)
        total = _add(_shifted(total, q), _scaled(a, limb, q), q)
    return total


def _product(a: Words, lower: Sequence[Floats], q: int) -> Words:
    """Return a·bᵀ mod q; a (m, n), and the limbs of b, each (k, n); returns (m, k), u8."""
    upper = _limbs(a)
    total = np.zeros((len(a), len(lower[0])), dtype=np.uint64)
    for shift in range(4, -1, -1):  # by Horner's rule, from the largest power of 2**LIMB on
        parts = [upper[i] @ lower[shift - i].T for i in range(3) if 0 <= shift - i < 3]
        # Three sums of 256 products below 2**42 stay below 2**52: whole numbers, and exact.
        digits = sum(parts[1:], parts[0]).astype(np.uint64)
        total = _add(_shifted(total, q), digits if q >> 52 else digits % np.uint64(q), q)
    return total


def _limbs(x: Words) -> list[Floats]:
    mask = np.uint64((1 << LIMB) - 1)
    return [((x >> np.uint64(LIMB * i)) & mask).astype(float) for i in range(3)]


def _shifted(x: Words, q: int) -> Words:
    """Return x·2**LIMB mod q, for x < q < 2**63."""
    return _scaled(x, np.uint64(1 << LIMB), q)


def _scaled(x: Words, factor: Words | np.uint64, q: int) -> Words:
    """Return x·factor mod q, for x < q < 2**63 and factors of at most 2**LIMB.

    The quotient, below 2**LIMB, is right in double precision up to 2**-30; cut a little below, it is the whole quotient
    or one less. What is left, computed modulo 2**64, is then below 2q < 2**64.
    """
    quotient = np.maximum(x.astype(float) * (factor / float(q)) - 1e-6, 0.0).astype(np.uint64)
    rest = x * factor - quotient * np.uint64(q)
    return np.where(rest >= q, rest - np.uint64(q), rest)


def _add(x: Words, y: Words, q: int) -> Words:
    total = x + y
    return np.where(total >= q, total - np.uint64(q), total)
