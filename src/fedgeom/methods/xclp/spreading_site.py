"""The site's side of spreading labels over the joint graph: count, spread, read its own rows of the sum."""

from __future__ import annotations

from typing import ClassVar

import msgspec
import numpy as np

from fedgeom.errors import InputError, ProtocolError
from fedgeom.federation.site import answers
from fedgeom.methods.xclp.comparing_site import Comparing
from fedgeom.methods.xclp.core import label_numbers
from fedgeom.methods.xclp.label_reader import LabelReader
from fedgeom.methods.xclp.messages import Collect, CountClasses, Kept, Spread
from fedgeom.methods.xclp.part import XclpPart
from fedgeom.methods.xclp.scores import is_labelled, one_hot
from fedgeom.protocols.fixed_point import from_fixed
from fedgeom.protocols.names.site import LabelNames
from fedgeom.protocols.row_sums import RowSums
from fedgeom.protocols.site import Contribution

ATTEMPTS = 3
"""How often the row sums may start anew because a site was lost."""


class SpreadingMemory(msgspec.Struct, kw_only=True):
    """What a site remembers of its contribution."""

    classes: tuple[str, ...] = ()


class Spreading(XclpPart[SpreadingMemory]):
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
        data, columns = self.site.table, ask.columns.numpy()
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
        comparing: Comparing = self.site.comparing  # type: ignore[attr-defined]
        comparing.forget()
        return self.site.contribute(ask, columns.astype(np.float64) @ Y, own_rows=(begin, end))

    @answers(Collect)
    def collect(self, ask: Collect) -> Kept:
        """Read this site's own rows of the sum."""
        row_sums: RowSums = self.site.row_sums  # type: ignore[attr-defined]
        reader: LabelReader = self.site.labels  # type: ignore[attr-defined]
        self.check_round(ask.round)
        block = row_sums.unmask(ask.of, ask.block.numpy())
        scores = from_fixed(block, fraction_bits=Spread.fraction_bits)
        reader.read(np.maximum(scores, 0.0), self.memory.classes, ask.reading)
        return Kept()


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
