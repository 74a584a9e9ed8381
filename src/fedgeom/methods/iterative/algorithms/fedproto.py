"""FedProto: sites share the mean features of their classes and nothing of their networks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from fedgeom.errors import InputError
from fedgeom.methods.iterative.algorithm import Algorithm
from fedgeom.methods.iterative.heads.linear import Linear
from fedgeom.methods.iterative.losses.prototypes import TowardsPrototypes
from fedgeom.methods.iterative.network_settings import LossOrName, NetworkOrName
from fedgeom.methods.iterative.rule import Round
from fedgeom.methods.iterative.task import Task
from fedgeom.methods.iterative.tree import State, Tree

PARTS = ("prototypes", "counts")


@dataclass(frozen=True, kw_only=True)
class FedProto(Algorithm):
    """A class's prototype is the mean feature of all its rows; each site's network is pulled towards the prototypes.

    Tan et al. 2022: C_c = Σ_k Σ_{rows of c} z / Σ_k n_kc, by one secure sum. Networks stay at the sites: the joint one
    is untrained, use ``run.model.for_site(run.local[site])``.
    """

    name: ClassVar[str] = "fedproto"
    sums_rows_up: ClassVar[bool] = True

    weights: Literal["rows", "sites"] = "sites"
    """The sums themselves count rows."""
    network: NetworkOrName | None = "mlp"
    """A network; its features are what is averaged."""
    loss: LossOrName = TowardsPrototypes.name
    """TowardsPrototypes(lam=1.0)."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.network is None or not isinstance(self.head, Linear) or self.weights != "sites":
            raise InputError('FedProto wants a network, head="linear" and weights="sites"')

    def shared(self, model: Tree) -> Tree:
        """Return the prototypes, (classes, d), and how many rows each is the mean of, (classes,): none at first."""
        if set(PARTS) <= set(model):
            return model.select(PARTS)
        weight = np.zeros_like(model["head.weight"])
        return Tree(prototypes=weight, counts=np.zeros_like(weight[:, 0]))

    def whole(self, task: Task, model: Tree, own: State) -> Tree:
        """Return the site's own network."""
        return Tree(own.get("network", task.first))

    def local(self, task: Task, given: State, own: State) -> State:
        """Train the site's network; send its sums of features."""
        own["network"] = self._trained(task, given, own)
        Z = task.features(own["network"])
        sums = np.zeros_like(given["model"]["prototypes"])
        np.add.at(sums, task.y, Z)
        return Tree(model=Tree(prototypes=sums, counts=task.counts.astype(sums.dtype)))

    def _trained(self, task: Task, given: State, own: State) -> Tree:
        return task.fit(self.whole(task, given["model"], own), given=given["model"])

    def combine(self, state: State, mean: State, round: Round) -> State:
        """Divide the sums by the counts; a class that nobody had in this round keeps its prototype."""
        sums, counts, before = mean["model"]["prototypes"], mean["model"]["counts"], state["model"]
        there = counts > 0
        means = sums / np.where(there, counts, 1)[:, None]
        prototypes = np.where(there[:, None], means, before["prototypes"])
        return Tree(model=Tree(prototypes=prototypes, counts=np.where(there, counts, before["counts"])))

    def personalise(self, task: Task, given: State, own: State) -> Tree:
        """Return the site's network, with the last prototypes beside it; one that never trained trains now."""
        network = own["network"] if "network" in own else self._trained(task, given, own)
        return Tree(network | given["model"])
