"""Learners: named arrays of parameters, trained with an objective, that give class probabilities."""

from __future__ import annotations

import importlib
from abc import ABC, abstractmethod
from importlib.metadata import entry_points
from typing import Any

import numpy as np
import numpy.typing as npt

from fedgeom.errors import InputError
from fedgeom.methods.iterative.effort import USUAL, Effort
from fedgeom.methods.iterative.objective import LOSS, Objective
from fedgeom.methods.iterative.vectors import Layout, Parameters

Floats = npt.NDArray[np.float64]
Classes = npt.NDArray[np.int64]


class Learner(ABC):
    """A model family; the parameters are passed in and out, never kept."""

    name: str
    """By this name a site finds the learner."""
    head: tuple[str, ...] = ()
    """The arrays that `FedPer` keeps at the site."""

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
    def loss(self, parameters: Parameters, X: Floats, y: Classes) -> float:
        """Return the mean loss over the rows."""

    def surprise(self, parameters: Parameters, X: Floats, y: Classes) -> float:
        """Return the mean negative log-likelihood of rows that were set aside: no penalty belongs to those."""
        chances = self.predict_proba(parameters, X)[np.arange(len(y)), y]
        return float(-np.log(np.maximum(chances, 1e-300)).mean())

    @abstractmethod
    def gradient(self, parameters: Parameters, X: Floats, y: Classes) -> Parameters:
        """Return the gradient of the mean loss."""

    @abstractmethod
    def predict_proba(self, parameters: Parameters, X: Floats) -> Floats:
        """Return a probability for each row and class."""

    def fit(
        self,
        parameters: Parameters,
        X: Floats,
        y: Classes,
        *,
        objective: Objective = LOSS,
        effort: Effort = USUAL,
        rng: np.random.Generator,
    ) -> Parameters:
        """Minimise loss and objective by minibatch descent, from ``parameters`` on.

        The objective's vectors are laid out like ``Layout.of(parameters)``.
        """
        if effort.solver == "exact":
            raise InputError(f'learner {self.name!r} knows no solver "exact"; use solver="sgd"')
        layout = Layout.of(parameters)
        w = layout.pack(parameters)
        for rows in effort.batches(len(X), rng):
            slope = layout.pack(self.gradient(layout.unpack(w), X[rows], y[rows]))
            w = w - effort.rate * (slope if objective.plain else slope + objective.gradient(w))
        return layout.unpack(w)


GROUP = "fedgeom.learners"
"""Other packages offer learners by entry points of this group: a site then finds them by name."""

_BUILT_IN = {"logistic": ("fedgeom.methods.iterative.learners.logistic", "Logistic")}
_REGISTERED: dict[str, Learner] = {}


def register(learner: Learner) -> Learner:
    """Make a learner known in this process under its name: only such learners can be asked for from outside."""
    if learner.name in _BUILT_IN:
        raise InputError(f"{learner.name!r} is the name of a learner that comes with fedgeom; choose another")
    _REGISTERED[learner.name] = learner
    return learner


def _installed(name: str) -> Learner:
    """Load a learner that an installed package offers by an entry point."""
    offered = {point.name: point for point in entry_points(group=GROUP)}
    if name not in offered:
        known = ", ".join(dict.fromkeys([*_BUILT_IN, *_REGISTERED, *offered]))
        raise InputError(
            f"there is no learner {name!r} here; there are: {known} (see fedgeom.methods.iterative.register)"
        )
    learner = offered[name].load()
    if not isinstance(learner, Learner) or learner.name != name:
        raise InputError(f"the entry point {name!r} of {GROUP} gives {learner!r}; wanted a Learner of that name")
    return learner


def learner_named(name: str, **options: Any) -> Learner:
    """Return a learner by its name; options are for those that come with fedgeom."""
    if name in _REGISTERED:
        return _REGISTERED[name]
    if name not in _BUILT_IN:
        return register(_installed(name))
    module, cls = _BUILT_IN[name]
    learner: Learner = getattr(importlib.import_module(module), cls)(**options)
    return learner
