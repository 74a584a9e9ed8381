"""One-shot federated classification in the Poincaré disc by secure aggregation of convex hulls."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from fedgeom.arrays import Floats, Indices
from fedgeom.data.sites import SiteData
from fedgeom.data.validation import Finding, check_columns
from fedgeom.errors import InputError
from fedgeom.federation.coordinator import Coordinator
from fedgeom.federation.messages import LARGEST_MESSAGE, Array
from fedgeom.federation.method import Method, ShownRows
from fedgeom.federation.model import Model
from fedgeom.federation.plan import Ask, Plan, Shape, Sum
from fedgeom.federation.policy import Policy
from fedgeom.federation.site import Site
from fedgeom.federation.steps import Step
from fedgeom.memo import memoize
from fedgeom.methods.hulls import embedding as joint_map
from fedgeom.methods.hulls.core import (
    LEVELS,
    REACH,
    Bins,
    class_hulls,
    count_of_level,
    hulls_by_name,
    level_of_count,
    make_grid,
    radius_of_level,
    reach_levels,
    rounded_hulls,
)
from fedgeom.methods.hulls.encoding import Hull, HullPlan, decode_hulls, largest_order
from fedgeom.methods.hulls.matching import MatchEvidence, doubts, group_evidence
from fedgeom.methods.hulls.messages import (
    EncodeCorners,
    EncodeHulls,
    HullExtent,
    HullModelTaken,
    SumHullScales,
    SumScatter,
    TakeHullModel,
)
from fedgeom.methods.hulls.model import HullModel
from fedgeom.methods.hulls.settings import HullSettings
from fedgeom.methods.hulls.site import HullSite
from fedgeom.methods.label_names import check_number, look_at_names, unequal_numbers
from fedgeom.preparation.landmark_map import LandmarkMap, map_steps
from fedgeom.protocols import fixed_point
from fedgeom.protocols.cohort import Cohort, join
from fedgeom.protocols.fixed_point import fixed_sum
from fedgeom.protocols.names import AgreeOnNames, agree_on_names
from fedgeom.protocols.secure_sum.messages import SumResult
from fedgeom.protocols.secure_sum.rules import following_from_sums

if TYPE_CHECKING:
    from fedgeom.geometry.hyperbolic.grid import Grid
    from fedgeom.methods.hulls.core import Classifier


Mapped = tuple[Floats | None, Floats | None]
"""The joint map, (columns, 2), f8, and its scale, (2·columns,), f8; None where rows are in the disc already."""
OUTERMOST = 60
"""The level of the radius where no rows can be looked at: 3, of hyperbolic radii."""
SYMBOL_SECONDS = 2e-7
"""Seconds to encode a symbol of a word, for some dozens of bins."""
ANY_EPSILON = 0.1
"""The grid's ε in the plan that stands for any problem."""
MOST_CROWDED = 0.05
"""The largest share of bins that may be lost because too many hulls met in them."""


