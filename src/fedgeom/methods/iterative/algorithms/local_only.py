"""Local only: every site for itself. Nothing but the scale of the columns is shared."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from fedgeom.methods.iterative.algorithm import Algorithm
from fedgeom.methods.iterative.task import Task
from fedgeom.methods.iterative.tree import State, Tree


@dataclass(frozen=True, kw_only=True)
class LocalOnly(Algorithm):
    """Each site trains as much as in all rounds of the others, and sends nothing of it.

    The joint model stays untrained: use ``run.model.for_site(run.local[site])``.
    """

    name: ClassVar[str] = "local"
    sends: ClassVar[tuple[str, ...]] = ()

    def personalise(self, task: Task, given: State, own: State) -> Tree:
        """Train on the site's own rows alone."""
        w = given["model"]
        for round in range(1 if self.solver == "exact" else self.rounds):
            w = task.fit(w, rate=self.rate_in(round))
        return Tree(w)
