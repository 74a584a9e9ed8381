"""Averaging: FedAvg, FedNova, interpolation with a local model, and no sharing at all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from fedgeom.errors import InputError
from fedgeom.methods.iterative.algorithm import Algorithm
from fedgeom.methods.iterative.optimizer import SGD
from fedgeom.methods.iterative.settings import PersonalOrName, PrivateTraining, Round
from fedgeom.methods.iterative.task import Task
from fedgeom.methods.iterative.tree import State, Tree


@dataclass(frozen=True, kw_only=True)
class FedAvg(PrivateTraining, Algorithm):
    """The standard way to train together: each site trains on its rows, and the models are averaged.

    McMahan et al. 2017, Algorithm 1: w ← Σ n_k/n · w_k. It is what an `Algorithm` does where nothing else is said.
    """

    name: ClassVar[str] = "fedavg"


@dataclass(frozen=True, kw_only=True)
class FedNova(Algorithm):
    """For sites of very different sizes: FedAvg that allows for how long each trained (Wang et al. 2020).

    w ← w + (Σ p_k·a_k)·Σ p_k·(w_k − w)/a_k, where a_k is how often a site's gradients count in its change.
    Wang et al. 2020. Plain steps count once each, so a_k is the number of steps; with momentum, see `SGD.counted`.
    """

    name: ClassVar[str] = "fednova"
    sends: ClassVar[tuple[str, ...]] = ("model", "steps")
    sends_changes: ClassVar[bool] = True
    needs_steps: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.optimizer, SGD):
            raise InputError('FedNova counts the steps of SGD, with momentum or without; use optimizer="sgd"')

    def sent_like(self, model: Tree) -> State:
        """Return a change of the model, and one number."""
        return Tree(model=model, steps=0.0)

    def steps_taken(self, steps: int) -> float:
        """Return a_k after so many steps."""
        chosen: Any = self.optimizer
        return float(chosen.counted(steps))

    def local(self, task: Task, given: State, own: State) -> State:
        """Train; send the change per step, and how many steps there were."""
        w = given["model"]
        count = self.steps_taken(task.steps)
        change = task.fit(w) - w
        # What describes rows, such as a running mean, is no sum of steps.
        described = change.select(task.learner.statistics)
        return Tree(model=(change / count) | described, steps=count)

    def combine(self, state: State, mean: State, round: Round) -> State:
        """Go as far as the sites went in the mean, along the mean direction."""
        return Tree(model=state["model"] + mean["steps"] * mean["model"])

    def own_model(self, task: Task, given: State, sent: State, own: State) -> Tree:
        """Return the site's model: all of its steps along its direction."""
        described = task.learner.statistics
        steps = sent["model"].map(lambda leaf: sent["steps"] * leaf) | sent["model"].select(described)
        return Tree(given["model"] + steps)


@dataclass(frozen=True, kw_only=True)
class Interpolated(Algorithm):
    """For sites whose patients differ: each mixes the joint model with its own, as suits it best.

    FedAvg, then at each site (1 − a)·joint + a·local, with a chosen by cross-validation there.
    """

    name: ClassVar[str] = "interpolated"

    personal: PersonalOrName = "interpolated"
    """The mixture; `Interpolation(0.5)` fixes a."""


@dataclass(frozen=True, kw_only=True)
class LocalOnly(Algorithm):
    """For comparison: each site trains alone, for as long as with the others, and sends nothing.

    The joint model stays untrained: use ``run.model.for_site(run.local[site])``.
    """

    name: ClassVar[str] = "local"
    sends: ClassVar[tuple[str, ...]] = ()

    def personalise(self, task: Task, given: State, own: State) -> Tree:
        """Train on the site's own rows alone."""
        w = given["model"]
        for round in range(1 if self.solver == "exact" else self.n_rounds):
            w = task.fit(w, learning_rate=self.rate_in(round))
        return Tree(w)
