"""FedDyn: dynamic regularisation, so that local and joint optima agree in the end."""

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
class FedDyn(Algorithm):
    """Sites minimise F_k(θ) − ⟨g_k, θ⟩ + α/2·‖θ − θ_t‖², and g_k follows the site's gradient.

    Acar et al. 2021, Algorithm 1: g_k ← g_k − α(θ_k − θ_t); h ← h − α·|P|/m·mean(θ_k − θ_t); θ = mean(θ_k) − h/α.
    """

    name: ClassVar[str] = "feddyn"

    weights: Literal["rows", "sites"] = "sites"
    """The published algorithm counts every site the same."""
    alpha: Annotated[float, POSITIVE] = 0.1
    """α: the strength of the regularisation."""

    def start(self, model: Tree) -> State:
        """Return the model and h = 0."""
        return Tree(model=model, pull=model.zeros())

    def local(self, task: Task, given: State, own: State) -> State:
        """Train with the dynamic terms."""
        w = given["model"]
        mine = own.get("gradient", w.zeros())
        new = task.fit(w, Objective(linear=-mine, strength=self.alpha, centre=w))
        own["gradient"] = mine - self.alpha * (new - w)
        return Tree(model=new)

    def combine(self, state: State, mean: State, round: Round) -> State:
        """Correct the mean by what the sites were pulled."""
        pull = state["pull"] - self.alpha * round.share * (mean["model"] - state["model"])
        return Tree(model=mean["model"] - pull / self.alpha, pull=pull)
