"""FedDyn: dynamic regularisation, so that local and joint optima agree in the end."""

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
class FedDyn(Row):
    """Sites minimise F_k(θ) − ⟨g_k, θ⟩ + α/2·‖θ − θ_t‖², and g_k follows the site's gradient.

    Acar et al. 2021, Algorithm 1: g_k ← g_k − α(θ_k − θ_t); h ← h − α·|P|/m·mean(θ_k − θ_t); θ = mean(θ_k) − h/α.
    """

    name: ClassVar[str] = "feddyn"

    weights: Literal["rows", "sites"] = "sites"
    """The published algorithm counts every site the same."""
    alpha: float = 0.1
    """α: the strength of the regularisation."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.alpha > 0:
            raise InputError(f"alpha={self.alpha} given; wanted a positive number")

    def start(self, w: Vector) -> State:
        """Return the model and h = 0."""
        return {"model": w, "pull": np.zeros_like(w)}

    def local(self, task: Task, given: State, own: State) -> State:
        """Train with the dynamic terms."""
        w = given["model"]
        mine = own.get("slope", np.zeros_like(w))
        new = task.fit(w, Objective(linear=-mine, strength=self.alpha, centre=w))
        own["slope"] = mine - self.alpha * (new - w)
        return {"model": new}

    def combine(self, state: State, mean: State, share: float) -> State:
        """Correct the mean by what the sites were pulled."""
        pull = state["pull"] - self.alpha * share * (mean["model"] - state["model"])
        return {"model": mean["model"] - pull / self.alpha, "pull": pull}
