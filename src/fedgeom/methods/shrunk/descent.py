"""Newton's steps, one sum over the sites after the other: what coordinator and sites both compute from the sums.

A site is shown each sum and checks it by its tag; the next directions then follow from the sums and the terms alone. So
a coordinator cannot ask for the gradient at directions of its choice: at steep ones it is made of a few single rows.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import numpy as np

from fedgeom.arrays import Floats
from fedgeom.federation.messages import Array
from fedgeom.methods.shrunk.core import TINY, Terms


class Descent(msgspec.Struct, kw_only=True):
    """How far the minimisation of Σ_k ℓ_k(w) + α/2·‖w‖² has come, for each α and fold: a site remembers it."""

    at: Array
    """(ridges, folds, columns), f8: where the next sum is taken."""
    good: Array
    """The same shape: the best directions so far."""
    step: Array
    """The same shape: how far the last step went."""
    best: Array
    """(ridges, folds), f8: the penalised loss at the best directions."""
    taken: int = 0
    """How many sums were taken."""

    @classmethod
    def start(cls, ridges: int, folds: int, columns: int) -> Descent:
        """Begin at zero."""
        zero = Array.of(np.zeros((ridges, folds, columns)))
        return cls(at=zero, good=zero, step=zero, best=Array.of(np.full((ridges, folds), np.inf)))

    def take(self, terms: Terms, ridges: Floats) -> None:
        """Take the sum of all sites' terms at ``at``: one damped Newton step.

        ridges (r,), f8.
        """
        at, good, best = self.at.numpy(), self.good.numpy(), self.best.numpy()
        total = terms.values + 0.5 * ridges[:, None] * (at**2).sum(axis=2)
        better = total <= best + TINY * np.abs(best)
        gradients = terms.gradients + ridges[:, None, None] * at
        hessians = terms.hessians + ridges[:, None, None, None] * np.eye(at.shape[2])
        fresh = np.linalg.solve(hessians, gradients[..., None])[..., 0]
        good = np.where(better[..., None], at, good)
        step = np.where(
            better[..., None], fresh, self.step.numpy() / 2
        )  # one too far is halved, from where it began
        self.good, self.best, self.step = Array.of(good), Array.of(np.where(better, total, best)), Array.of(step)
        self.at, self.taken = Array.of(good - step), self.taken + 1


def descend(summed: Callable[[Floats], Terms], ridges: Floats, folds: int, columns: int, steps: int) -> Floats:
    """Take all steps, one sum over the sites per step; for the plain twin.

    ridges (r,), f8; returns (r, folds, columns), f8.
    """
    state = Descent.start(len(ridges), folds, columns)
    for _ in range(steps):
        state.take(summed(state.at.numpy()), ridges)
    found: Floats = state.good.numpy()
    return found
