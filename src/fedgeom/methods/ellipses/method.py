"""One-shot classification from a Gaussian for each class of each site, whatever the sites call their classes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from fedgeom.arrays import Floats, Ints
from fedgeom.data.sites import SiteData
from fedgeom.data.validation import Finding, check_columns
from fedgeom.errors import InputError
from fedgeom.federation.coordinator import Coordinator
from fedgeom.federation.messages import LARGEST_MESSAGE
from fedgeom.federation.method import Method
from fedgeom.federation.model import Model
from fedgeom.federation.plan import Ask, Plan, Shape, Sum
from fedgeom.federation.policy import Policy
from fedgeom.federation.privacy import privacy_of
from fedgeom.federation.site import Site
from fedgeom.methods.ellipses import core
from fedgeom.methods.ellipses.core import EllipseLayout, Received, check_width, read_sum
from fedgeom.methods.ellipses.matching import joint_tree
from fedgeom.methods.ellipses.messages import (
    EllipseModelTaken,
    HowMany,
    SumCovers,
    SumEllipseScales,
    SumGaussians,
    TakeEllipseModel,
    TakeTree,
)
from fedgeom.methods.ellipses.model import EllipseModel
from fedgeom.methods.ellipses.settings import EllipseSettings
from fedgeom.methods.ellipses.site import EllipseSite
from fedgeom.methods.hulls import embedding as joint_map
from fedgeom.methods.hulls.core import MOST_CLASSES
from fedgeom.methods.hulls.matching import MatchEvidence, doubts
from fedgeom.methods.label_names import check_number, look_at_names, unequal_numbers
from fedgeom.protocols import fixed_point
from fedgeom.protocols.cohort import Cohort, join
from fedgeom.protocols.names import AgreeOnNames, agree_on_names
from fedgeom.protocols.secure_sum.messages import SumResult
from fedgeom.protocols.secure_sum.rules import following_from_sums

if TYPE_CHECKING:
    from fedgeom.methods.ellipses.matching import Matched


MOST_SPECIMEN_COLUMNS = 64
"""Models of more columns are not made for a plan: their size is worked out."""


@dataclass(frozen=True, kw_only=True)
class Ellipses(EllipseSettings, Method):
    """For sites that name classes in their own words: one exchange of averages and spreads of each class.

    Sites send a Gaussian for each class; the coordinator matches them and tells the classes apart.
    Sites may call their classes as they like (``names="own"``), may lack some, and may have words at different depth
    (``depth="mixed"``). The coordinator learns count, mean and covariance of each class of each site, grouped by site,
    but not whose. Works in any dimension. Where one word means one thing everywhere
    (``names="shared"``), it learns them of each word over all sites together, as with `Moments`.
    """

    name: ClassVar[str] = "ellipses"
    site: ClassVar[type[Site[Any]]] = EllipseSite
    model_type: ClassVar[type[Model]] = EllipseModel
    column_floors: ClassVar[bool] = True
    doubts: ClassVar[bool] = True
    sums_by_class: ClassVar[bool] = True
    matches_names: ClassVar[bool] = True

    def sums_of_few(self) -> Mapping[str, str]:
        """With own names, each site's classes have places of their own; with own scales, some scores are of few."""
        found = (
            {}
            if self.shared
            else {"ellipses.sum": "count, mean and covariance of each class of each site, not whose"}
        )
        if self.scale == "site":
            found["evaluation.sum"] = (
                "counts of test rows by score: where sites scale by rows of their own, some scores occur at few sites"
            )
        return found

    @classmethod
    def suggested(cls, sites: Sequence[SiteData]) -> dict[str, Any]:
        """Shared names need no matching."""
        return {"names": "shared"} if look_at_names(sites).kind == "shared" else {}

    def check(self, sites: Sequence[SiteData], policy: Policy, seed: int = 0) -> list[Finding]:
        """Refuse sites whose tables do not fit together, before anything is sent."""
        check_columns({site.name: site.shape[1] for site in sites})
        check_number(self, sites)
        return []

    def check_limits(self, sites: Sequence[SiteData], policy: Policy) -> None:
        """Refuse Gaussians that are larger than a message may be."""
        words = {str(word) for site in sites for word in site.classes.tolist()}
        most = len(self.classes or words) if self.shared else max(len(site.classes) for site in sites)
        blocks = len(sites) if self.apart else 1
        layout = EllipseLayout(sites[0].shape[1], blocks, self.given_classes or max(2, most), self.n_components)
        check_width(sites[0].shape[1], layout, min(policy.max_message_bytes, LARGEST_MESSAGE))

    def plan(self, shape: Shape) -> Plan:
        """Agree on names, scale and number of classes where the settings say so; sum the Gaussians; tell the model."""
        words = (yield AgreeOnNames(self.classes)) if self.shared else ()
        scales = (
            (yield Sum(SumEllipseScales(), joint_map.scale_length(shape.columns))) if self.joint_scale else None
        )
        classes = len(words) or self.given_classes
        decides = ""
        if classes is None:
            yield Sum(HowMany(scales=scales), MOST_CLASSES, modulus=fixed_point.MODULUS)
            scales = None
            classes = max(2, *map(len, shape.own_names)) if shape.own_names else max(2, shape.n_classes)
            decides = "" if shape.own_names else "the most classes at any site"
        layout = EllipseLayout(shape.columns, shape.n_sites if self.apart else 1, classes, self.n_components)
        length = layout.length if privacy_of(self) is None else core.bounds(layout)["numbers"]
        yield Sum(SumGaussians(classes=classes, scales=scales), length, bound=decides)
        matched = "how many classes and Gaussians there are after matching"
        narrow = replace(layout, columns=min(layout.columns, MOST_SPECIMEN_COLUMNS))
        wider = layout.columns**2 + layout.columns - narrow.columns**2 - narrow.columns
        more = 8 * wider * layout.blocks * layout.classes * layout.components + 16 * (
            layout.columns - narrow.columns
        )
        yield Ask(self._specimen(narrow, words), EllipseModelTaken(), down=more, bound=matched)
        if self.mixed:
            most = layout.blocks * layout.classes
            yield Sum(SumCovers(), layout.blocks * most * most, bound=matched)
            tree = TakeTree(tree=tuple((group,) for group in range(most)))
            yield Ask(tree, EllipseModelTaken(), bound=matched)
            return None
        return classes

    def _specimen(self, layout: EllipseLayout, words: Sequence[str]) -> TakeEllipseModel:
        """Return the largest that sites may be told."""
        gaussians = layout.blocks * layout.classes * layout.components
        model = EllipseModel(
            log_weights=np.zeros(gaussians),
            means=np.zeros((gaussians, layout.columns)),
            covariances=np.zeros((gaussians, layout.columns, layout.columns)),
            groups=np.zeros(gaussians, np.int64),
            classes=layout.classes,
            curvature=self.c,
            scales=np.zeros((2, layout.columns)) if self.joint_scale else None,
            scaled=self.site_scale,
            names=tuple(words),
        ).to_bytes()
        if self.shared:
            return TakeEllipseModel(groups=(), model=model)
        size = layout.blocks * layout.classes
        known = MatchEvidence(own=0.5, rival=MOST_CLASSES, other=0.5)
        return TakeEllipseModel(groups=(MOST_CLASSES,) * size, evidence=(known,) * size, model=model)

    def conduct(self, sites: Coordinator) -> EllipseModel:
        """Hold the conversation: join, agree, sum, match, fit, tell; and where words differ in depth, the tree."""
        from fedgeom.methods.ellipses.matching import fit, match, named  # scikit-learn: 2 s

        cohort = join(sites, self)
        words = agree_on_names(cohort, self.classes) if self.shared else ()
        result: SumResult | None = None
        if self.joint_scale:
            result = cohort.sum_checked(SumEllipseScales())
        scales = _joint(result, cohort.columns)
        classes = len(words) or self.given_classes
        if classes is None:
            classes = self._how_many(cohort, result)
            result = None
        layout = EllipseLayout(cohort.columns, len(cohort.names) if self.apart else 1, classes, self.n_components)
        received = self._received(cohort, SumGaussians(classes=classes, scales=result), layout)
        with following_from_sums("classifier"):
            matched = match(received, layout, self, sites.seed)
            model = named(fit(received, matched, layout, self, scales), self, words, matched)
        sites.metrics |= {
            "sites": len(cohort.left),
            "classes": matched.number,
            "gaussians": len(received.slots),
            "numbers": layout.length,
        }
        sites.artifacts |= _artifacts(received, matched.members, layout)
        learn = self._told(matched, layout, model, sites)
        told = sites.ask(learn, of=cohort.left, expect=EllipseModelTaken)
        told.need(cohort.min_sites, "that they can use the model")
        if self.mixed:
            cohort.lost_since(told)
            self._plant(cohort, matched.number)
        return model

    def _received(self, cohort: Cohort, ask: SumGaussians, layout: EllipseLayout) -> Received:
        """Return the Gaussians that the sites added up."""
        if privacy_of(self) is None:
            return read_sum(cohort.sum_reals(ask, length=layout.length), layout)
        bounds = core.bounds(layout)
        noise = cohort.noise(**bounds)
        total = cohort.sum_counts(ask, length=bounds["numbers"])
        cohort.sites.metrics["noise on counts"] = round(noise.spread / core.COUNT, 2)
        return core.read_noisy_sum(noise.read(total), layout, self, noise.spread)

    def _told(
        self, matched: Matched, layout: EllipseLayout, model: EllipseModel, sites: Coordinator
    ) -> TakeEllipseModel:
        """Return what the sites are told; note what is in doubt."""
        if self.shared:
            return TakeEllipseModel(groups=(), model=model.to_bytes())
        size = layout.blocks * layout.classes
        groups = np.full(size, -1, np.intp)
        known = [MatchEvidence()] * size
        groups[matched.slots] = matched.groups
        for slot, one in zip(matched.slots.tolist(), matched.evidence, strict=True):
            known[slot] = one
        fine = [(g, e) for g, e in zip(matched.groups.tolist(), matched.evidence, strict=True) if g >= 0]
        sites.metrics["doubtful_ellipses"] = sum(one.verdict == "doubtful" for _, one in fine)
        sites.notices += doubts([g for g, _ in fine], [e for _, e in fine], "Gaussians")
        if self.n_classes is None:
            sites.notices += unequal_numbers(np.unique(matched.owners, return_counts=True)[1].tolist())
        return TakeEllipseModel(groups=tuple(groups.tolist()), evidence=tuple(known), model=model.to_bytes())

    def _how_many(self, cohort: Cohort, scales: SumResult | None) -> int:
        """Return the most classes at any site."""
        total = cohort.sum_elements(HowMany(scales=scales), modulus=fixed_point.MODULUS)
        found = fixed_point.read_levels(total, (MOST_CLASSES,))[0]
        if found < 2:
            raise InputError("no site has more than one class; say how many classes there are: n_classes=…")
        return found

    def _plant(self, cohort: Cohort, classes: int) -> None:
        """Have the sites settle what their words cover, and give them the joint tree."""
        blocks = len(cohort.names)
        ticks = cohort.sum_counts(SumCovers(), length=blocks * classes * classes).reshape(-1, classes)
        tree = joint_tree([frozenset(np.flatnonzero(row).tolist()) for row in ticks])
        cohort.sites.artifacts["tree"] = np.array(
            [[group in one for group in range(classes)] for one in tree], np.int64
        ).reshape(-1, classes)
        told = cohort.sites.ask(TakeTree(tree=tuple(tree)), of=cohort.left, expect=EllipseModelTaken)
        told.need(1, "that they have the tree")


def _joint(result: SumResult | None, columns: int) -> Floats | None:
    """Return the joint scale that follows from the sum, as the sites find it."""
    if result is None:
        return None
    scales = joint_map.joint_scales(result.reals(SumEllipseScales), columns)
    if scales is None:
        raise InputError("a column varies too little for a joint scale: leave it out, or rescale it")
    return scales


def _artifacts(received: Received, members: Ints, layout: EllipseLayout) -> dict[str, Any]:
    """Return what the coordinator decoded, for pictures."""
    return {
        "ellipse_counts": received.gaussians.counts,
        "ellipse_means": received.gaussians.means,
        "ellipse_covariances": received.gaussians.covariances,
        "group_of_ellipse": np.asarray(members, np.int64),
        "owner_of_ellipse": np.asarray(received.slots // (layout.classes * layout.components), np.int64),
    }
