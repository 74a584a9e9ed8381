"""Sparse power-sum codes: add sparse vectors without sending positions (SCMA, Section 5.5).

A vector with few non-zero entries v_b at positions b in 1 … B is sent as its power sums
S_l = Σ v_b·b**l mod q. Power sums of several sites add up to the power sums of the summed vector, so they
can be masked and summed securely; 2K of them determine any vector with at most K non-zero entries.

>>> import numpy as np
>>> code = ScmaCode(modulus=101, capacity=2, bins=50)
>>> bins, values = code.decode(code.encode([7, 3], [10, 20]))
>>> bins.tolist(), values.tolist()
([3, 7], [20, 10])
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from math import isqrt
from operator import index
from typing import Any

import numpy as np
from flint import fmpz_mod_poly_ctx, nmod_poly
from numpy.typing import NDArray

from fedgeom.arrays import Floats, Words
from fedgeom.codes.fields import MODULUS_BITS, is_prime
from fedgeom.errors import DecodeError, InputError

LIMB = 21
"""Bits of a limb: three hold any residue below 2**63."""
_ROWS = 64
_BEGUN = 1 << 11
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
    rows = np.empty((count, len(factors)), dtype=np.uint64)
    known = len(begun)
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


Poly = Any
"""A FLINT ``nmod_poly``; the library ships no types."""

LARGEST_POINT = 1 << LIMB
"""Points are factors of `scaled`."""
_LEAF = 64
"""How many points are evaluated by Horner's rule."""


