"""pFedMe: personal models by Moreau envelopes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import numpy as np

from fedgeom.errors import InputError
from fedgeom.federation.settings import POSITIVE, Between
from fedgeom.methods.iterative.algorithm import Algorithm
from fedgeom.methods.iterative.objective import Objective
from fedgeom.methods.iterative.rule import Round
from fedgeom.methods.iterative.task import Task
from fedgeom.methods.iterative.tree import State, Tree


@dataclass(frozen=True, kw_only=True)
class PFedMe(Algorithm):
    """A personal model θ_k near the site's copy w_k; the copy follows θ_k, and copies are averaged.

    T Dinh et al. 2020, Algorithm 1: in each of R local rounds θ ≈ argmin F_k(θ) + λ/2·‖θ − w_k‖² on one minibatch by
    K steps, then w_k ← w_k − ηλ(w_k − θ); at the coordinator w ← (1 − β)w + β·mean(w_k).
    """

    name: ClassVar[str] = "pfedme"
    needs_steps: ClassVar[bool] = True

    weights: Literal["rows", "sites"] = "sites"
    """The published algorithm counts every site the same."""
    lam: Annotated[float, POSITIVE] = 15.0
    """λ: how near θ_k stays to the copy."""
    local_rounds: Annotated[int, Between(1)] = 20
    """R: how often the copy moves in a round."""
    inner_steps: Annotated[int, Between(1)] = 5
    """K: gradient steps for each θ."""
    outer_rate: Annotated[float, POSITIVE] = 0.05
    """η: how fast the copy follows; ηλ ≤ 1 for stability."""
    inner_rate: Annotated[float, POSITIVE] = 0.05
    """The rate of the gradient steps for θ."""
    beta: Annotated[float, POSITIVE] = 1.0
    """β: how far the joint model moves towards the mean copy."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.outer_rate * self.lam <= 1:
            raise InputError(f"lam={self.lam}, outer_rate={self.outer_rate} given; wanted 0 < outer_rate·lam ≤ 1")

    def local(self, task: Task, given: State, own: State) -> State:
        """Move the site's copy after its personal models."""
        copy = given["model"].copy()
        for _ in range(self.local_rounds):
            theta = self._envelope(task, copy)
            copy = copy - self.outer_rate * self.lam * (copy - theta)
        own["personal"] = theta
        return Tree(model=copy)

    def _envelope(self, task: Task, copy: Tree) -> Tree:
        size = task.effort.batch_size(task.rows)
        rows = np.sort(task.rng.choice(task.rows, size, replace=False))
        objective = Objective(strength=self.lam, centre=copy)
        return task.fit(copy, objective, steps=self.inner_steps, only=rows, rate=self.inner_rate)

    def combine(self, state: State, mean: State, round: Round) -> State:
        """Move the joint model towards the mean copy."""
        return Tree(model=(1 - self.beta) * state["model"] + self.beta * mean["model"])

    def personalise(self, task: Task, given: State, own: State) -> Tree:
        """Return θ_k around the last joint model, on all of the site's rows."""
        return task.fit(
            given["model"],
            Objective(strength=self.lam, centre=given["model"]),
            steps=self.local_rounds * self.inner_steps,
            batch=None,
            rate=self.inner_rate,
        )

    def own_model(self, task: Task, given: State, sent: State, own: State) -> Tree:
        """Return the personal model."""
        return Tree(own["personal"])
