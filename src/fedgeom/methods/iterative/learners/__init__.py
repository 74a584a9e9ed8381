"""Learners: named arrays of parameters, trained with an objective, that give class probabilities."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

import numpy as np

from fedgeom.arrays import Floats, Ints
from fedgeom.errors import InputError
from fedgeom.methods.iterative.effort import USUAL, Effort
from fedgeom.methods.iterative.objective import LOSS, Objective
from fedgeom.methods.iterative.tree import Tree
from fedgeom.registry import Registry

Parameters = Tree
"""A model's named arrays, of any shape and dtype."""


class Learner(ABC):
    """A model family; the parameters are passed in and out, never kept."""

    name: str
    """By this name a site finds the learner."""
    head: tuple[str, ...] = ()
    """The arrays of the head, which `FedPer` and others keep at the site; the rest is the body."""
    dtype: ClassVar[type[np.floating[Any]]] = np.float64
    """What rows are converted to, once, before training."""

    @property
    def statistics(self) -> tuple[str, ...]:
        """The arrays that describe rows, such as running means: they are averaged, never stepped along."""
        return ()

    @abstractmethod
    def start(self, columns: int, classes: int, rng: np.random.Generator) -> Parameters:
        """Return the parameters before any training."""

    def bind(self, columns: int, classes: int) -> None:  # noqa: B027
        """Prepare for tables of this shape, for learners that must; comes before all but `start`."""

    @abstractmethod
    def loss(self, parameters: Parameters, X: Floats, y: Ints) -> float:
        """Return the mean loss over the rows."""

    def nll(self, parameters: Parameters, X: Floats, y: Ints) -> float:
        """Return the mean negative log-likelihood of rows that were set aside: no penalty belongs to those."""
        chances = self.predict_proba(parameters, X)[np.arange(len(y)), y]
        return float(-np.log(np.maximum(chances, 1e-300)).mean())

    @abstractmethod
    def gradient(self, parameters: Parameters, X: Floats, y: Ints) -> Parameters:
        """Return the gradient of the mean loss."""

    def bounded_gradient(self, parameters: Parameters, X: Floats, y: Ints, clip: float) -> Ints:
        """Return Σ over rows of each row's gradient, no longer than ``clip``, in whole numbers: (numbers,), i8.

        A gradient of length ``clip`` has length `fedgeom.privacy.bounded_sums.FINE_ONE`. The penalty is not in it.
        """
        raise InputError(f"learner {self.name!r} gives no gradients by row, which privacy per row needs")

    def penalty_gradient(self, parameters: Parameters, rows: float) -> Floats:
        """Return the gradient of the penalty in the mean loss over so many rows, (numbers,); 0 where there is none."""
        return np.zeros(Tree(parameters).size)

    @abstractmethod
    def predict_proba(self, parameters: Parameters, X: Floats) -> Floats:
        """Return a probability for each row and class."""

    def features(self, parameters: Parameters, X: Floats) -> Floats:
        """Return what the body makes of rows, (rows, d); a learner without a body returns the rows."""
        return X

    def scores(self, parameters: Parameters, Z: Floats) -> Floats:
        """Return what the head makes of features, (rows, classes); larger is likelier."""
        return np.asarray(np.log(np.maximum(self.predict_proba(parameters, Z), 1e-300)))

    def fit(
        self,
        parameters: Parameters,
        X: Floats,
        y: Ints,
        *,
        objective: Objective = LOSS,
        effort: Effort = USUAL,
        rng: np.random.Generator,
    ) -> Parameters:
        """Minimise loss and objective by minibatch descent, from ``parameters`` on.

        The objective's trees are shaped like ``parameters``.
        """
        if effort.solver == "exact":
            raise InputError(f'learner {self.name!r} knows no solver "exact"; use solver="sgd"')
        objective.only_terms(self.name)
        effort.only_plain(self.name)
        shape = Tree(parameters)
        terms = objective.flat()
        free = objective.free(parameters)
        w = shape.flat()
        weights = objective.row_weights
        for rows in effort.batches(len(X), rng, y):
            gradient = self._weighed(shape.like(w), X[rows], y[rows], None if weights is None else weights[rows])
            w = w - effort.learning_rate * step(
                gradient if objective.plain else gradient + terms.gradient(w), effort, free
            )
        return shape.like(w)

    def _weighed(self, parameters: Parameters, X: Floats, y: Ints, weights: Floats | None) -> Floats:
        """Return the gradient as one vector, each row's part of it multiplied by the row's weight.

        A learner that knows the mean over rows alone is asked for one row after the other.
        """
        if weights is None:
            return Tree(self.gradient(parameters, X, y)).flat()
        total = np.zeros(Tree(parameters).size)
        for at in np.flatnonzero(weights):
            total += weights[at] * Tree(self.gradient(parameters, X[at : at + 1], y[at : at + 1])).flat()
        return np.asarray(total / len(weights))


def step(gradient: Floats, effort: Effort, free: Floats | None) -> Floats:
    """Return the gradient that is stepped along: that of the numbers that are ``free``, no longer than agreed.

    gradient (numbers,), free (numbers,), 0 or 1; returns (numbers,), f8.
    """
    return effort.shortened(gradient if free is None else gradient * free)


LEARNERS = Registry("learner", "fedgeom.learners")
"""All learners by name; other packages offer instances by entry points of the group, and a site then finds them."""


def register(learner: Learner) -> Learner:
    """Make a learner known in this process under its name: only such learners can be asked for from outside."""
    LEARNERS.add(learner.name, learner)
    return learner


def learner_named(name: str) -> Learner:
    """Return a learner by its name."""
    found = LEARNERS.find(name, what="learner")
    if not isinstance(found, Learner):
        raise InputError(f"the learner {name!r} is a {type(found).__name__}; wanted an instance of Learner")
    return found
