"""Cross-client label propagation: labels spread over a graph that all sites' rows span together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from fedgeom.data.checks import check_columns
from fedgeom.data.findings import Finding
from fedgeom.data.inspection import unscaled
from fedgeom.data.sites import SiteData
from fedgeom.errors import InputError
from fedgeom.federation.conversation import Sites
from fedgeom.federation.messages import Array
from fedgeom.federation.method import MessageSizes, Method, Plain
from fedgeom.federation.model import Model
from fedgeom.federation.policy import Policy
from fedgeom.federation.site import Site
from fedgeom.methods.xclp.anchor_messages import ModelRead, ReadModel
from fedgeom.methods.xclp.anchored import AnchorConversation
from fedgeom.methods.xclp.comparing import compare, layout, neighbour_graph
from fedgeom.methods.xclp.message_sizes import check_message_sizes, message_sizes
from fedgeom.methods.xclp.messages import (
    Collect,
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
from fedgeom.methods.xclp.scores import GRID, is_labelled, label_text
from fedgeom.methods.xclp.settings import XclpSettings
from fedgeom.methods.xclp.site import XclpSite
from fedgeom.methods.xclp.spreading_site import ATTEMPTS
from fedgeom.protocols import maximum
from fedgeom.protocols.cohort import Cohort, join
from fedgeom.protocols.names.coordinator import agree_on_names

if TYPE_CHECKING:
    import scipy.sparse as sp

MANY_ROWS = 400
"""More rows at all sites together are not compared pair by pair, unless it is said."""

Wanted = dict[str, npt.NDArray[np.bool_]]
"""For each site, which of its rows want an influence column."""


@dataclass(frozen=True, kw_only=True)
class XCLP(XclpSettings, Method):
    """Sites compare their rows in secret, the coordinator builds a graph, and labels spread over it.

    A site's labels never leave it, and only it learns the labels of its own rows. The coordinator learns the
    angles between all rows: see SECURITY.md for what that gives away, and ``flip`` to blur it.
    """

    name: ClassVar[str] = "xclp"
    site: ClassVar[type[Site[Any]]] = XclpSite
    model_type: ClassVar[type[Model]] = XclpModel

    @classmethod
    def published(cls, **changes: Any) -> XCLP:
        """Return Algorithm 1 to the letter."""
        return cls(**({"variant": "paper"} | changes))

    @classmethod
    def suggested(cls, sites: Sequence[SiteData]) -> dict[str, Any]:
        """Comparing all pairs of many rows takes long: many go through anchors."""
        rows = sum(map(len, sites))
        return {"graph": "anchors", "anchors": min(300, rows // 10)} if rows > MANY_ROWS else {}

    def check_together(self, sites: Sequence[SiteData]) -> None:
        """Refuse sites whose tables do not fit together, before anything is sent."""
        check_columns({site.name: site.shape[1] for site in sites})

    def check_limits(self, sites: Sequence[SiteData], policy: Policy) -> None:
        """Refuse to compare so many rows that sites would be lost to the limit of a message's size."""
        check_message_sizes(self, sites, policy.max_message_bytes)

    def message_sizes(self, sites: Sequence[SiteData]) -> MessageSizes:
        """Return the size of what is exchanged to compare rows, or of sums over anchors."""
        return message_sizes(self, sites)

    def advise(self, sites: Sequence[SiteData], policy: Policy, seed: int = 0) -> list[Finding]:
        """Warn of columns on different scales: the angles between rows are those of the largest columns."""
        return unscaled(sites)

    def normalise_labels(self, site: SiteData) -> SiteData:
        """Return the site with "" where the label is -1, None or NaN."""
        names = [label_text(label) for label in site.y.tolist()]
        return replace(site, y=np.where(is_labelled(site.y), names, ""))

    def conduct(self, sites: Sites) -> XclpModel:
        """Hold the conversation: join, compare, build the graph, spread labels, give each site its rows."""
        cohort = join(sites, self)
        classes = agree_on_names(cohort, self.classes)
        return self._through_anchors(cohort, classes) if self.graph == "anchors" else self._pairs(cohort, classes)

    def _pairs(self, cohort: Cohort, classes: tuple[str, ...]) -> XclpModel:
        wanted = self._rows(cohort)
        distances = compare(self, cohort, {name: len(mask) for name, mask in wanted.items()})
        cohort.left = compared = tuple(sorted({name for pair in distances for name in pair}))
        places = layout(compared, {name: len(wanted[name]) for name in compared})
        graph = neighbour_graph(self, distances, places)
        del distances  # n² numbers; what follows needs the graph only
        counts = cohort.sum_counts(CountClasses(classes=classes), length=len(classes))
        labelled = int(counts.sum())
        if labelled == 0:
            raise InputError("no site has a labelled row: there is nothing to spread")
        reading = self._reading(counts.astype(np.float64))
        model = XclpModel(classes, variant=self.variant)
        cohort.left = self._spread(cohort, classes, reading, graph, places, wanted)
        self._weigh(cohort, model, reading)
        cohort.sites.metrics |= {
            "sites": len(compared),
            "rows": sum(len(wanted[name]) for name in compared),
            "labelled": labelled,
            "classes": len(classes),
            "edges": int(graph.nnz) // 2,
        }
        return model

    def _through_anchors(self, cohort: Cohort, classes: tuple[str, ...]) -> XclpModel:
        talk = AnchorConversation(self, cohort)
        anchors = talk.fit()
        scores, counts = talk.scores(anchors, classes)
        model = XclpModel(classes, anchors, scores, counts, self.variant, self.code)
        read = ReadModel(model=model.to_bytes(), reading=self._reading(counts))
        summed = len(cohort.left)
        told = cohort.sites.ask(read, of=cohort.left, expect=ModelRead)
        told.need(1, "that they have the model")
        cohort.lost_since(told)
        self._weigh(cohort, model, read.reading)
        cohort.sites.metrics |= {"sites": summed, "classes": len(classes), "anchors": len(anchors)}
        return model

    def _reading(self, counts: npt.NDArray[np.float64]) -> Reading:
        return Reading(variant=self.variant, prior=self.prior, counts=Array.of(counts))

    def _weigh(self, cohort: Cohort, model: XclpModel, reading: Reading) -> None:
        """Let sites scale their confidences as the reference code does, if that is wanted."""
        if self.confidence == "entropy":
            return
        stamp = reading.stamp(model.to_bytes() if model.anchors is not None else b"")
        total = cohort.sum_elements(
            CountLabels(classes=model.classes, stamp=stamp),
            modulus=maximum.MODULUS,
            length=GRID + len(model.classes),
        )
        (level,) = maximum.read_levels(total, [GRID])
        weigh = Weigh(level=level, sizes=Array.of(total[GRID:].astype(np.float64)))
        cohort.sites.ask(weigh, of=cohort.left, expect=Kept).need(1, "that they have their confidences")

    def _rows(self, cohort: Cohort) -> Wanted:
        """Return, for each site, which of its rows want an influence column."""
        questions = {
            name: CountRows(members=cohort.names, letters=dict(cohort.mail[name]), hide=self.hide_labelled)
            for name in cohort.left
        }
        found = cohort.sites.ask(questions, expect=Rows)
        cohort.joined.delivered(found)
        found.need(self.min_sites, "how many rows they have")
        return {name: answer.labelled.numpy().astype(bool).ravel() for name, answer in found.items()}

    def _spread(
        self,
        cohort: Cohort,
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

        columns = {
            name: influence_columns(
                graph, self.setting.alpha, places[name][0] + np.flatnonzero(wanted[name])
            ).astype(np.float32)  # as they are sent
            for name in cohort.left
        }

        def rows_of(left: tuple[str, ...]) -> dict[str, tuple[int, int]]:
            return layout(left, {name: len(wanted[name]) for name in left})

        def ask(name: str, left: tuple[str, ...]) -> Spread:
            kept = np.concatenate([np.arange(*places[other]) for other in left])
            return Spread(classes=classes, layout=rows_of(left), columns=Array.of(columns[name][kept]))

        hidden = cohort.sum_rows(ask, attempts=ATTEMPTS, layout=rows_of, columns=len(classes))
        back = {
            name: Collect(of=hidden.ticket, block=Array.of(b), reading=reading)
            for name, b in hidden.blocks.items()
        }
        kept = cohort.sites.ask(back, expect=Kept)
        kept.need(1, "that they have their rows")
        return tuple(kept)

    def plain(self, sites: Sequence[SiteData], seed: int = 0) -> Plain:
        """Compute the same on pooled rows; a hidden projection or flipped bits are drawn anew and differ."""
        from fedgeom.methods.xclp.plain import plain  # scipy.sparse: half a second

        ordered = sorted(sites, key=lambda site: site.name)
        found = plain(
            [(site.X, site.y) for site in ordered],
            variant=self.variant,
            graph=self.graph,
            L=self.bits,
            k=self.neighbours,
            alpha=self.alpha,
            prior=self.prior,
            confidence=self.confidence,
            classes=self.classes,
            seed=seed,
            flip_rate=self.flip,
            anchors=self.anchors,
            m=self.code,
            rounds=self.rounds,
            least=self.min_cell,
        )
        names = tuple(label_text(name) for name in found.names)
        local: dict[str, dict[str, Any]] = {
            site.name: {
                "labels": [*np.array([*names, ""])[one.codes].tolist()],
                "confidences": one.confidence.tolist(),
                "scores": one.scores.tolist(),
            }
            for site, one in zip(ordered, found.sites, strict=True)
        }
        if found.anchors is None:
            local = {site.name: local[site.name] | {"rows": site.X} for site in ordered}
            return Plain(XclpModel(names, variant=self.variant), local)
        model = XclpModel(names, found.anchors, found.anchor_scores, found.counts, self.variant, self.code)
        return Plain(model, local)
