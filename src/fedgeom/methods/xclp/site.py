"""Cross-client label propagation where the data are: what a site is made of, and what it has in the end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, ClassVar

import msgspec
import numpy as np
import numpy.typing as npt

from fedgeom.data.sites import SiteData
from fedgeom.federation.site import Memory, Part
from fedgeom.methods.xclp.anchored_site import Anchors, AnchorsMemory
from fedgeom.methods.xclp.anchored_site import planned_sums as anchor_sums
from fedgeom.methods.xclp.comparing_site import Comparing, ComparingMemory
from fedgeom.methods.xclp.core import check_sparse_labels, own_label_counts, without_labels
from fedgeom.methods.xclp.label_reader import LabelReader, LabelsMemory
from fedgeom.methods.xclp.messages import CountClasses, CountLabels, Spread
from fedgeom.methods.xclp.model import XclpModel
from fedgeom.methods.xclp.settings import XclpSettings
from fedgeom.methods.xclp.spreading_site import ATTEMPTS, Spreading, SpreadingMemory
from fedgeom.protocols.handing_out import HandedModel
from fedgeom.protocols.names.messages import CountNames
from fedgeom.protocols.names.site import LabelNames, NamesMemory
from fedgeom.protocols.row_sums import RowSums, RowSumsMemory
from fedgeom.protocols.secure_sum.messages import SumQuestion
from fedgeom.protocols.site import SecureMemory, SummingSite


def spreading_sums(settings: XclpSettings) -> tuple[type[SumQuestion], ...]:
    """Return the secure sums of one propagation, in order."""
    last = (CountLabels,) if settings.confidence == "code" else ()
    if settings.graph == "anchors":
        return (*anchor_sums(settings.rounds), *last)
    return (CountClasses, *[Spread] * ATTEMPTS, *last) * (settings.groups or 1)


class XclpMemory(SecureMemory, kw_only=True):
    """What a site remembers, part by part."""

    names: NamesMemory = msgspec.field(default_factory=NamesMemory)
    comparing: ComparingMemory = msgspec.field(default_factory=ComparingMemory)
    row_sums: RowSumsMemory = msgspec.field(default_factory=RowSumsMemory)
    spreading: SpreadingMemory = msgspec.field(default_factory=SpreadingMemory)
    anchors: AnchorsMemory = msgspec.field(default_factory=AnchorsMemory)
    labels: LabelsMemory = msgspec.field(default_factory=LabelsMemory)


class XclpSite(SummingSite[XclpMemory]):
    """Answers all questions of `XCLP`."""

    memory_type: ClassVar[type[Memory]] = XclpMemory
    takes_models: ClassVar[bool] = False
    parts: ClassVar[tuple[type[Part[Any]], ...]] = (
        LabelNames,
        Comparing,
        RowSums,
        Spreading,
        Anchors,
        LabelReader,
    )
    labels: LabelReader
    names: LabelNames
    handed: HandedModel[XclpModel]

    def check(self, settings: XclpSettings) -> None:
        """Refuse data that the method cannot use, naming the site."""
        check_sparse_labels(self.data, settings.classes, self.policy)

    @classmethod
    def planned_sums(cls, settings: XclpSettings) -> Sequence[type[SumQuestion]]:
        """Return the sums in order; over pairs the class counts, then the row sums and spare rounds for them."""
        return (CountNames, *spreading_sums(settings))

    spreading_round: ClassVar[int] = 0
    features_hash: ClassVar[bytes] = b""

    @property
    def xclp(self) -> XclpSettings:
        """How labels spread."""
        found: XclpSettings = self.settings
        return found

    def keep_anchors(self, data: bytes) -> XclpModel:
        """Keep the model that came, which is all that there will be."""
        return self.handed.keep(data)

    @property
    def rows(self) -> npt.NDArray[np.float64]:
        """The rows that are compared; a method that learns features first and then spreads labels overrides this."""
        return self.data.X

    @cached_property
    def table(self) -> SiteData:
        """The site's rows; those whose label was found too rare have none."""
        rare = self.memory.names.rare
        return replace(self.data, y=without_labels(self.data.y, rare)) if rare else self.data

    def label_counts(self) -> dict[str, int]:
        """Return how many rows have each of the site's own label names, unlabelled rows aside."""
        return own_label_counts(self.data.y)

    def result(self) -> dict[str, Any]:
        """Return the site's labels, confidences and scores; over pairs also its rows, which later ones are like."""
        found = self.labels.result()
        pairs = found and not self.memory.handed.model
        return found | ({"rows": self.rows} if pairs else {}) | self.names.left_out()

    def model_file(self) -> bytes:
        """Return what labels rows that come later: the joint model, or over pairs the site's own rows and scores."""
        labels, joint = self.memory.labels, self.handed.model
        if joint is not None:
            return joint.to_bytes()
        if labels.scores is None or labels.reading is None:
            return b""
        joint = XclpModel(labels.classes, variant=labels.reading.variant)
        return joint.for_site({"rows": self.rows, "scores": labels.scores.numpy()}).to_bytes()
