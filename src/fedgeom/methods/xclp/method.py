"""Cross-client label propagation: labels spread over a graph that all sites' rows span together.

A `Propagation` is the coordinator's side of it: compare, build the graph, spread labels, give each site its rows.
`XCLP` holds it once in a run, over the sites' rows; training with pseudo-labels in many rounds, over their features.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from fedgeom.data.sites import SiteData
from fedgeom.data.validation import Finding, check_columns, unscaled
from fedgeom.errors import TooFewSitesError
from fedgeom.federation.coordinator import Coordinator
from fedgeom.federation.messages import Array
from fedgeom.federation.method import Method
from fedgeom.federation.model import Model
from fedgeom.federation.plan import WORD_MODULUS, Ask, Plan, Shape, Steps, Sum, array_size
from fedgeom.federation.policy import Policy
from fedgeom.federation.results import RunWarning
from fedgeom.federation.site import Site
from fedgeom.methods.xclp.anchors import SIZES, AnchorCoordinator, ModelRead, ReadModel, ThroughAnchors
from fedgeom.methods.xclp.core import GRID, is_labelled, mark_unlabelled
from fedgeom.methods.xclp.distances import Comparisons, compare, layout, neighbour_graph, smaller_messages
from fedgeom.methods.xclp.messages import (
    Collect,
    CountClasses,
    CountLabels,
    CountRows,
    Reading,
    ResultKept,
    Rows,
    Spread,
    Weigh,
)
from fedgeom.methods.xclp.model import XclpModel
from fedgeom.methods.xclp.settings import NothingToSpreadError, XclpSettings
from fedgeom.methods.xclp.site import ATTEMPTS, XclpSite
from fedgeom.protocols import fixed_point
from fedgeom.protocols.cohort import Cohort, join
from fedgeom.protocols.names import AgreeOnNames, agree_on_names
from fedgeom.protocols.secure_sum.messages import Ticket
from fedgeom.protocols.secure_sum.rules import GroupDraw

if TYPE_CHECKING:
    import scipy.sparse as sp


Wanted = dict[str, npt.NDArray[np.bool_]]
"""For each site, which of its rows want an influence column."""


class Propagation:
    """Labels spread once over what all sites of the cohort that are left have."""

    def __init__(
        self,
        settings: XclpSettings,
        cohort: Cohort,
        *,
        round: int = 0,
        columns: int | None = None,
        features: bytes | None = None,
    ):
        """Begin; ``columns`` and ``features`` are those of what a network makes of the rows (`SumRows`)."""
        self.settings = settings
        self.cohort = cohort
        self.number = round
        self.columns = columns
        self.features = features
        self.group = 0
        """Which of the groups of sites is under way; 0 where there are none."""

    def spread(self, classes: tuple[str, ...]) -> tuple[XclpModel, dict[str, Any]]:
        """Spread the labels; return the model for later rows, without anchors over pairs, and figures of the graph.

        Raise `NothingToSpreadError` where no site has a label.
        """
        if self.settings.graph == "anchors":
            return self._anchors(classes)
        draw = self.settings.group_draw
        return self._pairs(classes) if draw is None else self._in_groups(classes, draw)

    def _in_groups(self, classes: tuple[str, ...], draw: GroupDraw) -> tuple[XclpModel, dict[str, Any]]:
        """Spread labels within each group of sites (Appendix B.1); one that fails costs the others nothing."""
        cohort = self.cohort
        keys = cohort.joined.keys
        draw.check_sizes(len(cohort.names), max(keys[name].min_cohort for name in cohort.names))
        living = set(cohort.left)
        ended = list[str]()
        failed = list[Exception]()
        figures: dict[str, Any] = {"groups": draw.count}
        for self.group, names in enumerate(draw.groups(cohort.names, cohort.sites.seed, cohort.joined.seed)):
            cohort.left = tuple(name for name in names if name in living)
            try:
                found = self._pairs(classes)[1]
            except (TooFewSitesError, NothingToSpreadError) as error:
                failed.append(error)
                cohort.sites.notices.append(_without_labels(self.group, names, error))
                continue
            ended += cohort.left
            for name in ("sites", "rows", "labelled", "edges"):
                figures[name] = figures.get(name, 0) + found[name]
        if not ended:
            raise failed[0]
        cohort.left = tuple(sorted(ended))
        return XclpModel(classes, variant=self.settings.variant), figures | {"classes": len(classes)}

    def _pairs(self, classes: tuple[str, ...]) -> tuple[XclpModel, dict[str, Any]]:
        cohort = self.cohort
        wanted = self._rows()
        distances = compare(self.settings, cohort, {name: len(mask) for name, mask in wanted.items()}, self.number)
        cohort.left = compared = tuple(sorted({name for pair in distances for name in pair}))
        places = layout(compared, {name: len(wanted[name]) for name in compared})
        graph = neighbour_graph(self.settings, distances, places)
        del distances  # n² numbers; what follows needs the graph only
        count = CountClasses(classes=classes, group=self.group, round=self.number)
        counts = cohort.sum_counts(count, length=len(classes))
        labelled = int(counts.sum())
        if labelled == 0:
            raise NothingToSpreadError("no site has a labelled row: there is nothing to spread")
        reading = self._reading(counts.astype(np.float64))
        model = XclpModel(classes, variant=self.settings.variant)
        cohort.left = self._collected(classes, reading, graph, places, wanted)
        self._weigh(model, reading)
        return model, {
            "sites": len(compared),
            "rows": sum(len(wanted[name]) for name in compared),
            "labelled": labelled,
            "classes": len(classes),
            "edges": int(graph.nnz) // 2,
        }

    def _anchors(self, classes: tuple[str, ...]) -> tuple[XclpModel, dict[str, Any]]:
        cohort = self.cohort
        settings = self.settings
        talk = AnchorCoordinator(settings, cohort, self.columns, self.features)
        anchors = talk.fit()
        scores, counts = talk.scores(anchors, classes)
        model = XclpModel(classes, anchors, scores, counts, settings.variant, settings.n_nearest)
        read = ReadModel(model=model.to_bytes(), reading=self._reading(counts), round=self.number)
        summed = len(cohort.left)
        told = cohort.sites.ask(read, of=cohort.left, expect=ModelRead)
        told.need(1, "that they have the model")
        cohort.lost_since(told)
        self._weigh(model, read.reading)
        return model, {"sites": summed, "classes": len(classes), "anchors": len(anchors)}

    def _reading(self, counts: npt.NDArray[np.float64]) -> Reading:
        return Reading(variant=self.settings.variant, prior=self.settings.prior, counts=Array.of(counts))

    def _weigh(self, model: XclpModel, reading: Reading) -> None:
        """Let sites scale their confidences as the reference code does, if that is wanted."""
        cohort = self.cohort
        if self.settings.confidence == "entropy":
            return
        stamp = reading.stamp(model.to_bytes() if model.anchors is not None else b"")
        total = cohort.sum_elements(
            CountLabels(classes=model.classes, stamp=stamp, group=self.group, round=self.number),
            modulus=fixed_point.MODULUS,
            length=GRID + len(model.classes),
        )
        (level,) = fixed_point.read_levels(total, [GRID])
        weigh = Weigh(level=level, sizes=Array.of(total[GRID:].astype(np.float64)), round=self.number)
        cohort.sites.ask(weigh, of=cohort.left, expect=ResultKept).need(1, "that they have their confidences")

    def _rows(self) -> Wanted:
        """Return, for each site, which of its rows want an influence column."""
        cohort = self.cohort
        questions = {
            name: CountRows(
                members=cohort.names,
                letters=dict(cohort.mail[name]),
                hide=self.settings.hide_labelled,
                round=self.number,
            )
            for name in cohort.left
        }
        found = cohort.sites.ask(questions, expect=Rows)
        cohort.joined.delivered(found)
        found.need(cohort.min_sites, "how many rows they have")
        return {name: answer.labelled.numpy().astype(bool) for name, answer in found.items()}

    def _collected(
        self,
        classes: tuple[str, ...],
        reading: Reading,
        graph: sp.csr_array,
        places: dict[str, tuple[int, int]],
        wanted: Wanted,
    ) -> tuple[str, ...]:
        """Give each site its influence columns, add up what they spread, give each site its rows back.

        Return the sites that have them.
        """
        from fedgeom.geometry.graphs.propagation import influence_columns  # scipy.sparse: half a second

        cohort = self.cohort
        alpha = self.settings.setting.alpha
        columns = {
            name: influence_columns(graph, alpha, places[name][0] + np.flatnonzero(wanted[name])).astype(
                np.float32
            )  # as they are sent
            for name in cohort.left
        }

        def rows_of(left: tuple[str, ...]) -> dict[str, tuple[int, int]]:
            return layout(left, {name: len(wanted[name]) for name in left})

        def ask(name: str, left: tuple[str, ...]) -> Spread:
            kept = np.concatenate([np.arange(*places[other]) for other in left])
            return Spread(classes=classes, layout=rows_of(left), columns=Array.of(columns[name][kept]))

        hidden = cohort.sum_rows(ask, attempts=ATTEMPTS, layout=rows_of, columns=len(classes))
        back = {
            name: Collect(of=hidden.ticket, block=Array.of(b), reading=reading, round=self.number)
            for name, b in hidden.blocks.items()
        }
        kept = cohort.sites.ask(back, expect=ResultKept)
        kept.need(1, "that they have their rows")
        return tuple(kept)


UNSEEN = "how many rows the sites have, and how many of these a label"
UNLABELLED = "none of these sites has a label: nothing spreads"
SUREST = "how sure the surest row is takes up to two bytes more"


@dataclass(frozen=True)
class Propagate(Steps):
    """The plan of `Propagation.spread`."""

    settings: XclpSettings
    classes: tuple[str, ...]
    labelled: Mapping[str, int] = field(default_factory=dict)
    """How many rows of each site have a label that spreads, where one process has the tables."""
    round: int = 0
    columns: int | None = None
    """How many features rows have; None: the table's columns."""
    features: bytes | None = None
    sites: tuple[str, ...] | None = None
    """Those that take part; None: all."""
    bound: str = ""
    """What else decides whether, or over whom, labels spread."""

    def steps(self, shape: Shape, private: bool) -> Plan:
        """Yield one propagation through anchors, or one over pairs in each group."""
        if self.settings.graph == "anchors":
            yield from self._anchors(shape)
            return
        names = self.sites or shape.sites
        seen = {table.name: len(table) for table in shape.tables}
        rows = {name: seen.get(name, shape.rows) for name in names}
        wanted = rows if self.settings.hide_labelled else rows | dict(self.labelled)
        draw = self.settings.group_draw
        if draw is None:
            yield from self._pairs(shape, 0, rows, wanted, self.bound)
            return
        bound = self.bound
        if draw.by == "sites":  # whoever is drawn together: as if all had as many rows as the largest
            bound = draw.decides
            rows = wanted = dict.fromkeys(names, max(rows.values()))
        for group, some in enumerate(draw.planned(names, shape)):
            yield from self._pairs(shape, group, {name: rows[name] for name in some}, wanted, bound)

    def _anchors(self, shape: Shape) -> Plan:
        names = set(self.sites or shape.sites)
        seen = [len(table) for table in shape.tables if table.name in names]
        columns = shape.columns if self.columns is None else self.columns
        anchors = yield ThroughAnchors(
            self.settings,
            self.classes,
            columns,
            sum(seen) if seen else shape.rows * len(names),
            self.features,
            self.sites,
            self.bound,
        )
        yield Ask(
            lambda _: ReadModel(model=self._model(anchors, columns), reading=self._reading(), round=self.round),
            ModelRead(),
            bound=SIZES,
            to=self.sites,
        )
        yield from self._weigh(0, self.sites, self.bound)

    def _pairs(
        self, shape: Shape, group: int, rows: Mapping[str, int], wanted: Mapping[str, int], bound: str
    ) -> Plan:
        """Yield how the rows of some sites are compared, and labels spread over their graph."""
        settings = self.settings
        names = tuple(rows)
        count = len(self.classes)
        seen = {table.name for table in shape.tables}
        decides = bound or ("" if seen.issuperset(names) else UNSEEN)
        more: dict[str, Any] = {"bound": decides, "to": names}
        yield Ask(
            CountRows(members=shape.sites, letters={}, hide=settings.hide_labelled, round=self.round),
            Rows(labelled=Array.of(np.zeros(1, np.uint8))),
            up={name: array_size("u1", one) - array_size("u1", 1) for name, one in rows.items()},
            **more,
        )
        yield Comparisons(settings, rows, self.round, decides, drawn=bool(bound))
        yield Sum(CountClasses(classes=self.classes, group=group, round=self.round), count, bound=bound, to=names)
        if not any(self.labelled.get(name, 1) for name in names):
            bound = UNLABELLED
            more["bound"] = UNLABELLED
        places = layout(names, dict(rows))
        height = sum(rows.values())
        blank = Array.of(np.zeros((0, 0), np.float32))
        whole = array_size("u8", height * count)
        spread = yield Sum(
            Spread(classes=self.classes, layout=places, columns=blank),
            height * count,
            spare=ATTEMPTS - 1,
            down={name: array_size("f4", height, wanted[name]) - array_size("f4", 0, 0) for name in names},
            up={name: array_size("u8", (height - one) * count) - whole for name, one in rows.items()},
            work=1e-9 * height * count * max(wanted[name] for name in names),
            remedy=smaller_messages(settings),
            **more,
        )
        ticket = Ticket(round=spread.round, modulus=str(WORD_MODULUS), members=shape.sites, participants=names)
        block = Array.of(np.zeros(0, np.uint64))
        yield Ask(
            Collect(of=ticket, block=block, reading=self._reading(), round=self.round),
            ResultKept(),
            down={name: array_size("u8", one * count) - array_size("u8", 0) for name, one in rows.items()},
            **more,
        )
        yield from self._weigh(group, names, bound)

    def _weigh(self, group: int, names: tuple[str, ...] | None, bound: str) -> Plan:
        """Yield how confidences are scaled as the reference code does, if that is wanted."""
        if self.settings.confidence == "entropy":
            return
        count = len(self.classes)
        labels = CountLabels(classes=self.classes, stamp=bytes(32), group=group, round=self.round)
        yield Sum(labels, GRID + count, modulus=fixed_point.MODULUS, bound=bound, to=names)
        weigh = Weigh(level=GRID, sizes=Array.of(np.zeros(count)), round=self.round)
        yield Ask(weigh, ResultKept(), bound=SUREST, to=names)

    def _reading(self) -> Reading:
        counts = Array.of(np.zeros(len(self.classes)))
        return Reading(variant=self.settings.variant, prior=self.settings.prior, counts=counts)

    def _model(self, anchors: int, columns: int) -> bytes:
        """Return a model as large as that of so many anchors."""
        count = len(self.classes)
        blank = (np.zeros((anchors, columns)), np.zeros((anchors, count)), np.zeros(count))
        return XclpModel(self.classes, *blank, self.settings.variant, self.settings.n_nearest).to_bytes()


