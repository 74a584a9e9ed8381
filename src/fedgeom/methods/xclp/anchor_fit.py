"""Finding anchors, one sum after the other: what coordinator and sites both compute from the sums over all sites.

A site is shown each sum and checks it by its tag; cells and anchors then follow from the sums, the terms and the run's
seed. So a coordinator can neither lay an anchor beside a row that it looks for nor have a small cluster summed.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec
import numpy as np
import numpy.typing as npt

from fedgeom.arrays import Floats
from fedgeom.errors import InputError, ProtocolError
from fedgeom.federation.messages import Array
from fedgeom.methods.xclp.core import shared_seed
from fedgeom.methods.xclp.settings import XclpSettings


@dataclass(frozen=True)
class AnchorPlan:
    """What follows from the terms, the run's seed and the sites' policies."""

    anchors: int
    """A: how many there are at most."""
    rounds: int
    min_cell: int
    """A cluster with fewer rows at all sites together is never summed."""
    min_sites: int
    """Nor one that has rows of fewer sites."""
    seed: bytes
    columns: int

    @classmethod
    def of(cls, settings: XclpSettings, seed: int, floors: tuple[int, int], columns: int) -> AnchorPlan:
        """Put together what both halves know; ``floors`` are those of the policies (`Policy.class_floors`)."""
        least = max(settings.min_cell, floors[1])
        return cls(settings.anchors, settings.rounds, least, floors[0], shared_seed(seed), columns)


class AnchorFit(msgspec.Struct, kw_only=True):
    """How far the clustering has come: a site remembers it between two questions."""

    taken: int = 0
    """How many sums were taken: first that of the rows, then in turn sizes of cells and sums over cells."""
    mean: Array | None = None
    """(columns,), f8: the mean direction of all rows."""
    anchors: Array | None = None
    """(anchors, columns), f8: unit vectors; None: rows are dealt by random directions from the mean."""
    kept: Array | None = None
    """(cells,), i4: which of the cells are large enough to be summed; None: their sizes are not known yet."""

    def cells(self, plan: AnchorPlan) -> int:
        """Return how many cells there are whose sizes are counted next."""
        return plan.anchors if self.anchors is None else self.anchors.shape[0]

    def sums(self) -> int:
        """Return how many cells are summed next."""
        if self.kept is None:
            raise ProtocolError("cells are summed only after the small ones were left out")
        return self.kept.shape[0]

    def take(self, values: Floats, plan: AnchorPlan) -> None:
        """Take the next sum over all sites.

        values: (1 + columns,) of the rows, (2·cells,) of sizes, or (cells·(1 + columns),) of sums over cells; f8.
        """
        from fedgeom.geometry.graphs.anchors import move, next_seed  # scipy.sparse: slow to import

        if self.taken == 0:
            self.mean = Array.of(values[1:] / max(values[0], 1.0))
        elif self.taken % 2:
            kept = self._large_enough(np.rint(values).reshape(2, self.cells(plan)), plan)
            if self.anchors is not None:
                self.anchors, kept = Array.of(self.anchors.numpy()[kept]), np.arange(len(kept))
            self.kept = Array.of(kept.astype(np.int32))
        else:
            step, cells = self.taken // 2 - 1, self.sums()
            counts, sums = np.rint(values[:cells]), values[cells:].reshape(cells, plan.columns)
            most = cells if step == plan.rounds - 1 else plan.anchors
            self.anchors, self.kept = Array.of(move(sums, counts, most, next_seed(plan.seed, step))), None
        self.taken += 1

    def _large_enough(self, sizes: Floats, plan: AnchorPlan) -> npt.NDArray[np.int64]:
        """Return the cells with enough rows of enough sites; sizes (2, cells): rows, and sites that have some."""
        from fedgeom.geometry.graphs.anchors import occupied  # scipy.sparse: slow to import

        rows, sites = sizes
        if plan.min_sites <= 1:
            return occupied(rows, plan.min_cell)
        kept = np.flatnonzero((rows >= plan.min_cell) & (sites >= plan.min_sites))
        if not kept.size:
            raise InputError(
                f"no cluster has {plan.min_cell} rows of {plan.min_sites} sites, as policies ask; use fewer anchors, "
                "or let stewards loosen min_rows, min_sites or single_site_classes"
            )
        return kept

    def deal(self, X: Floats, plan: AnchorPlan) -> npt.NDArray[np.int64]:
        """Return the cell of each row, (rows,), -1 for rows of cells that are not kept."""
        from fedgeom.geometry.graphs.anchors import assign, first_cells  # scipy.sparse: slow to import

        if self.anchors is not None:
            return assign(X, self.anchors.numpy())
        if self.mean is None:
            raise ProtocolError("rows cannot be dealt to cells before their mean is known")
        found = first_cells(X, self.mean.numpy(), plan.seed, plan.anchors)
        if self.kept is None:
            return found
        new, kept = np.full(plan.anchors, -1, np.int64), self.kept.numpy()
        new[kept] = np.arange(len(kept))
        return new[found]

    def finished(self, plan: AnchorPlan) -> Floats:
        """Return the anchors, once all sums were taken."""
        if self.taken != 1 + 2 * plan.rounds or self.anchors is None:
            raise ProtocolError("the anchors are not settled yet")
        found: Floats = self.anchors.numpy()
        return found
