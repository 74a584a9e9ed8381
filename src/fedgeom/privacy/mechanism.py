"""Noise of several sites that is enough together: how much each adds, and what the sum then promises.

Each of n sites adds a discrete Gaussian of deviation σ to whole numbers that one row moves by at most Δ (L2). Their sum
is nearly a discrete Gaussian of deviation √n·σ: with τ = 10·Σ_{k<n} exp(-2π²σ²·k/(k+1)) a release of d numbers is
½ε²-zCDP with ε = min(√(Δ²/nσ² + τd/2), Δ/(√n·σ) + τ√d) (Kairouz, Liu and Steinke 2021, Proposition 14). σ is at least
2^8 here, so that τ is 0 in every digit, and what counts is ρ = Δ²/2nσ².

The grid is as coarse as the noise allows, a power of two that follows from the terms: σ has 8 binary digits there, and
one table makes a number of noise (`fedgeom.crypto.discrete_gaussian`). Sums come to it by rounding at random, which
keeps their mean and costs little (`fedgeom.privacy.mechanism`); where it would cost more than 1.6 % of σ, because
numbers are many and ρ is small, σ has a digit more.

n is the fewest sites that a sum is unmasked over, less those that may tell what they added, or add nothing. More sites
add noise of their own to that, which takes nothing from the promise.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fedgeom.arrays import Ints
from fedgeom.crypto.discrete_gaussian import PIECE, GaussianDraws, discrete_gaussian
from fedgeom.crypto.masks import KeyStream
from fedgeom.errors import InputError
from fedgeom.memo import memoize
from fedgeom.privacy.accounting import LARGEST_ORDER
from fedgeom.privacy.bounded_sums import BoundedVector

LEAST_VARIANCE = 2.0**16
"""v, at least: factors 1 + O(1/v) above are then below 1.001."""


def rounded_rho(variance: float, sensitivity: float, numbers: int, order: float = LARGEST_ORDER) -> float:
    """Return ρ of numbers that were rounded at random and have noise of a variance, for orders up to the largest.

    ``sensitivity``: by how much one row moves the numbers before they are rounded (L2), in units of the grid.
    """
    if variance < LEAST_VARIANCE:
        return math.inf
    narrow = 1 / (4 * variance - 1)
    ends = 0.18 * math.sqrt(numbers) / variance  # 4., each of two
    middle = sensitivity**2 / (2 * variance) + numbers * narrow**2 / 4
    most = order * (1 + ends / math.sqrt(middle)) ** 2 * narrow
    if most >= 1:
        return math.inf
    return (math.sqrt(middle / (1 - most)) + 2 * ends) ** 2


DIGITS = 8
"""Binary digits of a site's σ on the grid on which sums are taken, at least."""
MOST_DIGITS = 24
COSTS_LITTLE = 1 / 64
"""By what share rounding may make the noise larger before the grid is made finer."""
FRACTION = 16
"""Binary digits after the point, on the grid, that are rounded at random; those behind them are cut off."""


def honest_sites(smallest: int, colluders: int) -> int:
    """Return how many sites' noise can be relied on in sums over at least so many sites."""
    if smallest <= colluders:
        raise InputError(
            f"sums over {smallest} sites may be asked for, of which {colluders} may tell their noise: none is "
            f"left. Wanted min_sites = {colluders + 1} at least, better {colluders + 2} or more, or fewer colluders"
        )
    return smallest - colluders


def sum_rho(sigma: float, sites: int, sensitivity: float, numbers: int, *, rounded: bool = False) -> float:
    """Return ρ of a sum to which each of some sites added a discrete Gaussian (Proposition 14 above).

    ``rounded``: the numbers were rounded at random before.
    """
    if sites < 1 or sigma <= 0:
        return math.inf
    tau = 10 * math.fsum(math.exp(-2 * (math.pi * sigma) ** 2 * k / (k + 1)) for k in range(1, sites))
    ratio = sensitivity / (math.sqrt(sites) * sigma)
    if rounded:
        return math.inf if tau else rounded_rho(sites * sigma**2, sensitivity, numbers)
    return min(ratio**2 + tau * numbers / 2, (ratio + tau * math.sqrt(numbers)) ** 2) / 2


@dataclass(frozen=True)
class NoiseGrid:
    """On what multiples a sum is taken, and the noise there."""

    shift: int
    """How many binary digits the whole numbers lose; negative: how many are added."""
    sensitivity: float
    """Δ, in multiples."""
    sigma: float
    """The deviation of one site's noise, in multiples."""


