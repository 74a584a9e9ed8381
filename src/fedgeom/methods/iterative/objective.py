"""Local objectives: what a site minimises.

Every objective in the table is a loss F_k over the site's rows with a linear and a quadratic term beside it:

    F_k(w) + ⟨linear, w⟩ + strength/2 · ‖w − centre‖²

FedProx has strength μ around the global model, SCAFFOLD the linear term c − c_k, FedDyn both, Ditto and pFedMe a
strength λ around the global model; MOON, FedLC and FedRoD have losses of their own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedgeom.arrays import Floats
from fedgeom.errors import InputError
from fedgeom.methods.iterative.losses import CrossEntropy, Loss
from fedgeom.methods.iterative.tree import Tree


@dataclass
class Carried:
    """What an optimizer keeps from round to round, at its site."""

    momentum: Floats | None = None
    """(numbers,): None before the first round."""


@dataclass(frozen=True)
class Objective:
    """The loss, the terms beside it, and what the loss may look at; without any, the rule's loss alone.

    ``linear``, ``centre``, ``joint`` and ``previous`` are shaped like the model.
    """

    linear: Tree | None = None
    strength: float = 0.0
    centre: Tree | None = None
    loss: Loss | None = None
    """None: the one that the rule's settings name."""
    joint: Tree | None = None
    """The model that the site was given; None: the one that training starts from."""
    previous: Tree | None = None
    """The site's own model after its last round."""
    given: Tree | None = None
    """Arrays that the algorithm hands to its loss, of any shape."""
    frozen: tuple[str, ...] = ()
    """The arrays of the model that no step changes."""
    row_weights: Floats | None = None
    """(rows,): what each row's loss is multiplied by; None: by 1."""
    carried: Carried | None = None
    """Where the optimizer finds what it kept of the last round, and leaves what it keeps for the next."""
    step: Callable[[Any, Any, dict[str, Any]], Any] | None = None
    """An algorithm's own gradient of a batch (`TrainingRule.local_step`); None: that of the loss."""
    round: int = 0
    """Which round it is, from 0."""
    loop: Callable[[Any, Any, dict[str, Any]], None] | None = None
    """An algorithm's own training (`TrainingRule.local_train`); None: the optimizer's steps."""

    @property
    def plain(self) -> bool:
        """Whether there is nothing beside the loss."""
        return self.linear is None and not self.strength

    @property
    def chosen_loss(self) -> Loss:
        """The loss; where nothing is said, the cross-entropy."""
        return self.loss or CrossEntropy()

    def only_terms(self, learner: str) -> None:
        """Refuse what a learner cannot follow that has its own loss, and the gradient of that."""
        if self.step is not None or self.loop is not None:
            raise InputError(
                "the algorithm has a local_step or local_train of its own, which train torch modules; "
                f'learner={learner!r} is none: give network="mlp", another network, or a fedgeom.extend.TorchLearner'
            )
        if self.chosen_loss.name != CrossEntropy.name:
            raise InputError(
                f"loss={self.chosen_loss.name!r} given with learner={learner!r}, which minimises a loss of its own; "
                'losses are for networks: network="mlp", or another (extra torch)'
            )

    def free(self, model: Tree) -> Floats | None:
        """Return 0 for each number of a model that is frozen and 1 for the others, (numbers,); None where none is."""
        if not self.frozen:
            return None
        parts = {name: np.full(np.shape(leaf), float(name not in self.frozen)) for name, leaf in model.items()}
        return Tree(parts).flat()

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
