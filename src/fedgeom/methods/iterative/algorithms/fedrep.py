"""FedRep: first the site's head, then the joint body, each while the other stays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from fedgeom.federation.settings import Between
from fedgeom.methods.iterative.algorithm import Algorithm
from fedgeom.methods.iterative.algorithms.fedper import body_of, check_head, with_own_head
from fedgeom.methods.iterative.task import Task
from fedgeom.methods.iterative.tree import State, Tree


@dataclass(frozen=True, kw_only=True)
class FedRep(Algorithm):
    """A site trains its own head on the joint body for some epochs, then the body under that head, and sends the body.

    Collins et al. 2021, Algorithm 1. ``epochs`` or ``steps`` are those of the body.
    """

    name: ClassVar[str] = "fedrep"
    needs_steps: ClassVar[bool] = True

    head_epochs: Annotated[int, Between(1, 10**6)] = 5
    """τ: passes over the rows for the head."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_head(self)

    def shared(self, model: Tree) -> Tree:
        """Return the body."""
        return body_of(self, model)

    def whole(self, task: Task, model: Tree, own: State) -> Tree:
        """Put the site's head on the joint body."""
        return with_own_head(task, model, own)

    def local(self, task: Task, given: State, own: State) -> State:
        """Train the head, then the body."""
        trained = self._head(task, self.whole(task, given["model"], own))
        own["head"] = trained.select(task.learner.head)
        return Tree(model=self.shared(task.fit(trained, frozen=task.learner.head)))

    def _head(self, task: Task, model: Tree) -> Tree:
        body = tuple(name for name in self.shared(model) if name not in task.learner.statistics)
        return task.fit(model, frozen=body, epochs=self.head_epochs, steps=None)

    def personalise(self, task: Task, given: State, own: State) -> Tree:
        """Return the last body with the site's head, trained once more for it."""
        return self._head(task, self.whole(task, given["model"], own))
