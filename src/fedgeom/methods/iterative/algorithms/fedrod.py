"""FedRoD: a generic and a personal head on one body."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from fedgeom.errors import InputError
from fedgeom.methods.iterative.algorithm import Algorithm
from fedgeom.methods.iterative.algorithms.fedper import with_own_head
from fedgeom.methods.iterative.heads.two import PERSONAL, Two
from fedgeom.methods.iterative.losses.decoupled import Decoupled
from fedgeom.methods.iterative.network_settings import HeadOrName, LossOrName, NetworkOrName
from fedgeom.methods.iterative.task import Task
from fedgeom.methods.iterative.tree import State, Tree


@dataclass(frozen=True, kw_only=True)
class FedRoD(Algorithm):
    """Body and generic head learn from a balanced loss and are averaged; a personal head on top learns the site's own.

    Chen and Chao 2022, with a linear personal head. The joint model predicts by the generic head, a site's by both.
    """

    name: ClassVar[str] = "fedrod"
    predicts_jointly: ClassVar[bool] = True

    network: NetworkOrName | None = "mlp"
    """A network, which gets two heads."""
    head: HeadOrName = Two.name
    """The generic and the personal head."""
    loss: LossOrName = Decoupled.name
    """Balanced softmax for everybody's part, cross-entropy for the site's."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.head, Two):
            raise InputError(f'FedRoD has a generic and a personal head; leave head="two", not {self.head!r}')

    def shared(self, model: Tree) -> Tree:
        """Return all but the personal head."""
        return model.select(set(model) - set(PERSONAL))

    def whole(self, task: Task, model: Tree, own: State) -> Tree:
        """Put the site's personal head on the joint model."""
        return with_own_head(task, model, own, PERSONAL)

    def local(self, task: Task, given: State, own: State) -> State:
        """Train all, keep the personal head."""
        trained = task.fit(self.whole(task, given["model"], own))
        own["head"] = trained.select(PERSONAL)
        return Tree(model=self.shared(trained))
