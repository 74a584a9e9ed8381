"""FedPer: sites share the body of a model and keep their own head."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from fedgeom.errors import InputError
from fedgeom.methods.iterative.algorithm import Algorithm
from fedgeom.methods.iterative.rule import TrainingRule
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
        check_head(self)

    def shared(self, model: Tree) -> Tree:
        """Return the body."""
        return body_of(self, model)

    def whole(self, task: Task, model: Tree, own: State) -> Tree:
        """Put the site's head on the joint body."""
        return with_own_head(task, model, own)

    def local(self, task: Task, given: State, own: State) -> State:
        """Train both, send the body."""
        trained = task.fit(self.whole(task, given["model"], own))
        own["head"] = trained.select(task.learner.head)
        return Tree(model=self.shared(trained))


def check_head(rule: TrainingRule) -> None:
    """Refuse a learner without a head that is trained."""
    if not rule.build_learner().head:
        raise InputError(
            f"learner {rule.learner!r} names no head; give it one: TorchLearner(…, head=(…)), or to a "
            'network one that is trained, head="linear"'
        )


def body_of(rule: TrainingRule, model: Tree) -> Tree:
    """Return all of a model but the learner's head."""
    return model.select(set(model) - set(rule.build_learner().head))


def with_own_head(task: Task, model: Tree, own: State, names: tuple[str, ...] = ()) -> Tree:
    """Put the head that a site kept on a joint body; one that never trained has that of the first model."""
    head = own["head"] if "head" in own else task.first.select(names or task.learner.head)
    return model | head
