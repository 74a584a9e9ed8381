"""Whole numbers with a discrete Gaussian distribution, exactly, many at a time, from a cipher's key stream.

P(x) ∝ exp(-x²/2σ²) for all whole numbers x (Canonne, Kamath and Steinke 2020, Definition 1). It is drawn by rejection
from stairs that lie above it: 16 random bits choose a stair from a table, 32 at most a place on it, and with 16 more x
is taken or not. Most are taken at a first glance. Where the glance does not decide, the chance is computed with more
bits; where floating point cannot decide either, in exact decimals. So no rounding shows in the distribution, by which
noisy values of real numbers could betray more than is said (Mironov 2012).

Numbers beyond 12σ are never drawn. Their chance is below 4·10⁻³³, and so much of δ per number is what that costs.
"""

from __future__ import annotations

from decimal import Decimal, localcontext
from fractions import Fraction
from functools import lru_cache

import numpy as np

from fedgeom.arrays import Bools, Ints, Words
from fedgeom.crypto.masks import KeyStream
from fedgeom.errors import InputError

SMALLEST, LARGEST = 8.0, 2.0**36
"""The deviations that can be drawn: below, sums of several are no discrete Gaussians, and above the bits are few."""
REACH = 12.0
STAIRS = 32
"""How many stairs there are in one deviation, at least; twice as many at most."""
_TABLE = 1 << 16
_PIECE = 1 << 14
_MARGIN = 1e-9
"""What is farther from a chance than this share of it is decided in floating point, whose error is below 10⁻¹²."""
_DIGITS = 60


class DiscreteGaussian:
    """The discrete Gaussian of one σ; tables are made once."""

    def __init__(self, sigma: float):
        if not SMALLEST <= sigma <= LARGEST:
            raise InputError(f"sigma={sigma!r} given; wanted a deviation from {SMALLEST:g} to {LARGEST:g}")
        self.sigma = float(sigma)
        self._bits = max(int(np.floor(np.log2(sigma / STAIRS))), 0)
        width, half = 2**self._bits, int(np.ceil(REACH * sigma / 2**self._bits))
        starts = np.arange(-half, half, dtype=np.float64) * width
        near, far = np.sort(np.abs([starts, starts + width - 1]), axis=0)
        heights = np.exp(-((near / sigma) ** 2) / 2)
        # Rounded up to whole entries of the table, so that the stairs lie above the density everywhere.
        self._scale = int((_TABLE - 2 * half) / float(heights.sum()) * 0.999999)
        weights = np.ceil(heights * (1 + 1e-12) * self._scale).astype(np.int64)
        rest = _TABLE - int(weights.sum())  # entries of no stair: they are drawn again
        self._stairs = np.repeat(np.arange(-half, half + 1), [*weights.tolist(), rest]).astype(np.int64)
        self._half = half
        self._weights = np.append(weights, 1)
        self._ratios = np.append(self._scale / weights, 0.0)
        sure = np.append(np.exp(-((far / sigma) ** 2) / 2), 0.0) * self._ratios * (1 - _MARGIN)
        # Looked up by the stair's number, of which negative ones count from the end.
        self._sure = np.roll(np.minimum(sure * 2.0**16, 2.0**16 - 1).astype(np.uint64), -half)

    def draw(self, stream: KeyStream, count: int) -> Ints:
        """Return ``count`` independent numbers, (count,), i8."""
        out, filled = np.empty(count, np.int64), 0
        while filled < count:
            wanted = min(count - filled, _PIECE)
            found = self._some(stream, wanted + wanted // 16 + 16)[:wanted]
            out[filled : filled + len(found)] = found
            filled += len(found)
        return out

    def _some(self, stream: KeyStream, tries: int) -> Ints:
        """Return those of so many candidates that are taken, in order."""
        words = stream.words(tries)
        stair = self._stairs.take((words & np.uint64(_TABLE - 1)).view(np.int64))
        number = stair << self._bits
        number |= ((words >> np.uint64(16)) & np.uint64(2**self._bits - 1)).view(np.int64)
        words >>= np.uint64(48)
        taken = words < self._sure[stair]
        left = np.flatnonzero(~taken)
        taken[left] = self._decide(stair[left], number[left], words[left], stream)
        kept: Ints = number[taken]
        return kept

    def _decide(self, stair: Ints, number: Ints, first: Words, stream: KeyStream) -> Bools:
        """Say which candidates are taken that a first glance did not take."""
        there, at = stair != self._half, stair + self._half
        chance = (first << np.uint64(48)) | (stream.words(len(first)) >> np.uint64(16))
        share = np.exp(-((number / self.sigma) ** 2) / 2) * self._ratios[at]
        drawn = chance / 2.0**64
        taken = there & (drawn < share * (1 - _MARGIN))
        unclear = there & ~taken & (drawn < share * (1 + _MARGIN) + 2.0**-50)
        for one in np.flatnonzero(unclear).tolist():
            taken[one] = self._exactly(int(at[one]), int(number[one]), int(chance[one]), stream)
        return np.asarray(taken)

    def _exactly(self, at: int, number: int, chance: int, stream: KeyStream) -> bool:
        """Compare a chance, of which more and more bits are drawn, with the exact share."""
        bits = 64
        with localcontext() as context:
            context.prec = _DIGITS
            power = Fraction(number) ** 2 / (2 * Fraction(self.sigma) ** 2)
            share = (-Decimal(power.numerator) / Decimal(power.denominator)).exp()
            share *= Decimal(self._scale) / Decimal(int(self._weights[at]))
            slack = share * Decimal(10) ** (8 - _DIGITS)
            while True:
                unit = Decimal(2) ** -bits
                if (chance + 1) * unit <= share - slack:
                    return True
                if chance * unit >= share + slack:
                    return False
                chance, bits = (chance << 64) | int(stream.words(1)[0]), bits + 64


@lru_cache(maxsize=32)
def discrete_gaussian(sigma: float) -> DiscreteGaussian:
    """Return the sampler of a σ; the last few are kept."""
    return DiscreteGaussian(sigma)