class PointTree:
    """The products of x − b over some points b, (n,), u8, of at most `LARGEST_POINT`, q < 2**63; n at least 1."""

    def __init__(self, points: Words, q: int):
        self.count = len(points)
        self.q = q
        padded = np.concatenate([points, np.zeros(-len(points) % _LEAF, np.uint64)])  # 0 is a point like any other
        self.points = padded.reshape(-1, _LEAF)
        self.levels = [[nmod_poly(row, q) for row in _products(self.points, q).tolist()]]
        while len(self.levels[-1]) > 1:
            below = self.levels[-1]
            pairs = [a * b for a, b in zip(below[::2], below[1::2], strict=False)]
            self.levels.append(pairs + below[len(below) - len(below) % 2 :])

    def evaluate(self, f: Poly) -> Words:
        """Return the values of a polynomial at the points, in their order, (n,), u8."""
        top = self.levels[-1][0]
        series = [(f % top).left_shift(top.degree()) // top]
        for level in reversed(self.levels[:-1]):
            series = [_of_half(level, place, series[place // 2]) for place in range(len(level))]
        rests = [(s * p).right_shift(_LEAF) for s, p in zip(series, self.levels[0], strict=True)]
        coefficients = np.zeros((len(rests), _LEAF), dtype=np.uint64)
        for row, rest in zip(coefficients, rests, strict=True):
            found = [int(c) for c in rest.coeffs()]
            row[: len(found)] = found
        values = np.zeros(self.points.shape, dtype=np.uint64)
        for place in range(_LEAF - 1, -1, -1):
            values = add_below(scaled(values, self.points, self.q), coefficients[:, place, None], self.q)
        return values.ravel()[: self.count]


def _of_half(level: list[Poly], place: int, whole: Poly) -> Poly:
    """Return the first coefficients of f/A from those of f/(A·B): they stand in the middle of the product with B."""
    if place ^ 1 >= len(level):  # one that has no other half
        return whole
    other = level[place ^ 1]
    return whole.mul_low(other, level[place].degree() + other.degree()).right_shift(other.degree())


def zeros_among_first(f: Poly, count: int, q: int) -> list[int]:
    """Return the zeros of a polynomial among 1 … count, ascending; as many points at a time as it has coefficients."""
    width = max(f.degree() + 1, _LEAF)
    found: list[int] = []
    for first in range(1, count + 1, width):
        points = np.arange(first, min(first + width, count + 1), dtype=np.uint64)
        found += points[PointTree(points, q).evaluate(f) == 0].tolist()
    return found


def _products(points: Words, q: int) -> Words:
    """Return the coefficients of Π(x − b) over each row of points, (rows, points + 1), u8, the constant first."""
    rows, count = points.shape
    made = np.zeros((count + 1, rows), dtype=np.uint64)
    made[0] = 1
    for at in range(count):
        less = np.uint64(q) - scaled(made[: at + 1], points[:, at], q)  # q stands for 0 here
        made[1 : at + 2] = made[: at + 1]
        made[0] = 0
        made[: at + 1] = add_below(made[: at + 1], less, q)
    return np.ascontiguousarray(made.T)


"""A FLINT ``nmod_poly``; the library ships no types."""

_SMALL = 96  # below this degree plain Euclid beats the recursive one
_SCANNED = 28  # with fewer bins for each root, to evaluate at all of them beats splitting
_DEPTH = 8  # splits drawn from one modular power at most


@dataclass(frozen=True)
class ScmaCode:
    """A code for sums of sparse vectors over F_q: up to K non-zero entries at positions 1 … B.

    ``checks`` extra symbols make overfull and corrupted words visible. Two different vectors with the
    same word differ in more than 2K + checks positions, so up to K + checks non-zero bins are either
    decoded rightly or refused, always; beyond that, and for corrupted symbols, a wrong answer needs a
    coincidence of about one in q**checks.
    """

    modulus: int
    """q, a prime above B and above every value that may be decoded."""
    capacity: int
    """K, the largest number of non-empty bins in the sum (K_max·L in the paper)."""
    bins: int
    """B, the number of positions."""
    checks: int = 2

    def __post_init__(self) -> None:
        if not is_prime(self.modulus) or self.modulus >= 1 << MODULUS_BITS:
            raise InputError(f"modulus {self.modulus} is not a prime below 2**{MODULUS_BITS}")
        if self.capacity < 1 or self.checks < 0 or not 1 <= self.bins < self.modulus:
            raise InputError(
                f"got capacity={self.capacity}, checks={self.checks}, bins={self.bins}, modulus={self.modulus}; "
                "wanted capacity ≥ 1, checks ≥ 0 and 1 ≤ bins < modulus"
            )

    @property
    def length(self) -> int:
        """The number of symbols in a word, 2K + checks."""
        return 2 * self.capacity + self.checks

    def encode(self, bins: Sequence[int] | NDArray[Any], values: Sequence[int] | NDArray[Any]) -> Words:
        """Return the word S_0 … S_{length−1} of a vector with the given values in the given bins.

        The power sums are the coefficients of Σ_b v_b/(1 − b·x) = P(x)/Q(x); P and Q come from a product
        tree and the quotient from one power series inversion, in quasi-linear time. More than K bins
        are refused by the decoder, not here: single sites may be asked for less than the sum can hold.
        """
        positions = _integers(bins, "bins")
        weights = _integers(values, "values")
        if len(positions) != len(weights):
            raise InputError(f"got {len(positions)} bins, {len(weights)} values; wanted one value per bin")
        if positions and (min(positions) < 1 or max(positions) > self.bins):
            raise InputError(f"bins range from {min(positions)} to {max(positions)}; wanted 1 … {self.bins}")
        repeated = len(positions) - len(set(positions))
        if repeated:
            raise InputError(f"{repeated} bins are given more than once; add their values up first")
        return self._word(positions, weights)

    def _word(self, positions: list[int], weights: list[int]) -> Words:
        """Expand P/Q to the word's length; of few positions, one site's, the power sums themselves are faster."""
        q = self.modulus
        if 0 < len(positions) <= FEW:
            return power_sums(positions, weights, self.length, q)
        word = np.zeros(self.length, dtype=np.uint64)
        level = [(nmod_poly([v % q], q), nmod_poly([1, -b], q)) for b, v in zip(positions, weights, strict=True)]
        while len(level) > 1:
            pairs = zip(level[::2], level[1::2], strict=False)
            odd = level[len(level) - len(level) % 2 :]
            level = [(p1 * q2 + p2 * q1, q1 * q2) for (p1, q1), (p2, q2) in pairs] + odd
        if level:
            p = level[0][0]
            q_inverse = level[0][1].inverse_series_trunc(self.length)
            symbols = p.mul_low(q_inverse, self.length).coeffs()
            word[: len(symbols)] = [int(s) for s in symbols]
        return word

    def decode(self, symbols: Words) -> tuple[NDArray[np.int64], Words]:
        """Return the non-empty bins, ascending, and their values; refuse words that no vector explains.

        Write T(x) = Σ_{l<2K} S_l·x**(2K−1−l). Up to terms below the point, T/x**2K = Σ_b v_b/(x − b) =
        N(x)/Λ(x), where Λ = Π(x − b). So Λ·T − N·x**2K = R has degree below K, and Euclid's algorithm on
        x**2K and T, stopped half-way, yields Λ and N: the key equation that Berlekamp and Massey solve.
        Λ's roots are the bins. Residues give the values, v_b = N(b)/Λ'(b), which is the transposed
        Vandermonde solve in closed form. At last every symbol is computed again from the answer.
        """
        q = self.modulus
        size = 2 * self.capacity
        word = np.asarray(symbols)
        if word.shape != (self.length,) or word.dtype != np.uint64:
            raise InputError(
                f"got a word of shape {word.shape} and type {word.dtype}; wanted ({self.length},) and uint64"
            )
        if int(word.max()) >= q:
            raise DecodeError(f"symbol {int(word.argmax())} is not below the modulus {q}; it was corrupted")
        locator, evaluator = _key_equation(nmod_poly(word[:size][::-1].tolist(), q), size, q)
        roots = self._bins_of(locator)
        values = _residues(evaluator, locator.derivative(), roots, q)
        if not np.array_equal(self._word(roots, values), word):
            raise self._undecodable(f"the {len(roots)} bins it points at do not explain all symbols")
        return np.array(roots, dtype=np.int64), np.array(values, dtype=np.uint64)

    def _bins_of(self, locator: Poly) -> list[int]:
        """Return the roots of the locator, ascending; where bins are not many times as many, by a look at each."""
        if self.bins <= min(_SCANNED * locator.degree(), LARGEST_POINT):
            roots = zeros_among_first(locator, self.bins, self.modulus)
            if len(roots) < locator.degree():
                raise self._undecodable(f"its locator does not split, or points at bins outside 1 … {self.bins}")
            return roots
        try:
            roots = sorted(roots_of_split_polynomial(locator, self.modulus))
        except DecodeError as error:
            raise self._undecodable("its locator does not split") from error
        if roots and (roots[0] < 1 or roots[-1] > self.bins):
            raise self._undecodable(f"it points at bins outside 1 … {self.bins}")
        return roots

    def _undecodable(self, finding: str) -> DecodeError:
        return DecodeError(
            f"the word of {self.length} symbols does not decode: {finding}. Either more than capacity = "
            f"{self.capacity} bins are non-empty (raise the capacity or coarsen the grid), or symbols were "
            "corrupted or masks did not cancel (sum the same sites' words again)"
        )


def roots_of_split_polynomial(f: Poly, modulus: int) -> list[int]:
    """Return the roots of a product of distinct linear factors over F_q, in no particular order.

    Equal-degree splitting: for a random shift a and 2**j | q − 1 the power y = (x + a)**((q−1)/2**j) takes
    only 2**j values on the roots. Its squares tell the roots apart j times, one gcd per split, before the
    next power has to be computed; a prime q ≡ 1 mod 2**8 makes large polynomials about twice as
    fast as j = 1. Anything but a product of distinct linear factors raises DecodeError.
    """
    q = modulus
    if f.degree() < 1:
        if f.is_zero():
            raise DecodeError("every element is a root of the zero polynomial; wanted a non-zero polynomial")
        return []
    if f.degree() == 1:
        return [int(-f[0] / f[1])]
    # A fixed seed: the shifts only have to be generic. Nothing secret depends on them.
    shifts = random.Random(5)
    shifted = nmod_poly([shifts.randrange(q), 1], q)
    depth = min(_DEPTH, ((q - 1) & (1 - q)).bit_length() - 1)
    y = shifted.pow_mod((q - 1) >> depth, f)
    # (x + a)**q = x + a modulo f if and only if f divides x**q − x, the product of all x − b.
    if y.pow_mod(1 << depth, f) * shifted % f != shifted:
        raise DecodeError(f"a polynomial of degree {f.degree()} is no product of distinct x − b modulo {q}")
    if q == 2:
        return [0, 1]
    half_turn = 1 << (depth - 1)
    zeta = pow(_non_residue(q), (q - 1) >> depth, q)  # of order 2**depth
    roots: list[int] = []
    # A node (g, y, left, turn) knows that y**(2**left) = zeta**turn on every root of g.
    nodes: list[tuple[Poly, Poly, int, int]] = [(f, y, depth, 0)]
    while nodes:
        g, y, left, turn = nodes.pop()
        if g.degree() < 2:
            roots.extend([int(-g[0] / g[1])] if g.degree() == 1 else [])
            continue
        if left == 0:
            y = nmod_poly([shifts.randrange(q), 1], q).pow_mod((q - 1) >> depth, g)
            left = depth
            turn = 0
        else:
            y = y % g
        left = left - 1
        turn = turn // 2
        square_root = y.pow_mod(1 << left, g) if left else y
        first = g.gcd(square_root - pow(zeta, turn, q))
        # A root with y = 0 lands in the second part whatever the turn; the next shift separates it.
        nodes += [(first, y, left, turn), (g // first, y, left, turn + half_turn)]
    return roots


def _non_residue(q: int) -> int:
    """Return the smallest quadratic non-residue modulo an odd prime."""
    candidate = 2
    while pow(candidate, (q - 1) // 2, q) != q - 1:
        candidate += 1
    return candidate


def _residues(numerator: Poly, denominator: Poly, points: list[int], q: int) -> list[int]:
    """Return numerator(b)/denominator(b) mod q at every point b."""
    if not points:
        return []
    if max(points) <= LARGEST_POINT:
        tree = PointTree(np.array(points, dtype=np.uint64), q)
        above, below = (tree.evaluate(poly).tolist() for poly in (numerator, denominator))
    else:
        ring = fmpz_mod_poly_ctx(q)  # only these polynomials offer evaluation at many points at once
        above, below = (
            [int(v) for v in ring([int(c) for c in poly.coeffs()]).multipoint_evaluate(points)]
            for poly in (numerator, denominator)
        )
    return [a * pow(b, -1, q) % q for a, b in zip(above, below, strict=True)]


def _key_equation(t: Poly, size: int, q: int) -> tuple[Poly, Poly]:
    """Return the monic Λ and N with deg(Λ·T − N·x**size) < size/2."""
    _, _, minus_n, locator = _half_euclid(nmod_poly([1], q).left_shift(size), t, q)
    scale = nmod_poly([1 / locator.leading_coefficient()], q)
    return locator * scale, -minus_n * scale


def _half_euclid(a: Poly, b: Poly, q: int) -> tuple[Poly, Poly, Poly, Poly]:
    """Return the matrix (m00, m01, m10, m11) of Euclid's algorithm on a and b, stopped half-way.

    With c = m00·a + m01·b and d = m10·a + m11·b, two neighbouring remainders of a and b (deg a > deg b):
    deg c ≥ ⌈deg a/2⌉ > deg d. The first half of the quotients depends only on the leading halves of a and
    b, so two half-sized problems and a few large products do the work of many long divisions.
    """
    zero = nmod_poly([0], q)
    one = nmod_poly([1], q)
    middle = (a.degree() + 1) // 2
    matrix = (one, zero, zero, one)
    if b.degree() < middle:
        return matrix
    if a.degree() >= _SMALL:
        matrix = _half_euclid(a.right_shift(middle), b.right_shift(middle), q)
        a, b = _apply(matrix, a, b)
    while b.degree() >= middle:
        quotient, remainder = divmod(a, b)
        m00, m01, m10, m11 = matrix
        matrix = (m10, m11, m00 - quotient * m10, m01 - quotient * m11)
        a = b
        b = remainder
        if a.degree() >= _SMALL and b.degree() >= middle:
            cut = 2 * middle - a.degree()
            step = _half_euclid(a.right_shift(cut), b.right_shift(cut), q)
            a, b = _apply(step, a, b)
            m00, m10 = _apply(step, matrix[0], matrix[2])
            m01, m11 = _apply(step, matrix[1], matrix[3])
            matrix = (m00, m01, m10, m11)
    return matrix


def _apply(matrix: tuple[Poly, Poly, Poly, Poly], a: Poly, b: Poly) -> tuple[Poly, Poly]:
    """Return the matrix times the column (a, b)."""
    m00, m01, m10, m11 = matrix
    return m00 * a + m01 * b, m10 * a + m11 * b


def _integers(given: Sequence[int] | NDArray[Any], name: str) -> list[int]:
    """Return Python integers, or refuse anything that is not a flat sequence of integers."""
    try:
        return [index(v) for v in (given.tolist() if isinstance(given, np.ndarray) else given)]
    except TypeError as error:
        raise InputError(f"{name} hold something that is no integer ({error}); convert them first") from error
