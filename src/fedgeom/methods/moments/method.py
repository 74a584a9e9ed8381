"""One secure sum of per-class moments: the simple rival of the hulls."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from fedgeom.data.sites import SiteData
from fedgeom.data.validation import Finding, check_columns, check_two_classes, label_names, unscaled
from fedgeom.errors import InputError
from fedgeom.federation.coordinator import Coordinator
from fedgeom.federation.messages import LARGEST_MESSAGE
from fedgeom.federation.method import Method
from fedgeom.federation.model import Model
from fedgeom.federation.plan import Ask, Plan, Shape, Sum
from fedgeom.federation.policy import Policy
from fedgeom.federation.site import Site
from fedgeom.geometry.gaussians import length
from fedgeom.methods.moments import core
from fedgeom.methods.moments.core import build_model, check_width, middle
from fedgeom.methods.moments.model import MomentsModel
from fedgeom.methods.moments.settings import MomentsSettings
from fedgeom.methods.moments.site import MomentsSite, SumClassMoments, SumGroupMoments, TakeGroups
from fedgeom.protocols.cohort import Cohort, join
from fedgeom.protocols.model_delivery import HandOut, ModelTaken, hand_out
from fedgeom.protocols.names import AgreeOnNames, agree_on_names
from fedgeom.protocols.secure_sum.rules import GroupDraw, GroupSum


@dataclass(frozen=True, kw_only=True)
class Moments(MomentsSettings, Method):
    """For a quick first result with shared class names: one sum of averages and spreads of each class.

    Sites add up per-class counts, sums and squares; a Gaussian or a centroid per class classifies.
    Needs the same label names everywhere (see `Hulls` when sites use their own). Works in any dimension.
    """

    name: ClassVar[str] = "moments"
    site: ClassVar[type[Site[Any]]] = MomentsSite
    model_type: ClassVar[type[Model]] = MomentsModel
    column_floors: ClassVar[bool] = True
    doubts: ClassVar[bool] = True
    sums_by_class: ClassVar[bool] = True

    @classmethod
    def suggested(cls, sites: Sequence[SiteData]) -> dict[str, Any]:
        """Rows that are no points of the unit ball are ordinary vectors."""
        inside = all(bool((np.linalg.norm(site.X, axis=1) < 1).all()) for site in sites)
        return {} if inside else {"space": "euclidean"}

    def check(self, sites: Sequence[SiteData], policy: Policy, seed: int = 0) -> list[Finding]:
        """Refuse tables that do not fit together; warn of different scales where distances to centroids decide."""
        check_columns({site.name: site.shape[1] for site in sites})
        present = check_two_classes(sites)
        absent = sorted(set(self.classes or ()) - present)
        if absent and self.clip is None:  # with privacy, which labels there are is nobody's business
            raise InputError(f"labels missing everywhere: {', '.join(absent)}; leave them out of `classes`")
        return unscaled(sites) if self.rule == "centroid" and self.space == "euclidean" else []

    def check_limits(self, sites: Sequence[SiteData], policy: Policy) -> None:
        """Refuse moments that are larger than a message may be."""
        limit = min(policy.max_message_bytes, LARGEST_MESSAGE)
        check_width(self, len(self.classes or label_names(sites)), sites[0].shape[1], limit)

    def plan(self, shape: Shape) -> Plan:
        """Agree on names, sum the moments, over all sites or in each group, and let the sites make the model."""
        classes = yield AgreeOnNames(self.classes)
        count = length if self.clip is None else core.numbers
        size = count(len(classes), shape.columns, squares=self.squares)
        products = 1e-9 * shape.rows * shape.columns * (shape.columns if self.squares else 1)
        draw = self.group_draw
        if draw is None:
            result = yield Sum(SumClassMoments(classes=classes, curvature=self.c), size, work=products)
            yield HandOut(result=result, work=products + 2e-9 * size * shape.columns)
            return
        sums = []
        for group, names in enumerate(draw.planned(shape.sites, shape)):
            ask = SumGroupMoments(classes=classes, curvature=self.c, group=group)
            result = yield Sum(ask, size, work=products, bound=draw.decides, to=names)
            sums.append(GroupSum(group=group, asked=names, result=result))
        yield Ask(TakeGroups(sums=tuple(sums)), ModelTaken(), bound=draw.decides)

    def conduct(self, sites: Coordinator) -> MomentsModel:
        """Hold the conversation: join, agree on names, sum, tell."""
        cohort = join(sites, self)
        classes = agree_on_names(cohort, self.classes)
        if self.clip is not None:
            return self._conduct_private(cohort, classes)
        size = length(len(classes), cohort.columns, squares=self.squares)
        if self.group_draw is not None:
            return self._in_groups(cohort, self.group_draw, classes, size)
        result = cohort.sum_checked(SumClassMoments(classes=classes, curvature=self.c))
        sites.metrics |= {"sites": len(cohort.left), "classes": len(classes), "numbers": size}
        model = build_model(self, result.reals(SumClassMoments), classes, cohort.columns)
        return hand_out(cohort, model, result)

    def _conduct_private(self, cohort: Cohort, classes: tuple[str, ...]) -> MomentsModel:
        """Sum moments with noise in them, and mend what the noise made impossible."""
        bounds = core.bounds(self, len(classes), cohort.columns)
        columns = cohort.columns
        result = cohort.sum_checked(SumClassMoments(classes=classes, curvature=self.c))
        noise = cohort.noise(**bounds)
        cohort.sites.metrics |= {
            "sites": len(cohort.left),
            "classes": len(classes),
            "numbers": bounds["numbers"],
            "noise on counts": round(noise.spread / core.weights(self.squares)[0], 2),
        }
        return hand_out(cohort, core.read_model(self, result, noise, classes, columns), result)

    def _in_groups(self, cohort: Cohort, draw: GroupDraw, classes: tuple[str, ...], size: int) -> MomentsModel:
        """Sum in each group, and take the middle of the groups; sites do the same from the sums that they check."""
        groups = cohort.groups
        sums = groups.sum_checked(
            lambda number: SumGroupMoments(classes=classes, curvature=self.c, group=number), length=size
        )
        cohort.sites.metrics |= {"sites": len(cohort.left), "classes": len(classes), "numbers": size}
        total = middle(self, [one.result.reals(SumGroupMoments) for one in sums], len(classes), cohort.columns)
        model = build_model(self, total, classes, cohort.columns)
        told = cohort.sites.ask(TakeGroups(sums=tuple(sums)), of=cohort.left, expect=ModelTaken)
        told.need(1, "that they have the model")
        return model
