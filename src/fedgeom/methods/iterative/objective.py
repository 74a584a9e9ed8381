"""Local objectives: what a site minimises besides its own loss.

Every objective in the table adds a linear and a quadratic term to the site's loss F_k:

    F_k(w) + ⟨linear, w⟩ + strength/2 · ‖w − centre‖²

FedProx has strength μ around the global model, SCAFFOLD the linear term c − c_k, FedDyn both, Ditto and pFedMe a
strength λ around the global model.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedgeom.arrays import Floats
from fedgeom.methods.iterative.tree import Tree


@dataclass(frozen=True)
class Objective:
    """The terms beside the loss; without any, the loss alone. The trees are shaped like the model."""

    linear: Tree | None = None
    strength: float = 0.0
    centre: Tree | None = None

    @property
    def plain(self) -> bool:
        """Whether there is nothing beside the loss."""
        return self.linear is None and not self.strength

    def flat(self) -> FlatObjective:
        """Return the same for models that are written as one vector."""
        linear = None if self.linear is None else self.linear.flat()
        return FlatObjective(linear, self.strength, None if self.centre is None else self.centre.flat())


@dataclass(frozen=True)
class FlatObjective:
    """An objective's terms for models written as one vector, for learners that descend in vectors."""

    linear: Floats | None
    """(numbers,)"""
    strength: float
    centre: Floats | None
    """(numbers,)"""

    def value(self, w: Floats) -> float:
        """Return the terms' value."""
        total = 0.0 if self.linear is None else float(self.linear @ w)
        if self.strength:
            away = w - self._centre(w)
            total += 0.5 * self.strength * float(away @ away)
        return total

    def gradient(self, w: Floats) -> Floats:
        """Return the terms' gradient."""
        total = np.zeros_like(w) if self.linear is None else self.linear.copy()
        if self.strength:
            total += self.strength * (w - self._centre(w))
        return total

    def _centre(self, w: Floats) -> Floats:
        return np.zeros_like(w) if self.centre is None else self.centre


LOSS = Objective()
"""The site's loss alone."""
