"""The site's side: how many of its rows of each class are near each landmark."""

from __future__ import annotations

from typing import Any, ClassVar

import msgspec
import numpy as np

from fedgeom.data.validation import Collector, check_known_labels, check_table
from fedgeom.errors import InputError, ProtocolError
from fedgeom.federation.messages import Names
from fedgeom.federation.site import Memory, Part, answers
from fedgeom.geometry.hyperbolic.poincare import pairwise_distance
from fedgeom.methods.poincare_map.model import Landmarks, PoincareMapModel, landmarks_of
from fedgeom.protocols.names import LabelNames, NamesMemory
from fedgeom.protocols.secure_sum.messages import SumQuestion, SumResult
from fedgeom.protocols.site import Contribution, SecureMemory, SummingSite

PIECE = 4096


class CountLandmarkRows(SumQuestion, kind="poincare-map.classes", checked=True, decides_floors=True):
    """Ask how many rows of each class a site has near each landmark, up to the floor, and whether it has any."""

    answer_reveals: ClassVar[str] = (
        "masked; with all others: near each landmark, how many rows each class has (of each site no more than the "
        "policies' min_rows), and at how many sites"
    )
    classes: Names


def make_model(
    settings: Any, result: SumResult, landmarks: Landmarks, classes: tuple[str, ...], floors: tuple[int, int]
) -> PoincareMapModel:
    """Make the model from the counts of all sites: a class that too few rows or sites have at a landmark is not there.

    ``floors`` are sites and rows, of the strictest policy.
    """
    counts = result.counts()
    if counts.shape != (2 * len(landmarks.points) * len(classes),) or (counts < 0).any():
        raise ProtocolError("the counts that came are not those of these landmarks and classes")
    rows, sites = counts.reshape(2, len(landmarks.points), len(classes))
    kept = np.where((rows >= floors[1]) & (sites >= floors[0]), rows, 0)
    if settings.root is not None and settings.root not in classes:
        raise InputError(f"root={settings.root!r} given; wanted one of the classes: {', '.join(classes)}")
    return PoincareMapModel.of(landmarks, kept, classes, settings.root)


class PoincareMapMemory(SecureMemory, kw_only=True):
    """What the site remembers beside its keys, the map and the model: the agreed names."""

    names: NamesMemory = msgspec.field(default_factory=NamesMemory)


class PoincareMapSite(SummingSite[PoincareMapMemory]):
    """Answers the questions of `PoincareMap`."""

    memory_type: ClassVar[type[Memory]] = PoincareMapMemory
    parts: ClassVar[tuple[type[Part[Any]], ...]] = (LabelNames,)
    names: LabelNames

    def check(self, settings: Any) -> None:
        """Refuse data that the method cannot use, naming the site."""
        faults = Collector(self.name)
        with faults.take():
            check_table(self.data, min_rows=1, min_rows_per_class=self.policy.min_rows_per_class)
        with faults.take():
            check_known_labels(self.name, map(str, self.data.classes.tolist()), settings.classes)
        faults.raise_all()

    @answers(CountLandmarkRows)
    def count_rows(self, ask: CountLandmarkRows) -> Contribution:
        """Count this site's rows of each class near each landmark."""
        self.names.check_agreed(ask.classes)
        landmarks = self._landmarks
        points = landmarks.points
        count = len(ask.classes)
        self.check_size(2 * len(points) * count)
        table = self.table
        nearest = [
            pairwise_distance(table.X[at : at + PIECE], points).argmin(axis=1)
            for at in range(0, len(table), PIECE)
        ]
        cells = np.concatenate(nearest) if nearest else np.zeros(0, np.int64)
        words = {word: number for number, word in enumerate(ask.classes)}
        codes = np.array([words[str(word)] for word in table.y.tolist()], np.int64)
        rows = np.bincount(cells * count + codes, minlength=len(points) * count)
        floor = self.joining.class_floors[1]
        shown = np.minimum(rows, floor) if floor > 1 else rows
        return self.contribute(ask, np.concatenate([shown, rows > 0]).astype(np.int64))

    @property
    def _landmarks(self) -> Landmarks:
        return landmarks_of(self.preparation())

    def model_from(self, result: SumResult) -> PoincareMapModel:
        """Make the model from the sum of all sites' counts, after a look at whether it is that sum."""
        self.sums.check_result(result, CountLandmarkRows)
        floors = self.joining.class_floors
        return make_model(self.settings, result, self._landmarks, self.names.agreed, floors)

    def result(self) -> dict[str, Any]:
        """Return how many rows the site has on the map."""
        return {"rows": len(self.data), **self.names.left_out()} if self.handed.model is not None else {}
