"""Ditto: FedAvg, and beside it a personal model at each site that is pulled towards the joint one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from fedgeom.federation.settings import Between
from fedgeom.methods.iterative.algorithm import Algorithm
from fedgeom.methods.iterative.objective import Objective
from fedgeom.methods.iterative.task import Task
from fedgeom.methods.iterative.tree import State, Tree


@dataclass(frozen=True, kw_only=True)
class Ditto(Algorithm):
    """Each site also minimises h_k(v) = F_k(v) + λ/2·‖v − w_t‖² for itself (Li et al. 2021, Algorithm 1)."""

    name: ClassVar[str] = "ditto"

    lam: Annotated[float, Between(0)] = 0.1
    """λ: from 0 (local models) to large (the joint model)."""

    def local(self, task: Task, given: State, own: State) -> State:
        """Train the joint model, then the personal one around the joint model that was given."""
        w = given["model"]
        sent = task.fit(w)
        own["personal"] = task.fit(own.get("personal", w), Objective(strength=self.lam, centre=w))
        return Tree(model=sent)

    def personalise(self, task: Task, given: State, own: State) -> Tree:
        """Return the personal model, trained once more around the last joint model."""
        w = given["model"]
        return task.fit(own.get("personal", w), Objective(strength=self.lam, centre=w))

    def own_model(self, task: Task, given: State, sent: State, own: State) -> Tree:
        """Return the personal model."""
        return Tree(own["personal"])
