"""Whether a solution is that of the sums: a site looks at one part after the other and keeps only a small remainder.

(G + λ·diag(0, S²)) W = B is linear in the parts, so that what is left of it is added up part by part; neither G nor its
factor is ever in memory here. What a coordinator can still choose is λ, from the grid of the terms.
"""

from __future__ import annotations

from typing import Any
from weakref import ref

import msgspec
import numpy as np

from fedgeom.arrays import Floats, Ints, Words
from fedgeom.errors import ProtocolError
from fedgeom.federation.messages import Array
from fedgeom.methods.ridge.core import GRID
from fedgeom.methods.ridge.discriminant import summed_scores, turn, turned, turned_scores
from fedgeom.methods.ridge.gram import Rows, starts, trapezoid
from fedgeom.protocols.fixed_point import from_fixed

PANEL = 128
TOLERANCE = 1e-6
"""How far an equation may be off, beside the largest right-hand side that its feature could have."""


class SolutionMemory(msgspec.Struct, kw_only=True):
    """The solution that came, and what is left of the equations so far."""

    weights: Array | None = None
    """(features + 1, classes), f8"""
    alpha: float = 0.0
    freedom: float = 0.0
    checked: int = 0
    """How many parts were looked at."""
    remainder: Array | None = None
    """(features + 1, classes), f8"""
    diagonal: Array | None = None
    """(features + 1,), f8: of the Gram matrix."""
    scale: Array | None = None
    """(features,), f8: the root of each feature's joint mean square; 1 for features that are always 0."""
    class_scores: Array | None = None
    """(classes + 1, classes), f8: how much the rows of each class count, and their scores, added up."""
    turn: Array | None = None
    """(classes + 1, classes), f8: what turns scores into discriminants, where the terms want these."""
    hashes: tuple[bytes, ...] = ()
    """Of the parts, where the sums can be updated later."""
    fits: float | None = None
    """The share of the site's rows that temperatures were tried on and that are put into their class."""
    good: bool = False
    """Whether all parts were looked at and the solution fits."""

    def take(
        self, weights: Floats, alpha: float, freedom: float, given: float | str, shape: tuple[int, int]
    ) -> None:
        """Take a solution, if it has the shape of one and a λ that the terms allow (``given``)."""
        if weights.dtype != np.float64 or weights.shape != shape or not np.isfinite(weights).all():
            raise ProtocolError("the solution that came is not one of these features and classes")
        if alpha not in GRID if isinstance(given, str) else alpha != given:
            raise ProtocolError("the solution that came has another alpha than the terms allow")
        if not 0 <= freedom <= shape[0] + 1e-6 * shape[0]:
            raise ProtocolError("the solution that came has more degrees of freedom than features")
        self.weights, self.alpha, self.freedom = Array.of(weights), alpha, freedom
        self.remainder, self.diagonal = Array.of(np.zeros(shape)), Array.of(np.zeros(shape[0]))
        self.class_scores = Array.of(np.zeros((shape[1] + 1, shape[1])))
        self.checked, self.good = 0, False

    def comes_next(self, number: int, round: int, first: int, parts: int) -> bool:
        """Return whether a part of the sum comes next; False: it was looked at just before, and is asked for again.

        ``round`` is that of the sum that came, ``first`` that of the first part, ``parts`` how many there are.
        """
        if number == self.checked - 1:
            return False
        if self.weights is None or number != self.checked or number >= parts:
            raise ProtocolError(f"part {number} of the sum does not come next")
        if round != first + number:
            raise ProtocolError(f"this is not part {number} of the sum")
        return True

    def look_at(
        self, vector: Floats | Words, rows: Rows, bits: int | None = None, came: memoryview | None = None
    ) -> None:
        """Take what a part of the sum says of the equations; ``bits``: it is in fixed point, with so many digits.

        ``came`` are the bytes of the message in which it stands: the very same ones are looked at once in a process.
        """
        if self.weights is None or self.remainder is None or self.diagonal is None or self.class_scores is None:
            raise ProtocolError("a part of the sum came before the solution")
        left, diagonal, scores = _LAST.left_of(vector, rows, self.weights, bits, came)
        self.remainder = Array.of(self.remainder.numpy() + left)
        self.diagonal = Array.of(self.diagonal.numpy() + diagonal)
        self.class_scores = Array.of(self.class_scores.numpy() + scores)
        self.checked += 1

    def conclude(self, rule: str = "ridge") -> None:
        """Refuse the solution unless it solves the equations that all parts make; follow the terms' rule."""
        assert self.weights is not None
        assert self.remainder is not None
        assert self.diagonal is not None
        W, left, diagonal = self.weights.numpy(), self.remainder.numpy(), self.diagonal.numpy()
        rows = max(float(diagonal[0]), 1e-300)
        held = self.alpha * np.maximum(diagonal, 0.0) / rows
        held[0] = 0.0
        left += held[:, None] * W
        bound = TOLERANCE * np.sqrt(rows * np.maximum(diagonal, 0.0)) + TOLERANCE
        if not (np.abs(left) <= bound[:, None]).all():
            raise ProtocolError("the solution that came is not that of the sums which the sites added up")
        root = np.sqrt(np.maximum(diagonal[1:], 0.0) / rows)
        self.scale = Array.of(np.where(root > 0, root, 1.0))
        if rule == "discriminant":
            assert self.class_scores is not None
            sizes, *scores = self.class_scores.numpy()
            self.turn = Array.of(turn(np.array(scores), sizes, self.freedom))
        self.remainder = self.diagonal = self.class_scores = None
        self.good = True

    def ridge(self) -> Floats:
        """Return the weights of the ridge, (features + 1, classes), once they were checked."""
        if not self.good or self.weights is None:
            raise ProtocolError("the solution was not checked yet")
        found: Floats = self.weights.numpy()
        return found

    def final(self) -> Floats:
        """Return the weights that decide as the terms say, (features + 1, classes), once they were checked."""
        return turned(self.ridge(), self.turned_by)

    def note_fit(self, scores: Floats, codes: Ints) -> None:
        """Keep how many rows these ridge scores put into their class: scores (rows, classes), codes (rows,)."""
        if len(codes):
            self.fits = float(np.mean(turned_scores(scores, self.turned_by).argmax(axis=1) == codes))

    @property
    def turned_by(self) -> Floats | None:
        """What turns scores into discriminants, (classes + 1, classes); None where nothing does."""
        return None if self.turn is None else self.turn.numpy()


