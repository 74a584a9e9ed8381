"""The cosine between two sites' vectors, for the coordinator alone.

Of two sites, the *asker* writes first; the *helper* answers. After two letters each has one share, uniformly random on
its own, and `open_shares` makes the cosine of both. Vectors are scaled to norm 1 and rounded to multiples of 2^-18
(`quantise`); the inner product of the rounded vectors is exact. Rounding changes a cosine by about 4·10⁻⁶, and by
√length·2^-18 at most.

The asker's numbers a are coefficients of encrypted polynomials, the helper's b those of plain ones (as in Huang et al.,
"Cheetah", 2022, for vectors of any length): with

    A(x) = Σ_l a_l x^l,   B(x) = Σ_l b_l x^(n - 1 - l),

the coefficient of A·B at n - 1 is Σ a_l·b_l; the products of all pieces are added up, and the sum is *closed*
(`fedgeom.crypto.lattice`), so that the asker learns that coefficient plus a mask of 48 random bits, and nothing else.
The last place of every piece is kept free: there the asker has 0 and the helper 1, so that no polynomial of the
helper's vanishes, which ciphertexts would show.

*What is promised* and what is not is as for Hamming distances (`fedgeom.protocols.hamming`): both sites follow the
protocol and are curious; then each learns nothing, and the coordinator the cosine alone. A coordinator together with
one of the two knows that site's vector, and so one number about the other's.
"""

from __future__ import annotations

import math
import secrets
from typing import NamedTuple

import numpy as np

from fedgeom.arrays import Floats, Ints, Words
from fedgeom.crypto.lattice import (
    DEGREE,
    FEWEST_PRIMES,
    MARGIN_BITS,
    MOST_PRIMES,
    PLAIN_BITS,
    Helper,
    Owner,
    flood_bits,
)
from fedgeom.errors import ProtocolError
from fedgeom.protocols.hamming.bits import Letter, read, write

FRACTION_BITS = 18
"""Unit vectors are rounded to multiples of 2^-18."""
DEPTH = DEGREE - 1
"""Numbers of a vector in one polynomial."""
MODULUS = 1 << PLAIN_BITS
_LAST = np.array([DEGREE - 1], np.intp)


class Asked(NamedTuple):
    """What the asker has after its first turn."""

    secret: bytes
    """For the site's own memory."""
    letter: bytes


class Helped(NamedTuple):
    """What the helper has after its only turn."""

    letter: bytes
    share: int
    """For the coordinator."""


class Ciphertexts(Letter, frozen=True, tag="inner.ciphertexts"):
    """The asker's public key and encrypted vector."""

    public: bytes
    numbers: bytes


class Answer(Letter, frozen=True, tag="inner.answer"):
    """A closed sum of products: c0 at the place of the inner product, and all of c1."""

    first: bytes
    second: bytes


def quantise(vector: Floats) -> Ints:
    """Return a vector scaled to norm 1 in multiples of 2^-18, (length,), i8; one of norm 0 stays 0."""
    norm = float(np.linalg.norm(vector))
    if not norm or not math.isfinite(norm):
        return np.zeros(len(vector), np.int64)
    return np.rint(vector * (2.0**FRACTION_BITS / norm)).astype(np.int64)


def cosines(vectors: Floats) -> Floats:
    """Return what the protocol yields for all pairs of rows, (rows, rows): in one process, for twins and open runs."""
    whole = np.array([quantise(vector) for vector in vectors])
    found = np.array([[int(one @ other) for other in whole] for one in whole])
    np.fill_diagonal(found, 4**FRACTION_BITS)
    return found / 4.0**FRACTION_BITS


