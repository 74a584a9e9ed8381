"""FedBABU: the body is trained together under a head that nobody changes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from fedgeom.methods.iterative.algorithm import Algorithm
from fedgeom.methods.iterative.algorithms.fedper import check_head
from fedgeom.methods.iterative.rule import PersonalOrName
from fedgeom.methods.iterative.task import Task
from fedgeom.methods.iterative.tree import State, Tree


@dataclass(frozen=True, kw_only=True)
class FedBABU(Algorithm):
    """Sites train the body alone; the head stays as it was first drawn, and each site fine-tunes all in the end.

    Oh, Kim and Yun 2022.
    """

    name: ClassVar[str] = "fedbabu"
    needs_steps: ClassVar[bool] = True

    personal: PersonalOrName = "finetuned"
    """Body and head are trained on at the site."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_head(self)

    def local(self, task: Task, given: State, own: State) -> State:
        """Train the body under the first head."""
        return Tree(model=task.fit(given["model"], frozen=task.learner.head))
