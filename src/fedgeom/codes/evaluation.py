"""Values of a polynomial over F_q at many small points, by a tree of products.

What is left of a polynomial f after division by P = Π(x − b) has the same values at these b. It follows from the first
coefficients of the power series f/P in 1/x, as many as there are points; and from these follow those for the products
of each half of the points, by one multiplication, and so on (D. J. Bernstein, "Scaled remainder trees", 2004). Of a few
points NumPy evaluates what is left by Horner's rule, for all such together.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from flint import nmod_poly

from fedgeom.arrays import Words
from fedgeom.codes.power_sums import LIMB, add_below, scaled

Poly = Any
"""A FLINT ``nmod_poly``; the library ships no types."""

LARGEST_POINT = 1 << LIMB
"""Points are factors of `scaled`."""
_LEAF = 64
"""How many points are evaluated by Horner's rule."""


class PointTree:
    """The products of x − b over some points b, (n,), u8, of at most `LARGEST_POINT`, q < 2**63; n at least 1."""

    def __init__(self, points: Words, q: int):
        self.count, self.q = len(points), q
        padded = np.concatenate([points, np.zeros(-len(points) % _LEAF, np.uint64)])  # 0 is a point like any other
        self.points = padded.reshape(-1, _LEAF)
        self.levels = [[nmod_poly(row, q) for row in _products(self.points, q).tolist()]]
        while len(self.levels[-1]) > 1:
            below = self.levels[-1]
            pairs = [a * b for a, b in zip(below[::2], below[1::2], strict=False)]
            self.levels.append(pairs + below[len(below) - len(below) % 2 :])

    def evaluate(self, f: Poly) -> Words:
        """Return the values of a polynomial at the points, in their order, (n,), u8."""
        top = self.levels[-1][0]
        series = [(f % top).left_shift(top.degree()) // top]
        for level in reversed(self.levels[:-1]):
            series = [_of_half(level, place, series[place // 2]) for place in range(len(level))]
        rests = [(s * p).right_shift(_LEAF) for s, p in zip(series, self.levels[0], strict=True)]
        coefficients = np.zeros((len(rests), _LEAF), dtype=np.uint64)
        for row, rest in zip(coefficients, rests, strict=True):
            found = [int(c) for c in rest.coeffs()]
            row[: len(found)] = found
        values = np.zeros(self.points.shape, dtype=np.uint64)
        for place in range(_LEAF - 1, -1, -1):
            values = add_below(scaled(values, self.points, self.q), coefficients[:, place, None], self.q)
        return values.ravel()[: self.count]


def _of_half(level: list[Poly], place: int, whole: Poly) -> Poly:
    """Return the first coefficients of f/A from those of f/(A·B): they stand in the middle of the product with B."""
    if place ^ 1 >= len(level):  # one that has no other half
        return whole
    other = level[place ^ 1]
    return whole.mul_low(other, level[place].degree() + other.degree()).right_shift(other.degree())


def zeros_among_first(f: Poly, count: int, q: int) -> list[int]:
    """Return the zeros of a polynomial among 1 … count, ascending; as many points at a time as it has coefficients."""
    width = max(f.degree() + 1, _LEAF)
    found: list[int] = []
    for first in range(1, count + 1, width):
        points = np.arange(first, min(first + width, count + 1), dtype=np.uint64)
        found += points[PointTree(points, q).evaluate(f) == 0].tolist()
    return found


def _products(points: Words, q: int) -> Words:
    """Return the coefficients of Π(x − b) over each row of points, (rows, points + 1), u8, the constant first."""
    rows, count = points.shape
    made = np.zeros((count + 1, rows), dtype=np.uint64)
    made[0] = 1
    for at in range(count):
        less = np.uint64(q) - scaled(made[: at + 1], points[:, at], q)  # q stands for 0 here
        made[1 : at + 2] = made[: at + 1]
        made[0] = 0
        made[: at + 1] = add_below(made[: at + 1], less, q)
    return np.ascontiguousarray(made.T)