Left = tuple[Floats, Floats, Floats]
"""What a part of the sum adds to the remainder, to the diagonal and to the classes' scores (`SolutionMemory`)."""


def _left_of(vector: Floats | Words, rows: Rows, W: Floats, bits: int | None) -> Left:
    """Return what a part of the sum leaves of the equations with these weights.

    It is read a panel at a time: so large a vector is memory that the system has to clear.
    """
    left, diagonal = np.zeros(W.shape), np.zeros(len(W))
    at = starts(len(W) - 1, W.shape[1])
    for first in range(rows[0], rows[1], PANEL):  # so few rows that their square stays in a processor's cache
        last = min(first + PANEL, rows[1])
        some: Any = vector[at[first] - at[rows[0]] : at[last] - at[rows[0]]]
        some = some if bits is None else from_fixed(some, fraction_bits=bits)
        upper, ties = trapezoid(some, (first, last), len(W) - 1, W.shape[1])
        own = np.arange(last - first)
        left[first:last] += upper @ W[first:] - 2 * ties
        diagonal[first:last] += upper[own, own]
        if first == 0:  # the targets are ±1: twice the ties to a class, less the sum of the feature
            left += upper[0][:, None]
        upper[own, own] = 0.0
        left[first:] += upper.T @ W[first:last]
    scores, sizes = summed_scores(vector, rows, W, bits)
    return left, diagonal, np.vstack([sizes, scores])


class _LastPart:
    """The part that was looked at last: all sites of a process are shown the same one, with the same weights.

    It is known by the message's own bytes, which nobody can write to, and not kept alive for it.
    """

    def __init__(self) -> None:
        self._last: tuple[ref[memoryview], tuple[Any, ...], Left] | None = None

    def left_of(
        self, vector: Floats | Words, rows: Rows, weights: Array, bits: int | None, came: memoryview | None
    ) -> Left:
        """Return `_left_of`, from before where all that it follows from is the same."""
        known, last = (bytes(weights.data), weights.shape, rows, bits), self._last
        if came is not None and last is not None and last[0]() is came and last[1] == known:
            return last[2]
        found = _left_of(vector, rows, weights.view(), bits)
        fixed = came is not None and isinstance(came.obj, bytes)  # which nobody can change
        self._last = (ref(came), known, found) if came is not None and fixed else None
        return found


_LAST = _LastPart()
