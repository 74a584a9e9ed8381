"""Quantisation grids on the Poincaré disc: rings cut into sectors (Section 5.2 and Appendix C).

Both grids cover the disc of Euclidean radius R around the origin, and every two points of one bin are within
hyperbolic distance ε (Definition 2). Why: from the point nearer to the origin walk along its own circle, then
outward. In a ring from a to b cut into sectors of angle θ this takes at most

    max(b - a + θ s sinh(a/s),  θ s sinh(b/s)),

because the walk's length is a convex function of the nearer radius.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedgeom.arrays import Floats
from fedgeom.errors import InputError
from fedgeom.geometry._checks import check_curvature, check_points, check_positive, check_radius
from fedgeom.geometry.hyperbolic.poincare import euclidean_radius, hyperbolic_radius

__all__ = ["EqualAreaGrid", "Grid", "PolarGrid"]

Bins = NDArray[np.int64]

_MAX_SIZE = 2**63 - 1
# A norm may exceed the radius by this relative amount: (R cos φ, R sin φ) has norm R only up to rounding.
_SLACK = 1.0 + 4.0 * float(np.finfo(np.float64).eps)


class Grid(ABC):
    """A disc cut into bins 1, …, size, from the innermost ring outward, counter-clockwise from angle 0."""

    radius: float
    c: float
    n_angular: int
    n_radial: int

    @property
    def size(self) -> int:
        """The number of bins, B = N_Θ N_R."""
        return self.n_angular * self.n_radial

    def bin(self, points: ArrayLike) -> Bins:
        """Return the bin number of every point; the circle of radius R belongs to the last ring."""
        X = check_points(points, c=self.c, dim=2)
        norms = np.hypot(X[:, 0], X[:, 1])
        beyond = norms > self.radius * _SLACK
        if beyond.any():
            index = int(np.argmax(beyond))
            raise InputError(
                f"points[{index}] has norm {float(norms[index])!r}, but the grid covers norms up to "
                f"{self.radius!r} ({int(beyond.sum())} points are beyond); make the grid with a larger radius."
            )
        turns = np.arctan2(X[:, 1], X[:, 0]) / (2.0 * np.pi)
        turns = np.where(turns < 0.0, turns + 1.0, turns)
        sector = _floor(turns * self.n_angular, self.n_angular)
        ring = _floor(self._ring_position(norms) * self.n_radial, self.n_radial)
        return ring * self.n_angular + sector + 1

    def center(self, bins: ArrayLike) -> Floats:
        """Return the centres of the bins with these numbers, as points of the disc (Eq. 13, Eq. 19)."""
        numbers = np.asarray(bins)
        if numbers.size and numbers.dtype.kind not in "iu":
            raise InputError(f"bins have dtype {numbers.dtype}, but bin numbers are integers; convert them.")
        wrong = (numbers < 1) | (numbers > self.size)
        if wrong.any():
            raise InputError(
                f"{int(numbers[wrong].flat[0])} is not a bin of this grid, whose bins are 1 to {self.size}; "
                "use the grid that made the numbers, with the same ε, radius and c."
            )
        ring, sector = np.divmod(numbers.astype(np.int64) - 1, self.n_angular)
        angle = 2.0 * np.pi * ((sector + 0.5) / self.n_angular)
        norm = euclidean_radius(self._ring_center(ring + 0.5), c=self.c)
        return np.stack([norm * np.cos(angle), norm * np.sin(angle)], axis=-1)

    def quantize(self, points: ArrayLike) -> Floats:
        """Replace every point by the centre of its bin."""
        return self.center(self.bin(points))

    @abstractmethod
    def _ring_position(self, norms: Floats) -> Floats:
        """Map norms in [0, R] to [0, 1] so that the rings are equally long there."""

    @abstractmethod
    def _ring_center(self, position: Floats) -> Floats:
        """Return the hyperbolic radius at a position counted in rings; it inverts _ring_position."""


@dataclass(frozen=True)
class PolarGrid(Grid):
    """The paper's grid (Section 5.2): rings of equal breadth, at most ε/2, and sectors at most ε/2 long.

    N_Θ = ⌈2 Cir(R_H)/ε⌉ and N_R = ⌈2 R_H/ε⌉, with the circumference Cir of Eq. 10.

    >>> PolarGrid(0.5, 0.9).size
    2868
    """

    epsilon: float  # ε, Definition 2
    radius: float  # R, the largest norm of a point
    c: float = field(default=1.0, kw_only=True)  # the paper's k
    n_angular: int = field(init=False)  # N_Θ
    n_radial: int = field(init=False)  # N_R

    def __post_init__(self) -> None:
        """Check the parameters and count the bins."""
        c = check_curvature(self.c)
        radius = check_radius(self.radius, c)
        epsilon = _check_epsilon(self.epsilon)
        outer = float(hyperbolic_radius(radius, c=c))
        _set(self, epsilon=epsilon, radius=radius, c=c)
        _set(self, n_angular=_sectors(epsilon, outer, c), n_radial=max(1, math.ceil(2.0 * outer / epsilon)))
        _check_size(self)

    def _ring_position(self, norms: Floats) -> Floats:
        return np.asarray(hyperbolic_radius(norms, c=self.c) / hyperbolic_radius(self.radius, c=self.c))

    def _ring_center(self, position: Floats) -> Floats:
        return np.asarray(position * (hyperbolic_radius(self.radius, c=self.c) / self.n_radial))  # Eq. 11, 12


@dataclass(frozen=True)
class EqualAreaGrid(Grid):
    """A grid whose bins all have the same hyperbolic area (Appendix C, Eq. 17), with centres after Eq. 18."""

    n_angular: int  # N_Θ
    n_radial: int  # N_R
    radius: float  # R, the largest norm of a point
    c: float = field(default=1.0, kw_only=True)  # the paper's k

    def __post_init__(self) -> None:
        """Check the parameters."""
        for name in ("n_angular", "n_radial"):
            count = getattr(self, name)
            if int(count) != count or count < 1:
                raise InputError(f"{name} is {count!r}, but a number of bins is wanted; pass an integer ≥ 1.")
            _set(self, **{name: int(count)})
        c = check_curvature(self.c)
        _set(self, radius=check_radius(self.radius, c), c=c)
        _check_size(self)

    @classmethod
    def for_epsilon(cls, epsilon: float, radius: float, *, c: float = 1.0) -> EqualAreaGrid:
        """Return a grid in which every two points of one bin are within ε (Definition 2).

        The sectors are those of PolarGrid, at most ε/2 long. Rings get narrower outward, so that the innermost,
        a disc of hyperbolic radius h₁, is the broadest. Its bins are sharp wedges, so that h₁ ≤ ε is enough for
        them; and since asinh is concave, Eq. 17 makes every later ring narrower than (√2 - 1) h₁ < ε/2. Hence
        N_R = ⌈(sinh(R_H/2s)/sinh(ε/2s))²⌉.
        """
        c = check_curvature(c)
        radius = check_radius(radius, c)
        epsilon = _check_epsilon(epsilon)
        outer = float(hyperbolic_radius(radius, c=c))
        half = 0.5 * math.sqrt(c)
        # sinh grows beyond floating point for an ε far larger than the disc; one ring is enough there.
        ratio = math.sinh(half * outer) / math.sinh(half * min(epsilon, outer))
        return cls(_sectors(epsilon, outer, c), max(1, math.ceil(ratio * ratio)), radius, c=c)

    def _ring_position(self, norms: Floats) -> Floats:
        # The share of the area within a norm, by Eq. 15 with sinh²(h/2s) = ρ²/(1 - ρ²), ρ = √c‖x‖.
        return np.asarray(_odds(norms, self.c) / _odds(np.asarray(self.radius), self.c))

    def _ring_center(self, position: Floats) -> Floats:
        odds = position / self.n_radial * _odds(np.asarray(self.radius), self.c)
        return np.asarray(2.0 / math.sqrt(self.c) * np.arcsinh(np.sqrt(odds)))  # Eq. 18


def _odds(norms: Floats, c: float) -> Floats:
    rho = math.sqrt(c) * norms
    return np.asarray(rho * rho / ((1.0 - rho) * (1.0 + rho)))


def _floor(position: Floats, count: int) -> Bins:
    """Round down to 0, …, count - 1; the far end itself belongs to the last."""
    return np.clip(np.floor(position).astype(np.int64), 0, count - 1)


def _check_epsilon(epsilon: float) -> float:
    return check_positive(epsilon, "epsilon", "it is the largest distance within a bin, 0.01 for example")


def _sectors(epsilon: float, outer: float, c: float) -> int:
    """Return N_Θ = ⌈2 Cir(R_H)/ε⌉ with the circumference of Eq. 10."""
    s = 1.0 / math.sqrt(c)
    return max(1, math.ceil(2.0 * (2.0 * math.pi * s * math.sinh(outer / s)) / epsilon))


def _check_size(grid: Grid) -> None:
    if grid.size > _MAX_SIZE:
        raise InputError(
            f"the grid would have {grid.size:.3g} bins, but their numbers must fit 63 bits; "
            "coarsen ε, or leave out the points nearest to the edge and make the radius smaller."
        )


def _set(grid: Grid, **values: float) -> None:
    for name, value in values.items():
        object.__setattr__(grid, name, value)
