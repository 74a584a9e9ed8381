"""Batches of which one half has labels of its own and the other half pseudo-labels (XCLP, Appendix A.2)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fedgeom.methods.iterative.effort import Effort

Rows = npt.NDArray[np.int64]


@dataclass(frozen=True)
class HalvedEffort(Effort):
    """An effort whose steps look at as many labelled rows as pseudo-labelled ones.

    |B_L| = min(half a batch, labelled rows), |B_U| = |B_L|. An epoch is a pass over the pseudo-labelled rows; the
    labelled ones come round as often as they are needed. Where all rows are of one kind, where batches hold all rows,
    or where so small a step is against the site's policy, batches are those of any training.
    """

    labelled: npt.NDArray[np.bool_] | None = None
    """(rows,): which rows have a label of their own."""

    def _halves(self, rows: int) -> tuple[Rows, Rows, int] | None:
        """Return the labelled rows, the others, and how many of each are in a step; None where nothing is halved."""
        mask, batch = self.labelled, self.batch
        usual = mask is None or batch is None or self.only is not None or self.sampling != "shuffled"
        if usual or mask is None or batch is None or len(mask) != rows:  # a part of the rows is a task of its own
            return None
        known, others = np.flatnonzero(mask), np.flatnonzero(~mask)
        half = min(max(batch // 2, 1), len(known), len(others))
        return None if not half or 2 * half < self.least else (known, others, half)

    def per_epoch(self, rows: int) -> int:
        """Return how many steps make a pass over the pseudo-labelled rows; the last one takes what is left over."""
        halves = self._halves(rows)
        return super().per_epoch(rows) if halves is None else max(len(halves[1]) // halves[2], 1)

    def batches(self, rows: int, rng: np.random.Generator, labels: Rows | None = None) -> Iterator[Rows]:
        """Yield the rows of each step, labelled ones first."""
        halves = self._halves(rows)
        if halves is None:
            yield from super().batches(rows, rng, labels)
            return
        known, others, half = halves
        per_epoch, waiting = self.per_epoch(rows), np.empty(0, np.int64)
        for at in range(self.count(rows)):
            place = at % per_epoch
            if place == 0:
                order = rng.permutation(others)
            end = len(others) if place == per_epoch - 1 else (place + 1) * half
            if len(waiting) < half:
                waiting = np.concatenate([waiting, rng.permutation(known)])
            first, waiting = waiting[:half], waiting[half:]
            yield np.concatenate([first, order[place * half : end]])