def primes_for(length: int, answers: int) -> int:
    """Return how many primes the modulus needs, so that flooding hides the helper's vector in so many answers.

    An answer's noise carries 3.3·‖b‖ of encryption errors, ‖b‖₁/2 at most of rounding, and that of re-randomisation;
    ‖b‖ is 2^18 and ‖b‖₁ at most √length times that.
    """
    carried = 2.0**FRACTION_BITS * (3.3 + math.sqrt(length) / 2) + pieces(length) + 32
    for primes in range(FEWEST_PRIMES, MOST_PRIMES + 1):
        if flood_bits(primes) - math.log2(carried * max(answers, 1)) >= MARGIN_BITS:
            return primes
    raise ProtocolError(f"{answers:,} inner products of {length:,} numbers are more than lattice noise hides")


def pieces(length: int) -> int:
    """Return how many polynomials hold a vector."""
    return max(1, -(-length // DEPTH))


def letter_bytes(length: int, answers: int) -> tuple[int, int]:
    """Return about how many bytes the asker's and the helper's letter have."""
    primes = primes_for(length, answers)
    first = 2 * (primes + 1) * DEGREE + 2 * primes * DEGREE * pieces(length)
    return 8 * first + 200, 8 * (DEGREE + 1) + 200


def begin(mine: Ints, answers: int) -> Asked:
    """Encrypt the asker's vector under a new key; the same letter serves all partners of one round."""
    owner = Owner(primes=primes_for(len(mine), answers))
    numbers = [owner.encrypt(piece).astype("<u8").tobytes() for piece in _polynomials(mine, free=0)]
    public = owner.public().astype("<u8").tobytes()
    return Asked(owner.secret, write(Ciphertexts(public, b"".join(numbers))))


def respond(mine: Ints, answers: int, letter: bytes) -> Helped:
    """Multiply, add up and close (helper)."""
    primes, count = primes_for(len(mine), answers), pieces(len(mine))
    key, cipher = (2, primes + 1, DEGREE), (2, primes, DEGREE)
    got = read(letter, Ciphertexts, public=8 * math.prod(key), numbers=8 * math.prod(cipher) * count)
    helper = Helper(_words(got.public).reshape(key))
    factors = [helper.factor(one) for one in _words(got.numbers).reshape(count, *cipher)]
    plains = [helper.plain_factor(piece[::-1]) for piece in _polynomials(mine, free=1)]
    mask = secrets.randbits(PLAIN_BITS)
    first, second = helper.close(helper.sum_of_products(factors, plains), _LAST, np.array([mask], np.uint64))
    answer = Answer(first.astype("<u8").tobytes(), second.astype("<u8").tobytes())
    return Helped(write(answer), mask)


def finish(length: int, answers: int, secret: bytes, letter: bytes) -> int:
    """Decrypt the masked inner product: the asker's share, for the coordinator."""
    got = read(letter, Answer, first=8, second=8 * DEGREE)
    owner = Owner(secret, primes_for(length, answers))
    return int(owner.open(_LAST, _words(got.first), _words(got.second))[0])


def open_shares(asker: int, helper: int) -> float:
    """Return the cosine from both shares, or raise `ProtocolError` where they make none."""
    found = (asker - helper) % MODULUS
    signed = found - MODULUS if found >= MODULUS // 2 else found
    cosine = signed / 4.0**FRACTION_BITS
    if abs(cosine) > 1.01:  # rounding makes a unit vector a little longer
        raise ProtocolError("two shares of an inner product do not fit together")
    return cosine


def _polynomials(vector: Ints, free: int) -> Words:
    """Return a vector as coefficients modulo 2^48, (pieces, degree), with ``free`` in the last place of each."""
    count = pieces(len(vector))
    padded = np.zeros(count * DEPTH, np.int64)
    padded[: len(vector)] = vector
    whole = np.full((count, DEGREE), free, np.int64)
    whole[:, :DEPTH] = padded.reshape(count, DEPTH)
    return whole.astype(np.uint64) & np.uint64(MODULUS - 1)


def _words(data: bytes) -> Words:
    return np.frombuffer(data, "<u8").astype(np.uint64)
