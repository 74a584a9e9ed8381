"""Hamming distances by lattice encryption: a product of the helper's signs with the asker's encrypted bits.

The asker's bits a are encrypted, the helper's bits b become signs v = 1 − 2b. Then

    h(a, b) = Σ_l a_l·v_l + Σ_l b_l,

and the sums over l are one product of matrices for all points of both (`fedgeom.crypto.bfv_matrix`, where it is
also told how answers are closed, so that the asker learns nothing of the helper's bits from noise either).

Two letters: the asker's seed, public keys and ciphertexts, and the closed answers.
"""

from __future__ import annotations

import secrets
from typing import ClassVar

import numpy as np

from fedgeom.crypto.bfv_matrix import (
    DEGREE,
    SEED_BYTES,
    MatrixKeyHolder,
    Modulus,
    ciphertext_bytes,
    close_products,
    groups_of,
    modulus_for,
    short_words,
)
from fedgeom.errors import ProtocolError
from fedgeom.protocols.hamming.bits import PackedBits, PairMessage, PairTurn, Share, letter_size, read, write


class LatticeCiphertexts(PairMessage, frozen=True, tag="lattice.ciphertexts"):
    """The asker's encrypted bits, with what makes the other half of each ciphertext, and public keys."""

    seed: bytes
    public: bytes
    numbers: bytes


class LatticeAnswers(PairMessage, frozen=True, tag="lattice.answers"):
    """Closed sums of products: both halves, a number of 32 bits each."""

    first: bytes
    second: bytes


def _plan(asker: int, helper: int, length: int) -> tuple[Modulus, dict[str, int], dict[str, int]]:
    """Return the modulus, and how many bytes the letters' parts have; both sites compute the same from the sizes."""
    modulus = modulus_for(length, asker * helper)
    first = {
        "seed": SEED_BYTES,
        "public": groups_of(asker) * DEGREE * modulus.size,
        "numbers": ciphertext_bytes(asker, length, modulus),
    }
    return modulus, first, {"first": 4 * helper * DEGREE, "second": 4 * helper * asker}


class MatrixLattice:
    """The variant ``lattice``: the least work and traffic; our own implementation, needs nothing more."""

    name: ClassVar[str] = "lattice"
    passes: ClassVar[int] = 2
    group: int = 1

    def sizes(self, asker: int, helper: int, length: int) -> tuple[int, ...]:
        """Return how many bytes each letter has."""
        _, first, second = _plan(asker, helper, length)
        return letter_size(LatticeCiphertexts, **first), letter_size(LatticeAnswers, **second)

    def begin(self, mine: PackedBits, theirs: int) -> PairTurn:
        """Send public keys and all bits, encrypted (asker)."""
        modulus, _, _ = _plan(len(mine), theirs, mine.length)
        owner = MatrixKeyHolder(len(mine))
        return PairTurn(owner.secret, write(LatticeCiphertexts(*owner.encrypt(mine.unpacked(), modulus))), None)

    def step_b(self, mine: PackedBits, theirs: int, state: bytes | None, letter: bytes) -> PairTurn:
        """Multiply, add up and close (helper)."""
        if state is not None:
            raise ProtocolError("the helper's only turn is over")
        modulus, sizes, _ = _plan(theirs, len(mine), mine.length)
        got = read(letter, LatticeCiphertexts, **sizes)
        masks = np.frombuffer(secrets.token_bytes(2 * len(mine) * theirs), np.uint16).reshape(len(mine), theirs)
        signs = 1 - 2 * mine.unpacked().astype(np.float64)
        first, second = close_products(signs, masks, modulus, got.seed, got.public, got.numbers)
        answers = LatticeAnswers(first.astype("<u4").tobytes(), second.astype("<u4").tobytes())
        share: Share = (masks - mine.weights()[:, None]).T  # the ones of its points, which the products leave out
        return PairTurn(None, write(answers), np.ascontiguousarray(share))

    def step_a(self, mine: PackedBits, theirs: int, state: bytes, letter: bytes) -> PairTurn:
        """Decrypt the masked inner products (asker)."""
        _, _, sizes = _plan(len(mine), theirs, mine.length)
        got = read(letter, LatticeAnswers, **sizes)
        if len(state) != SEED_BYTES:
            raise ProtocolError("the letter came at another turn than this site's memory says")
        owner = MatrixKeyHolder(len(mine), state)
        found = owner.open(short_words(got.first, theirs, DEGREE), short_words(got.second, theirs, len(mine)))
        return PairTurn(None, None, np.ascontiguousarray(found.T))
