"""Prime fields and their extensions, as far as labels and codes need them.

Vectors modulo q are ``uint64`` arrays with q < 2**63, so that the sum of two entries never overflows.
Ints of an extension field are rows of small ``int64`` coefficients, so that thousands of them are
multiplied at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from math import isqrt, prod

import numpy as np
from numpy.typing import NDArray

from fedgeom.arrays import Ints
from fedgeom.errors import InputError

MODULUS_BITS = 63
"""Moduli stay below 2**63: two residues add without overflow in a 64-bit word."""

_TABLE_LIMIT = 1 << 19  # baby steps kept in memory at most
_CALL = 500  # multiplications that cost as much as calling into NumPy for one batch of them
_CHUNK = 1 << 24  # small prime powers are merged into one subgroup of about this order


def is_prime(n: int) -> bool:
    """Say whether n is prime; the answer is proved, not probable."""
    from flint import fmpz  # python-flint: slow to import

    return n > 1 and bool(fmpz(n).is_prime())


def next_prime(n: int) -> int:
    """Return the smallest prime larger than n."""
    if n < 2:
        return 2
    candidate = n + 1 + n % 2  # the next odd number
    while not is_prime(candidate):
        candidate += 2
    return candidate


class ExtensionField:
    """F_{p^h} = F_p[x]/m(x), where the class β of x is primitive: its powers are all non-zero elements.

    An element is a row of h coefficients, constant first; a batch is an array of shape (n, h).
    """

    def __init__(self, p: int, h: int, prime_divisors: Sequence[int]) -> None:
        """Build the field from its characteristic, its degree and the prime divisors of p**h − 1."""
        self.p = p
        self.h = h
        self.order = p**h - 1
        self.low = _primitive_polynomial(p, h, prime_divisors)
        # Row i is x**(h+i) as an element: what the upper half of a product folds back into.
        fold = np.zeros((h, h), dtype=np.int64)
        fold[0] = -self.low % p
        for i in range(1, h):
            fold[i, 1:] = fold[i - 1, :-1]
            fold[i] = (fold[i] + fold[i - 1, -1] * fold[0]) % p
        self._fold = fold

    def multiply(self, a: Ints, b: Ints) -> Ints:
        """Return the products of two batches, row by row (a batch of one row is broadcast)."""
        h = self.h
        rows = max(len(a), len(b))
        product = np.zeros((rows, 2 * h), dtype=np.int64)
        for i in range(h):
            product[:, i : i + h] += a[:, i : i + 1] * b
        product %= self.p
        folded: Ints = (product[:, :h] + product[:, h:] @ self._fold) % self.p
        return folded

    def power(self, a: Ints, exponent: int) -> Ints:
        """Return every row raised to one common exponent ≥ 1."""
        result = a
        for bit in bin(exponent)[3:]:
            result = self.multiply(result, result)
            if bit == "1":
                result = self.multiply(result, a)
        return result

    def powers_of_generator(self, exponents: Sequence[int]) -> Ints:
        """Return β**e for every exponent e, one row each."""
        tables = self._byte_tables
        digits = np.frombuffer(
            b"".join((e % self.order).to_bytes(len(tables), "little") for e in exponents), dtype=np.uint8
        ).reshape(len(exponents), len(tables))
        result = tables[0][digits[:, 0]]
        for table, digit in zip(tables[1:], digits.T[1:], strict=True):
            result = self.multiply(result, table[digit])
        return result

    def consecutive_powers(self, base: Ints, count: int) -> Ints:
        """Return base**0, …, base**(count − 1) for a batch of one row, by doubling."""
        block = np.zeros((1, self.h), dtype=np.int64)
        block[0, 0] = 1
        jump = base
        while len(block) < count:
            block = np.concatenate([block, self.multiply(block, jump)])
            jump = self.multiply(jump, jump)
        return block[:count]

    @cached_property
    def _byte_tables(self) -> list[Ints]:
        """Hold β**(d·256**j) for every byte position j and digit d: a power is then a few products."""
        base = np.zeros((1, self.h), dtype=np.int64)
        base[0, 1] = 1
        tables = []
        for _ in range((self.order.bit_length() + 7) // 8):
            tables.append(self.consecutive_powers(base, 256))
            base = self.multiply(tables[-1][-1:], base)
        return tables


def _primitive_polynomial(p: int, h: int, prime_divisors: Sequence[int]) -> Ints:
    """Return the lower coefficients of the first monic polynomial of degree h with a primitive root.

    If x has order p**h − 1 modulo m, then every non-zero residue is a unit, so m is irreducible too and
    needs no separate test. Counting up through the polynomials gives every process the same one.
    """
    from flint import nmod_poly  # python-flint: slow to import

    order = p**h - 1
    x = nmod_poly([0, 1], p)
    for number in range(1, p**h):
        low = [number // p**i % p for i in range(h)]
        m = nmod_poly([*low, 1], p)
        if (
            low[0]
            and x.pow_mod(order, m).is_one()
            and not any(x.pow_mod(order // r, m).is_one() for r in prime_divisors)
        ):
            return np.array(low, dtype=np.int64)
    raise InputError(f"no primitive polynomial of degree {h} over F_{p}; is {p} prime, and h ≥ 2?")


def factor_order(p: int, h: int) -> dict[int, int]:
    """Factor p**h − 1, split first into its cyclotomic parts Φ_d(p), d | h.

    Parts above 2**160 are left whole: factoring takes too long, and logarithms there would even if it did
    not. Smaller parts are factored completely, so that the result depends on no library's luck or version.
    """
    from flint import fmpz  # python-flint: slow to import

    part: dict[int, int] = {}
    for d in range(1, h + 1):
        if h % d == 0:
            part[d] = (p**d - 1) // prod(value for e, value in part.items() if d % e == 0)
    factors: dict[int, int] = {}
    for value in part.values():
        for r, e in fmpz(value).factor() if value < 1 << 160 else [(value, 1)]:
            factors[int(r)] = factors.get(int(r), 0) + int(e)
    return factors


def _subgroups(factors: dict[int, int]) -> list[int]:
    """Return coprime orders whose product is p**h − 1, small ones merged to save passes."""
    merged: list[int] = []
    for power in sorted((r**e for r, e in factors.items()), reverse=True):
        if merged and merged[-1] * power <= _CHUNK:
            merged[-1] *= power
        else:
            merged.append(power)
    return merged


def _baby_steps(p: int, order: int) -> int:
    """Balance one shared table against p walks through a group of this order."""
    return min(_TABLE_LIMIT, order, isqrt((p + _CALL) * order) + 1)


def logarithm_work(p: int, factors: dict[int, int]) -> int:
    """Estimate the multiplications for all p logarithms: few if p**h − 1 has no large prime factor."""
    return sum((p + _CALL) * order // _baby_steps(p, order) for order in _subgroups(factors))


def logarithms_of_linear(space: ExtensionField, factors: dict[int, int]) -> list[int]:
    """Return log_β(β + α) for α = 0 … p − 1 by Pohlig and Hellman's method."""
    p = space.p
    n = space.order
    linear = np.zeros((p, space.h), dtype=np.int64)
    linear[:, 0] = np.arange(p)
    linear[:, 1] = 1
    logs = [0] * p
    for order in _subgroups(factors):
        cofactor = n // order
        lift = cofactor * pow(cofactor, -1, order)  # Chinese remainders: 1 modulo order, 0 modulo the rest
        residues = _subgroup_logarithms(space, space.power(linear, cofactor), order)
        logs = [(log + lift * residue) % n for log, residue in zip(logs, residues.tolist(), strict=True)]
    if not np.array_equal(space.powers_of_generator(logs), linear):
        raise RuntimeError(f"a logarithm in F_{p}^{space.h} is wrong; please report this as a bug")
    return logs


