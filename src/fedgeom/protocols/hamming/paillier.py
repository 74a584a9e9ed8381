"""Hamming distances by Paillier's encryption: the least traffic, the most time.

Section 3.2 of the XCLP paper, repaired. The asker encrypts its bits a; the helper computes, under encryption,

    T = r + Σ_l b_l + Σ_{b_l = 0} a_l − Σ_{b_l = 1} a_l = r + h(a, b)

for each pair of points. The paper draws r from 0 … L − 1, and T then gives h away in part; here r is uniform below
2^(bits − 2), and what T shows of h is below 2^-400. T and R = r go to the coordinator modulo 2^16.
Before it is sent, a ciphertext is multiplied with a fresh encryption of 0: the asker decrypts T and
finds nothing else in it.

As published (``slots=1``) each bit of each point is a ciphertext. Packed, one ciphertext has the l-th bits of
``slots`` points, 16 bits apart, and one sum serves them all; the random number masks them together, and the
coordinator's subtraction undoes the carries (`fedgeom.protocols.hamming.bits.open_shares`).
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from fedgeom.crypto.paillier import KEY_BITS, PublicKey, SecretKey
from fedgeom.errors import InputError, ProtocolError
from fedgeom.protocols.hamming.bits import LIMB, PackedBits, PairMessage, PairTurn, Share, letter_size, read, write

STATISTICAL_BITS = 40
"""A mask has at least this many bits more than what it hides."""


class Encrypted(PairMessage, frozen=True, tag="paillier.encrypted"):
    """The asker's public key and bits."""

    public: bytes
    numbers: bytes


class Masked(PairMessage, frozen=True, tag="paillier.masked"):
    """One ciphertext for each group of the asker's points and point of the helper's."""

    numbers: bytes


@dataclass(frozen=True)
class Paillier:
    """The variant ``paillier``; needs gmpy2."""

    slots: int = 150
    """How many of the asker's points share a ciphertext; 1 is the published protocol."""
    bits: int = KEY_BITS[-1]
    """Size of the key: 3072, which gives 128-bit security, or 2048, which gives 112."""
    name: ClassVar[str] = "paillier"
    passes: ClassVar[int] = 2

    def __post_init__(self) -> None:
        most = (min(max(self.bits, KEY_BITS[0]), KEY_BITS[1]) - 2 - STATISTICAL_BITS) // LIMB
        if self.bits not in KEY_BITS or not 1 <= self.slots <= most:
            raise InputError(
                f"{self.slots} slots in a key of {self.bits} bits were asked for; wanted 1 … {most} slots and "
                f"{' or '.join(map(str, KEY_BITS))} bits"
            )

    @property
    def group(self) -> int:
        """How many of the asker's points share carries."""
        return self.slots

    def sizes(self, asker: int, helper: int, length: int) -> tuple[int, ...]:
        """Return how many bytes each letter has."""
        groups = -(-asker // self.slots)
        cipher = self.bits // 4
        first = letter_size(Encrypted, public=self.bits // 8, numbers=groups * length * cipher)
        return first, letter_size(Masked, numbers=groups * helper * cipher)

    def begin(self, mine: PackedBits, theirs: int) -> PairTurn:
        """Send a public key and all bits, encrypted (asker)."""
        key = SecretKey.generate(self.bits)
        bits = mine.unpacked()
        ciphers = [
            key.encrypt(number)
            for start in range(0, len(mine), self.slots)
            for number in _packed(bits[start : start + self.slots])
        ]
        letter = Encrypted(key.public.to_bytes(), key.public.write(ciphers))
        return PairTurn(key.to_bytes(), write(letter), None)

    def step_b(self, mine: PackedBits, theirs: int, state: bytes | None, letter: bytes) -> PairTurn:
        """Add up under encryption, and mask (helper)."""
        if state is not None:
            raise ProtocolError("the helper's only turn is over")
        groups = -(-theirs // self.slots)
        length = mine.length
        size = self.bits // 4
        got = read(letter, Encrypted, public=self.bits // 8, numbers=groups * length * size)
        key = PublicKey.from_bytes(got.public, self.bits)
        bits = mine.unpacked().astype(bool).tolist()
        answers: list[Any] = []
        shares = []
        for group in range(groups):
            part = key.read(got.numbers[group * length * size : (group + 1) * length * size])
            count = min(self.slots, theirs - group * self.slots)
            every = key.product(part)
            unit = sum(1 << LIMB * at for at in range(count))
            columns = []
            for row in bits:
                ones = key.product(cipher for cipher, bit in zip(part, row, strict=True) if bit)
                mask = secrets.randbits(self.bits - 2)
                signed = key.quotient(every, ones * ones % key.square)  # zeros less ones
                answers.append(key.close(signed, mask + sum(row) * unit))
                columns.append(_limbs(mask, count))
            shares.append(np.stack(columns, axis=1))
        return PairTurn(None, write(Masked(key.write(answers))), np.concatenate(shares))

    def step_a(self, mine: PackedBits, theirs: int, state: bytes, letter: bytes) -> PairTurn:
        """Decrypt the masked distances (asker)."""
        groups = -(-len(mine) // self.slots)
        got = read(letter, Masked, numbers=groups * theirs * (self.bits // 4))
        if len(state) != self.bits // 8:
            raise ProtocolError(f"a kept Paillier key of {len(state)} bytes was found; {self.bits // 8} wanted")
        key = SecretKey.from_bytes(state)
        numbers = [key.decrypt(cipher) for cipher in key.public.read(got.numbers)]
        shares = []
        for group in range(groups):
            count = min(self.slots, len(mine) - group * self.slots)
            columns = numbers[group * theirs : (group + 1) * theirs]
            shares.append(np.stack([_limbs(number, count) for number in columns], axis=1))
        return PairTurn(None, None, np.concatenate(shares))


def _packed(bits: np.ndarray[Any, np.dtype[np.uint8]]) -> list[int]:
    """Return, for each place l, the number whose 16-bit limbs are the points' bits there."""
    limbs = np.ascontiguousarray(bits.T).astype("<u2")
    return [int.from_bytes(row.tobytes(), "little") for row in limbs]


def _limbs(number: int, count: int) -> Share:
    """Return the lowest 16-bit limbs of a number."""
    low = number & ((1 << LIMB * count) - 1)
    return np.frombuffer(low.to_bytes(2 * count, "little"), "<u2").astype(np.uint16)
