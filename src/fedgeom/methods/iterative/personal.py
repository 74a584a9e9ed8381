"""Personal parts: what a site makes of the last joint model for itself."""

from __future__ import annotations

import numpy as np

from fedgeom.methods.iterative.learners import Classes
from fedgeom.methods.iterative.task import Task
from fedgeom.methods.iterative.vectors import Vector

WAYS = ("none", "finetuned", "interpolated")
GRID = np.linspace(0.0, 1.0, 11)
FOLDS = 4


def personal_model(way: str, task: Task, joint: Vector, *, mix: float | None) -> Vector:
    """Return the site's own model: the joint one, trained on, or (1 − a)·joint + a·local."""
    if way == "none" or task.rows == 0:
        return joint
    if way == "finetuned":
        return task.fit(joint)
    local = task.fit(joint)
    a = best_mix(task, joint) if mix is None else mix
    return (1 - a) * joint + a * local


def best_mix(task: Task, joint: Vector) -> float:
    """Choose a by cross-validation: the loss of (1 − a)·joint + a·local on rows that ``local`` did not see.

    The joint model did see them, which favours it a little; `Shrunk` holds rows out of both.
    """
    losses = np.zeros(len(GRID))
    for fold in folds(task.y, task.rng):
        kept = np.setdiff1d(np.arange(task.rows), fold)
        if len(fold) == 0 or len(kept) == 0:
            continue
        local, held = task.part(kept).fit(joint), task.part(fold)
        for at, a in enumerate(GRID):
            losses[at] += len(fold) * held.surprise((1 - a) * joint + a * local)
    return float(GRID[int(np.argmin(losses))])


def folds(y: Classes, rng: np.random.Generator, count: int = FOLDS) -> list[Classes]:
    """Split rows into folds, class by class, so that every fold has its share of each class."""
    place = np.empty(len(y), np.int64)
    for label in np.unique(y):
        members = rng.permutation(np.flatnonzero(y == label))
        place[members] = (np.arange(len(members)) + rng.integers(count)) % count
    return [np.flatnonzero(place == fold) for fold in range(count)]
