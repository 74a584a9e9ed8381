"""Cross-client label propagation: labels spread over a graph that all sites' rows span together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from fedgeom.data.sites import SiteData
from fedgeom.data.validation import Finding, check_columns, unscaled
from fedgeom.federation.coordinator import Coordinator
from fedgeom.federation.method import Method
from fedgeom.federation.model import Model
from fedgeom.federation.plan import Plan, Shape
from fedgeom.federation.policy import Policy
from fedgeom.federation.site import Site
from fedgeom.methods.xclp.coordinator import Propagate, Propagation
from fedgeom.methods.xclp.core import is_labelled, mark_unlabelled
from fedgeom.methods.xclp.model import XclpModel
from fedgeom.methods.xclp.settings import XclpSettings
from fedgeom.methods.xclp.site import XclpSite
from fedgeom.protocols.cohort import join
from fedgeom.protocols.names import AgreeOnNames, agree_on_names

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
