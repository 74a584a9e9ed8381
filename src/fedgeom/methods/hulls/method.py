"""One-shot federated classification in the Poincaré disc by secure aggregation of convex hulls."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from fedgeom.arrays import Floats, Indices
from fedgeom.data.checks import check_columns
from fedgeom.data.sites import SiteData
from fedgeom.errors import InputError
from fedgeom.federation.conversation import Sites
from fedgeom.federation.messages import LARGEST_MESSAGE, Array, Question
from fedgeom.federation.method import MessageSizes, Method, Plain
from fedgeom.federation.model import Model
from fedgeom.federation.policy import Policy
from fedgeom.federation.shown_rows import ShownRows
from fedgeom.federation.site import Site
from fedgeom.geometry.hyperbolic.grid import PolarGrid
from fedgeom.methods.hulls import embedding as joint_map
from fedgeom.methods.hulls.core import LEVELS, count_of_level, local_hulls, radius_of_level, reach_levels
from fedgeom.methods.hulls.messages import EncodeHulls, Learn, Learnt, Reach, SumScatter
from fedgeom.methods.hulls.model import HullModel
from fedgeom.methods.hulls.plan import HullPlan, decode_hulls, largest_order
from fedgeom.methods.hulls.preview import corners
from fedgeom.methods.hulls.settings import HullSettings
from fedgeom.methods.hulls.site import HullSite
from fedgeom.protocols import maximum
from fedgeom.protocols.cohort import Cohort, join
from fedgeom.protocols.fixed_point import fixed_sum
from fedgeom.protocols.secure_sum.messages import SumResult

Mapped = tuple[Floats | None, Floats | None]
"""The joint map and the joint scale; None each where rows are points of the disc."""
MOST_CROWDED = 0.05
"""The largest share of bins that may be lost because too many hulls met in them."""


@dataclass(frozen=True, kw_only=True)
class Hulls(HullSettings, Method):
    """Sites send the quantized convex hulls of their classes; the coordinator trains an SVM on them.

    Sites may call their classes as they like, and may lack some. What the coordinator learns is the
    set of quantized hulls, grouped by site but not attributed to one.
    """

    name: ClassVar[str] = "hulls"
    site: ClassVar[type[Site[Any]]] = HullSite
    model_type: ClassVar[type[Model]] = HullModel

    @classmethod
    def published(cls, **changes: Any) -> Hulls:
        """Return the paper's settings (Appendix I.2): no trimming, λ = 0.1, published grouping."""
        base = cls(trim=0.0, C=0.1, grouping="published", min_rows=1, as_published=True)
        return replace(base, **changes)

    @classmethod
    def suggested(cls, sites: Sequence[SiteData]) -> dict[str, Any]:
        """Rows that are no points of the disc need a joint map to it."""
        inside = all(site.X.shape[1] == 2 and bool((np.linalg.norm(site.X, axis=1) < 1).all()) for site in sites)
        return {} if inside else {"embedding": "discriminant"}

    def check_together(self, sites: Sequence[SiteData]) -> None:
        """Refuse sites whose tables do not fit together, before anything is sent."""
        check_columns({site.name: site.shape[1] for site in sites})
        if not self.maps:
            self._check_grid(max(float(np.linalg.norm(site.X, axis=1).max()) for site in sites))
        most = max(len(site.classes) for site in sites)
        if most < 2 and self.n_classes is None:
            only = ", ".join(f"{site.name!r} ({site.classes[0]})" for site in sites[:5])
            raise InputError(
                f"every site has one class: {only}. If these differ, say how many there are: n_classes=…"
            )
        if self.n_classes is not None and sum(len(site.classes) for site in sites) < self.n_classes:
            raise InputError(
                f"n_classes={self.n_classes}, but there are fewer hulls in all: a label is missing everywhere"
            )

    def check_limits(self, sites: Sequence[SiteData], policy: Policy) -> None:
        """Refuse a joint map of more columns than a message can hold."""
        if self.maps:
            joint_map.check_width(sites[0].shape[1], min(policy.max_message_bytes, LARGEST_MESSAGE))

    def message_sizes(self, sites: Sequence[SiteData]) -> MessageSizes:
        """Return the size of the scatter, or else of the levels that are agreed on; hulls are smaller."""
        scatter = 8 * joint_map.scatter_length(sites[0].shape[1]) if self.maps else 0
        levels = 0 if self.settled else 8 * sum(LEVELS)
        return MessageSizes(max(scatter, levels), scatter)

    def _check_grid(self, farthest: float) -> None:
        try:
            PolarGrid(self.epsilon, self.radius or farthest or 0.1, c=self.curvature)
        except InputError as error:
            raise InputError(f"epsilon={self.epsilon} is too fine: {error}") from error

    def conduct(self, sites: Sites) -> HullModel:
        """Hold the conversation: join, agree, sum, decode, group, fit, tell."""
        cohort = join(sites, self)
        (matrix, scales), scatter = self._joint_map(cohort) if self.maps else ((None, None), None)
        reach = [self.n_classes or 0, self.capacity or 0, 0]
        if not self.settled:
            reach, scatter = self._reach(cohort, Reach(embedding=_array(matrix), scatter=scatter)), None
        plan = self._plan(reach, len(cohort.names))
        word = cohort.sum_elements(
            EncodeHulls(plan=plan, embedding=_array(matrix), scatter=scatter),
            modulus=plan.code.modulus,
            length=plan.code.length,
        )
        hulls, crowded = decode_hulls(plan, word)
        points = sum(len(hull.bins) for hull in hulls)
        if crowded > MOST_CROWDED * (crowded + points):
            raise InputError(
                f"in {crowded} bins more than h={plan.h} hulls met, so that too much of them is lost: use a finer "
                "epsilon or a larger h"
            )
        bins = [np.array(hull.bins) for hull in hulls]
        owners = np.array([hull.label // plan.classes for hull in hulls])
        model, members = self._fit(bins, owners, plan, (matrix, scales), sites.seed)
        groups = [-1] * (plan.classes * plan.blocks)
        for hull, member in zip(hulls, members.tolist(), strict=True):
            groups[hull.label] = member
        told = sites.ask(Learn(groups=tuple(groups), model=model.to_bytes()), of=cohort.left, expect=Learnt)
        told.need(self.min_sites, "that they can use the model")
        sites.artifacts |= _artifacts(bins, owners, members, plan)
        sites.metrics |= {
            "sites": len(cohort.left),
            "classes": plan.classes,
            "hulls": len(hulls),
            "hull_points": points,
            "crowded_bins": crowded,
            "grid_bins": plan.grid.size,
            "symbols": plan.code.length,
            "field_bits": plan.code.modulus.bit_length(),
            "h": plan.h,
            "radius": plan.radius,
        }
        return model

    def _joint_map(self, cohort: Cohort) -> tuple[Mapped, SumResult]:
        """Return the joint map with its scale, and the sum from which they follow, which sites check."""
        result = cohort.sum_checked(SumScatter(), length=joint_map.scatter_length(cohort.columns))
        return _mapped(result.reals(SumScatter), cohort.columns), result

    def _reach(self, cohort: Cohort, question: Reach) -> list[int]:
        total = cohort.sum_elements(question, modulus=maximum.MODULUS, length=sum(LEVELS))
        return maximum.read_levels(total, LEVELS)

    def _plan(self, reach: Sequence[int], blocks: int) -> HullPlan:
        classes = self.n_classes or reach[0]
        if classes < 2:
            raise InputError("no site has more than one class; say how many classes there are: n_classes=…")
        radius = self.radius or radius_of_level(reach[2], c=self.curvature)
        grid = PolarGrid(self.epsilon, radius, c=self.curvature)
        return HullPlan(
            epsilon=self.epsilon,
            radius=radius,
            curvature=self.curvature,
            classes=classes,
            blocks=blocks,
            capacity=self.capacity or count_of_level(reach[1]),
            h=self.h or largest_order(classes, blocks, grid.size),
        )

    def _fit(
        self, bins: Sequence[Any], owners: Indices, plan: HullPlan, mapped: Mapped, seed: int
    ) -> tuple[HullModel, Indices]:
        """Group the hulls and fit the classifier; the hidden order of sites does not enter."""
        from fedgeom.geometry.hyperbolic.svm import PoincareSVC  # scikit-learn: 2 s
        from fedgeom.methods.hulls.fitting import fit_groups, group_hulls, points_of_groups

        members = group_hulls(bins, owners, plan.classes, grid=plan.grid, how=self.grouping, seed=seed)
        found = len(np.unique(members))
        if found < plan.classes:
            raise InputError(
                f"the hulls fall into {found} groups, but there should be {plan.classes} classes: some label is "
                "missing everywhere, or epsilon is too coarse"
            )
        classifier = PoincareSVC(
            C=self.C, curvature=self.curvature, pairs=self.pairs, as_published=self.as_published
        )
        svc = fit_groups(points_of_groups(bins, members, plan.grid), classifier)
        return HullModel.of(svc, plan.classes, *mapped), members

    def rows_shown(self, site: SiteData, question: Question) -> list[ShownRows]:
        """Return the corners of the site's hulls, where a question asks for them."""
        return corners(site, question, self.trim) if isinstance(question, EncodeHulls) else []

    def plain(self, sites: Sequence[SiteData], seed: int = 0) -> Plain:
        """Compute the same from the sites' hulls themselves, without labels, codes, masks or messages."""
        ordered = sorted(sites, key=lambda site: site.name)
        matrix, scales, c = None, None, self.curvature
        if self.maps:
            scatter = [joint_map.site_scatter(site.X, site.y.astype(str)) for site in ordered]
            total = fixed_sum(scatter, fraction_bits=SumScatter.fraction_bits)
            matrix, scales = _mapped(total, ordered[0].shape[1])
        tables = [
            site.X if matrix is None else joint_map.embed(site.X, matrix, joint_map.column_scales(site.X), c=c)
            for site in ordered
        ]
        both = list(zip(tables, ordered, strict=True))
        levels = np.max([reach_levels(points, site.y, self.trim, c=c) for points, site in both], axis=0)
        plan = self._plan([int(level) for level in levels], len(ordered))
        found = [local_hulls(points, site.y.astype(str), plan.grid, self.trim) for points, site in both]
        bins = [one for hulls in found for one in hulls.values()]
        owners = np.repeat(np.arange(len(found)), [len(hulls) for hulls in found])
        model, members = self._fit(bins, owners, plan, (matrix, scales), seed)
        local: dict[str, dict[str, Any]] = {}
        at = 0
        for site, hulls in zip(ordered, found, strict=True):
            names = dict(zip(hulls, members[at : at + len(hulls)].tolist(), strict=True))
            own = {} if matrix is None else {"scales": joint_map.column_scales(site.X).tolist()}
            local[site.name] = {"names": names, "unknown": [], **own}
            at += len(hulls)
        return Plain(model, local)


def _mapped(total: Floats, columns: int) -> Mapped:
    """Return what follows from the sites' scatter: the map, and the joint scale where there is one."""
    return joint_map.projection(total, columns), joint_map.joint_scales(total, columns)


def _artifacts(
    bins: Sequence[npt.NDArray[np.int64]], owners: Indices, members: Indices, plan: HullPlan
) -> dict[str, npt.NDArray[Any]]:
    """Return what the coordinator decoded, for pictures."""
    every = np.concatenate(bins)
    return {
        "hull_bins": every,
        "hull_points": plan.grid.center(every),
        "hull_of_point": np.repeat(np.arange(len(bins)), [len(b) for b in bins]),
        "owner_of_hull": owners,
        "group_of_hull": np.asarray(members),
    }


def _array(matrix: Floats | None) -> Array | None:
    return None if matrix is None else Array.of(matrix)
