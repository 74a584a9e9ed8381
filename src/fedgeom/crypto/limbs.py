"""Numbers modulo q = 2^88 or 2^108 in limbs that floating point holds exactly, and as bytes (`matrix_lattice`)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fedgeom.arrays import Ints

PLAIN_BITS = 16
"""Messages are modulo t = 2^16."""
SHORT_BITS = 32
"""How many bits of a number an answer has."""

Limbs = Sequence[Ints]
"""A number modulo q to the base 2^bits, lowest first; limbs may be negative or too large until `Modulus.settled`."""
Short = npt.NDArray[np.uint32]


@dataclass(frozen=True)
class Modulus:
    """q = 2^(limbs·bits)."""

    limbs: int
    bits: int

    @property
    def flood_bits(self) -> int:
        """How wide the range of noise is, half of what decryption corrects."""
        return self.limbs * self.bits - PLAIN_BITS - 1

    @property
    def high_bytes(self) -> int:
        """Bytes of a number beyond its first eight."""
        return -(-(self.limbs * self.bits - 64) // 8)

    @property
    def size(self) -> int:
        """Bytes of a number when it travels."""
        return 8 + self.high_bytes

    def settled(self, limbs: Limbs) -> list[Ints]:
        """Carry, so that every limb is below 2^bits, and not negative."""
        found, carried = list[Ints](), limbs[0]
        for limb in (*limbs[1:], None):
            found.append(carried & np.int64((1 << self.bits) - 1))
            if limb is not None:
                carried = limb + (carried >> self.bits)
        return found

    def add_message(self, limbs: Limbs, message: npt.NDArray[Any]) -> None:
        """Add a message modulo 2^16 in place, times q / t."""
        limbs[-1][...] += message.astype(np.int64) << (self.bits - PLAIN_BITS)

    def rounded(self, limbs: Limbs) -> Short:
        """Return the first 32 bits, to the nearest; what is below the last limb does not decide."""
        last = self.settled(limbs)[-1]
        return ((last + (1 << self.bits - SHORT_BITS - 1)) >> (self.bits - SHORT_BITS)).astype(np.uint32)

    def to_bytes(self, limbs: Limbs) -> bytes:
        """Write numbers: the first eight bytes of all, then the others of all."""
        settled = [limb.astype(np.uint64).reshape(-1) for limb in self.settled(limbs)]
        low, high = settled[0] | settled[1] << np.uint64(self.bits), settled[1] >> np.uint64(64 - self.bits)
        if self.limbs == 3:
            high |= settled[2] << np.uint64(2 * self.bits - 64)
        cut = np.ascontiguousarray(high.astype("<u8").view(np.uint8).reshape(-1, 8)[:, : self.high_bytes])
        return low.astype("<u8").tobytes() + cut.tobytes()

    def from_bytes(self, data: bytes, *shape: int) -> list[Ints]:
        """Read numbers; whatever stands there is one, since q is a power of two."""
        count, bits = math.prod(shape), self.bits
        low = np.frombuffer(data, "<u8", count).astype(np.uint64)
        wide = np.zeros((count, 8), np.uint8)
        wide[:, : self.high_bytes] = np.frombuffer(data, np.uint8, offset=8 * count).reshape(count, -1)
        high = wide.view("<u8").astype(np.uint64)[:, 0]
        found = [low, low >> np.uint64(bits) | high << np.uint64(64 - bits), high >> np.uint64(2 * bits - 64 & 63)]
        mask = np.uint64((1 << bits) - 1)
        return [(limb & mask).astype(np.int64).reshape(shape) for limb in found[: self.limbs]]


SMALL, LARGE = Modulus(2, 44), Modulus(3, 36)


def short_words(data: bytes, *shape: int) -> Short:
    """Read one half of answers."""
    return np.frombuffer(data, "<u4").astype(np.uint32).reshape(shape)
