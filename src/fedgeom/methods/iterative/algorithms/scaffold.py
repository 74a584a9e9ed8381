"""SCAFFOLD: control variates against the drift of local training."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from fedgeom.errors import InputError
from fedgeom.methods.iterative.algorithm import Row, State
from fedgeom.methods.iterative.objective import Objective
from fedgeom.methods.iterative.task import Task
from fedgeom.methods.iterative.vectors import Vector


@dataclass(frozen=True, kw_only=True)
class Scaffold(Row):
    """Each local step is corrected by c − c_k, the difference of the joint and the site's own drift.

    Karimireddy et al. 2020, Algorithm 1 with option II: c_k⁺ = c_k − c + (x − y_k)/(K·η).
    """

    name: ClassVar[str] = "scaffold"
    sends: ClassVar[tuple[str, ...]] = ("model", "variate")
    gives: ClassVar[tuple[str, ...]] = ("model", "variate")
    sends_changes: ClassVar[bool] = True
    needs_steps: ClassVar[bool] = True

    weights: Literal["rows", "sites"] = "sites"
    """The published algorithm counts every site the same."""
    server_rate: float = 1.0
    """η_g: how far the joint model moves along the mean change."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.server_rate > 0:
            raise InputError(f"server_rate={self.server_rate} given; wanted a positive number")

    def start(self, w: Vector) -> State:
        """Return the model and a variate of zero."""
        return {"model": w, "variate": np.zeros_like(w)}

    def local(self, task: Task, given: State, own: State) -> State:
        """Train with corrected steps; send the change of model and variate."""
        x, c = given["model"], given["variate"]
        mine = own.get("variate", np.zeros_like(x))
        y = task.fit(x, Objective(linear=c - mine))
        own["variate"] = mine - c + (x - y) / (task.steps * task.effort.rate)
        return {"model": y - x, "variate": own["variate"] - mine}

    def combine(self, state: State, mean: State, share: float) -> State:
        """Move model and variate; the variate by the share |S|/N of the sites that took part."""
        return {
            "model": state["model"] + self.server_rate * mean["model"],
            "variate": state["variate"] + share * mean["variate"],
        }
