"""Cross-client label propagation where the data are: what a site is made of, and what it has in the end."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import Any, ClassVar

import msgspec
import numpy as np
import numpy.typing as npt

from fedgeom.data.sites import SiteData
from fedgeom.errors import InputError, ProtocolError
from fedgeom.federation.site import Memory, Part, answers
from fedgeom.methods.xclp.anchors import Anchors, AnchorsMemory
from fedgeom.methods.xclp.core import (
    check_sparse_labels,
    is_labelled,
    label_numbers,
    one_hot,
    own_label_counts,
    without_labels,
)
from fedgeom.methods.xclp.distances import RowComparison, RowComparisonMemory
from fedgeom.methods.xclp.labels import LabelReader, LabelsMemory, XclpPart
from fedgeom.methods.xclp.messages import Collect, CountClasses, ResultKept, Spread
from fedgeom.methods.xclp.model import XclpModel
from fedgeom.methods.xclp.settings import XclpSettings
from fedgeom.protocols.fixed_point import from_fixed
from fedgeom.protocols.model_delivery import DeliveredModel
from fedgeom.protocols.names import LabelNames, NamesMemory
from fedgeom.protocols.row_sums import RowSums, RowSumsMemory
from fedgeom.protocols.site import Contribution, SecureMemory, SummingSite

ATTEMPTS = 3
"""How often the row sums may start anew because a site was lost."""


class SpreadMemory(msgspec.Struct, kw_only=True):
    """What a site remembers of its contribution."""

    classes: tuple[str, ...] = ()


class SpreadPart(XclpPart[SpreadMemory]):
    """Spreads the site's labels (lines 10 to 14)."""

    name: ClassVar[str] = "spreading"

    @property
    def _names(self) -> LabelNames:
        found: LabelNames = self.site.names  # type: ignore[attr-defined]
        return found

    @answers(CountClasses)
    def count_classes(self, ask: CountClasses) -> Contribution:
        """Add this site's number of labelled rows per class to the secure sum."""
        self.check_round(ask.round)
        self.check_group(ask.group)
        self._names.check_agreed(ask.classes)
        codes = label_numbers(self.site.table.y, ask.classes)
        counts = np.bincount(codes[codes >= 0], minlength=len(ask.classes))
        return self.contribute(ask, counts.astype(np.uint64))

    @answers(Spread)
    def spread(self, ask: Spread) -> Contribution:
        """Spread this site's labels over all rows, and hide what comes of it."""
        self._names.check_agreed(ask.classes)
        data = self.site.table
        columns = ask.columns.numpy()
        if not np.isfinite(columns).all():
            raise ProtocolError("the influence columns are not all finite")
        height = check_layout(ask)
        labelled = is_labelled(data.y)
        self.site.check_size(height * len(ask.classes))
        begin, end = ask.layout[self.site.name]
        # By the terms, not by what came: or a coordinator could try how many of hidden labels there are.
        chosen = np.arange(len(data)) if self.xclp.hide_labelled else np.flatnonzero(labelled)
        if end - begin != len(data) or columns.shape != (height, len(chosen)):
            # How many rows there are, and how many labels, are the site's own: it leaves.
            raise InputError("the influence columns do not fit this site's rows")
        Y = one_hot(label_numbers(data.y, ask.classes), len(ask.classes))[chosen]
        self.memory.classes = ask.classes
        comparing: RowComparison = self.site.comparing  # type: ignore[attr-defined]
        comparing.forget()
        return self.site.contribute(ask, columns.astype(np.float64) @ Y, own_rows=(begin, end))

    @answers(Collect)
    def collect(self, ask: Collect) -> ResultKept:
        """Read this site's own rows of the sum."""
        row_sums: RowSums = self.site.row_sums  # type: ignore[attr-defined]
        reader: LabelReader = self.site.labels  # type: ignore[attr-defined]
        self.check_round(ask.round)
        block = row_sums.unmask(ask.of, ask.block.numpy())
        scores = from_fixed(block, fraction_bits=Spread.fraction_bits)
        reader.read(np.maximum(scores, 0.0), self.memory.classes, ask.reading)
        return ResultKept()


def check_layout(ask: Spread) -> int:
    """Return how many rows all sites have; refuse a layout that is not one block after the other, one for each site.

    A site leaves out the rows that are its own. Told that these lie elsewhere, it would send them too, and the
    coordinator could take the masks off the sum of that block.
    """
    if set(ask.layout) != set(ask.ticket.participants):
        raise ProtocolError("the layout is not that of the sites that are summed")
    at = 0
    for begin, end in sorted(ask.layout.values()):
        if begin != at or end < begin:
            raise ProtocolError("the layout does not put the sites' rows one below the other")
        at = end
    return at


class XclpMemory(SecureMemory, kw_only=True):
    """What a site remembers, part by part."""

    names: NamesMemory = msgspec.field(default_factory=NamesMemory)
    comparing: RowComparisonMemory = msgspec.field(default_factory=RowComparisonMemory)
    row_sums: RowSumsMemory = msgspec.field(default_factory=RowSumsMemory)
    spreading: SpreadMemory = msgspec.field(default_factory=SpreadMemory)
    anchors: AnchorsMemory = msgspec.field(default_factory=AnchorsMemory)
    labels: LabelsMemory = msgspec.field(default_factory=LabelsMemory)


class XclpSite(SummingSite[XclpMemory]):
    """Answers all questions of `XCLP`."""

    memory_type: ClassVar[type[Memory]] = XclpMemory
    takes_models: ClassVar[bool] = False
    parts: ClassVar[tuple[type[Part[Any]], ...]] = (
        LabelNames,
        RowComparison,
        RowSums,
        SpreadPart,
        Anchors,
        LabelReader,
    )
    labels: LabelReader
    names: LabelNames
    handed: DeliveredModel[XclpModel]

    def check(self, settings: XclpSettings) -> None:
        """Refuse data that the method cannot use, naming the site."""
        check_sparse_labels(self.data, settings.classes, self.policy)

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
        labels = self.memory.labels
        joint = self.handed.model
        if joint is not None:
            return joint.to_bytes()
        if labels.scores is None or labels.reading is None:
            return b""
        joint = XclpModel(labels.classes, variant=labels.reading.variant)
        return joint.for_site({"rows": self.rows, "scores": labels.scores.numpy()}).to_bytes()
