"""FedProx: FedAvg with a pull towards the joint model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from fedgeom.federation.settings import Between
from fedgeom.methods.iterative.algorithm import Algorithm
from fedgeom.methods.iterative.objective import Objective
from fedgeom.methods.iterative.task import Task
from fedgeom.methods.iterative.tree import State, Tree


@dataclass(frozen=True, kw_only=True)
class FedProx(Algorithm):
    """Sites minimise F_k(w) + μ/2·‖w − w_t‖², so that they stray less (Li et al. 2020, Eq. 2)."""

    name: ClassVar[str] = "fedprox"

    mu: Annotated[float, Between(0)] = 0.1
    """μ: the strength of the pull."""

    def local(self, task: Task, given: State, own: State) -> State:
        """Train with the proximal term."""
        w = given["model"]
        return Tree(model=task.fit(w, Objective(strength=self.mu, centre=w)))
