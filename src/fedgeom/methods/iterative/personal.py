"""Personal parts: what a site makes of the last joint model for itself."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar

import numpy as np

from fedgeom.arrays import Ints
from fedgeom.federation.settings import POSITIVE, SHARE, Between, Choice
from fedgeom.methods.iterative.task import Task
from fedgeom.methods.iterative.tree import Tree

GRID = np.linspace(0.0, 1.0, 11)
FOLDS = 4


@dataclass(frozen=True)
class Personal(Choice):
    """From the joint model to a site's own."""

    kind: ClassVar[str] = "personal"

    @abstractmethod
    def model(self, task: Task, joint: Tree) -> Tree:
        """Return the site's own model; ``task`` has the site's rows."""


@dataclass(frozen=True)
class NotPersonal(Personal):
    """The joint model as it is."""

    name: ClassVar[str] = "none"

    def model(self, task: Task, joint: Tree) -> Tree:
        """Return the joint model."""
        return joint


@dataclass(frozen=True)
class FineTuned(Personal):
    """The joint model, trained on at the site."""

    name: ClassVar[str] = "finetuned"

    steps: Annotated[int, Between(1, 10**6)] | None = None
    """Gradient steps; None: as many as in a round."""
    learning_rate: Annotated[float, POSITIVE] | None = None
    """Learning rate; None: that of the rounds. A head that no round has trained (`FedBABU`) wants less."""

    def model(self, task: Task, joint: Tree) -> Tree:
        """Train from the joint model on."""
        if not task.rows:
            return joint
        if self.learning_rate is not None:
            task = replace(task, effort=replace(task.effort, learning_rate=self.learning_rate))
        return task.fit(joint) if self.steps is None else task.fit(joint, steps=self.steps)


@dataclass(frozen=True)
class Interpolation(Personal):
    """A mixture of the joint model and one trained on at the site: (1 − a)·joint + a·local."""

    name: ClassVar[str] = "interpolated"

    mix: Annotated[float, SHARE] | None = None
    """a: the local model's part. None: each site chooses by cross-validation."""

    def model(self, task: Task, joint: Tree) -> Tree:
        """Mix the two."""
        if not task.rows:
            return joint
        local = task.fit(joint)
        a = best_mix(task, joint) if self.mix is None else self.mix
        return (1 - a) * joint + a * local


def best_mix(task: Task, joint: Tree) -> float:
    """Choose a by cross-validation: the loss of (1 − a)·joint + a·local on rows that ``local`` did not see.

    The joint model did see them, which favours it a little; `Shrunk` holds rows out of both.
    """
    losses = np.zeros(len(GRID))
    for fold in folds(task.y, task.rng):
        kept = np.setdiff1d(np.arange(task.rows), fold)
        if len(fold) == 0 or len(kept) == 0:
            continue
        local = task.part(kept).fit(joint)
        held = task.part(fold)
        for at, a in enumerate(GRID):
            losses[at] += len(fold) * held.nll((1 - a) * joint + a * local)
    return float(GRID[int(np.argmin(losses))])


def folds(y: Ints, rng: np.random.Generator, count: int = FOLDS) -> list[Ints]:
    """Split rows into folds, class by class, so that every fold has its share of each class."""
    place = np.empty(len(y), np.int64)
    for label in np.unique(y):
        members = rng.permutation(np.flatnonzero(y == label))
        place[members] = (np.arange(len(members)) + rng.integers(count)) % count
    return [np.flatnonzero(place == fold) for fold in range(count)]
