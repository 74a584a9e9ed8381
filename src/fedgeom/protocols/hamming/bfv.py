"""Hamming distances by packed lattice encryption: few, large products instead of many small ones.

The asker's bits a become coefficients of encrypted polynomials, the helper's bits b those of plain ones, so that
one product computes many inner products at once. With v = 1 − 2b, a sign for each bit,

    h(a, b) = Σ_l a_l·v_l + Σ_l b_l.

*Along the degree* (as in Huang et al., "Cheetah", 2022): ``rows`` of the asker's words and ``columns`` of the
helper's points, a piece of ``depth`` bits of each,

    A(x) = Σ_{i,l} a_{i,l} x^(i·columns·depth + l),   V(x) = Σ_{m,l} v_{m,l} x^(m·depth + depth − 1 − l),

and the coefficient of A·V at (i·columns + m)·depth + depth − 1 is Σ_l a_{i,l}·v_{m,l} over the piece. Products of
all pieces are added up. *Along the coefficient*: a word is three of the asker's points, a + 2^16·a' + 2^32·a'', so
that its inner product has the three of its points in 16 bits each. Masks are whole words of 48 random
bits; the coordinator's subtraction undoes the carries (`fedgeom.protocols.hamming.bits.open_shares`).

Two letters: the asker's public key and ciphertexts, and the closed answers. How answers are closed, so that the
asker learns nothing of the helper's bits from noise either, is told in `fedgeom.crypto.bfv`.
"""

from __future__ import annotations

import math
import secrets
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from fedgeom.arrays import Words
from fedgeom.crypto.bfv import DEGREE, PLAIN_BITS, Helper, KeyHolder, primes_for
from fedgeom.errors import ProtocolError
from fedgeom.memo import memoize
from fedgeom.protocols.hamming.bits import LIMB, PackedBits, PairMessage, PairTurn, Share, letter_size, read, write

PER_WORD = PLAIN_BITS // LIMB
"""How many of the asker's points share a coefficient."""


class BfvCiphertexts(PairMessage, frozen=True, tag="bfv.ciphertexts"):
    """The asker's public key and encrypted bits."""

    public: bytes
    numbers: bytes


class BfvAnswers(PairMessage, frozen=True, tag="bfv.answers"):
    """Closed sums of products: c0 at the places of inner products, and all of c1."""

    first: bytes
    second: bytes


