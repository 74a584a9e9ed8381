"""Label propagation through anchors: secure sums of cluster sizes, cluster sums and two small matrices.

No distance between two rows is ever computed. Anchors are found by spherical k-means whose every step is a
secure sum; a cluster's rows are added up only after its size is known not to be too small. Two steps differ by the few
rows that changed clusters; so where policies have floors, groups of ``min_rows`` neighbours of a site stand for their
rows, and change clusters together; in ZᵀZ each row has the mean code of its group. Then two sums, ZᵀZ and
ZᵀY, decide the anchors' class scores, and these label rows at the sites, now or later.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from fedgeom.arrays import Floats
from fedgeom.crypto.keys import fingerprint
from fedgeom.errors import InputError, ProtocolError
from fedgeom.federation.messages import Array, Key, Message, Names, Question
from fedgeom.federation.plan import Plan, Shape, Steps, Sum
from fedgeom.federation.site import answers
from fedgeom.memo import memoize
from fedgeom.methods.xclp.core import label_numbers, one_hot, shared_seed
from fedgeom.methods.xclp.labels import LabelReader, XclpPart
from fedgeom.methods.xclp.messages import Reading, RoundNumber
from fedgeom.methods.xclp.model import XclpModel
from fedgeom.methods.xclp.settings import NothingToSpreadError, XclpSettings
from fedgeom.protocols.cohort import Cohort
from fedgeom.protocols.names import LabelNames
from fedgeom.protocols.secure_sum.messages import SumQuestion, SumResult
from fedgeom.protocols.site import Contribution


@dataclass(frozen=True)
class AnchorPlan:
    """What follows from the terms, the run's seed and the sites' policies."""

    anchors: int
    """A: how many there are at most."""
    rounds: int
    min_cell: int
    """A cluster with fewer rows at all sites together is never summed."""
    min_sites: int
    """Nor one that has rows of fewer sites."""
    seed: bytes
    columns: int
    group_rows: int = 1
    """How many rows stand together; 1: each for itself."""

    @classmethod
    def of(cls, settings: XclpSettings, seed: int, floors: tuple[int, int], columns: int) -> AnchorPlan:
        """Put together what both halves know; ``floors`` are those of the policies (`Policy.class_floors`)."""
        least = max(settings.min_cell, floors[1])
        return cls(settings.n_anchors, settings.n_rounds, least, floors[0], shared_seed(seed), columns, floors[1])

    def most(self, rows: float) -> int:
        """Return how many anchors there are at most: with groups of rows, one for two times as many as a cluster needs.

        Of more, most clusters would be left out, for they would have groups of too few sites.
        """
        if self.group_rows <= 1:
            return self.anchors
        return max(min(self.anchors, int(rows) // (2 * self.min_cell * self.min_sites)), 1)


class AnchorFit(msgspec.Struct, kw_only=True):
    """How far the clustering has come: a site remembers it between two questions."""

    taken: int = 0
    """How many sums were taken: first that of the rows, then in turn sizes of cells and sums over cells."""
    mean: Array | None = None
    """(columns,), f8: the mean direction of all rows."""
    rows: float = 0.0
    """How many rows all sites have."""
    anchors: Array | None = None
    """(anchors, columns), f8: unit vectors; None: rows are dealt by random directions from the mean."""
    kept: Array | None = None
    """(cells,), i4: which of the cells are large enough to be summed; None: their sizes are not known yet."""

    def cells(self, plan: AnchorPlan) -> int:
        """Return how many cells there are whose sizes are counted next."""
        return plan.anchors if self.anchors is None else self.anchors.shape[0]

    def sums(self) -> int:
        """Return how many cells are summed next."""
        if self.kept is None:
            raise ProtocolError("cells are summed only after the small ones were left out")
        return self.kept.shape[0]

    def take(self, values: Floats, plan: AnchorPlan) -> None:
        """Take the next sum over all sites.

        values: (1 + columns,) of the rows, (2·cells,) of sizes, or (cells·(1 + columns),) of sums over cells; f8.
        """
        from fedgeom.geometry.graphs.anchors import move, next_seed  # scipy.sparse: slow to import

        if self.taken == 0:
            self.rows = float(np.rint(values[0]))
            self.mean = Array.of(values[1:] / max(values[0], 1.0))
        elif self.taken % 2:
            kept = self._large_enough(np.rint(values).reshape(2, self.cells(plan)), plan)
            if self.anchors is not None:
                self.anchors = Array.of(self.anchors.numpy()[kept])
                kept = np.arange(len(kept))
            self.kept = Array.of(kept.astype(np.int32))
        else:
            step = self.taken // 2 - 1
            cells = self.sums()
            counts = np.rint(values[:cells])
            sums = values[cells:].reshape(cells, plan.columns)
            most = cells if step == plan.rounds - 1 else plan.most(self.rows)
            self.anchors = Array.of(move(sums, counts, most, next_seed(plan.seed, step)))
            self.kept = None
        self.taken += 1

    def _large_enough(self, sizes: Floats, plan: AnchorPlan) -> npt.NDArray[np.int64]:
        """Return the cells with enough rows of enough sites; sizes (2, cells): rows, and sites that have some."""
        from fedgeom.geometry.graphs.anchors import occupied  # scipy.sparse: slow to import

        rows, sites = sizes
        if plan.min_sites <= 1:
            return occupied(rows, plan.min_cell)
        kept = np.flatnonzero((rows >= plan.min_cell) & (sites >= plan.min_sites))
        if not kept.size:
            raise InputError(
                f"no cluster has {plan.min_cell} rows of {plan.min_sites} sites, as policies ask; use fewer anchors, "
                "or let stewards loosen min_rows, min_sites or single_site_classes"
            )
        return kept

    def deal(self, X: Floats, plan: AnchorPlan) -> npt.NDArray[np.int64]:
        """Return the cell of each row, (rows,), -1 for rows of cells that are not kept."""
        from fedgeom.geometry.graphs.anchors import assign, first_cells  # scipy.sparse: slow to import

        if self.anchors is not None:
            return assign(X, self.anchors.numpy())
        if self.mean is None:
            raise ProtocolError("rows cannot be dealt to cells before their mean is known")
        found = first_cells(X, self.mean.numpy(), plan.seed, plan.most(self.rows))
        if self.kept is None:
            return found
        new = np.full(plan.anchors, -1, np.int64)
        kept = self.kept.numpy()
        new[kept] = np.arange(len(kept))
        return new[found]

    def finished(self, plan: AnchorPlan) -> Floats:
        """Return the anchors, once all sums were taken."""
        if self.taken != 1 + 2 * plan.rounds or self.anchors is None:
            raise ProtocolError("the anchors are not settled yet")
        found: Floats = self.anchors.numpy()
        return found


class SumUnitRows(SumQuestion, kind="xclp.mean", checked=True, rounded=True):
    """Ask for the masked sum of a site's unit rows, and their number."""

    answer_reveals: ClassVar[str] = (
        "masked; with all others, to everybody: the mean direction of all rows (of their features where a network is "
        "trained), and how many there are"
    )
    features: Key | None = None
    """A hash of what all sites make features with, and of the round; None: the rows are the table's own. Sites that
    were told otherwise refuse, so that no sum mixes features of different models."""