@memoize(256)
def grid_of(sensitivity: float, rho: float, honest: int, numbers: int) -> NoiseGrid:
    """Return the coarsest grid on which rounding costs little, and the least noise there that is enough."""
    wanted = sensitivity / math.sqrt(2 * rho * honest)
    for digits in range(DIGITS, MOST_DIGITS + 1):
        shift = math.floor(math.log2(wanted)) - digits
        # Digits behind those that are rounded at random are cut off, which moves each number by less than one of them.
        cut = math.sqrt(numbers) * 2.0**-FRACTION if shift > FRACTION else 0.0
        moved = sensitivity * 2.0**-shift + cut
        if shift <= 0:
            return NoiseGrid(shift, moved, wanted * 2.0**-shift * (1 + 1e-9))
        low = moved / math.sqrt(2 * rho * honest)
        high = most = wanted * 2.0**-shift * (1 + COSTS_LITTLE)
        if sum_rho(most, honest, moved, numbers, rounded=True) > rho:
            continue
        while high - low > 1e-9 * high:
            middle = (low + high) / 2
            enough = sum_rho(middle, honest, moved, numbers, rounded=True) <= rho
            low, high = (low, middle) if enough else (middle, high)
        return NoiseGrid(shift, moved, high)
    raise InputError(f"{numbers} numbers for a cost of rho = {rho:g} are too many: more of epsilon is needed")


@dataclass(frozen=True)
class SumNoise:
    """The noise of one sum: the same at every site, as it follows from the terms."""

    sensitivity: float
    """Δ: by how much one row, or one site, moves the whole numbers at most (L2)."""
    rho: float
    """What the sum may cost."""
    honest: int
    """How many sites' noise can be relied on."""
    numbers: int
    """How many numbers there are."""

    @property
    def grid(self) -> NoiseGrid:
        """The multiples on which the sum is taken."""
        return grid_of(self.sensitivity, self.rho, self.honest, self.numbers)

    @property
    def shift(self) -> int:
        """How many binary digits the whole numbers lose before noise is added; negative: how many are added."""
        return self.grid.shift

    @property
    def sigma(self) -> float:
        """The deviation of one site's noise, on the grid."""
        return self.grid.sigma

    @property
    def spread(self) -> float:
        """The deviation, in the units of the whole numbers, of the noise that can be relied on in the sum."""
        return self.sigma * math.sqrt(self.honest) * 2.0**self.shift

    def add(self, whole: Ints | BoundedVector, stream: KeyStream, into: Ints | None = None) -> Ints:
        """Return one site's numbers on the grid, with its noise, (numbers,), i8; ``into``: where they are written.

        Piece after piece: what is made of some numbers stays in the processor's cache until it is written, once.
        """
        if whole.shape != (self.numbers,) or (isinstance(whole, np.ndarray) and whole.dtype != np.int64):
            raise InputError(f"whole numbers of shape {whole.shape} given; wanted ({self.numbers},)")
        out = np.empty(self.numbers, np.int64) if into is None else into
        shift = self.shift
        sampler = discrete_gaussian(self.sigma)
        draws = GaussianDraws(sampler, stream)
        fine = FineGrid(whole, shift, narrow=len(sampler.tables) == 1)
        random = bytearray(2 * PIECE)
        for first in range(0, self.numbers, PIECE):
            last = min(first + PIECE, self.numbers)
            piece = fine.piece(first, last)
            if shift > 0:
                stream.fill(memoryview(random)[: 2 * len(piece)])
                bits = np.frombuffer(random, np.uint16)[: len(piece)]
                # The chance of one more is what stands behind the point.
                piece += bits if shift >= FRACTION else bits >> (FRACTION - shift)
                piece >>= min(shift, FRACTION)
            draws.add_to(piece)
            out[first:last] = piece
        draws.finish(out)
        return out

    def longest(self, one: float, sites: int) -> float:
        """Return how long a sum over some sites is at most, in whole numbers, if no site adds more than ``one`` (L2).

        But for a chance of e^-72: that is how seldom noise is longer (Hsu, Kakade and Zhang 2012, Theorem 2.1).
        """
        noise = self.sigma * math.sqrt(sites * (self.numbers + 2 * math.sqrt(72 * self.numbers) + 144))
        return sites * one + (noise + sites * math.sqrt(self.numbers)) * 2.0**self.shift

    def read(self, total: Ints) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
        """Return a sum of what sites added, in the units of the whole numbers, (numbers,), f8."""
        return np.asarray(total * 2.0**self.shift, np.float64)


class FineGrid:
    """Numbers with `FRACTION` binary digits behind the point of the grid, as whole ones, piece after piece."""

    def __init__(self, whole: Ints | BoundedVector, shift: int, *, narrow: bool):
        self._whole = whole
        self._lost = shift - FRACTION if shift > FRACTION else min(shift, 0)
        self._room: npt.NDArray[Any] = np.empty(PIECE, np.int64)
        if isinstance(whole, BoundedVector):
            if narrow and whole.length * 2.0**-self._lost < 2**30:  # half as wide is twice as fast
                self._room = np.empty(PIECE, np.int32)
            self._real = np.empty(PIECE)

    def piece(self, first: int, last: int) -> npt.NDArray[Any]:
        """Return some of the numbers, in room that the next piece is written into."""
        room = self._room[: last - first]
        if isinstance(self._whole, BoundedVector):
            self._whole.cut_to_whole(first, last, 2.0**-self._lost, self._real, room)
        elif self._lost > 0:
            np.right_shift(self._whole[first:last], self._lost, out=room)
        else:
            np.left_shift(self._whole[first:last], -self._lost, out=room)
        return room
