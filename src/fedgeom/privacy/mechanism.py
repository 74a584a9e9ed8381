"""Noise of several sites that is enough together: how much each adds, and what the sum then promises.

Each of n sites adds a discrete Gaussian of deviation σ to whole numbers that one row moves by at most Δ (L2). Their sum
is nearly a discrete Gaussian of deviation √n·σ: with τ = 10·Σ_{k<n} exp(-2π²σ²·k/(k+1)) a release of d numbers is
½ε²-zCDP with ε = min(√(Δ²/nσ² + τd/2), Δ/(√n·σ) + τ√d) (Kairouz, Liu and Steinke 2021, Proposition 14). σ is at least
2^19 here, so that τ is 0 in every digit, and what counts is ρ = Δ²/2nσ².

n is the fewest sites that a sum is unmasked over, less those that may tell what they added, or add nothing. More sites
add noise of their own to that, which takes nothing from the promise.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from fedgeom.arrays import Ints
from fedgeom.crypto.discrete_gaussian import discrete_gaussian
from fedgeom.crypto.masks import KeyStream
from fedgeom.errors import InputError

_PIECE = 1 << 13
DIGITS = 20
"""Binary digits of a site's σ on the grid on which sums are taken: a finer one would cost bits, a coarser one noise."""


def honest_sites(smallest: int, colluders: int) -> int:
    """Return how many sites' noise can be relied on in sums over at least so many sites."""
    if smallest <= colluders:
        raise InputError(
            f"sums over {smallest} sites may be asked for, of which {colluders} may tell their noise: nobody's is "
            f"left. Wanted min_sites = {colluders + 1} at least, better {colluders + 2} or more, or fewer colluders"
        )
    return smallest - colluders


def sum_rho(sigma: float, sites: int, sensitivity: float, numbers: int) -> float:
    """Return ρ of a sum to which each of some sites added a discrete Gaussian (Proposition 14 above)."""
    if sites < 1 or sigma <= 0:
        return math.inf
    tau = 10 * math.fsum(math.exp(-2 * (math.pi * sigma) ** 2 * k / (k + 1)) for k in range(1, sites))
    ratio = sensitivity / (math.sqrt(sites) * sigma)
    return min(ratio**2 + tau * numbers / 2, (ratio + tau * math.sqrt(numbers)) ** 2) / 2


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
    def shift(self) -> int:
        """How many binary digits are cut off the whole numbers before noise is added; negative: how many are added."""
        wanted = self.sensitivity / math.sqrt(2 * self.rho * self.honest)
        return math.floor(math.log2(wanted)) - DIGITS

    @property
    def grid_sensitivity(self) -> float:
        """Δ on the coarser grid: rounding may move each number by one more."""
        rounding = math.sqrt(self.numbers) if self.shift > 0 else 0.0
        return self.sensitivity * 2.0**-self.shift + rounding

    @property
    def sigma(self) -> float:
        """The deviation of one site's noise, on the grid."""
        return self.grid_sensitivity / math.sqrt(2 * self.rho * self.honest) * (1 + 1e-9)

    @property
    def spread(self) -> float:
        """The deviation, in the units of the whole numbers, of the noise that can be relied on in the sum."""
        return self.sigma * math.sqrt(self.honest) * 2.0**self.shift

    def add(self, whole: Ints, stream: KeyStream) -> Ints:
        """Return one site's whole numbers on the grid, with its noise, (numbers,), i8."""
        if whole.shape != (self.numbers,) or whole.dtype != np.int64:
            raise InputError(f"whole numbers of shape {whole.shape} given; wanted ({self.numbers},)")
        shift, noisy = self.shift, np.empty_like(whole)
        for first in range(0, len(whole), _PIECE):
            some, into = whole[first : first + _PIECE], noisy[first : first + _PIECE]
            if shift > 0:
                np.add(some, 1 << (shift - 1), out=into)
                into >>= shift
            else:
                np.left_shift(some, -shift, out=into)
        discrete_gaussian(self.sigma).add_to(noisy, stream)
        return noisy

    def read(self, total: Ints) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
        """Return a sum of what sites added, in the units of the whole numbers, (numbers,), f8."""
        return np.asarray(total * 2.0**self.shift, np.float64)
