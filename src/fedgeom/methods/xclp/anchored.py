"""Label propagation through anchors: secure sums of cluster sizes, cluster sums and two small matrices.

No distance between two rows is ever computed. Anchors are found by spherical k-means whose every step is a
secure sum; a cluster's rows are added up only after its size is known not to be too small. Then two sums, ZᵀZ and
ZᵀY, decide the anchors' class scores, and these label rows at the sites, now or later.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, ClassVar

import msgspec
import numpy as np
import numpy.typing as npt

from fedgeom.errors import InputError, ProtocolError
from fedgeom.federation.messages import Array, Message, Names, Question
from fedgeom.methods.xclp.messages import Reading
from fedgeom.methods.xclp.plain import setting_for, shared_seed
from fedgeom.protocols.cohort import Cohort
from fedgeom.protocols.fixed_point import from_fixed
from fedgeom.protocols.secure_sum import MaskedVector, Ticket, secure_sum

if TYPE_CHECKING:
    from fedgeom.methods.xclp.method import XCLP

Floats = npt.NDArray[np.float64]
FRACTION_BITS = 28


class Cells(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How rows are dealt to cells: by random directions from a mean at first, by anchors later."""

    count: Annotated[int, msgspec.Meta(ge=1, le=100_000)]
    mean: Array | None = None
    seed: bytes = b""
    anchors: Array | None = None
    kept: Array | None = None
    """Which cells are summed; the others are too small. None: all."""


class SumRows(Question, frozen=True, kw_only=True):
    """Ask for the masked sum of a site's unit rows, and their number."""

    kind: ClassVar[str] = "xclp.mean"
    answer: ClassVar[type[Message]] = MaskedVector
    answer_reveals: ClassVar[str] = (
        "masked; with all others: the mean direction of all rows, and how many there are"
    )
    ticket: Ticket


class CountCells(Question, frozen=True, kw_only=True):
    """Ask how many of a site's rows are in each cell, masked."""

    kind: ClassVar[str] = "xclp.cell-counts"
    answer: ClassVar[type[Message]] = MaskedVector
    answer_reveals: ClassVar[str] = "masked; with all others: the sizes of clusters over all sites"
    ticket: Ticket
    cells: Cells


class SumCells(Question, frozen=True, kw_only=True):
    """Ask for the masked sums of a site's unit rows in each cell that is large enough, and their numbers."""

    kind: ClassVar[str] = "xclp.cell-sums"
    answer: ClassVar[type[Message]] = MaskedVector
    answer_reveals: ClassVar[str] = "masked; with all others: the centres of clusters over all sites"
    ticket: Ticket
    cells: Cells


class SumCodes(Question, frozen=True, kw_only=True):
    """Ask for a site's masked ZᵀZ and ZᵀY."""

    kind: ClassVar[str] = "xclp.codes"
    answer: ClassVar[type[Message]] = MaskedVector
    answer_reveals: ClassVar[str] = (
        "masked; with all others: how strongly clusters are tied, and how many labels of each class are near each"
    )
    ticket: Ticket
    anchors: Array
    nearest: Annotated[int, msgspec.Meta(ge=1, le=100)]
    classes: Names


class Labelled(Message, frozen=True, kw_only=True):
    """A site has the model and its labels."""

    kind: ClassVar[str] = "xclp.labelled"
    reveals: ClassVar[str] = "nothing: a receipt"


class TakeModel(Question, frozen=True, kw_only=True):
    """Give the sites the anchors and their class scores."""

    kind: ClassVar[str] = "xclp.take"
    answer: ClassVar[type[Message]] = Labelled
    model: bytes
    reading: Reading


def sums_of(rounds: int) -> tuple[str, ...]:
    """Return the secure sums of this conversation, in order."""
    middle = [SumCells.kind, CountCells.kind] * (rounds - 1)
    return (SumRows.kind, CountCells.kind, *middle, SumCells.kind, SumCodes.kind)


def deal(X: Floats, cells: Cells) -> npt.NDArray[np.int64]:
    """Return the cell of each row, -1 for rows of cells that are not kept."""
    from fedgeom.geometry.graphs.anchors import assign, first_cells

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


class AnchorConversation:
    """The coordinator's side."""

    def __init__(self, method: XCLP, cohort: Cohort, among: Sequence[str], seed: int):
        self.method, self.cohort, self.among = method, cohort, tuple(among)
        self.columns = cohort.keys[self.among[0]].columns
        self.seed = shared_seed(seed)
        """The seed of random directions; it follows from the run's seed and is no secret."""
        self._round = 0

    def fit(self) -> Floats:
        """Find the anchors, a secure sum at a time; the plain twin is `fedgeom.geometry.graphs.anchors.fit_anchors`."""
        from fedgeom.geometry.graphs.anchors import move, next_seed, occupied

        A, rounds, least = self.method.anchors, self.method.rounds, self.method.least_cell
        total = self._sum(lambda ticket: SumRows(ticket=ticket), 1 + self.columns)
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
        from fedgeom.geometry.graphs.anchors import anchor_scores

        A, C = len(anchors), len(classes)
        pairs = A * (A + 1) // 2
        found = self._sum(
            lambda ticket: SumCodes(
                ticket=ticket, anchors=Array.of(anchors), nearest=self.method.code, classes=classes
            ),
            pairs + A * C + C,
        )
        gram = np.zeros((A, A))
        gram[np.triu_indices(A)] = found[:pairs]
        gram = gram + np.triu(gram, 1).T
        counts = np.rint(found[pairs + A * C :])
        if counts.sum() == 0:
            raise InputError("no site has a labelled row: there is nothing to spread")
        labels = found[pairs : pairs + A * C].reshape(A, C)
        alpha = setting_for(self.method.variant, None, self.method.alpha).alpha
        return anchor_scores(gram, labels, alpha), counts

    def _cell_sums(self, cells: Cells, kept: npt.NDArray[np.int64]) -> Floats:
        chosen = msgspec.structs.replace(cells, kept=Array.of(kept.astype(np.int32)))
        return self._sum(lambda ticket: SumCells(ticket=ticket, cells=chosen), len(kept) * (1 + self.columns))

    def _counts(self, cells: Cells) -> Floats:
        return self._sum(lambda ticket: CountCells(ticket=ticket, cells=cells), cells.count)

    def _sum(self, ask: Callable[[Ticket], Question], length: int) -> Floats:
        total = secure_sum(
            self.cohort,
            self._round,
            ask,
            modulus=2**64,
            length=length,
            among=self.among,
            smallest=self.method.smallest,
        )
        self._round += 1
        self.among = total.sites
        return from_fixed(total.vector, fraction_bits=FRACTION_BITS)
