"""What an algorithm gets to work with at a site: rows, a learner, an effort, and seeded randomness."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np

from fedgeom.arrays import Floats, Ints
from fedgeom.methods.iterative.effort import Effort
from fedgeom.methods.iterative.learners import Learner
from fedgeom.methods.iterative.losses import CrossEntropy, Loss
from fedgeom.methods.iterative.objective import LOSS, Objective
from fedgeom.methods.iterative.tree import Tree

OBJECTIVE = frozenset(field.name for field in fields(Objective))


@dataclass
class Task:
    """One round of one site."""

    learner: Learner
    X: Floats
    """(rows, columns): the rows to train on, scaled."""
    y: Ints
    """(rows,): the index of each row's class."""
    effort: Effort
    rng: np.random.Generator
    classes: int
    first: Tree
    """The whole model before any training."""
    loss_of_rows: Loss = field(default_factory=CrossEntropy)
    """The loss that the rule's settings name."""
    round: int = 0
    """Which round it is, from 0; after the last one, `fedgeom.methods.iterative.site.LAST`."""
    row_weights: Floats | None = None
    """(rows,): what each row's loss is multiplied by; None: by 1."""
    step: Callable[[Any, Any, dict[str, Any]], Any] | None = None
    """The algorithm's own `local_step`, where it has one."""
    loop: Callable[[Any, Any, dict[str, Any]], None] | None = None
    """The algorithm's own `local_train`, where it has one."""

    def __post_init__(self) -> None:
        self.learner.bind(self.X.shape[1], self.classes)

    @property
    def rows(self) -> int:
        """n_k: how many rows the site trains on."""
        return len(self.X)

    @property
    def steps(self) -> int:
        """How many gradient steps one `fit` takes."""
        return self.effort.count(self.rows)

    @property
    def counts(self) -> Ints:
        """How many rows of each class the site trains on, (classes,)."""
        return np.bincount(self.y, minlength=self.classes)

    def fit(self, w: Tree, objective: Objective = LOSS, **changes: Any) -> Tree:
        """Train from ``w`` on; keyword arguments change the objective (``frozen=…``) or the effort (``epochs=1``)."""
        other = {name: value for name, value in changes.items() if name in OBJECTIVE}
        usual: dict[str, Any] = {"loss": objective.loss or self.loss_of_rows, "step": self.step, "loop": self.loop}
        usual["round"] = self.round
        if objective.row_weights is None:
            usual["row_weights"] = self.row_weights
        objective = replace(objective, **usual | other)
        effort = {name: value for name, value in changes.items() if name not in OBJECTIVE}
        chosen = replace(self.effort, **effort) if effort else self.effort
        return Tree(self.learner.fit(w, self.X, self.y, objective=objective, effort=chosen, rng=self.rng))

    def gradient(self, w: Tree) -> Tree:
        """Return the gradient of the loss over all rows, each counted once."""
        return Tree(self.learner.gradient(w, self.X, self.y))

    def loss(self, w: Tree) -> float:
        """Return the mean loss over all rows."""
        return self.learner.loss(w, self.X, self.y)

    def nll(self, w: Tree) -> float:
        """Return the mean negative log-likelihood of the rows, which should be others than those trained on."""
        return self.learner.nll(w, self.X, self.y)

    def predicted(self, w: Tree) -> Ints:
        """Return the likeliest class of each of the rows, (rows,)."""
        return np.asarray(self.learner.predict_proba(w, self.X).argmax(axis=1))

    def probabilities(self, w: Tree, X: Floats) -> Floats:
        """Return the class probabilities of rows (scaled like ours)."""
        return self.learner.predict_proba(w, X)

    def features(self, w: Tree, X: Floats | None = None) -> Floats:
        """Return what the model's body makes of rows, (rows, d); where none are given, of the site's."""
        return self.learner.features(w, self.X if X is None else X)

    def part(self, rows: Ints) -> Task:
        """Return the same task on some of the rows."""
        weights = None if self.row_weights is None else self.row_weights[rows]
        return replace(self, X=self.X[rows], y=self.y[rows], row_weights=weights)
