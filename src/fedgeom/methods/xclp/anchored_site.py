"""The site's side of label propagation through anchors."""

from __future__ import annotations

from typing import ClassVar

import msgspec
import numpy as np
import numpy.typing as npt

from fedgeom.arrays import Floats
from fedgeom.errors import ProtocolError
from fedgeom.federation.site import answers
from fedgeom.methods.xclp.anchor_messages import (
    Cells,
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
from fedgeom.methods.xclp.scores import one_hot
from fedgeom.protocols.handing_out import HandedModel
from fedgeom.protocols.secure_sum.messages import SumQuestion
from fedgeom.protocols.site import Contribution, SummingPart


def planned_sums(rounds: int) -> tuple[type[SumQuestion], ...]:
    """Return the secure sums of this conversation, in order."""
    middle = [SumCells, CountCells] * (rounds - 1)
    return (SumRows, CountCells, *middle, SumCells, SumCodes)


class AnchorsMemory(msgspec.Struct, kw_only=True):
    """Nothing has to be remembered: every question brings the anchors along."""


class Anchors(SummingPart[AnchorsMemory]):
    """Answers the questions of `XCLP` with ``graph="anchors"``."""

    name: ClassVar[str] = "anchors"

    @answers(SumRows)
    def sum_rows(self, ask: SumRows) -> Contribution:
        """Add up this site's unit rows."""
        from fedgeom.geometry.graphs.anchors import unit_rows  # scipy.sparse: slow to import

        rows = unit_rows(self.rows)
        return self.contribute(ask, np.concatenate([[len(rows)], rows.sum(axis=0)]))

    @answers(CountCells)
    def count_cells(self, ask: CountCells) -> Contribution:
        """Count this site's rows in each cell."""
        from fedgeom.geometry.graphs.anchors import cell_counts  # scipy.sparse: slow to import

        self.site.check_size(ask.cells.count)
        cells = self._deal(ask.cells)
        return self.contribute(ask, cell_counts(cells[cells >= 0], ask.cells.count).astype(float))

    @answers(SumCells)
    def sum_cells(self, ask: SumCells) -> Contribution:
        """Add up this site's unit rows in each cell that was found large enough."""
        from fedgeom.geometry.graphs.anchors import cell_counts, cell_sums  # scipy.sparse: slow to import

        if ask.cells.kept is None:
            raise ProtocolError("cells are summed only after the small ones were left out")
        kept = len(ask.cells.kept.numpy())
        self.site.check_size(kept * (1 + self.rows.shape[1]))
        cells = self._deal(ask.cells)
        inside = cells >= 0
        counts = cell_counts(cells[inside], kept)
        sums = cell_sums(self.rows[inside], cells[inside], kept)
        return self.contribute(ask, np.concatenate([counts, sums.ravel()]))

    @answers(SumCodes)
    def sum_codes(self, ask: SumCodes) -> Contribution:
        """Add up ZᵀZ, ZᵀY and the class counts."""
        from fedgeom.geometry.graphs.anchors import codes  # scipy.sparse: slow to import

        self.joining.keep_to_terms(code=ask.nearest)
        anchors = ask.anchors.numpy()
        if anchors.ndim != 2 or anchors.shape[1] != self.rows.shape[1] or not np.isfinite(anchors).all():
            raise ProtocolError(f"anchors of shape {anchors.shape} came; wanted rows of {self.rows.shape[1]}")
        count, names = len(anchors), len(ask.classes)
        self.site.check_size(count * (count + 1) // 2 + count * names + names)
        Z = codes(self.rows, anchors, ask.nearest)
        numbers = label_numbers(self.site.data.y, ask.classes)
        here = np.unique(numbers[numbers >= 0])  # the site's own classes: others add nothing
        Y = one_hot(np.where(numbers >= 0, np.searchsorted(here, numbers), -1), len(here))
        tied, labelled = np.zeros((count, names)), np.zeros(names)
        tied[:, here], labelled[here] = Z.T @ Y, Y.sum(axis=0)
        gram = (Z.T @ Z).toarray()[np.triu_indices(count)]
        return self.contribute(ask, np.concatenate([gram, tied.ravel(), labelled]))

    @answers(ReadModel)
    def read_model(self, ask: ReadModel) -> ModelRead:
        """Keep the model and label this site's rows with it."""
        model = self.handed.keep(ask.model)
        if model.anchors is None or model.anchors.shape[1] != self.rows.shape[1]:
            raise ProtocolError("the model that came does not fit this site's columns")
        scores = model.scores(self.rows)
        codes = label_numbers(self.site.data.y, model.classes)
        own = one_hot(codes, len(model.classes))  # a row's own label counts for itself
        self.reader.read(own + scores, model.classes, ask.reading, ask.model)
        return ModelRead()

    @property
    def rows(self) -> Floats:
        """The rows that are dealt to cells and labelled."""
        found: Floats = self.site.rows  # type: ignore[attr-defined]
        return found

    @property
    def handed(self) -> HandedModel[XclpModel]:
        """The part that keeps the model."""
        return self.site.handed

    @property
    def reader(self) -> LabelReader:
        """The part that reads and keeps labels."""
        found: LabelReader = self.site.labels  # type: ignore[attr-defined]
        return found

    def _deal(self, cells: Cells) -> npt.NDArray[np.int64]:
        most = self.settings.anchors
        if cells.count > most:  # the more cells, the fewer rows in each
            raise ProtocolError(f"{cells.count} cells are asked for; the site joined on anchors={most}")
        return deal(self.rows, cells)


def deal(X: Floats, cells: Cells) -> npt.NDArray[np.int64]:
    """Return the cell of each row, -1 for rows of cells that are not kept."""
    from fedgeom.geometry.graphs.anchors import assign, first_cells  # scipy.sparse: slow to import

    if cells.anchors is not None:
        anchors = cells.anchors.numpy()
        if anchors.shape != (cells.count, X.shape[1]) or not np.isfinite(anchors).all():
            raise ProtocolError(f"anchors of shape {anchors.shape} came; wanted ({cells.count}, {X.shape[1]})")
        found = assign(X, anchors)
    elif cells.mean is not None and cells.mean.shape == (X.shape[1],) and len(cells.seed) == 32:
        found = first_cells(X, cells.mean.numpy(), cells.seed, cells.count)
    else:
        raise ProtocolError("neither anchors nor a mean came by which rows could be dealt")
    if cells.kept is None:
        return found
    kept = cells.kept.numpy().astype(np.int64)
    if kept.ndim != 1 or (kept.size and (kept.min() < 0 or kept.max() >= cells.count)):
        raise ProtocolError("the kept cells are not among the cells")
    new = np.full(cells.count, -1, np.int64)
    new[kept] = np.arange(len(kept))
    return new[found]
