"""Optimizers at the coordinator: FedAvgM, FedExP, FedAdam and FedYogi."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np

from fedgeom.federation.settings import POSITIVE, Between
from fedgeom.methods.iterative.algorithm import Algorithm
from fedgeom.methods.iterative.settings import PrivateTraining, Round
from fedgeom.methods.iterative.task import Task
from fedgeom.methods.iterative.tree import State, Tree


@dataclass(frozen=True, kw_only=True)
class FedAvgM(PrivateTraining, Algorithm):
    """For sites whose patients differ: FedAvg with momentum at the coordinator (Hsu, Qi and Brown 2019).

    m ← βm + (mean − w), w ← w + η·m.
    """

    name: ClassVar[str] = "fedavgm"

    server_learning_rate: Annotated[float, POSITIVE] = 1.0
    """η: the coordinator's step."""
    server_momentum: Annotated[float, Between(0, 1, open_high=True)] = 0.9
    """β: how much of the last step the next one repeats."""

    def start(self, model: Tree) -> State:
        """Return the model and no momentum."""
        return Tree(model=model, momentum=model.zeros())

    def combine(self, state: State, mean: State, round: Round) -> State:
        """Step along the momentum."""
        momentum = self.server_momentum * state["momentum"] + (mean["model"] - state["model"])
        return Tree(model=state["model"] + self.server_learning_rate * momentum, momentum=momentum)


LONGEST = 2.0**14
"""‖w_k − w‖² of a longer change counts as this much, so that no sum of squares overflows."""


@dataclass(frozen=True, kw_only=True)
class FedExP(Algorithm):
    """For models that FedAvg trains slowly: longer steps where sites disagree (Jhunjhunwala et al. 2023).

    w ← w + η·Δ with Δ = Σ p_k·Δ_k and η = max(1, Σ p_k·‖Δ_k‖² / (2(‖Δ‖² + ε))), Eq. 6 with weights p_k for 1/M. So the
    coordinator also learns the mean of ‖Δ_k‖².
    """

    name: ClassVar[str] = "fedexp"
    sends: ClassVar[tuple[str, ...]] = ("model", "square")
    sends_changes: ClassVar[bool] = True

    epsilon: Annotated[float, POSITIVE] = 1e-3
    """ε: keeps the step short where sites hardly move."""

    def sent_like(self, model: Tree) -> State:
        """Return a change of the model, and one number."""
        return Tree(model=model, square=0.0)

    def local(self, task: Task, given: State, own: State) -> State:
        """Train; send the change and the square of its length."""
        change = task.fit(given["model"]) - given["model"]
        return Tree(model=change, square=min(square_of(change, task.learner.statistics), LONGEST))

    def combine(self, state: State, mean: State, round: Round) -> State:
        """Step along the mean change, the further the more the changes point apart."""
        square = square_of(mean["model"], self.build_learner().statistics)
        rate = max(1.0, mean["square"] / (2 * (square + self.epsilon)))
        return Tree(model=state["model"] + rate * mean["model"])


def square_of(change: Tree, described: Iterable[str]) -> float:
    """Return ‖Δ‖² of a change, without what describes rows, such as running means."""
    vector = change.select(set(change) - set(described)).flat()
    return float(vector @ vector)


BETA = Between(0, 1, open_high=True)


@dataclass(frozen=True, kw_only=True)
class AdaptiveStep:
    """The step of Reddi et al. 2021, Algorithm 2, but for the rule of v."""

    server_learning_rate: Annotated[float, POSITIVE] = 0.1
    """η: the coordinator's step."""
    beta1: Annotated[float, BETA] = 0.9
    """β₁"""
    beta2: Annotated[float, BETA] = 0.99
    """β₂"""
    tau: Annotated[float, POSITIVE] = 1e-3
    """τ: how adaptive the step is (small: very); also the start of √v."""

    def start(self, model: Tree) -> State:
        """Return the model and its moments; v starts at τ²."""
        return Tree(
            model=model, first=model.zeros(), second=model.map(lambda leaf: np.full_like(leaf, self.tau**2))
        )

    def combine(self, state: State, mean: State, round: Round) -> State:
        """Take the adaptive step."""
        change = mean["model"] - state["model"]
        first = self.beta1 * state["first"] + (1 - self.beta1) * change
        second = self.second_moment(state["second"], change**2)
        step = self.server_learning_rate * first / (second.map(np.sqrt) + self.tau)
        return Tree(model=state["model"] + step, first=first, second=second)

    @abstractmethod
    def second_moment(self, old: Tree, square: Tree) -> Tree:
        """Return the next v."""


@dataclass(frozen=True, kw_only=True)
class FedAdam(AdaptiveStep, PrivateTraining, Algorithm):
    """For models that FedAvg trains slowly: adaptive steps at the coordinator, by Adam (Reddi et al. 2021).

    Algorithm 2: m ← β₁m + (1 − β₁)Δ, v ← β₂v + (1 − β₂)Δ², x ← x + η·m/(√v + τ).
    """

    name: ClassVar[str] = "fedadam"

    def second_moment(self, old: Tree, square: Tree) -> Tree:
        """Return the next v."""
        return self.beta2 * old + (1 - self.beta2) * square


@dataclass(frozen=True, kw_only=True)
class FedYogi(AdaptiveStep, PrivateTraining, Algorithm):
    """For models that FedAvg trains slowly: adaptive steps at the coordinator, by Yogi (Reddi et al. 2021).

    FedAdam with Yogi's moment: v ← v − (1 − β₂)·Δ²·sign(v − Δ²).
    """

    name: ClassVar[str] = "fedyogi"

    def second_moment(self, old: Tree, square: Tree) -> Tree:
        """Return the next v, which moves by at most (1 − β₂)Δ²."""
        return old - (1 - self.beta2) * square * (old - square).map(np.sign)
