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
    return _product(high, low, modulus).ravel()[:length]


def _powers(first: Sequence[int], factors: Sequence[int], count: int, q: int) -> Words:
    """Return ``first``·``factors``**k for k = 0 … count - 1, (count, n), u8."""
    rows = [list(first)]
    while len(rows) < count:
        rows.append([a * b % q for a, b in zip(rows[-1], factors, strict=True)])
    return np.array(rows, dtype=np.uint64)


def _product(a: Words, b: Words, q: int) -> Words:
    """Return a·bᵀ mod q; a (m, n), b (k, n), returns (m, k), u8."""
    upper, lower = _limbs(a), _limbs(b)
    total = np.zeros((len(a), len(b)), dtype=np.uint64)
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
    """Return x·2**LIMB mod q, for x < q < 2**63.

    The quotient, below 2**LIMB, is right in double precision up to 2**-30; cut a little below, it is the whole quotient
    or one less. What is left, computed modulo 2**64, is then below 2q < 2**64.
    """
    quotient = np.maximum(x.astype(float) * (2.0**LIMB / q) - 1e-6, 0.0).astype(np.uint64)
    rest = (x << np.uint64(LIMB)) - quotient * np.uint64(q)
    return np.where(rest >= q, rest - np.uint64(q), rest)


def _add(x: Words, y: Words, q: int) -> Words:
    total = x + y
    return np.where(total >= q, total - np.uint64(q), total)