class CountCells(SumQuestion, kind="xclp.cell-counts", checked=True, decides_floors=True):
    """Ask, masked, how many of a site's rows are in each cell, and whether there are any."""

    answer_reveals: ClassVar[str] = (
        "masked; with all others, to everybody: the sizes of clusters over all sites, and how many sites have a part"
    )
    last: SumResult
    """The sum before this one, from which the cells follow."""


class SumAnchorCells(SumQuestion, kind="xclp.cell-sums", checked=True, rounded=True):
    """Ask for the masked sums of a site's unit rows in each cell that is large enough, and their numbers."""

    answer_reveals: ClassVar[str] = (
        "masked; with all others, to everybody: the centres of clusters of rows, or of their features, over all sites; "
        "where policies have floors, of groups of min_rows rows, which change clusters together"
    )
    last: SumResult
    """The sizes of the cells, from which it follows which are large enough."""


class SumCodes(SumQuestion, kind="xclp.codes"):
    """Ask for a site's masked ZᵀZ and ZᵀY."""

    answer_reveals: ClassVar[str] = (
        "masked; with all others: how strongly clusters are tied, where policies have floors by groups of min_rows "
        "rows, and how many labels of each class are near each"
    )
    last: SumResult
    """The last sums over cells, from which the anchors follow."""
    nearest: Annotated[int, msgspec.Meta(ge=1, le=100)]
    classes: Names


class ModelRead(Message, kind="xclp.model-read", harmless=True):
    """A site has the model and its labels."""

    reveals: ClassVar[str] = "nothing: a receipt"


class ReadModel(Question, kind="xclp.read-model", answer=ModelRead):
    """Give the sites the anchors and their class scores."""

    model: bytes
    reading: Reading
    round: RoundNumber = 0
    """In which round labels spread; `XCLP` has one."""


