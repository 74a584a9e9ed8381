"""Figures of a round: how the joint model and the sites' own do on rows that sites set aside.

Sites add them to the sum of the round, so that the coordinator sees those of all together and of nobody alone.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import astuple, dataclass, fields
from typing import Self

import numpy as np

from fedgeom.arrays import Floats
from fedgeom.federation.conversation import Sites
from fedgeom.federation.run_warnings import RunWarning
from fedgeom.methods.iterative.task import Task
from fedgeom.methods.iterative.tree import Tree


def how_many(validation: float) -> int:
    """Return how many figures a site adds to a round's sum: where no rows are set aside two, which are zero."""
    return len(fields(Figures)) if validation else 2


@dataclass(frozen=True)
class Figures:
    """Sums over rows set aside, of one site or of all."""

    loss: float = 0.0
    """The negative log-likelihood under the model that the round began with."""
    rows: float = 0.0
    right: float = 0.0
    """How many of them that model puts into their class."""
    own_loss: float = 0.0
    """The same for the model that each site has after its training."""
    own_right: float = 0.0

    @classmethod
    def of(cls, task: Task, joint: Tree, own: Tree) -> Self:
        """Judge both models by the task's rows."""
        loss, own_loss = (task.rows * task.nll(model) for model in (joint, own))
        right, own_right = (float(np.sum(task.predicted(model) == task.y)) for model in (joint, own))
        return cls(loss, float(task.rows), right, own_loss, own_right)

    @classmethod
    def read(cls, values: Floats) -> Self:
        """Read figures that went through a sum of real numbers, (2,) or (5,): counts are whole again."""
        found = cls(*(float(value) for value in values))
        return cls(found.loss, _count(found.rows), _count(found.right), found.own_loss, _count(found.own_right))

    @classmethod
    def total(cls, several: Iterable[Figures]) -> Self:
        """Add figures up."""
        sums = np.zeros(len(fields(cls)))
        for one in several:
            sums += astuple(one)
        return cls(*sums.tolist())

    def values(self, length: int) -> Floats:
        """Return the first of them as numbers, (length,)."""
        return np.array(astuple(self)[:length])

    def line(self, round: int) -> dict[str, float]:
        """Return what is written down of a round, counted from 0; nothing where no rows were set aside."""
        if not self.rows:
            return {}
        return {
            "round": round + 1,
            "rows": int(self.rows),
            "joint_loss": self.loss / self.rows,
            "joint_accuracy": self.right / self.rows,
            "personal_loss": self.own_loss / self.rows,
            "personal_accuracy": self.own_right / self.rows,
        }


def _count(value: float) -> float:
    return float(np.rint(value))


def warn_of_cuts(sites: Sites, number: int, cut: int, largest_change: float) -> None:
    """Note that some numbers changed by more than the terms have room for: training may have diverged."""
    if not cut:
        return
    cuts = sites.metrics.setdefault("numbers cut off", {})
    cuts[str(number + 1)] = cuts.get(str(number + 1), 0) + cut
    if len(cuts) == 1:
        sites.notices.append(
            RunWarning(
                f"in round {number + 1}, {cut:,} numbers of all sites changed by more than largest_change = "
                f"{largest_change:g} and were cut off",
                remedy="raise largest_change, lower the rate, or use bits=64, which cuts nothing off",
            )
        )
