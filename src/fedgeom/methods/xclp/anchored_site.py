"""The site's side of label propagation through anchors."""

from __future__ import annotations

from typing import ClassVar

import msgspec
import numpy as np

from fedgeom.crypto.keys import fingerprint
from fedgeom.errors import InputError, ProtocolError
from fedgeom.federation.site import answers
from fedgeom.methods.xclp.anchor_fit import AnchorFit, AnchorPlan
from fedgeom.methods.xclp.anchor_messages import (
    CountCells,
    ModelRead,
    ReadModel,
    SumCells,
    SumCodes,
    SumRows,
)
from fedgeom.methods.xclp.core import label_numbers
from fedgeom.methods.xclp.label_reader import LabelReader
from fedgeom.methods.xclp.model import XclpModel
from fedgeom.methods.xclp.part import XclpPart
from fedgeom.methods.xclp.scores import one_hot
from fedgeom.protocols.names.site import LabelNames
from fedgeom.protocols.secure_sum.messages import SumQuestion, SumResult
from fedgeom.protocols.site import Contribution


def planned_sums(rounds: int) -> tuple[type[SumQuestion], ...]:
    """Return the secure sums of this conversation, in order."""
    return (SumRows, *[CountCells, SumCells] * rounds, SumCodes)


class AnchorsMemory(msgspec.Struct, kw_only=True):
    """How far the clustering has come here, and the last sum that was taken."""

    fit: AnchorFit = msgspec.field(default_factory=AnchorFit)
    last: bytes = b""
    """A hash of it: asked again, the site takes it once."""
    begun: int = -1
    """The number of the sum of the rows, with which all begins."""


class Anchors(XclpPart[AnchorsMemory]):
    """Answers the questions of `XCLP` with ``graph="anchors"``."""

    name: ClassVar[str] = "anchors"

    @answers(SumRows)
    def sum_rows(self, ask: SumRows) -> Contribution:
        """Add up this site's unit rows."""
        from fedgeom.geometry.graphs.anchors import unit_rows  # scipy.sparse: slow to import

        if (ask.features or b"") != self.features_hash:
            raise ProtocolError("features of another model, or of none, were to be summed")
        self.memory.begun = ask.ticket.round
        rows = unit_rows(self.rows)
        return self.contribute(ask, np.concatenate([[len(rows)], rows.sum(axis=0)]))

    @answers(CountCells)
    def count_cells(self, ask: CountCells) -> Contribution:
        """Count this site's rows in each cell."""
        from fedgeom.geometry.graphs.anchors import cell_counts  # scipy.sparse: slow to import

        fit, plan = self._take(ask.last), self.plan
        self.site.check_size(2 * fit.cells(plan))
        counts = cell_counts(fit.deal(self.rows, plan), fit.cells(plan))
        return self.contribute(ask, np.concatenate([counts, counts > 0]).astype(float))

    @answers(SumCells)
    def sum_cells(self, ask: SumCells) -> Contribution:
        """Add up this site's unit rows in each cell that was found large enough."""
        from fedgeom.geometry.graphs.anchors import cell_counts, cell_sums  # scipy.sparse: slow to import

        fit, plan = self._take(ask.last), self.plan
        self.site.check_size(fit.sums() * (1 + plan.columns))
        cells, kept = fit.deal(self.rows, plan), fit.sums()
        inside = cells >= 0
        counts = cell_counts(cells[inside], kept)
        sums = cell_sums(self.rows[inside], cells[inside], kept)
        return self.contribute(ask, np.concatenate([counts, sums.ravel()]))

    @answers(SumCodes)
    def sum_codes(self, ask: SumCodes) -> Contribution:
        """Add up ZᵀZ, ZᵀY and the class counts."""
        from fedgeom.geometry.graphs.anchors import codes  # scipy.sparse: slow to import

        self.keep_to(code=ask.nearest)
        self.names.check_agreed(ask.classes)
        anchors = self._take(ask.last).finished(self.plan)
        count, names = len(anchors), len(ask.classes)
        self.site.check_size(count * (count + 1) // 2 + count * names + names)
        Z = codes(self.rows, anchors, ask.nearest)
        numbers = label_numbers(self.site.table.y, ask.classes)
        here = np.unique(numbers[numbers >= 0])  # the site's own classes: others add nothing
        Y = one_hot(np.where(numbers >= 0, np.searchsorted(here, numbers), -1), len(here))
        tied, labelled = np.zeros((count, names)), np.zeros(names)
        tied[:, here], labelled[here] = Z.T @ Y, Y.sum(axis=0)
        gram = (Z.T @ Z).toarray()[np.triu_indices(count)]
        return self.contribute(ask, np.concatenate([gram, tied.ravel(), labelled]))

    @answers(ReadModel)
    def read_model(self, ask: ReadModel) -> ModelRead:
        """Keep the model and label this site's rows with it."""
        self.check_round(ask.round)
        anchors, model = self.memory.fit.finished(self.plan), self._keep(ask.model)
        self.names.check_agreed(model.classes)
        if (
            model.anchors is None
            or model.anchors.shape != anchors.shape
            or not np.allclose(model.anchors, anchors)
        ):
            raise ProtocolError("the anchors of the model that came are not those that the sites found")
        scores = model.scores(self.rows)
        codes = label_numbers(self.site.table.y, model.classes)
        own = one_hot(codes, len(model.classes))  # a row's own label counts for itself
        self.reader.read(own + scores, model.classes, ask.reading, ask.model)
        return ModelRead()

    def _take(self, last: SumResult) -> AnchorFit:
        """Take the sum that came before, once, if it is the one that the sites added up; return what follows."""
        memory, stamp = self.memory, fingerprint(b"last", msgspec.msgpack.encode(last))
        if memory.last == stamp:  # asked the same again
            return memory.fit
        planned = self.joining.memory.sums
        if memory.begun < 0 or last.round != memory.begun + memory.fit.taken:
            raise ProtocolError("the sum that came is not the one that was taken last")
        kind = self.site.understands()[planned[last.round]]
        assert issubclass(kind, SumQuestion)
        self.site.sums.check_result(last, kind)
        try:
            memory.fit.take(last.reals(kind), self.plan)
        except (InputError, ValueError) as error:  # it depends on the sum alone, which is the same for all
            raise ProtocolError(f"no anchors follow from the sum that came: {error}") from error
        memory.last = stamp
        return memory.fit

    @property
    def plan(self) -> AnchorPlan:
        """What follows from the terms, the seed and the policies."""
        columns = self.rows.shape[1]
        return AnchorPlan.of(self.xclp, self.site.seed, self.joining.class_floors, columns)

    @property
    def names(self) -> LabelNames:
        """The part that knows the classes."""
        found: LabelNames = self.site.names  # type: ignore[attr-defined]
        return found

    def _keep(self, data: bytes) -> XclpModel:
        """Return the anchors and their scores from what came; the site says what becomes of them."""
        found: XclpModel = self.site.keep_anchors(data)  # type: ignore[attr-defined]
        return found

    @property
    def reader(self) -> LabelReader:
        """The part that reads and keeps labels."""
        found: LabelReader = self.site.labels  # type: ignore[attr-defined]
        return found
