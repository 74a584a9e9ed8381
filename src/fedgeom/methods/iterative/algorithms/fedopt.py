"""FedAdam and FedYogi: the mean change of the sites is a gradient for an adaptive step at the coordinator."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedgeom.errors import InputError
from fedgeom.methods.iterative.algorithm import Row, State
from fedgeom.methods.iterative.task import Task
from fedgeom.methods.iterative.vectors import Vector


@dataclass(frozen=True, kw_only=True)
class FedAdam(Row):
    """Reddi et al. 2021, Algorithm 2: m ← β₁m + (1 − β₁)Δ, v ← β₂v + (1 − β₂)Δ², x ← x + η·m/(√v + τ)."""

    name: ClassVar[str] = "fedadam"

    server_rate: float = 0.1
    """η: the coordinator's step."""
    beta1: float = 0.9
    """β₁"""
    beta2: float = 0.99
    """β₂"""
    tau: float = 1e-3
    """τ: how adaptive the step is (small: very); also the start of √v."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (0 <= self.beta1 < 1 and 0 <= self.beta2 < 1):
            raise InputError(f"beta1={self.beta1}, beta2={self.beta2} given; wanted numbers from 0 to below 1")
        if not (self.server_rate > 0 and self.tau > 0):
            raise InputError(f"server_rate={self.server_rate}, tau={self.tau} given; wanted positive numbers")

    def start(self, w: Vector) -> State:
        """Return the model and its moments; v starts at τ²."""
        return {"model": w, "first": np.zeros_like(w), "second": np.full_like(w, self.tau**2)}

    def local(self, task: Task, given: State, own: State) -> State:
        """Train from the joint model on, as in FedAvg."""
        return {"model": task.fit(given["model"])}

    def combine(self, state: State, mean: State, share: float) -> State:
        """Take the adaptive step."""
        change = mean["model"] - state["model"]
        first = self.beta1 * state["first"] + (1 - self.beta1) * change
        second = self.second_moment(state["second"], change**2)
        step = self.server_rate * first / (np.sqrt(second) + self.tau)
        return {"model": state["model"] + step, "first": first, "second": second}

    def second_moment(self, old: Vector, square: Vector) -> Vector:
        """Return the next v."""
        return self.beta2 * old + (1 - self.beta2) * square


@dataclass(frozen=True, kw_only=True)
class FedYogi(FedAdam):
    """FedAdam with Yogi's moment: v ← v − (1 − β₂)·Δ²·sign(v − Δ²)."""

    name: ClassVar[str] = "fedyogi"

    def second_moment(self, old: Vector, square: Vector) -> Vector:
        """Return the next v, which moves by at most (1 − β₂)Δ²."""
        return old - (1 - self.beta2) * square * np.sign(old - square)
