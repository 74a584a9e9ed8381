"""Ditto: FedAvg, and beside it a personal model at each site that is pulled towards the joint one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from fedgeom.errors import InputError
from fedgeom.methods.iterative.algorithm import Row, State
from fedgeom.methods.iterative.objective import Objective
from fedgeom.methods.iterative.task import Task
from fedgeom.methods.iterative.vectors import Vector


@dataclass(frozen=True, kw_only=True)
class Ditto(Row):
    """Each site also minimises h_k(v) = F_k(v) + λ/2·‖v − w_t‖² for itself (Li et al. 2021, Algorithm 1)."""

    name: ClassVar[str] = "ditto"

    lam: float = 0.1
    """λ: from 0 (local models) to large (the joint model)."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.lam >= 0:
            raise InputError(f"lam={self.lam} given; wanted 0 or more")

    def local(self, task: Task, given: State, own: State) -> State:
        """Train the joint model, then the personal one around the joint model that was given."""
        w = given["model"]
        sent = task.fit(w)
        own["personal"] = task.fit(own.get("personal", w), Objective(strength=self.lam, centre=w))
        return {"model": sent}

    def personalise(self, task: Task, given: State, own: State) -> Vector:
        """Return the personal model, trained once more around the last joint model."""
        w = given["model"]
        return task.fit(own.get("personal", w), Objective(strength=self.lam, centre=w))
