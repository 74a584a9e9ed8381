"""Averaging: FedAvg, FedNova, interpolation with a local model, and no sharing at all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar

from fedgeom.data.sites import SiteData, merged
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


OWN_PARTS = ("head", "loss")
"""What an algorithm may have of its own beside the network, such as FedRoD's two heads."""
ONLY_TOGETHER = (
    "aggregation",
    "min_sites",
    "participation",
    "patience",
    "personal",
    "privacy",
    "secure",
    "validation_fraction",
)
"""Settings that a site alone has no use for."""


@dataclass(frozen=True, kw_only=True)
class PooledRows(LocalOnly):
    """All rows in one place: what nobody with a federation can have. Comparisons measure against it; no site runs it.

    It takes as many epochs over all rows as sites take rounds times epochs over theirs; with ``steps``, as many steps
    as one site.
    """

    in_one_place: ClassVar[bool] = True

    def fit_pooled(self, sites: Sequence[SiteData], seed: int = 0) -> Any:
        """Return the model of all rows of the sites."""
        whole = merged(sites)
        found = replace(self, holdout=None).plain([whole], seed)
        return found.model.for_site(found.local[whole.name])


def alone(algorithm: Algorithm, kind: type[LocalOnly] = LocalOnly) -> LocalOnly:
    """Return what trains an algorithm's network without a federation, with its effort and its settings.

    A head or a loss that belongs to the algorithm, such as FedRoD's, gives way to a linear head and cross-entropy.
    """
    usual = {one.name: one.default for one in fields(kind)}
    there = {one.name: one.default for one in fields(algorithm)}
    own = [name for name in OWN_PARTS if there[name] != usual[name]]
    taken = [name for name in usual if name in there and name not in (*own, *ONLY_TOGETHER)]
    return kind(**{name: getattr(algorithm, name) for name in taken}, min_sites=1)


def pooled(algorithm: Algorithm, sites: Sequence[SiteData], seed: int = 0) -> Any:
    """Train an algorithm's network on the rows of all sites in one place, and return the model, to compare with.

    Parameters
    ----------
    algorithm: an `Algorithm`
        Whose network, or other learner, and effort are taken: rounds times epochs over all rows.
    sites: a list of `SiteData`
        The tables, with the same columns and shared class names.
    seed: a whole number; 0 if not given
        Draws the first model and the order of rows.
    """
    made: Any = alone(algorithm, PooledRows)
    return made.fit_pooled(sites, seed)