@dataclass(frozen=True)
class BitLayout:
    """Where bits sit in polynomials; both sites compute the same from the sizes."""

    words: int
    points: int
    length: int
    rows: int
    columns: int

    @property
    def depth(self) -> int:
        """Bits of a vector in one polynomial."""
        return min(self.length, DEGREE // (self.rows * self.columns))

    @property
    def pieces(self) -> int:
        """How many polynomials a vector is spread over."""
        return -(-self.length // self.depth)

    @property
    def row_groups(self) -> int:
        """How many sets of polynomials hold the asker's words."""
        return -(-self.words // self.rows)

    @property
    def column_groups(self) -> int:
        """How many sets of polynomials hold the helper's points."""
        return -(-self.points // self.columns)

    @cached_property
    def primes(self) -> int:
        """How many primes the modulus needs, so that noise hides all answers together; refused where none do."""
        answers = self.row_groups * self.column_groups * self.rows * self.columns
        return primes_for(self.length, self.columns, answers)

    @property
    def cost(self) -> float:
        """Bytes sent, and 2 kB for each product or transform (a second is as bad as 8 MB)."""
        ciphers = self.row_groups * self.pieces
        answers = self.row_groups * self.column_groups
        sent = 8 * (2 * self.primes * DEGREE * ciphers + (DEGREE + self.rows * self.columns) * answers)
        return sent + 1000 * self.primes * self.column_groups * (ciphers + self.pieces)

    def places(self) -> npt.NDArray[np.intp]:
        """Return the coefficients that hold inner products, by row, then column."""
        return np.arange(self.rows * self.columns, dtype=np.intp) * self.depth + self.depth - 1


@memoize(256)
def layout(asker: int, helper: int, length: int) -> BitLayout:
    """Choose the cheapest layout for the numbers of points and bits."""
    words = -(-asker // PER_WORD)

    def sizes(count: int, most: int) -> set[int]:
        """Return the sizes of even groups: no group could be smaller without there being one more."""
        return {-(-count // -(-count // size)) for size in range(1, min(count, most) + 1)}

    options = [
        BitLayout(words, helper, length, rows, columns)
        for rows in sizes(words, 256)
        for columns in sizes(helper, min(DEGREE // rows, 32))
    ]
    return min(options, key=lambda option: option.cost)


def _ciphertext_polynomials(plan: BitLayout, bits: PackedBits) -> Words:
    """Return A(x) for each row group and piece, (row_groups, pieces, coefficients)."""
    total = plan.row_groups * plan.rows
    padded = np.zeros((total * PER_WORD, plan.pieces * plan.depth), np.uint64)
    padded[: len(bits), : bits.length] = bits.unpacked()
    limbs = padded.reshape(total, PER_WORD, -1) << (LIMB * np.arange(PER_WORD, dtype=np.uint64))[:, None]
    packed = limbs.sum(axis=1).reshape(plan.row_groups, plan.rows, plan.pieces, plan.depth)
    spread = np.zeros((plan.row_groups, plan.pieces, plan.rows, plan.columns, plan.depth), np.uint64)
    spread[..., 0, :] = packed.transpose(0, 2, 1, 3)
    return spread.reshape(plan.row_groups, plan.pieces, -1)


def _plain_polynomials(plan: BitLayout, bits: PackedBits) -> Words:
    """Return V(x) for each column group and piece, (column_groups, pieces, coefficients)."""
    total = plan.column_groups * plan.columns
    signs = np.zeros((total, plan.pieces * plan.depth), np.uint64)
    signs[: len(bits), : bits.length] = np.where(bits.unpacked(), np.uint64(2**PLAIN_BITS - 1), np.uint64(1))
    shaped = signs.reshape(plan.column_groups, plan.columns, plan.pieces, plan.depth)[..., ::-1]
    return shaped.transpose(0, 2, 1, 3).reshape(plan.column_groups, plan.pieces, -1)


def _share(plan: BitLayout, found: Words, askers: int) -> Share:
    """Cut words, (row_groups, column_groups, rows, columns), to shares, (asker's points, helper's points)."""
    table = found.transpose(0, 2, 1, 3).reshape(plan.row_groups * plan.rows, -1)[:, : plan.points]
    shifts = LIMB * np.arange(PER_WORD, dtype=np.uint64)
    limbs = (table[:, None, :] >> shifts[:, None]).astype(np.uint16)
    return limbs.reshape(-1, plan.points)[:askers]


class PackedLattice:
    """The variant ``bfv``: rests on a library that many look at; needs seal-python."""

    name: ClassVar[str] = "bfv"
    passes: ClassVar[int] = 2
    group: int = PER_WORD

    def sizes(self, asker: int, helper: int, length: int) -> tuple[int, ...]:
        """Return how many bytes each letter has."""
        plan = layout(asker, helper, length)
        ciphers = plan.row_groups * plan.pieces
        answers = plan.row_groups * plan.column_groups
        public = 16 * (plan.primes + 1) * DEGREE
        first = letter_size(BfvCiphertexts, public=public, numbers=16 * plan.primes * DEGREE * ciphers)
        places = 8 * plan.rows * plan.columns * answers
        return first, letter_size(BfvAnswers, first=places, second=8 * DEGREE * answers)

    def begin(self, mine: PackedBits, theirs: int) -> PairTurn:
        """Send a public key and all bits, encrypted (asker)."""
        plan = layout(len(mine), theirs, mine.length)
        owner = KeyHolder(primes=plan.primes)
        polynomials = _ciphertext_polynomials(plan, mine)
        numbers = b"".join(
            owner.encrypt(polynomial).astype("<u8").tobytes()
            for polynomial in polynomials.reshape(-1, polynomials.shape[-1])
        )
        public = owner.public().astype("<u8").tobytes()
        return PairTurn(owner.secret, write(BfvCiphertexts(public, numbers)), None)

    def step_b(self, mine: PackedBits, theirs: int, state: bytes | None, letter: bytes) -> PairTurn:
        """Multiply, add up and close (helper)."""
        if state is not None:
            raise ProtocolError("the helper's only turn is over")
        plan = layout(theirs, len(mine), mine.length)
        ciphers = plan.row_groups * plan.pieces
        key = (2, plan.primes + 1, DEGREE)
        cipher = (2, plan.primes, DEGREE)
        got = read(letter, BfvCiphertexts, public=8 * math.prod(key), numbers=8 * math.prod(cipher) * ciphers)
        helper = Helper(_words(got.public).reshape(key))
        numbers = _words(got.numbers).reshape(plan.row_groups, plan.pieces, *cipher)
        factors = [[helper.factor(piece) for piece in group] for group in numbers]
        places = plan.places()
        shape = (plan.row_groups, plan.column_groups, plan.rows * plan.columns)
        masks = np.frombuffer(secrets.token_bytes(8 * int(np.prod(shape))), np.uint64).reshape(shape)
        masks = masks & np.uint64(2**PLAIN_BITS - 1)
        first = np.empty(shape, "<u8")
        second = np.empty((*shape[:2], DEGREE), "<u8")
        for column, polynomials in enumerate(_plain_polynomials(plan, mine)):
            plains = [helper.plain_factor(polynomial) for polynomial in polynomials]
            for row, group in enumerate(factors):
                total = helper.sum_of_products(group, plains)
                at = row, column
                first[at], second[at] = helper.close(total, places, masks[at])
        answers = BfvAnswers(first.tobytes(), second.tobytes())
        return PairTurn(None, write(answers), _helper_share(plan, masks, mine.weights(), theirs))

    def step_a(self, mine: PackedBits, theirs: int, state: bytes, letter: bytes) -> PairTurn:
        """Decrypt the masked inner products (asker)."""
        plan = layout(len(mine), theirs, mine.length)
        shape = (plan.row_groups, plan.column_groups, plan.rows * plan.columns)
        count = int(np.prod(shape[:2]))
        got = read(letter, BfvAnswers, first=8 * int(np.prod(shape)), second=8 * DEGREE * count)
        owner = KeyHolder(state, plan.primes)
        places = plan.places()
        first = _words(got.first).reshape(count, -1)
        second = _words(got.second).reshape(count, -1)
        found = np.stack([owner.open(places, one, two) for one, two in zip(first, second, strict=True)])
        shaped = found.reshape(*shape[:2], plan.rows, plan.columns)
        return PairTurn(None, None, _share(plan, shaped, len(mine)))


def _words(data: bytes) -> Words:
    return np.frombuffer(data, "<u8").astype(np.uint64)


def _helper_share(plan: BitLayout, masks: Words, weights: Share, askers: int) -> Share:
    """Return the masks, less the ones in each of the helper's points, which the products leave out."""
    ones = np.zeros(plan.column_groups * plan.columns, np.uint64)
    ones[: plan.points] = weights
    step = np.uint64(sum(1 << LIMB * limb for limb in range(PER_WORD)))
    shaped = masks.reshape(plan.row_groups, plan.column_groups, plan.rows, plan.columns)
    less = (ones * step).reshape(plan.column_groups, 1, plan.columns)
    return _share(plan, (shaped - less) & np.uint64(2**PLAIN_BITS - 1), askers)
