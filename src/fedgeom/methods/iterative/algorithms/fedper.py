"""FedPer: sites share the body of a model and keep their own head."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from fedgeom.errors import InputError
from fedgeom.methods.iterative.algorithm import Algorithm
from fedgeom.methods.iterative.task import Task
from fedgeom.methods.iterative.tree import State, Tree


@dataclass(frozen=True, kw_only=True)
class FedPer(Algorithm):
    """Body and head train together; only the body is sent and averaged (Arivazhagan et al. 2019).

    The head is the learner's: for logistic regression the intercept, for a torch module the arrays it names. A site
    that did not train has the head of the first model and should train it.
    """

    name: ClassVar[str] = "fedper"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.build_learner().head:
            raise InputError(f"learner {self.learner!r} names no head; give it one: TorchLearner(…, head=(…))")

    def shared(self, model: Tree) -> Tree:
        """Return the body."""
        return model.select(set(model) - set(self.build_learner().head))

    def whole(self, task: Task, model: Tree, own: State) -> Tree:
        """Put the site's head on the joint body."""
        head = own["head"] if "head" in own else task.first.select(self.build_learner().head)
        return model | head

    def local(self, task: Task, given: State, own: State) -> State:
        """Train both, send the body."""
        trained = task.fit(self.whole(task, given["model"], own))
        own["head"] = trained.select(self.build_learner().head)
        return Tree(model=self.shared(trained))
