"""Whole numbers with a discrete Gaussian distribution, many at a time, from a cipher's key stream.

P(x) ∝ exp(-x²/2σ²) for all whole numbers x (Canonne, Kamath and Steinke 2020, Definition 1).

**Small σ: by tables.** Chances are written as whole numbers of 2⁻¹²⁸, from decimals of 60 digits. 16 random bits choose
from a table in which each x stands as often as its chance holds 2⁻¹⁶ in full; the few bits that choose nothing are
followed by others in a second table, of what is left of the chances, and so on. That is exact for the chances as they
are written, which are off by 10⁻³⁴ in all (total variation): so much of δ it costs per number, times 1 + e^ε.

**Large σ: by sums.** If Y and Z are discrete Gaussians of σ₁ and σ₂, Y + aZ has at x the chance of the one of
σ² = σ₁² + a²σ₂², but for a factor between 1 - η and 1 + η: completing the square leaves a sum of a Gaussian of
deviation s = aσ₁σ₂/σ over multiples of a, which by Poisson's summation formula is the same for all x but for
η = 2·Σ exp(-2π²m²s²/a²) (the smoothing lemma of lattices; Micciancio and Walter 2017). With σ₁ = 1.65a and σ₂ ≥ 8, η is
below 10⁻²¹ (see its tests): so little one number moves a loss of privacy, the logarithm of a ratio of chances.

So no rounding shows in the distribution, by which noisy values of real numbers could betray more than is said (Mironov
2012).
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from decimal import Decimal, localcontext
from itertools import accumulate
from typing import Any

import numpy as np
import numpy.typing as npt

from fedgeom.arrays import Ints
from fedgeom.crypto.masks import KeyStream
from fedgeom.errors import InputError
from fedgeom.memo import memoize

SMALLEST = 8.0
LARGEST = 2.0**36
"""The deviations that can be drawn: below, sums of several are no discrete Gaussians, and above the bits are few."""
LARGEST_TABLE = 1024.0
"""Larger deviations are drawn as sums: a table of 2¹⁶ places would leave too many chances to the second one."""
WIDEST_STEP = 160
"""a, at most: 1.65a is the deviation of a table."""
SMOOTH = 1.65
"""σ₁/a"""
REACH = 14.0
"""Chances farther out than so many deviations are below 2⁻¹²⁸."""
PRECISION = 128
TABLES = 3
"""How many tables follow each other; what still chooses nothing, one number of some millions, is drawn one by one."""
_PLACES = 1 << 16
PIECE = 1 << 15
"""Numbers that are drawn at a time: their 16 bits are 64 KiB."""
_DIGITS = 60


def chances(sigma: float) -> list[int]:
    """Return P(x)·2¹²⁸ for x = -reach … reach, rounded down, what is left at 0, so that the sum is 2¹²⁸."""
    reach = math.ceil(REACH * sigma)
    with localcontext() as context:
        context.prec = _DIGITS
        ratio = (Decimal(-1) / (2 * Decimal(sigma) ** 2)).exp()
        # exp(-(x+1)²/2σ²) = exp(-x²/2σ²)·r^(2x+1), r = exp(-1/2σ²): products instead of thousands of exponentials.
        heights = [Decimal(1)]
        step = ratio
        for _ in range(reach):
            heights.append(heights[-1] * step)
            step *= ratio * ratio
        scale = Decimal(2) ** PRECISION / (2 * sum(heights) - 1)
        right = [int(height * scale) for height in heights[1:]]
    return [*reversed(right), 2**PRECISION - 2 * sum(right), *right]


class _OneByOne:
    """Draws from whole weights exactly, a number at a time."""

    def __init__(self, values: Sequence[int], weights: Sequence[int]):
        self._values = values
        self._upto = list(accumulate(weights))
        self._words = -(-self._upto[-1].bit_length() // 64)

    def draw(self, stream: KeyStream, count: int) -> Ints:
        """Return ``count`` values, (count,), i8."""
        total = self._upto[-1]
        found = list[int]()
        spare = 64 * self._words - total.bit_length()
        while len(found) < count:
            drawn = int.from_bytes(stream.words(self._words).tobytes(), "little") >> spare
            if drawn < total:
                found.append(self._values[bisect_right(self._upto, drawn)])
        return np.array(found, np.int64)


class _Table:
    """Draws from whole weights exactly: by 16 bits from a table, or else from the next one."""

    def __init__(self, values: Sequence[int], weights: Sequence[int], tables: int = TABLES):
        total = sum(weights)
        times = [(weight << 16) // total for weight in weights]
        largest = max(abs(value) for value in values)
        kind = np.int16 if largest < 2**15 else np.int32 if largest < 2**28 else np.int64
        self.places = np.zeros(_PLACES, kind)
        """What 16 bits choose; 0 where they choose nothing."""
        full = sum(times)
        self.places[:full] = np.repeat(np.array(values, self.places.dtype), times)
        self.last = np.uint16(full - 1)
        """The last of the 16 bits, as a number, that choose something."""
        self.next: _Table | _OneByOne | None = None
        if full < _PLACES:
            rest = [(weight << 16) - total * n for weight, n in zip(weights, times, strict=True)]
            left = [(value, weight) for value, weight in zip(values, rest, strict=True) if weight]
            after = [value for value, _ in left], [weight for _, weight in left]
            self.next = _Table(*after, tables - 1) if tables > 1 else _OneByOne(*after)

    def draw(self, stream: KeyStream, count: int) -> Ints:
        """Return ``count`` values, (count,), i8."""
        bits = stream.words(-(-count // 4)).view(np.uint16)[:count]
        found = self.places.take(bits).astype(np.int64)
        late = np.flatnonzero(bits > self.last)
        if self.next is not None and len(late):
            found[late] = self.next.draw(stream, len(late))
        return found


@memoize(32)
def _table(sigma: float, times: int) -> _Table:
    """Return the table of a discrete Gaussian whose numbers are multiplied; the last few are kept."""
    weights = chances(sigma)
    reach = len(weights) // 2
    return _Table([times * x for x in range(-reach, reach + 1)], weights)


def parts_of(sigma: float) -> list[tuple[float, int]]:
    """Return of which discrete Gaussians one is the sum: the σ of each, and what its numbers are multiplied by."""
    found = []
    times = 1
    while sigma > LARGEST_TABLE:
        step = min(WIDEST_STEP, int(sigma / 8.2))  # so that what is left has a deviation of 8 at least
        found.append((SMOOTH * step, times))
        sigma = math.sqrt(sigma**2 - (SMOOTH * step) ** 2) / step
        times = times * step
    return [*found, (sigma, times)]


class DiscreteGaussian:
    """The discrete Gaussian of one σ."""

    def __init__(self, sigma: float):
        if not SMALLEST <= sigma <= LARGEST:
            raise InputError(f"sigma={sigma!r} given; wanted a deviation from {SMALLEST:g} to {LARGEST:g}")
        self.sigma = float(sigma)
        self._tables = [_table(part, times) for part, times in parts_of(self.sigma)]

    def draw(self, stream: KeyStream, count: int) -> Ints:
        """Return ``count`` independent numbers, (count,), i8."""
        out = np.zeros(count, np.int64)
        self.add_to(out, stream)
        return out

    def add_to(self, numbers: Ints, stream: KeyStream) -> None:
        """Add independent numbers to some, (count,), i8, in their place."""
        draws = GaussianDraws(self, stream)
        for first in range(0, len(numbers), PIECE):
            draws.add_to(numbers[first : first + PIECE])
        draws.finish(numbers)

    @property
    def tables(self) -> list[_Table]:
        """One for each of the parts that a number is the sum of."""
        return self._tables


class GaussianDraws:
    """Numbers of one sampler from one stream, piece after piece, in room that stays in the processor's cache."""

    def __init__(self, sampler: DiscreteGaussian, stream: KeyStream):
        self._tables = sampler.tables
        self._stream = stream
        self._done = 0
        self._room = bytearray(2 * PIECE)
        self._drawn = [np.empty(PIECE, table.places.dtype) for table in self._tables]
        self._late = [list[Ints]() for _ in self._tables]

    def add_to(self, piece: npt.NDArray[np.signedinteger[Any]]) -> None:
        """Add independent numbers to the next few, `PIECE` at most, in their place; some are added by `finish`."""
        count = len(piece)
        room = memoryview(self._room)[: 2 * count]
        bits = np.frombuffer(self._room, np.uint16)[:count]
        for table, drawn, late in zip(self._tables, self._drawn, self._late, strict=True):
            self._stream.fill(room)
            table.places.take(bits, out=drawn[:count], mode="wrap")  # nothing wraps around: the quick way
            late.append(self._done + np.flatnonzero(bits > table.last))
            piece += drawn[:count]
        self._done += count

    def finish(self, numbers: Ints) -> None:
        """Add what is missing where 16 bits chose nothing, to all numbers together, (count,), i8, in their place."""
        for table, late in zip(self._tables, self._late, strict=True):
            places = np.concatenate(late) if late else np.empty(0, np.int64)
            if table.next is not None and len(places):
                numbers[places] += table.next.draw(self._stream, len(places))


@memoize(32)
def discrete_gaussian(sigma: float) -> DiscreteGaussian:
    """Return the sampler of a σ; the last few are kept."""
    return DiscreteGaussian(sigma)