def _subgroup_logarithms(space: ExtensionField, elements: Ints, order: int) -> NDArray[np.int64]:
    """Return logarithms to base β**(n/order) of elements of that subgroup: baby steps, giant steps."""
    steps = _baby_steps(space.p, order)
    generator = space.powers_of_generator([space.order // order])
    table = _keys(space.consecutive_powers(generator, steps), space.p)
    by_key = np.argsort(table)
    table = table[by_key]
    back = space.powers_of_generator([-steps * (space.order // order)])
    logs = np.zeros(len(elements), dtype=np.int64)
    waiting = np.arange(len(elements))
    for giant in range(-(-order // steps)):
        keys = _keys(elements, space.p)
        place = np.minimum(np.searchsorted(table, keys), steps - 1)
        hit = table[place] == keys
        if hit.any():
            logs[waiting[hit]] = giant * steps + by_key[place[hit]]
            waiting = waiting[~hit]
            elements = elements[~hit]
            if not len(waiting):
                break
        elements = space.multiply(elements, back)
    return logs


def _keys(elements: Ints, p: int) -> NDArray[np.uint64]:
    """Fold each element into one 64-bit word: exact while p**h < 2**64, a hash above.

    A false match of the hash is next to impossible and would be caught by the check of all logarithms.
    """
    radix = p if p ** elements.shape[1] < 1 << 64 else 0x9E3779B97F4A7C15
    weights = [pow(radix, i, 1 << 64) for i in range(elements.shape[1])]
    keys: NDArray[np.uint64] = elements.astype(np.uint64) @ np.array(weights, dtype=np.uint64)
    return keys
