"""Cross-client label propagation: labels spread over a graph that all sites' rows span together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt

from fedgeom.data.sites import SiteData
from fedgeom.errors import InputError
from fedgeom.federation.conversation import Sites
from fedgeom.federation.messages import Array
from fedgeom.federation.method import Method
from fedgeom.federation.site import Site
from fedgeom.methods.xclp.anchored import AnchorConversation, Labelled, TakeModel
from fedgeom.methods.xclp.anchored_site import XclpSite
from fedgeom.methods.xclp.comparing import compare, layout, neighbour_graph
from fedgeom.methods.xclp.messages import (
    Collect,
    Comparison,
    CountClasses,
    CountLabels,
    CountRows,
    Kept,
    Reading,
    Rows,
    Spread,
    Weigh,
)
from fedgeom.methods.xclp.model import XclpModel
from fedgeom.methods.xclp.plain import Setting, setting_for
from fedgeom.methods.xclp.scores import GRID, is_labelled, label_text
from fedgeom.methods.xclp.site import ATTEMPTS
from fedgeom.protocols import maximum
from fedgeom.protocols.cohort import Cohort, check_columns, join
from fedgeom.protocols.hamming import variant
from fedgeom.protocols.row_sums import row_sums
from fedgeom.protocols.secure_sum import secure_sum
from fedgeom.protocols.vocabulary import agree_on_names

if TYPE_CHECKING:
    import scipy.sparse as sp


@dataclass(frozen=True, kw_only=True)
class XCLP(Method):
    """Sites compare their rows in secret, the coordinator builds a graph, and labels spread over it.

    A site's labels never leave it, and only it learns the labels of its own rows. The coordinator learns the
    angles between all rows: see SECURITY.md for what that gives away, and ``flip`` to blur it.
    """

    name: ClassVar[str] = "xclp"
    site: ClassVar[type[Site[Any]]] = XclpSite

    graph: Literal["pairs", "anchors"] = "pairs"
    """"pairs": all rows are compared, as published. "anchors": through shared cluster centres, which needs secure
    sums only, discloses less, is linear in the number of rows and yields a model for new rows."""
    anchors: int = 300
    """The number of anchors."""
    rounds: int = 10
    """The steps of clustering that find the anchors."""
    least_cell: int = 5
    """A cluster with fewer rows is never summed."""
    code: int = 3
    """On how many nearest anchors a row is written."""
    bits: int = 4096
    """L: the length of the hashes."""
    variant: Literal["ours", "paper", "code"] = "ours"
    """How labels spread: "paper" is Algorithm 1 to the letter, "code" what its authors run, "ours" measured best."""
    neighbours: int | None = None
    """k: how many most similar rows each row is tied to. None: the variant's."""
    alpha: float | None = None
    """α: how far labels spread. None: the variant's (the paper's 0.99 spreads too far when labels are few)."""
    prior: Literal["em", "em-unchecked", "own", "none"] = "em"
    """How a site estimates its own class shares, by itself: for "ours" only. "em": from its labels and scores, where
    its labels bear that out; "em-unchecked": also at sites without labels; "own": from its labels; "none": not."""
    confidence: Literal["entropy", "code"] = "entropy"
    """"entropy": 1 - entropy/log C. "code": that divided by the largest over all sites (rounded up to 1/4096) and
    weighted by n/(C·n_c) for the n_c rows that got the same label anywhere, as the reference code does for training
    with pseudo-labels. It needs one more secure sum, which reveals the largest confidence and all n_c."""
    hamming: Comparison = "bfv"
    """How distances are computed in secret: "bfv", "ot", "paillier" or "paillier-unpacked"."""
    hidden_projection: bool = True
    """Whether the coordinator must not know the projection. False: it follows from the run's seed, so that the same
    seed gives the same labels; a hidden one is new every time."""
    flip: float = 0.0
    """The share of hash bits that sites turn over at random, to blur what the coordinator learns."""
    classes: tuple[str, ...] | None = None
    """The agreed label names. None: the union of the sites' names, which the sites then work out themselves."""
    hide_labelled: bool = False
    """Whether sites hide which of their rows are labelled, at the price of as many columns as rows."""
    smallest: int = 2
    """The fewest sites that make a result."""

    def __post_init__(self) -> None:
        if self.graph not in ("pairs", "anchors"):
            raise InputError(f'graph={self.graph!r} is unknown; wanted "pairs" or "anchors"')
        if min(self.anchors, self.code, self.least_cell) < 1 or not 1 <= self.rounds <= 30:
            raise InputError("anchors, code and least_cell must be at least 1, and rounds 1 … 30")
        if not 8 <= self.bits <= 65_528 or self.bits % 8:
            raise InputError(f"bits={self.bits} given; wanted a multiple of 8 up to 65,528, such as 4096")
        setting = setting_for(self.variant, self.neighbours, self.alpha)
        if not 0 < setting.alpha < 1:
            raise InputError(f"alpha={self.alpha} given; wanted a number between 0 and 1")
        if setting.k < 1:
            raise InputError(f"neighbours={self.neighbours} given; wanted at least 1")
        if self.prior not in ("em", "em-unchecked", "own", "none"):
            raise InputError(f'prior={self.prior!r} is unknown; wanted "em", "em-unchecked", "own" or "none"')
        if self.confidence not in ("entropy", "code"):
            raise InputError(f'confidence={self.confidence!r} is unknown; wanted "entropy" or "code"')
        if not 0 <= self.flip < 0.5:
            raise InputError(f"flip={self.flip} given; wanted a share in [0, 0.5)")
        if self.classes is not None and (len(set(self.classes)) < 2 or any("\n" in n for n in self.classes)):
            raise InputError(f"classes={self.classes} given; wanted at least two different one-line names")
        variant(self.hamming)

    @classmethod
    def published(cls, **changes: Any) -> XCLP:
        """Return Algorithm 1 to the letter."""
        return cls(**({"variant": "paper"} | changes))

    def parameters(self) -> dict[str, Any]:
        """Return the parameters as plain values; class names are joined by line ends."""
        joined = None if self.classes is None else "\n".join(self.classes)
        return super().parameters() | {"classes": joined}

    def check_together(self, sites: Sequence[SiteData]) -> None:
        """Refuse sites whose tables do not fit together, before anything is sent."""
        check_columns({site.name: site.X.shape[1] for site in sites})

    def understood(self, site: SiteData) -> SiteData:
        """Return the site with "" where the label is -1, None or NaN."""
        names = [label_text(label) for label in site.y.tolist()]
        return replace(site, y=np.where(is_labelled(site.y), names, ""))

    @property
    def setting(self) -> Setting:
        """How labels spread: the variant's setting, with what was given instead."""
        return setting_for(self.variant, self.neighbours, self.alpha)

    def conduct(self, sites: Sites) -> XclpModel:
        """Hold the conversation: join, compare, build the graph, spread labels, give each site its rows."""
        terms = self.parameters()
        cohort = join(sites, rounds=len(XclpSite.sums(terms)), terms=terms, smallest=self.smallest)
        among, classes = cohort.names, self.classes
        if classes is None:
            classes, among = agree_on_names(cohort, smallest=self.smallest)
        if self.graph == "anchors":
            return self._through_anchors(cohort, among, classes)
        wanted = self._rows(cohort, among)
        distances = compare(self, cohort, {name: len(mask) for name, mask in wanted.items()})
        among = tuple(sorted({name for pair in distances for name in pair}))
        places = layout(among, {name: len(wanted[name]) for name in among})
        graph = neighbour_graph(self, distances, places)
        del distances  # n² numbers; what follows needs the graph only
        counts = secure_sum(
            cohort,
            0,
            lambda ticket: CountClasses(ticket=ticket, classes=classes),
            modulus=2**64,
            length=len(classes),
            among=among,
            smallest=self.smallest,
        )
        labelled = int(counts.vector.sum())
        if labelled == 0:
            raise InputError("no site has a labelled row: there is nothing to spread")
        reading = self._reading(counts.vector.astype(np.float64))
        model = XclpModel(classes, variant=self.variant)
        read = self._spread(cohort, classes, reading, counts.sites, graph, places, wanted)
        self._weigh(cohort, read, model, reading)
        rows = {name: len(wanted[name]) for name in among}
        sites.metrics |= {
            "sites": len(among),
            "rows": sum(rows.values()),
            "labelled": labelled,
            "classes": len(classes),
            "edges": int(graph.nnz) // 2,
        }
        return model

    def _through_anchors(self, cohort: Cohort, among: Sequence[str], classes: tuple[str, ...]) -> XclpModel:
        sites = cohort.sites
        talk = AnchorConversation(self, cohort, among, sites.seed)
        anchors = talk.fit()
        scores, counts = talk.scores(anchors, classes)
        model = XclpModel(classes, anchors, scores, counts, self.variant, self.code)
        take = TakeModel(model=model.to_bytes(), reading=self._reading(counts))
        told = sites.ask(take, of=talk.among, expect=Labelled)
        told.need(1, "that they have the model")
        self._weigh(cohort, tuple(told), model, take.reading)
        sites.metrics |= {"sites": len(talk.among), "classes": len(classes), "anchors": len(anchors)}
        return model

    def _reading(self, counts: npt.NDArray[np.float64]) -> Reading:
        return Reading(variant=self.variant, prior=self.prior, counts=Array.of(counts))

    def _weigh(self, cohort: Cohort, among: Sequence[str], model: XclpModel, reading: Reading) -> None:
        """Let sites scale their confidences as the reference code does, if that is wanted."""
        if self.confidence == "entropy":
            return
        stamp = reading.stamp(model.to_bytes())
        total = secure_sum(
            cohort,
            len(XclpSite.sums(self.parameters())) - 1,
            lambda ticket: CountLabels(ticket=ticket, classes=model.classes, stamp=stamp),
            modulus=maximum.MODULUS,
            length=GRID + len(model.classes),
            among=among,
            smallest=self.smallest,
        )
        (level,) = maximum.read_levels(total.vector, [GRID])
        weigh = Weigh(level=level, sizes=Array.of(total.vector[GRID:].astype(np.float64)))
        cohort.sites.ask(weigh, of=total.sites, expect=Kept).need(1, "that they have their confidences")

    def _rows(self, cohort: Cohort, among: Sequence[str]) -> dict[str, npt.NDArray[np.bool_]]:
        """Return, for each site, which of its rows want an influence column."""
        questions = {
            name: CountRows(members=cohort.names, letters=cohort.mail[name], hide=self.hide_labelled)
            for name in among
        }
        found = cohort.sites.ask(questions, expect=Rows)
        found.need(self.smallest, "how many rows they have")
        return {name: answer.labelled.numpy().astype(bool).ravel() for name, answer in found.items()}

    def _spread(
        self,
        cohort: Cohort,
        classes: tuple[str, ...],
        reading: Reading,
        among: Sequence[str],
        graph: sp.csr_array,
        places: dict[str, tuple[int, int]],
        wanted: dict[str, npt.NDArray[np.bool_]],
    ) -> tuple[str, ...]:
        """Give each site its influence columns, add up what they spread, give each site its rows back.

        Return the sites that have them.
        """
        from fedgeom.geometry.graphs.propagation import influence_columns

        columns = {
            name: influence_columns(
                graph, self.setting.alpha, places[name][0] + np.flatnonzero(wanted[name])
            ).astype(np.float32)  # as they are sent
            for name in among
        }

        def rows_of(left: tuple[str, ...]) -> dict[str, tuple[int, int]]:
            return layout(left, {name: len(wanted[name]) for name in left})

        def ask(name: str, ticket: Any) -> Spread:
            kept = np.concatenate([np.arange(*places[other]) for other in ticket.participants])
            return Spread(
                ticket=ticket,
                classes=classes,
                layout=rows_of(ticket.participants),
                columns=Array.of(columns[name][kept]),
            )

        hidden = row_sums(
            cohort,
            range(1, 1 + ATTEMPTS),
            ask,
            modulus=2**64,
            rows_of=rows_of,
            columns=len(classes),
            among=among,
            smallest=self.smallest,
        )
        back = {
            name: Collect(of=hidden.ticket, block=Array.of(b), reading=reading)
            for name, b in hidden.blocks.items()
        }
        kept = cohort.sites.ask(back, expect=Kept)
        kept.need(1, "that they have their rows")
        return tuple(kept)
