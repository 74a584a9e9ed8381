"""Power sums of few positions, as one product of two small tables.

S_(a·s + b) = Σ_i (v_i·x_i**(a·s))·x_i**b: with s about the root of the word's length, a word is a matrix product of
(length/s, n) by (n, s) modulo q. Numbers are cut into three limbs of 21 bits, so that doubles multiply them exactly and
NumPy's fast product can be used.

Products of limbs i and j would have to be multiplied by 2**(21·(i + j)) modulo q each. Instead one table is taken three
times, already multiplied by 2**(21·j), one for each limb j of the other: then there are three digits to put together,
not five.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import isqrt

import numpy as np

from fedgeom.arrays import Floats, Words

LIMB = 21
"""Bits of a limb: three hold any residue below 2**63."""
_ROWS, _BEGUN = 64, 1 << 11
"""How many rows of the product are made at a time, and how many powers one by one."""
FEW = 256
"""Up to so many positions: Σ of 3·256 products of two limbs stays below 2**52. More are faster by polynomials."""


def power_sums(positions: Sequence[int], weights: Sequence[int], length: int, modulus: int) -> Words:
    """Return Σ_i v_i·x_i**l mod q for l = 0 … length - 1.

    At most `FEW` positions x and weights v; q < 2**63; returns (length,), u8.
    """
    step = isqrt(length - 1) + 1 if length else 1
    low = _powers([1] * len(positions), positions, step, modulus)
    leap = [pow(x, step, modulus) for x in positions]
    high = _powers([v % modulus for v in weights], leap, -(-length // step), modulus)
    once = _shifted(high, modulus)
    left = _limbs(np.hstack([high, once, _shifted(once, modulus)]))
    right = np.ascontiguousarray(np.hstack(_limbs(low)).T)
    word = np.empty((len(high), step), dtype=np.uint64)
    for at in range(0, len(high), _ROWS):  # some rows at a time: what is in between stays in the processor's cache
        word[at : at + _ROWS] = _product([limb[at : at + _ROWS] for limb in left], right, modulus)
    return word.ravel()[:length]


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
    limbs = [(b >> np.uint64(LIMB * shift)) & np.uint64((1 << LIMB) - 1) for shift in (2, 1, 0)]
    total = scaled(a, limbs[0], q)
    for limb in limbs[1:]:
        total = add_below(_shifted(total, q), scaled(a, limb, q), q)
    return total


def _product(left: Sequence[Floats], right: Floats, q: int) -> Words:
    """Return the matrix product mod q of a table, by its limbs, each (m, n), with one of limbs (n, k); (m, k), u8."""
    total: Words | None = None
    for limb in reversed(left):  # by Horner's rule, from the largest power of 2**LIMB on
        # Sums of 768 products below 2**42 are below 2**52: whole numbers, and exact.
        digits = (limb @ right).astype(np.int64).view(np.uint64)
        if not q >> 52:
            digits %= np.uint64(q)
        total = digits if total is None else add_below(_shifted(total, q), digits, q)
    assert total is not None
    return total


def _limbs(x: Words) -> list[Floats]:
    mask = np.uint64((1 << LIMB) - 1)
    return [((x >> np.uint64(LIMB * i)) & mask).view(np.int64).astype(float) for i in range(3)]


def _shifted(x: Words, q: int) -> Words:
    """Return x·2**LIMB mod q, for x < q < 2**63."""
    return scaled(x, np.uint64(1 << LIMB), q)


def scaled(x: Words, factor: Words | np.uint64, q: int) -> Words:
    """Return x·factor mod q, for x < q < 2**63 and factors of at most 2**LIMB.

    The quotient, below 2**LIMB, is right in double precision up to 2**-30; cut a little below, it is the whole quotient
    or one less. What is left, computed modulo 2**64, is then below 2q < 2**64. Doubles are made of signed numbers, and
    signed numbers of doubles (a little below 0 is cut to 0), which processors do in one step.
    """
    guess = x.view(np.int64) * (factor / float(q))
    guess -= 1e-6
    quotient = guess.astype(np.int64).view(np.uint64)
    quotient *= np.uint64(q)
    rest = x * factor
    rest -= quotient
    return _below(rest, q)


def add_below(x: Words, y: Words, q: int) -> Words:
    """Return x + y mod q, for x <= q and y < q < 2**63."""
    return _below(x + y, q)


def _below(x: Words, q: int) -> Words:
    """Return x mod q for x < 2q, in its place: what is smaller than q becomes huge when q is taken away."""
    less: Words = np.minimum(x, x - np.uint64(q), out=x)
    return less
