"""The site's side of label propagation through anchors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from fedgeom.errors import FedgeomError, ProtocolError
from fedgeom.federation import modelfile
from fedgeom.federation.site import answers
from fedgeom.methods.xclp.anchored import (
    FRACTION_BITS,
    Cells,
    CountCells,
    Labelled,
    SumCells,
    SumCodes,
    SumRows,
    TakeModel,
    deal,
    sums_of,
)
from fedgeom.methods.xclp.model import XclpModel
from fedgeom.methods.xclp.scores import one_hot
from fedgeom.methods.xclp.site import PairsSite
from fedgeom.protocols.fixed_point import to_fixed
from fedgeom.protocols.secure_sum import MaskedVector, Ticket


class XclpSite(PairsSite):
    """Answers all questions of `XCLP`."""

    @classmethod
    def sums(cls, terms: Mapping[str, Any]) -> tuple[str, ...]:
        """Return the secure sums that follow from the terms."""
        if terms["graph"] == "pairs":
            return super().sums(terms)
        return (*sums_of(int(terms["rounds"])), *cls.last_sum(terms))

    @answers(SumRows)
    def sum_rows(self, ask: SumRows) -> MaskedVector:
        """Add up this site's unit rows."""
        from fedgeom.geometry.graphs.anchors import unit_rows

        self.admit(ask.ticket)
        rows = unit_rows(self.data.X)
        return self._masked(ask.ticket, np.concatenate([[len(rows)], rows.sum(axis=0)]))

    @answers(CountCells)
    def count_cells(self, ask: CountCells) -> MaskedVector:
        """Count this site's rows in each cell."""
        from fedgeom.geometry.graphs.anchors import cell_counts

        self.admit(ask.ticket)
        cells = self._deal(ask.cells)
        return self._masked(ask.ticket, cell_counts(cells[cells >= 0], ask.cells.count).astype(float))

    @answers(SumCells)
    def sum_cells(self, ask: SumCells) -> MaskedVector:
        """Add up this site's unit rows in each cell that was found large enough."""
        from fedgeom.geometry.graphs.anchors import cell_counts, cell_sums

        self.admit(ask.ticket)
        if ask.cells.kept is None:
            raise ProtocolError("cells are summed only after the small ones were left out")
        cells, kept = self._deal(ask.cells), len(ask.cells.kept.numpy())
        inside = cells >= 0
        counts = cell_counts(cells[inside], kept)
        sums = cell_sums(self.data.X[inside], cells[inside], kept)
        return self._masked(ask.ticket, np.concatenate([counts, sums.ravel()]))

    @answers(SumCodes)
    def sum_codes(self, ask: SumCodes) -> MaskedVector:
        """Add up ZᵀZ, ZᵀY and the class counts."""
        from fedgeom.geometry.graphs.anchors import codes

        self.admit(ask.ticket)
        self.keep_to_terms(code=ask.nearest)
        anchors = ask.anchors.numpy()
        if anchors.ndim != 2 or anchors.shape[1] != self.data.X.shape[1] or not np.isfinite(anchors).all():
            raise ProtocolError(f"anchors of shape {anchors.shape} came; wanted rows of {self.data.X.shape[1]}")
        Z = codes(self.data.X, anchors, ask.nearest)
        Y = one_hot(self.codes(ask.classes), len(ask.classes))
        gram = (Z.T @ Z).toarray()[np.triu_indices(len(anchors))]
        return self._masked(ask.ticket, np.concatenate([gram, (Z.T @ Y).ravel(), Y.sum(axis=0)]))

    @answers(TakeModel)
    def take_model(self, ask: TakeModel) -> Labelled:
        """Keep the model and label this site's rows with it."""
        try:
            _, arrays, facts = modelfile.from_bytes(ask.model)
            model = XclpModel.from_tensors(arrays, facts)
            scores = model.scores(self.data.X)
        except FedgeomError as error:
            raise ProtocolError(f"the model that came cannot be used: {error}") from error
        self.memory.model, self.memory.classes = ask.model, model.classes
        own = one_hot(self.codes(model.classes), len(model.classes))  # a row's own label counts for itself
        self.read_labels(own + scores, model.classes, ask.reading)
        return Labelled()

    def _deal(self, cells: Cells) -> npt.NDArray[np.int64]:
        most = self.memory.terms.get("anchors")
        if isinstance(most, int) and cells.count > most:  # the more cells, the fewer rows in each
            raise ProtocolError(f"{cells.count} cells are asked for; the site joined on anchors={most}")
        return deal(self.data.X, cells)

    def _masked(self, ticket: Ticket, values: Any) -> MaskedVector:
        return self.mask(ticket, to_fixed(values, fraction_bits=FRACTION_BITS, sites=len(ticket.participants)))
