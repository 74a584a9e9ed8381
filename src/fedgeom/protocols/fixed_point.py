"""Real numbers in Z_2^64, so that secure sums of them are exact up to one rounding per site."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fedgeom.arrays import Floats, Words
from fedgeom.crypto.masks import Ring, expand
from fedgeom.errors import InputError
from fedgeom.federation.messages import roomy_words

RING = Ring(2**64)
PIECE = 1 << 14
"""How many numbers are converted at a time: they stay in the processor's cache."""


def to_fixed(values: npt.ArrayLike, *, fraction_bits: int, sites: int, largest: float | None = None) -> Words:
    """Round to multiples of 2^-fraction_bits; refuse what could overflow in a sum over ``sites`` sites.

    Numbers larger than ``largest``, up to their sign, are cut off at it, where it is given.

    values (…), real numbers; returns the same shape, u8.
    """
    numbers = np.asarray(values).ravel()
    bound = 2.0 ** (62 - fraction_bits) / max(sites, 1)
    scale = 2.0**fraction_bits
    fixed = roomy_words(len(numbers))
    whole = fixed.view(np.int64)
    room = np.empty(min(PIECE, len(numbers)))
    for start in range(0, len(numbers), PIECE):
        given = numbers[start : start + PIECE]
        with np.errstate(over="ignore"):  # what is infinite then is refused, or cut off
            piece = np.multiply(given, scale, out=room[: len(given)], dtype=np.float64)  # exact: a power of two
        if largest is not None:
            np.clip(piece, -largest * scale, largest * scale, out=piece)
        if not (piece.max() < bound * scale and piece.min() > -bound * scale):  # NaN is no number below the bound
            at = int(np.flatnonzero(~(np.abs(piece) < bound * scale))[0])
            raise InputError(
                f"entry {start + at} is {piece[at] / scale:.6g}; sums over {sites} sites with {fraction_bits} binary "
                f"digits hold numbers below {bound:.6g}: rescale the columns"
            )
        whole[start : start + len(given)] = np.rint(piece, out=piece)
    return fixed


def from_fixed(vector: Words, *, fraction_bits: int) -> npt.NDArray[np.float64]:
    """Read a sum back as real numbers.

    vector (…), u8; returns the same shape, f8.
    """
    return np.multiply(vector.view(np.int64), 2.0**-fraction_bits)  # exact: a power of two


WIDE_BITS = 40
"""Binary digits after the point of wide numbers."""
_UPPER = 2.0**8


def to_wide(values: npt.ArrayLike, *, sites: int) -> Words:
    """Write real numbers as two words each, so that sums of small and of large ones are exact to 2⁻⁴⁰.

    The first half counts whole multiples of 256, the second half is what is left, in fixed point. For sums of columns
    in whatever unit: they hold numbers up to 2⁶² divided by ``sites``. No word ever wraps around: sums can be checked.

    values (n,), real numbers; returns (2·n,), u8.
    """
    numbers = np.asarray(values, np.float64).ravel()
    upper = np.floor(numbers / _UPPER)
    high = to_fixed(upper, fraction_bits=8, sites=sites)  # refuses what is too large or no number
    low = to_fixed(numbers - _UPPER * upper, fraction_bits=WIDE_BITS, sites=sites)
    return np.concatenate([high, low])


def from_wide(vector: Words) -> npt.NDArray[np.float64]:
    """Read a sum of wide numbers back.

    vector (2·n,), u8; returns (n,), f8.
    """
    high, low = np.split(vector, 2)
    return _UPPER * from_fixed(high, fraction_bits=8) + from_fixed(low, fraction_bits=WIDE_BITS)


