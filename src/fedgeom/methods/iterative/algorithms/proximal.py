"""Against the drift of local training: FedProx, FedDyn, SCAFFOLD and FedDC."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from fedgeom.federation.settings import POSITIVE, Between
from fedgeom.methods.iterative.algorithm import Algorithm
from fedgeom.methods.iterative.objective import Objective
from fedgeom.methods.iterative.settings import Round
from fedgeom.methods.iterative.task import Task
from fedgeom.methods.iterative.tree import State, Tree


@dataclass(frozen=True, kw_only=True)
class FedProx(Algorithm):
    """For sites whose patients differ: FedAvg whose sites stay near the joint model (Li et al. 2020).

    Sites minimise F_k(w) + μ/2·‖w − w_t‖², so that they stray less (Eq. 2).
    """

    name: ClassVar[str] = "fedprox"

    mu: Annotated[float, Between(0)] = 0.1
    """μ: the strength of the pull."""

    def local(self, task: Task, given: State, own: State) -> State:
        """Train with the proximal term."""
        w = given["model"]
        return Tree(model=task.fit(w, Objective(strength=self.mu, centre=w)))


@dataclass(frozen=True, kw_only=True)
class FedDyn(Algorithm):
    """For sites whose patients differ: FedAvg with a correction that each site keeps (Acar et al. 2021).

    Sites minimise F_k(θ) − ⟨g_k, θ⟩ + α/2·‖θ − θ_t‖², and g_k follows the site's gradient.
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


@dataclass(frozen=True, kw_only=True)
class Scaffold(Algorithm):
    """For sites whose patients differ: FedAvg that corrects each site's drift (Karimireddy et al. 2020).

    Each local step is corrected by c − c_k, the difference of the joint and the site's own drift.
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
    server_learning_rate: Annotated[float, POSITIVE] = 1.0
    """η_g: how far the joint model moves along the mean change."""

    def start(self, model: Tree) -> State:
        """Return the model and a variate of zero."""
        return Tree(model=model, variate=model.zeros())

    def local(self, task: Task, given: State, own: State) -> State:
        """Train with corrected steps; send the change of model and variate."""
        x = given["model"]
        c = given["variate"]
        mine = own.get("variate", x.zeros())
        y = task.fit(x, Objective(linear=c - mine))
        own["variate"] = (
            mine - c + (x - y) / (task.effort.optimizer.counted(task.steps) * task.effort.learning_rate)
        )
        return Tree(model=y - x, variate=own["variate"] - mine)

    def combine(self, state: State, mean: State, round: Round) -> State:
        """Move model and variate; the variate by the share |S|/N of the sites that took part."""
        model = state["model"] + self.server_learning_rate * mean["model"]
        return Tree(model=model, variate=state["variate"] + round.share * mean["variate"])


@dataclass(frozen=True, kw_only=True)
class FedDC(Algorithm):
    """For sites whose patients differ: each keeps track of its drift and takes it off again (Gao et al. 2022).

    Sites minimise F_k(θ) + α/2·‖θ + h_k − w‖² + ⟨g_k − g, θ⟩/(K·η), with the drift h_k, the site's last change g_k and
    the mean g of all. h_k ← h_k + θ_k − w and g_k ← θ_k − w; w ← Σ p_k·(θ_k + h_k).
    """

    name: ClassVar[str] = "feddc"
    sends: ClassVar[tuple[str, ...]] = ("model", "change")
    gives: ClassVar[tuple[str, ...]] = ("model", "change")
    sends_changes: ClassVar[bool] = True
    needs_steps: ClassVar[bool] = True

    alpha: Annotated[float, Between(0)] = 0.1
    """α: how strongly a site is held to the joint model less its drift."""

    def start(self, model: Tree) -> State:
        """Return the model and no change."""
        return Tree(model=model, change=model.zeros())

    def local(self, task: Task, given: State, own: State) -> State:
        """Train with both corrections; send the model less its drift, and the change."""
        w = given["model"]
        drift = own.get("drift", w.zeros())
        length = task.effort.optimizer.counted(task.steps) * task.effort.learning_rate
        apart = (own.get("change", w.zeros()) - given["change"]) / length
        change = task.fit(w, Objective(linear=apart, strength=self.alpha, centre=w - drift)) - w
        # What describes rows, such as a running mean, drifts nowhere.
        own["drift"] = (drift + change) | change.select(task.learner.statistics).zeros()
        own["change"] = change
        return Tree(model=change + own["drift"], change=change)

    def combine(self, state: State, mean: State, round: Round) -> State:
        """Move the model by the mean of changes and drifts; tell the mean change."""
        return Tree(model=state["model"] + mean["model"], change=mean["change"])

    def own_model(self, task: Task, given: State, sent: State, own: State) -> Tree:
        """Return the site's model as it was trained."""
        return Tree(given["model"] + sent["change"])