class AnchorCoordinator:
    """The coordinator's side."""

    def __init__(
        self, settings: XclpSettings, cohort: Cohort, columns: int | None = None, features: bytes | None = None
    ):
        """Begin; ``columns`` and ``features`` (`SumUnitRows`) are those of what a network makes of the rows."""
        self.settings = settings
        self.cohort = cohort
        self.features = features
        self.columns = cohort.columns if columns is None else columns
        self.plan = AnchorPlan.of(settings, cohort.sites.seed, cohort.class_floors, self.columns)
        self.state = AnchorFit()
        self.last: SumResult
        """What came of the last sum, which the next question shows to the sites."""

    def fit(self) -> Floats:
        """Find the anchors, a secure sum at a time; in one place: `fedgeom.geometry.graphs.anchors.fit_anchors`."""
        self._sum(SumUnitRows(features=self.features), 1 + self.columns)
        for _ in range(self.plan.rounds):
            self._sum(CountCells(last=self.last), 2 * self.state.cells(self.plan))
            self._sum(SumAnchorCells(last=self.last), self.state.sums() * (1 + self.columns))
        return self.state.finished(self.plan)

    def _sum(self, question: SumQuestion, length: int) -> None:
        self.last = self.cohort.sum_checked(question, length=length)
        self.state.take(self.last.reals(type(question)), self.plan)

    def scores(self, anchors: Floats, classes: tuple[str, ...]) -> tuple[Floats, Floats]:
        """Return the anchors' class scores, and how many labels each class has."""
        from fedgeom.geometry.graphs.anchors import anchor_scores  # scipy.sparse: slow to import

        A = len(anchors)
        C = len(classes)
        pairs = A * (A + 1) // 2
        question = SumCodes(last=self.last, nearest=self.settings.n_nearest, classes=classes)
        found = self.cohort.sum_reals(question, length=codes_length(A, C))
        gram = np.zeros((A, A))
        gram[np.triu_indices(A)] = found[:pairs]
        gram = gram + np.triu(gram, 1).T
        counts = np.rint(found[pairs + A * C :])
        if counts.sum() == 0:
            raise NothingToSpreadError("no site has a labelled row: there is nothing to spread")
        labels = found[pairs : pairs + A * C].reshape(A, C)
        return anchor_scores(gram, labels, self.settings.setting.alpha), counts


def codes_length(anchors: int, classes: int) -> int:
    """Return how many numbers ZᵀZ, ZᵀY and the class counts are."""
    return anchors * (anchors + 1) // 2 + anchors * classes + classes


SIZES = "which clusters are large enough decides how many anchors there are"
FEWER = "take fewer anchors (anchors), or fewer columns"