def numbers_of(total: Words, words_per_number: int) -> npt.NDArray[np.float64]:
    """Read numbers that take one word each (as whole multiples of a unit), two (wide) or four (deep).

    total (words,), u8; returns (words / words_per_number,), f8.
    """
    if words_per_number == 1:
        return total.view(np.int64).astype(np.float64)
    if words_per_number == 2:
        return from_wide(total)
    coarse, rest = np.split(total, 2)
    return numbers_of(coarse, words_per_number // 2) + numbers_of(rest, words_per_number // 2) * 2.0**-40


def fixed_sum(
    vectors: npt.ArrayLike, weights: npt.ArrayLike | None = None, *, fraction_bits: int
) -> npt.NDArray[np.float64]:
    """Return Σ weight·vector, rounded site by site exactly as a secure sum rounds it.

    vectors (sites, length), weights (sites,); returns (length,), f8.
    """
    rows = np.asarray(vectors, np.float64)
    factors = np.ones(len(rows)) if weights is None else np.asarray(weights, np.float64)
    options = {"fraction_bits": fraction_bits, "sites": len(rows)}
    parts = [to_fixed(weight * vector, **options) for weight, vector in zip(factors, rows, strict=True)]
    total = np.add.reduce(np.array(parts, np.uint64), axis=0, dtype=np.uint64)
    return from_fixed(total, fraction_bits=fraction_bits)


SLACK = 2.0**-16
"""By how much the shares of all sites may add up to more than 1: enough for rounded ones, and next to no precision."""


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
        words = np.empty(self.length(len(numbers)), np.uint64)
        pieces = (numbers[at : at + PIECE].astype(np.float64) for at in range(0, len(numbers), PIECE))
        return words, self.write_into(words, pieces, share=share, sites=sites)

    def write_into(self, words: Words, pieces: Iterable[Floats], *, share: float, sites: int) -> int:
        """Write share·numbers, which come piece by piece, into words; return how many were cut off.

        ``pieces`` are arrays of f8, which are written over.
        """
        if not 0 <= share <= 1 + SLACK:
            raise InputError(f"a share of {share} of the sum given; wanted one from 0 to 1")
        limit = self.limit(sites)
        whole = words.view(np.int64)
        whole[...] = 0
        cut = 0
        at = 0
        for piece in pieces:
            least = piece.min(initial=0.0)
            most = piece.max(initial=0.0)
            if not (least > -np.inf and most < np.inf):  # NaN is neither
                raise InputError("some numbers are infinite or none at all: the training diverged; lower the rate")
            if least < -limit or most > limit:
                cut += int(np.count_nonzero(np.abs(piece) > limit))
                np.clip(piece, -limit, limit, out=piece)
            piece *= share * 2.0**self.fraction_bits
            found = np.rint(piece, out=piece).astype(np.int64)
            while len(found):  # all words are filled at one place before the next
                place, start = divmod(at, len(whole))
                some = found[: len(whole) - start]
                whole[start : start + len(some)] += some << self.bits * place
                at += len(some)
                found = found[len(some) :]
        return cut

    def read(self, words: Words, numbers: int) -> Floats:
        """Return the numbers of a sum of words.

        words (length(numbers),), u8; returns (numbers,), f8.
        """
        found = np.empty(numbers)
        for start in range(0, numbers, PIECE):
            found[start : start + PIECE] = self.read_some(words, start, min(start + PIECE, numbers))
        return found

    def read_some(self, words: Words, start: int, stop: int) -> Floats:
        """Return the numbers from one place in a sum of words up to another, (stop - start,), f8."""
        found = np.empty(stop - start)
        spare = 64 - self.bits
        at = start
        while at < stop:
            place, first = divmod(at, len(words))
            rest = words[first : first + stop - at].view(np.int64)
            for _ in range(place):
                rest = (
                    rest - ((rest << spare) >> spare)
                ) >> self.bits  # the lowest bits, with their sign, are gone
            lowest = (rest << spare) >> spare
            np.multiply(lowest, 2.0**-self.fraction_bits, out=found[at - start : at - start + len(rest)])
            at += len(rest)
        return found


MODULUS = 2**61 - 1
"""A Mersenne prime, so that a random element is almost never 0 and masks are never skipped."""


MAXIMUM_RING = Ring(MODULUS)


def write_levels(reached: Sequence[tuple[int, int]], key: bytes) -> Words:
    """Encode pairs (level, number of levels); level 0 means none is reached.

    The random elements come from ``key``, which never leaves the site: whoever knew them could tell
    from the sum which sites reached a level.
    """
    vector = expand(key, MAXIMUM_RING, sum(levels for _, levels in reached))
    at = 0
    for level, levels in reached:
        if not 0 <= level <= levels:
            raise InputError(f"level {level} of {levels} was given; wanted 0 … {levels}")
        vector[at + level : at + levels] = 0
        at += levels
    return vector


def read_levels(total: Words, levels: Sequence[int]) -> list[int]:
    """Return the highest level that any site reached, for each of the encoded numbers.

    total (sum of the levels,), u8.
    """
    found = []
    at = 0
    for count in levels:
        nonzero = np.flatnonzero(total[at : at + count])
        found.append(int(nonzero[-1]) + 1 if nonzero.size else 0)
        at += count
    return found