def _without_labels(group: int, names: Sequence[str], why: Exception) -> RunWarning:
    return RunWarning(
        f"group {group + 1} ({', '.join(names)}) has no labels: {why}",
        remedy="take fewer groups, so that each has sites with labels and can lose one, or another seed",
    )


MANY_ROWS = 400
"""More rows at all sites together are not compared pair by pair, unless it is said."""


@dataclass(frozen=True, kw_only=True)
class XCLP(XclpSettings, Method):
    """For rows of which few have a label: labels spread to similar rows, also of other sites.

    Sites compare their rows in secret, the coordinator builds a graph, and labels spread over it.
    A site's labels never leave it, and only it learns the labels of its own rows. The coordinator learns the
    angles between all rows: see docs/xclp.md for what that reveals, and ``flip_probability`` to blur it.
    """

    name: ClassVar[str] = "xclp"
    site: ClassVar[type[Site[Any]]] = XclpSite
    model_type: ClassVar[type[Model]] = XclpModel
    column_floors: ClassVar[bool] = True

    @classmethod
    def published(cls, **changes: Any) -> XCLP:
        """Return Algorithm 1 to the letter."""
        return cls(**({"variant": "paper"} | changes))

    @classmethod
    def suggested(cls, sites: Sequence[SiteData]) -> dict[str, Any]:
        """Comparing all pairs of many rows takes long: many go through anchors."""
        rows = sum(map(len, sites))
        return {"graph": "anchors", "n_anchors": min(300, rows // 10)} if rows > MANY_ROWS else {}

    def plan(self, shape: Shape) -> Plan:
        """Agree on names, and spread labels once."""
        classes = yield AgreeOnNames(self.classes)
        labelled = {table.name: int(np.sum(is_labelled(table.y))) for table in shape.tables}
        yield Propagate(self, classes, labelled)

    def check(self, sites: Sequence[SiteData], policy: Policy, seed: int = 0) -> list[Finding]:
        """Refuse tables that do not fit together; warn of scales that differ: the largest columns give the angles."""
        check_columns({site.name: site.shape[1] for site in sites})
        return unscaled(sites)

    def normalise_labels(self, site: SiteData) -> SiteData:
        """Return the site with "" where the label is -1, None or NaN."""
        return mark_unlabelled(site)

    def conduct(self, sites: Coordinator) -> XclpModel:
        """Hold the conversation: join, compare, build the graph, spread labels, give each site its rows."""
        cohort = join(sites, self)
        model, figures = Propagation(self, cohort).spread(agree_on_names(cohort, self.classes))
        sites.metrics |= figures
        return model
