"""Several small numbers in one word of Z_2^64, so that a secure sum of a model costs 4 bytes a number, or fewer.

A word holds two numbers of 32 bits, or three of 21, as Σ number·2^(bits·place) over signed whole numbers. Words add up
in Z_2^64 as they always do, and their numbers with them: a negative one borrows from its neighbour, and reading the
lowest first gives all back. That is exact as long as no *sum* leaves its signed range. It cannot, among sites that keep
to their bounds: each cuts its numbers off at ``largest`` and multiplies them by its share of a whole before it rounds,
and the shares of any sites add up to at most 1.

Nothing about masks changes: a word is masked by 64 uniform bits as before. Nor about tags: the word is one whole number
whose sum over the sites stays within 64 bits, which is all that `fedgeom.crypto.tags` asks for. Who sees the sum of the
words sees the sums of the numbers, and nothing more. A site that lies can spoil a sum, as in any ring; here a number
that is too large also spoils its neighbour in the word.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from fedgeom.arrays import Floats, Words
from fedgeom.errors import InputError

SLACK = 2.0**-16
"""By how much the shares of all sites may add up to more than 1: enough for rounded ones, and next to no precision."""
_PIECE = 1 << 14
"""How many numbers are converted at a time: they stay in the processor's cache."""


@dataclass(frozen=True)
class Packing:
    """How many numbers share a word, and how finely they are written."""

    bits: int
    """Of one number: 32 or 21."""
    largest: float
    """The largest number, up to its sign; larger ones are cut off."""

    @property
    def per_word(self) -> int:
        """How many numbers share a word."""
        return 64 // self.bits

    @property
    def fraction_bits(self) -> int:
        """Binary digits after the point: so many that a sum of ``largest`` still fits."""
        return self.bits - 1 - math.ceil(math.log2(self.largest))

    def length(self, numbers: int) -> int:
        """Return how many words so many numbers take."""
        return -(-numbers // self.per_word)

    def error(self, sites: int) -> float:
        """Return the most by which a sum over so many sites differs from that of the numbers as they were, uncut."""
        return sites * 2.0 ** -(self.fraction_bits + 1)

    def limit(self, sites: int) -> float:
        """Return where numbers are cut off, so that there is room for what sites round, and for rounded shares."""
        room = 2.0 ** (self.bits - 1) * (1 - SLACK) - 1 - sites
        return min(self.largest, room / 2.0**self.fraction_bits)

    def write(self, numbers: Floats, *, share: float, sites: int) -> tuple[Words, int]:
        """Return share·numbers as words, for a sum over at most ``sites`` sites, and how many were cut off.

        The shares of all sites add up to at most 1 + 2⁻¹⁶. numbers (n,); returns (length(n),), u8. Numbers that are
        none raise `InputError`.
        """
        if not 0 <= share <= 1 + SLACK:
            raise InputError(f"a share of {share} of the sum given; wanted one from 0 to 1")
        count, limit, cut = self.length(len(numbers)), self.limit(sites), 0
        words = np.zeros(count, np.int64)
        for place in range(self.per_word):
            for start in range(0, count, _PIECE):
                at = place * count + start
                piece = numbers[at : min(at + _PIECE, (place + 1) * count)].astype(np.float64)
                size = np.abs(piece)
                if not np.isfinite(size.sum()):
                    raise InputError(
                        "some numbers are infinite or none at all: the training diverged; lower the rate"
                    )
                cut += int(np.count_nonzero(size > limit))
                np.clip(piece, -limit, limit, out=piece)
                piece *= share * 2.0**self.fraction_bits
                whole = np.rint(piece, out=piece).astype(np.int64)
                words[start : start + len(whole)] += whole << self.bits * place
        return words.view(np.uint64), cut

    def read(self, words: Words, numbers: int) -> Floats:
        """Return the numbers of a sum of words.

        words (length(numbers),), u8; returns (numbers,), f8.
        """
        rest, found = words.view(np.int64).copy(), np.empty((self.per_word, len(words)))
        spare = 64 - self.bits
        for place in range(self.per_word):
            lowest = (rest << spare) >> spare  # the lowest bits, with their sign
            found[place] = lowest
            rest = (rest - lowest) >> self.bits
        return found.ravel()[:numbers] / 2.0**self.fraction_bits
