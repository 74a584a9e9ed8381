"""FedPer: sites share the body of a model and keep their own head."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from fedgeom.errors import InputError
from fedgeom.methods.iterative.algorithm import Row, State
from fedgeom.methods.iterative.task import Task
from fedgeom.methods.iterative.vectors import Layout, Vector


@dataclass(frozen=True, kw_only=True)
class FedPer(Row):
    """Body and head train together; only the body is sent and averaged (Arivazhagan et al. 2019).

    The head is the learner's: for logistic regression the intercept, for a torch module the arrays it names. A site
    that did not train has the head of the first model and should train it.
    """

    name: ClassVar[str] = "fedper"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.build_learner().head:
            raise InputError(f"learner {self.learner!r} names no head; give it one: TorchLearner(…, head=(…))")

    def shared(self, layout: Layout) -> npt.NDArray[np.bool_]:
        """Mark the body."""
        return ~layout.mask(self.build_learner().head)

    def whole(self, task: Task, model: Vector, own: State) -> Vector:
        """Put the site's head on the joint body."""
        body = self.shared(task.layout)
        found = np.empty(task.layout.size)
        found[body] = model
        found[~body] = own["head"] if "head" in own else task.first[~body]
        return found

    def local(self, task: Task, given: State, own: State) -> State:
        """Train both, send the body."""
        body = self.shared(task.layout)
        trained = task.fit(self.whole(task, given["model"], own))
        own["head"] = trained[~body]
        return {"model": trained[body]}