@dataclass(frozen=True, kw_only=True)
class Hulls(HullSettings, Method):
    """For sites that name classes in their own words: one exchange of the rounded outlines of each class.

    Sites send the quantised convex hulls of their classes; the coordinator trains an SVM on them.
    Sites may call their classes as they like (``names="own"``), and may lack some. What the coordinator learns is the
    set of quantised hulls, grouped by site but not attributed to one. Where one word means one thing everywhere
    (``names="shared"``), it learns the words and the corners of each, and no longer which corners are of one site.
    """

    name: ClassVar[str] = "hulls"
    site: ClassVar[type[Site[Any]]] = HullSite
    model_type: ClassVar[type[Model]] = HullModel
    matches_names: ClassVar[bool] = True

    @property
    def column_floors(self) -> bool:  # type: ignore[override]
        """Whether columns have floors: those of a joint map; points of the disc have two coordinates."""
        return self.maps

    @classmethod
    def published(cls, **changes: Any) -> Hulls:
        """Return the paper's settings (Appendix I.2): no trimming, λ = 0.1, published grouping."""
        base = cls(trim=0.0, C=0.1, grouping="published", min_rows=1, as_published=True)
        return replace(base, **changes)

    @property
    def own_steps(self) -> tuple[Step, ...]:
        """The joint Poincaré map, where the hulls are drawn on it."""
        if self.embedding != "map":
            return ()
        return map_steps(self.prepare or (), LandmarkMap(curvature=self.curvature))  # type: ignore[arg-type]

    @classmethod
    def suggested(cls, sites: Sequence[SiteData]) -> dict[str, Any]:
        """Rows that are no points of the disc need a joint map to it; shared names need no matching."""
        inside = all(site.shape[1] == 2 and bool((np.linalg.norm(site.X, axis=1) < 1).all()) for site in sites)
        shared = {"names": "shared"} if look_at_names(sites).kind == "shared" else {}
        return shared if inside else {"embedding": "discriminant", **shared}

    def check(self, sites: Sequence[SiteData], policy: Policy, seed: int = 0) -> list[Finding]:
        """Refuse sites whose tables do not fit together, before anything is sent."""
        check_columns({site.name: site.shape[1] for site in sites})
        if self.embedding == "none":
            self._check_grid(max(float(np.linalg.norm(site.X, axis=1).max()) for site in sites))
        check_number(self, sites)
        return []

    def check_limits(self, sites: Sequence[SiteData], policy: Policy) -> None:
        """Refuse a joint map of more columns than a message can hold."""
        if self.maps:
            joint_map.check_width(sites[0].shape[1], min(policy.max_message_bytes, LARGEST_MESSAGE))

    def plan(self, shape: Shape) -> Plan:
        """Agree on names, a map and the hulls' extent where the settings ask for it; sum the hulls; tell the model."""
        if self.shared:
            yield AgreeOnNames(self.classes)
        columns = shape.columns
        embedding = scatter = scales = None
        if self.maps:
            if self.joint_scale:
                scales = yield Sum(SumHullScales(), joint_map.scale_length(columns))
            work = 2e-9 * shape.rows * columns**2
            scatter = yield Sum(SumScatter(scales=scales), joint_map.scatter_length(columns), work=work)
            embedding = Array.of(np.zeros((columns, 2)))
        work = 2e-7 * shape.rows + 2e-3
        if not self.settled:
            yield Sum(
                HullExtent(embedding=embedding, scatter=scatter), REACH, modulus=fixed_point.MODULUS, work=work
            )
            scatter = None
        encoding, decides = self._encoding(shape)
        encode: type[EncodeHulls | EncodeCorners] = EncodeCorners if self.shared else EncodeHulls
        word = encode(plan=encoding, embedding=embedding, scatter=scatter)
        length = encoding.code.length
        spent = work + SYMBOL_SECONDS * length
        yield Sum(word, length, modulus=encoding.code.modulus, work=spent, bound=decides)
        yield Ask(self._told(shape, encoding), HullModelTaken(), bound=decides)
        return encoding.classes

    def _encoding(self, shape: Shape) -> tuple[HullPlan, str]:
        """Return how hulls will be encoded, and what decides it where that is not known yet."""
        levels, decides = foreseen_levels(self, shape)
        coarse = self if shape.known else _coarse(self)  # a grid too fine is told where it is known
        return coarse._plan(levels, shape.n_sites, shape.n_classes if self.shared else 0), decides

    def _told(self, shape: Shape, plan: HullPlan) -> TakeHullModel:
        """Return what sites are told, of numbers that could be: a class of one site alone takes fewer bytes."""
        blank = np.zeros((1 if plan.classes == 2 else plan.classes, 2))
        model = HullModel(
            blank,
            blank,
            blank,
            plan.classes,
            float(self.curvature),
            np.zeros((shape.columns, 2)) if self.maps else None,
            np.zeros((2, shape.columns)) if self.maps else None,
            shape.classes if self.shared else (),
        ).to_bytes()
        if self.shared:
            return TakeHullModel(groups=(), model=model)
        labels = plan.classes * plan.blocks
        known = MatchEvidence(own=0.5, rival=0, other=0.5)
        return TakeHullModel(groups=(0,) * labels, evidence=(known,) * labels, model=model)

    def _check_grid(self, farthest: float) -> None:
        try:
            self._grid(self.radius or farthest or 0.1)
        except InputError as error:
            raise InputError(f"epsilon={self.epsilon} is too fine: {error}") from error

    def _grid(self, radius: float) -> Grid:
        return make_grid(self.epsilon, radius, c=self.curvature, equal_area=self.equal_area)

    def conduct(self, sites: Coordinator) -> HullModel:
        """Hold the conversation: join, agree, sum, decode, group, fit, tell."""
        cohort = join(sites, self)
        words = agree_on_names(cohort, self.classes) if self.shared else ()
        mapped, scatter = self._joint_map(cohort) if self.maps else ((None, None), None)
        embedding = None if mapped[0] is None else Array.of(mapped[0])
        reach = [0, 0, 0, 0]
        if not self.settled:
            reach = self._reach(cohort, HullExtent(embedding=embedding, scatter=scatter))
            scatter = None
        plan = self._plan(reach, len(cohort.names), len(words))
        ask: type[EncodeHulls | EncodeCorners] = EncodeCorners if self.shared else EncodeHulls
        word = cohort.sum_elements(
            ask(plan=plan, embedding=embedding, scatter=scatter),
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
        model, learn = self._learn(hulls, words, plan, mapped, sites)
        told = sites.ask(learn, of=cohort.left, expect=HullModelTaken)
        told.need(cohort.min_sites, "that they can use the model")
        return model

    def _learn(
        self, hulls: Sequence[Hull], words: Sequence[str], plan: HullPlan, mapped: Mapped, sites: Coordinator
    ) -> tuple[HullModel, TakeHullModel]:
        """Make the model from the decoded hulls, and what the sites are told; note what is to be seen or doubted."""
        bins = [np.array(hull.bins) for hull in hulls]
        if self.shared:
            found = tuple(words[hull.label] for hull in hulls)
            sites.artifacts |= plan.artifacts(bins, np.arange(len(bins)))
            sites.metrics["classes"] = len(found)
            model = self._fit_words(bins, found, plan, mapped)
            return model, TakeHullModel(groups=(), model=model.to_bytes())
        owners = np.array([hull.label // plan.classes for hull in hulls])
        model, members = self._fit(bins, owners, plan, mapped, sites.seed)
        evidence = group_evidence([plan.grid.center(one) for one in bins], owners, members, c=self.curvature)
        groups = [-1] * (plan.classes * plan.blocks)
        known = [MatchEvidence()] * (plan.classes * plan.blocks)
        for hull, member, one in zip(hulls, members.tolist(), evidence, strict=True):
            groups[hull.label] = member
            known[hull.label] = one
        sites.artifacts |= plan.artifacts(bins, members, owners)
        sites.metrics["doubtful_hulls"] = sum(one.verdict == "doubtful" for one in evidence)
        sites.notices += doubts(members.tolist(), evidence)
        if self.n_classes is None:
            sites.notices += unequal_numbers(np.unique(owners, return_counts=True)[1].tolist())
        return model, TakeHullModel(groups=tuple(groups), evidence=tuple(known), model=model.to_bytes())

    def _joint_map(self, cohort: Cohort) -> tuple[Mapped, SumResult]:
        """Return the joint map with its scale, and the sum from which the map follows, which sites check."""
        columns = cohort.columns
        scales = None
        if self.joint_scale:
            scales = cohort.sum_checked(SumHullScales())
        result = cohort.sum_checked(SumScatter(scales=scales))
        total = result.reals(SumScatter)
        joint = joint_map.joint_scales(total if scales is None else scales.reals(SumHullScales), columns)
        with following_from_sums("joint map"):
            return (joint_map.projection(total, columns), joint), result

    def _reach(self, cohort: Cohort, question: HullExtent) -> list[int]:
        """Return the three levels, and how many hull points there are in all, each site's rounded up to its level."""
        total = cohort.sum_elements(question, modulus=fixed_point.MODULUS, length=REACH)
        return [*fixed_point.read_levels(total, LEVELS), int(total[-1])]

    def _plan(self, reach: Sequence[int], blocks: int, words: int = 0) -> HullPlan:
        classes = words or self.given_classes or reach[0]
        if classes < 2:
            raise InputError(
                "only one class label across all sites; at least two are needed"
                if self.shared
                else "no site has more than one class; say how many classes there are: n_classes=…"
            )
        radius = self.radius or radius_of_level(reach[2], c=self.curvature)
        capacity = self.capacity or count_of_level(reach[1])
        return HullPlan(
            epsilon=self.epsilon,
            radius=radius,
            curvature=self.curvature,
            classes=classes,
            blocks=blocks,
            capacity=capacity,
            corners=0 if self.settled else min(reach[3], capacity * blocks),
            h=self.h or largest_order(classes, blocks, self._grid(radius).size, shared=self.shared),
            shared=self.shared,
            equal_area=self.equal_area,
        )

    def _fit(
        self, bins: Sequence[Bins], owners: Indices, plan: HullPlan, mapped: Mapped, seed: int
    ) -> tuple[HullModel, Indices]:
        """Group the hulls and fit the classifier; the hidden order of sites does not enter."""
        from fedgeom.methods.hulls.core import fit_groups, group_hulls, points_of_groups  # scikit-learn: 2 s

        members = group_hulls(bins, owners, plan.classes, grid=plan.grid, how=self.grouping, seed=seed)
        found = len(np.unique(members))
        if found < plan.classes:
            raise InputError(
                f"the hulls fall into {found} groups, but there should be {plan.classes} classes: some label is "
                "missing everywhere, or epsilon is too coarse"
            )
        svc = fit_groups(points_of_groups(bins, members, plan.grid), self._classifier())
        return HullModel.of(svc, plan.classes, *mapped, curvature=self.curvature), members

    def _fit_words(
        self, corners: Sequence[Bins], words: tuple[str, ...], plan: HullPlan, mapped: Mapped
    ) -> HullModel:
        """Fit the classifier to the corners of each word's hulls."""
        from fedgeom.methods.hulls.core import fit_groups  # scikit-learn: 2 s

        if len(words) < 2:
            raise InputError(f"hulls of {len(words)} classes came; a classifier needs two")
        svc = fit_groups([plan.grid.center(bins) for bins in corners], self._classifier())
        return HullModel.of(svc, len(words), *mapped, words, curvature=self.curvature)

    def _classifier(self) -> Classifier:
        from fedgeom.methods.hulls.core import classifier_of  # scikit-learn: 2 s

        return classifier_of(self)

    def rows_shown(self, shape: Shape) -> list[ShownRows]:
        """Return the corners of the site's hulls, on the joint map that the tables of the shape give."""
        plan = self._encoding(shape)[0]
        points, _ = joint_points(self, shape.tables)
        at = [table.name for table in shape.tables].index(shape.site)
        return corners(points[at], shape.tables[at].y.astype(str), plan, self.trim)


@memoize(4)  # settings are checked when they are made, and each site asks for these
def _coarse(method: Hulls) -> Hulls:
    """Return the same settings with a grid that always fits."""
    return replace(method, epsilon=ANY_EPSILON)


def joint_points(settings: HullSettings, sites: Sequence[SiteData]) -> tuple[list[Floats], Mapped]:
    """Return the sites' rows as points of the disc, and the joint map with its scale."""
    if not settings.maps:
        return [site.X for site in sites], (None, None)
    columns = sites[0].X.shape[1]
    bits = SumScatter.fraction_bits
    joint = None
    if settings.joint_scale:
        total = fixed_sum([joint_map.site_scale(site.X) for site in sites], fraction_bits=bits)
        joint = joint_map.joint_scales(total, columns)
    scatter = [joint_map.site_scatter(site.X, site.y.astype(str), joint) for site in sites]
    total = fixed_sum(scatter, fraction_bits=bits)
    matrix = joint_map.projection(total, columns)
    own = [joint_map.column_scales(site.X) if joint is None else joint for site in sites]
    points = [joint_map.embed(s.X, matrix, one, c=settings.curvature) for s, one in zip(sites, own, strict=True)]
    return points, (matrix, joint_map.joint_scales(total, columns) if joint is None else joint)


def joint_reach(settings: HullSettings, points: Sequence[Floats], sites: Sequence[SiteData]) -> list[int]:
    """Return what the sites would agree on: levels of classes, hull points and radius, and all hull points."""
    both = zip(points, sites, strict=True)
    c = settings.curvature
    found = [(rows, hulls_by_name(rows, site.y, settings.trim, c=c)) for rows, site in both]
    levels = [reach_levels(rows, hulls, c=c) for rows, hulls in found]
    in_all = sum(count_of_level(count) for _, count, _ in levels)
    return [*(int(level) for level in np.max(levels, axis=0)), in_all]


def foreseen_levels(settings: HullSettings, shape: Shape) -> tuple[list[int], str]:
    """Return the levels on which sites will agree, and what decides them where that is not known yet.

    Where one process has all tables the hulls are found; else every row might be a corner.
    """
    if settings.settled:
        return [0, 0, 0, 0], ""
    if shape.tables:
        points, _ = joint_points(settings, shape.tables)
        if _inside(points, settings):
            levels = joint_reach(settings, points, shape.tables)
            if len(shape.tables) == shape.n_sites:
                return levels, ""
            levels[3] = shape.n_sites * count_of_level(levels[1])
            return levels, "how many corners the hulls have: as many at every site as at any whose table is here"
    level = level_of_count(max(shape.rows, 1))
    levels = [max(shape.n_classes, 2), level, OUTERMOST, shape.n_sites * count_of_level(level)]
    return levels, "how many corners the hulls have: at most one for each row"


def _inside(points: Sequence[Floats], settings: HullSettings) -> bool:
    return all(bool((np.einsum("ij,ij->i", rows, rows) * settings.curvature < 1).all()) for rows in points)


def corners(points: Floats, labels: npt.NDArray[np.str_], plan: HullPlan, trim: float | str) -> list[ShownRows]:
    """Return the corners of each class's hull as a site makes them for a plan; points (n, 2), f8, in the disc."""
    hulls = class_hulls(points, labels, trim, c=plan.curvature)
    found = []
    for label, bins in rounded_hulls(hulls, plan.grid).items():
        own = points[labels == label]
        found.append(ShownRows(label, len(own), len(bins), own, plan.grid.center(bins), len(hulls[label].corners)))
    return found