@dataclass(frozen=True)
class ThroughAnchors(Steps):
    """The plan of `AnchorCoordinator`; the plan receives how many anchors there are at most."""

    settings: XclpSettings
    classes: tuple[str, ...]
    columns: int
    rows: int = 0
    """How many rows all sites have together, at most; 0: nobody knows."""
    features: bytes | None = None
    to: tuple[str, ...] | None = None
    """The sites that take part; None: all."""
    bound: str = ""
    """What else decides whether, or over whom, sums are taken."""

    def steps(self, shape: Shape, private: bool) -> Plan:
        """Yield the sums: of the rows, in turn the sizes of cells and the sums over them, and of the codes."""
        cells = kept = self.settings.n_anchors if shape.known else 1
        if self.rows:  # a cell with fewer is not kept
            kept = min(cells, max(self.rows // self.settings.min_cell, 1))
        more: dict[str, Any] = {"to": self.to, "remedy": FEWER}
        last = yield Sum(SumUnitRows(features=self.features), 1 + self.columns, bound=self.bound, **more)
        decides = self.bound
        work = 1e-9 * shape.rows * self.columns * cells
        for _ in range(self.settings.n_rounds):
            last = yield Sum(CountCells(last=last), 2 * cells, bound=decides, work=work, **more)
            decides = f"{SIZES}; {self.bound}" if self.bound else SIZES
            last = yield Sum(
                SumAnchorCells(last=last), kept * (1 + self.columns), bound=decides, work=work, **more
            )
            cells = min(cells, 2 * kept)
        codes = SumCodes(last=last, nearest=self.settings.n_nearest, classes=self.classes)
        yield Sum(codes, codes_length(kept, len(self.classes)), bound=decides, work=work, **more)
        return kept


class SummedRows(NamedTuple):
    """Rows of a site, or what stands for groups of them, by which anchors are found."""

    rows: Floats
    """(rows, columns), or (groups, columns): by these, cells are chosen."""
    totals: Floats
    """The same, or the sum of a group's unit rows: these are added up."""
    sizes: Floats
    """How many rows each stands for, (rows,)."""
    groups: npt.NDArray[np.int64]
    """The group of each row, (rows,); (0,) where there are none."""


def summed_rows(rows: Floats, least: int) -> SummedRows:
    """Return unit rows by themselves, or in groups of at least so many neighbours; of fewer rows, none."""
    from fedgeom.geometry.graphs.anchors import unit_rows  # scipy.sparse: slow to import

    if least > 1:
        return _grouped_rows(rows, least)
    units = unit_rows(rows)
    return SummedRows(rows, units, np.ones(len(units)), np.zeros(0, np.int64))


@memoize(64, key=lambda rows, least: (fingerprint(b"rows", np.ascontiguousarray(rows).tobytes()), least))
def _grouped_rows(rows: Floats, least: int) -> SummedRows:
    from fedgeom.geometry.graphs.anchors import cell_totals, neighbours, unit_rows  # scipy.sparse: slow to import

    units = unit_rows(rows)
    groups = neighbours(units, least)
    sizes = np.bincount(groups).astype(np.float64)
    totals = cell_totals(units[: len(groups)], groups, len(sizes))
    return SummedRows(totals, totals, sizes, groups)


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

    @answers(SumUnitRows)
    def sum_rows(self, ask: SumUnitRows) -> Contribution:
        """Add up this site's unit rows."""
        if (ask.features or b"") != self.features_hash:
            raise ProtocolError("features of another model, or of none, were to be summed")
        self.memory.begun = ask.ticket.round
        summed = self._summed
        return self.contribute(ask, np.concatenate([[summed.sizes.sum()], summed.totals.sum(axis=0)]))

    @answers(CountCells)
    def count_cells(self, ask: CountCells) -> Contribution:
        """Count this site's rows in each cell."""
        fit = self._take(ask.last)
        plan = self.plan
        self.site.check_size(2 * fit.cells(plan))
        summed = self._summed
        counts = np.bincount(fit.deal(summed.rows, plan), summed.sizes, minlength=fit.cells(plan))
        return self.contribute(ask, np.concatenate([counts, counts > 0]).astype(float))

    @answers(SumAnchorCells)
    def sum_cells(self, ask: SumAnchorCells) -> Contribution:
        """Add up this site's unit rows in each cell that was found large enough."""
        from fedgeom.geometry.graphs.anchors import cell_totals  # scipy.sparse: slow to import

        fit = self._take(ask.last)
        plan = self.plan
        self.site.check_size(fit.sums() * (1 + plan.columns))
        summed = self._summed
        cells = fit.deal(summed.rows, plan)
        kept = fit.sums()
        inside = cells >= 0
        counts = np.bincount(cells[inside], summed.sizes[inside], minlength=kept)
        sums = cell_totals(summed.totals[inside], cells[inside], kept)
        return self.contribute(ask, np.concatenate([counts, sums.ravel()]))

    @answers(SumCodes)
    def sum_codes(self, ask: SumCodes) -> Contribution:
        """Add up ZᵀZ, ZᵀY and the class counts."""
        from fedgeom.geometry.graphs.anchors import codes, grouped_gram  # scipy.sparse: slow to import

        self.keep_to(n_nearest=ask.nearest)
        self.names.check_agreed(ask.classes)
        anchors = self._take(ask.last).finished(self.plan)
        count = len(anchors)
        names = len(ask.classes)
        self.site.check_size(codes_length(count, names))
        Z = codes(self.rows, anchors, ask.nearest)
        numbers = label_numbers(self.site.table.y, ask.classes)
        here = np.unique(numbers[numbers >= 0])  # the site's own classes: others add nothing
        Y = one_hot(np.where(numbers >= 0, np.searchsorted(here, numbers), -1), len(here))
        tied = np.zeros((count, names))
        labelled = np.zeros(names)
        tied[:, here] = Z.T @ Y
        labelled[here] = Y.sum(axis=0)
        by_row = self.joining.class_floors[1] <= 1
        gram = (Z.T @ Z).toarray() if by_row else grouped_gram(Z, self._summed.groups)
        return self.contribute(ask, np.concatenate([gram[np.triu_indices(count)], tied.ravel(), labelled]))

    @answers(ReadModel)
    def read_model(self, ask: ReadModel) -> ModelRead:
        """Keep the model and label this site's rows with it."""
        self.check_round(ask.round)
        anchors = self.memory.fit.finished(self.plan)
        model = self._keep(ask.model)
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
        memory = self.memory
        stamp = fingerprint(b"last", msgspec.msgpack.encode(last))
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
    def _summed(self) -> SummedRows:
        """What stands for the site's rows while anchors are found."""
        return summed_rows(self.rows, self.joining.class_floors[1])

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
