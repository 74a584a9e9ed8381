"""FedAvg: train at the sites, average, repeat."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from fedgeom.methods.iterative.algorithm import Row, State
from fedgeom.methods.iterative.task import Task


@dataclass(frozen=True, kw_only=True)
class FedAvg(Row):
    """Sites train the joint model on their rows; the mean of their models is the next joint model.

    McMahan et al. 2017, Algorithm 1: w ← Σ n_k/n · w_k.
    """

    name: ClassVar[str] = "fedavg"

    def local(self, task: Task, given: State, own: State) -> State:
        """Train from the joint model on."""
        return {"model": task.fit(given["model"])}
