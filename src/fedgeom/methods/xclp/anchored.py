"""Label propagation through anchors: secure sums of cluster sizes, cluster sums and two small matrices.

No distance between two rows is ever computed. Anchors are found by spherical k-means whose every step is a
secure sum; a cluster's rows are added up only after its size is known not to be too small. Then two sums, ZᵀZ and
ZᵀY, decide the anchors' class scores, and these label rows at the sites, now or later.
"""

from __future__ import annotations

import numpy as np

from fedgeom.arrays import Floats
from fedgeom.methods.xclp.anchor_fit import AnchorFit, AnchorPlan
from fedgeom.methods.xclp.anchor_messages import CountCells, SumCells, SumCodes, SumRows
from fedgeom.methods.xclp.settings import NothingToSpreadError, XclpSettings
from fedgeom.protocols.cohort import Cohort
from fedgeom.protocols.secure_sum.messages import SumQuestion, SumResult


class AnchorConversation:
    """The coordinator's side."""

    def __init__(
        self, settings: XclpSettings, cohort: Cohort, columns: int | None = None, features: bytes | None = None
    ):
        """Begin; ``columns`` and ``features`` (`SumRows`) are those of what a network makes of the rows."""
        self.settings, self.cohort, self.features = settings, cohort, features
        self.columns = cohort.columns if columns is None else columns
        self.plan = AnchorPlan.of(settings, cohort.sites.seed, cohort.class_floors, self.columns)
        self.state = AnchorFit()
        self.last: SumResult
        """What came of the last sum, which the next question shows to the sites."""

    def fit(self) -> Floats:
        """Find the anchors, a secure sum at a time; the plain twin is `fedgeom.geometry.graphs.anchors.fit_anchors`."""
        self._sum(SumRows(features=self.features), 1 + self.columns)
        for _ in range(self.plan.rounds):
            self._sum(CountCells(last=self.last), 2 * self.state.cells(self.plan))
            self._sum(SumCells(last=self.last), self.state.sums() * (1 + self.columns))
        return self.state.finished(self.plan)

    def _sum(self, question: SumQuestion, length: int) -> None:
        self.last = self.cohort.sum_checked(question, length=length)
        self.state.take(self.last.reals(type(question)), self.plan)

    def scores(self, anchors: Floats, classes: tuple[str, ...]) -> tuple[Floats, Floats]:
        """Return the anchors' class scores, and how many labels each class has."""
        from fedgeom.geometry.graphs.anchors import anchor_scores  # scipy.sparse: slow to import

        A, C = len(anchors), len(classes)
        pairs = A * (A + 1) // 2
        question = SumCodes(last=self.last, nearest=self.settings.code, classes=classes)
        found = self.cohort.sum_reals(question, length=pairs + A * C + C)
        gram = np.zeros((A, A))
        gram[np.triu_indices(A)] = found[:pairs]
        gram = gram + np.triu(gram, 1).T
        counts = np.rint(found[pairs + A * C :])
        if counts.sum() == 0:
            raise NothingToSpreadError("no site has a labelled row: there is nothing to spread")
        labels = found[pairs : pairs + A * C].reshape(A, C)
        return anchor_scores(gram, labels, self.settings.setting.alpha), counts
