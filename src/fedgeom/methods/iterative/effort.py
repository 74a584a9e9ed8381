"""How much a site trains in one round: steps or epochs of minibatch descent, or down to the optimum."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True)
class Effort:
    """One visit of local training."""

    epochs: int = 5
    """Passes over the site's rows."""
    steps: int | None = None
    """Gradient steps; None: as many as the epochs make."""
    batch: int | None = 32
    """Rows per step; None: all."""
    rate: float = 0.1
    """η: the learning rate."""
    solver: Literal["sgd", "exact"] = "sgd"
    """"sgd": steps; "exact": until the objective is minimal (learners that can)."""
    only: npt.NDArray[np.int64] | None = None
    """(rows,): the rows that every step looks at, instead of batches."""

    def batches(self, rows: int, rng: np.random.Generator) -> Iterator[npt.NDArray[np.int64]]:
        """Yield the rows of each step: every epoch in a new order, without repetition."""
        for at in range(self.count(rows)):
            if self.only is not None:
                yield self.only
                continue
            size = self.batch_size(rows)
            place = at % math.ceil(rows / size)
            if place == 0:
                order = rng.permutation(rows)
            yield order[place * size : (place + 1) * size]

    def batch_size(self, rows: int) -> int:
        """Return how many rows a step looks at."""
        return rows if self.batch is None else min(self.batch, rows)

    def count(self, rows: int) -> int:
        """Return the number of gradient steps over this many rows."""
        if rows == 0:
            return 0
        return self.steps if self.steps is not None else self.epochs * math.ceil(rows / self.batch_size(rows))


USUAL = Effort()
"""The effort where nothing is said."""
