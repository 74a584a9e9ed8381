"""SCAFFOLD: control variates against the drift of local training."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from fedgeom.federation.settings import POSITIVE
from fedgeom.methods.iterative.algorithm import Algorithm
from fedgeom.methods.iterative.objective import Objective
from fedgeom.methods.iterative.rule import Round
from fedgeom.methods.iterative.task import Task
from fedgeom.methods.iterative.tree import State, Tree


@dataclass(frozen=True, kw_only=True)
class Scaffold(Algorithm):
    """Each local step is corrected by c − c_k, the difference of the joint and the site's own drift.

    Karimireddy et al. 2020, Algorithm 1 with option II: c_k⁺ = c_k − c + (x − y_k)/(K·η). With momentum a step goes on
    in the next ones, and K is how often gradients count (`SGD.counted`): else variates would be many times too long.
    """

    name: ClassVar[str] = "scaffold"
    sends: ClassVar[tuple[str, ...]] = ("model", "variate")
    gives: ClassVar[tuple[str, ...]] = ("model", "variate")
    sends_changes: ClassVar[bool] = True
    needs_steps: ClassVar[bool] = True

    weights: Literal["rows", "sites"] = "sites"
    """The published algorithm counts every site the same."""
    server_rate: Annotated[float, POSITIVE] = 1.0
    """η_g: how far the joint model moves along the mean change."""

    def start(self, model: Tree) -> State:
        """Return the model and a variate of zero."""
        return Tree(model=model, variate=model.zeros())

    def local(self, task: Task, given: State, own: State) -> State:
        """Train with corrected steps; send the change of model and variate."""
        x, c = given["model"], given["variate"]
        mine = own.get("variate", x.zeros())
        y = task.fit(x, Objective(linear=c - mine))
        own["variate"] = mine - c + (x - y) / (task.effort.optimizer.counted(task.steps) * task.effort.rate)
        return Tree(model=y - x, variate=own["variate"] - mine)

    def combine(self, state: State, mean: State, round: Round) -> State:
        """Move model and variate; the variate by the share |S|/N of the sites that took part."""
        model = state["model"] + self.server_rate * mean["model"]
        return Tree(model=model, variate=state["variate"] + round.share * mean["variate"])
