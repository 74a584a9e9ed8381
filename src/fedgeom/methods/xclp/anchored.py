"""Label propagation through anchors: secure sums of cluster sizes, cluster sums and two small matrices.

No distance between two rows is ever computed. Anchors are found by spherical k-means whose every step is a
secure sum; a cluster's rows are added up only after its size is known not to be too small. Then two sums, ZᵀZ and
ZᵀY, decide the anchors' class scores, and these label rows at the sites, now or later.
"""

from __future__ import annotations

import msgspec
import numpy as np
import numpy.typing as npt

from fedgeom.arrays import Floats
from fedgeom.errors import InputError
from fedgeom.federation.messages import Array
from fedgeom.methods.xclp.anchor_messages import Cells, CountCells, SumCells, SumCodes, SumRows
from fedgeom.methods.xclp.core import shared_seed
from fedgeom.methods.xclp.settings import XclpSettings
from fedgeom.protocols.cohort import Cohort


class AnchorConversation:
    """The coordinator's side."""

    def __init__(self, settings: XclpSettings, cohort: Cohort):
        self.settings, self.cohort, self.columns = settings, cohort, cohort.columns
        self.seed = shared_seed(cohort.sites.seed)
        """The seed of random directions; it follows from the run's seed and is no secret."""

    def fit(self) -> Floats:
        """Find the anchors, a secure sum at a time; the plain twin is `fedgeom.geometry.graphs.anchors.fit_anchors`."""
        from fedgeom.geometry.graphs.anchors import move, next_seed, occupied  # scipy.sparse: slow to import

        A, rounds, least = self.settings.anchors, self.settings.rounds, self.settings.min_cell
        total = self.cohort.sum_reals(SumRows(), length=1 + self.columns)
        cells = Cells(count=A, mean=Array.of(total[1:] / max(total[0], 1.0)), seed=self.seed)
        kept = occupied(np.rint(self._counts(cells)), least)
        for step in range(rounds):
            found = self._cell_sums(cells, kept)
            counts, sums = np.rint(found[: len(kept)]), found[len(kept) :].reshape(len(kept), self.columns)
            last = step == rounds - 1
            anchors = move(sums, counts, len(kept) if last else A, next_seed(self.seed, step))
            if last:
                break
            whole = Cells(count=len(anchors), anchors=Array.of(anchors))
            stay = occupied(np.rint(self._counts(whole)), least)
            anchors = anchors[stay]
            cells, kept = Cells(count=len(anchors), anchors=Array.of(anchors)), np.arange(len(anchors))
        return anchors

    def scores(self, anchors: Floats, classes: tuple[str, ...]) -> tuple[Floats, Floats]:
        """Return the anchors' class scores, and how many labels each class has."""
        from fedgeom.geometry.graphs.anchors import anchor_scores  # scipy.sparse: slow to import

        A, C = len(anchors), len(classes)
        pairs = A * (A + 1) // 2
        question = SumCodes(anchors=Array.of(anchors), nearest=self.settings.code, classes=classes)
        found = self.cohort.sum_reals(question, length=pairs + A * C + C)
        gram = np.zeros((A, A))
        gram[np.triu_indices(A)] = found[:pairs]
        gram = gram + np.triu(gram, 1).T
        counts = np.rint(found[pairs + A * C :])
        if counts.sum() == 0:
            raise InputError("no site has a labelled row: there is nothing to spread")
        labels = found[pairs : pairs + A * C].reshape(A, C)
        return anchor_scores(gram, labels, self.settings.setting.alpha), counts

    def _cell_sums(self, cells: Cells, kept: npt.NDArray[np.int64]) -> Floats:
        chosen = msgspec.structs.replace(cells, kept=Array.of(kept.astype(np.int32)))
        return self.cohort.sum_reals(SumCells(cells=chosen), length=len(kept) * (1 + self.columns))

    def _counts(self, cells: Cells) -> Floats:
        return self.cohort.sum_reals(CountCells(cells=cells), length=cells.count)
