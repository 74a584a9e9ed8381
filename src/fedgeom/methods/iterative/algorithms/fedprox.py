"""FedProx: FedAvg with a pull towards the joint model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from fedgeom.errors import InputError
from fedgeom.methods.iterative.algorithm import Row, State
from fedgeom.methods.iterative.objective import Objective
from fedgeom.methods.iterative.task import Task


@dataclass(frozen=True, kw_only=True)
class FedProx(Row):
    """Sites minimise F_k(w) + μ/2·‖w − w_t‖², so that they stray less (Li et al. 2020, Eq. 2)."""

    name: ClassVar[str] = "fedprox"

    mu: float = 0.1
    """μ: the strength of the pull."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.mu >= 0:
            raise InputError(f"mu={self.mu} given; wanted 0 (FedAvg) or more")

    def local(self, task: Task, given: State, own: State) -> State:
        """Train with the proximal term."""
        w = given["model"]
        return {"model": task.fit(w, Objective(strength=self.mu, centre=w))}
