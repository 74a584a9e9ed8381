"""FedAvgM: FedAvg with momentum at the coordinator."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from fedgeom.federation.settings import POSITIVE, Between
from fedgeom.methods.iterative.algorithm import Algorithm
from fedgeom.methods.iterative.private_settings import PrivateTraining
from fedgeom.methods.iterative.rule import Round
from fedgeom.methods.iterative.tree import State, Tree


@dataclass(frozen=True, kw_only=True)
class FedAvgM(PrivateTraining, Algorithm):
    """m ← βm + (mean − w), w ← w + η·m (Hsu, Qi and Brown 2019)."""

    name: ClassVar[str] = "fedavgm"

    server_rate: Annotated[float, POSITIVE] = 1.0
    """η: the coordinator's step."""
    beta: Annotated[float, Between(0, 1, open_high=True)] = 0.9
    """β: how much of the last step the next one repeats."""

    def start(self, model: Tree) -> State:
        """Return the model and no momentum."""
        return Tree(model=model, momentum=model.zeros())

    def combine(self, state: State, mean: State, round: Round) -> State:
        """Step along the momentum."""
        momentum = self.beta * state["momentum"] + (mean["model"] - state["model"])
        return Tree(model=state["model"] + self.server_rate * momentum, momentum=momentum)
