"""The integers in which sums are taken: Z_q for an odd q below 2^63, and Z_2^k up to k = 64."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from fedgeom.arrays import Words
from fedgeom.errors import InputError

_FEW = 8
"""A division takes as long as some six differences."""


@dataclass(frozen=True)
class Ring:
    """Integers modulo ``modulus``, as numpy vectors of unsigned 64-bit words."""

    modulus: int

    def __post_init__(self) -> None:
        q = self.modulus
        if not (2 <= q < 2**63 or q == 2**63 or q == 2**64):
            raise InputError(f"modulus {q} given; wanted 2 … 2^63, or 2^64")

    @cached_property
    def bits(self) -> int:
        """How many bits an element needs."""
        return (self.modulus - 1).bit_length()

    @property
    def is_power_of_two(self) -> bool:
        """Whether reduction is a bit mask."""
        return self.modulus & (self.modulus - 1) == 0

    def reduce(self, vector: Words) -> Words:
        """Bring 64-bit words below the modulus."""
        if self.modulus == 2**64:
            return vector
        if self.is_power_of_two:
            return vector & np.uint64(self.modulus - 1)
        return vector % np.uint64(self.modulus)

    def reduce_in_place(self, vector: Words, most: int) -> None:
        """Bring sums of at most ``most`` elements, which fit into 64 bits, below the modulus, where they stand.

        Of few, by differences: what is smaller than a multiple of the modulus becomes huge when that is taken away.
        """
        if self.is_power_of_two or most > _FEW:
            vector[:] = self.reduce(vector)
            return
        less, multiple = np.empty_like(vector), 1 << max(most - 1, 0).bit_length()
        while multiple > 1:
            multiple //= 2
            np.subtract(vector, np.uint64(multiple * self.modulus), out=less)
            np.minimum(vector, less, out=vector)

    def check(self, vector: npt.ArrayLike) -> Words:
        """Return ``vector`` as ring elements, or say which entry is none."""
        array = np.asarray(vector)
        if array.ndim != 1 or array.dtype.kind not in "ui":
            raise InputError(f"a 1-D integer vector is wanted, {array.ndim}-D {array.dtype} was given")
        if self.modulus == 2**64 and array.dtype == np.uint64:
            return array
        low = np.flatnonzero(array < 0) if array.dtype.kind == "i" else np.empty(0, int)
        high = np.flatnonzero(array.astype(np.uint64) > np.uint64(self.modulus - 1))
        if low.size or high.size:
            at = int(min([*low[:1], *high[:1]]))
            raise InputError(f"entry {at} is {array[at]}, outside 0 … {self.modulus - 1}")
        return array.astype(np.uint64)

    def add(self, a: Words, b: Words) -> Words:
        """Add two vectors of ring elements."""
        total = np.asarray(a + b)  # below 2^64 for q ≤ 2^63; wraps by itself for 2^64
        self.reduce_in_place(total, 2)
        return total

    def add_to(self, total: Words, b: Words) -> None:
        """Add a vector of ring elements to another, in its place."""
        total += b
        if self.modulus != 2**64:
            self.reduce_in_place(total, 2)

    def subtract(self, a: Words, b: Words) -> Words:
        """Subtract the second vector of ring elements from the first."""
        if self.is_power_of_two:
            return self.reduce(a - b)
        total = np.asarray(np.uint64(self.modulus) - b)
        total += a
        self.reduce_in_place(total, 2)
        return total
