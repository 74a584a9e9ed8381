"""One-shot federated classification in the Poincaré disc by secure aggregation of convex hulls."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt

from fedgeom.data.sites import SiteData
from fedgeom.errors import InputError
from fedgeom.federation.conversation import Sites
from fedgeom.federation.messages import Array
from fedgeom.federation.method import Method
from fedgeom.federation.site import Site
from fedgeom.methods.hulls import embedding as joint_map
from fedgeom.methods.hulls.messages import EncodeHulls, Learn, Learnt, Reach, SumScatter
from fedgeom.methods.hulls.model import HullModel
from fedgeom.methods.hulls.plan import Hull, HullPlan, decode_hulls, largest_order
from fedgeom.methods.hulls.site import LEVELS, RADIUS_STEP, HullSite, count_of_level
from fedgeom.protocols import maximum
from fedgeom.protocols.cohort import Cohort, check_columns, join
from fedgeom.protocols.fixed_point import from_fixed
from fedgeom.protocols.secure_sum import secure_sum

MOST_CROWDED = 0.05
"""The largest share of bins that may be lost because too many hulls met in them."""

Grouping = Literal["constrained", "spectral", "kernighan-lin", "published"]


@dataclass(frozen=True, kw_only=True)
class Hulls(Method):
    """Sites send the quantized convex hulls of their classes; the coordinator trains an SVM on them.

    Sites may call their classes as they like, and may lack some. What the coordinator learns is the
    set of quantized hulls, grouped by site but not attributed to one.
    """

    name: ClassVar[str] = "hulls"
    site: ClassVar[type[Site[Any]]] = HullSite

    epsilon: float = 0.01
    """ε, Definition 2: points of one bin are at most this far apart."""
    n_classes: int | None = None
    """J. None: the most classes any site has. Give it when no site has all of them."""
    trim: float | Literal["auto"] = "auto"
    """The share of outlying points kept out of each hull; 0 is the paper, "auto" depends on the class's size."""
    C: float = 5.0
    """λ, Eq. 7."""
    pairs: int = 3
    """How many closest pairs are tried for the reference point (Appendix I.2)."""
    grouping: Grouping = "constrained"
    """How hulls are put together to classes; "published" is Kernighan–Lin for two, spectral for more."""
    curvature: float = 1.0
    """k: the disc has curvature -k."""
    radius: float | None = None
    """R: all points lie within this norm. None: agreed by a secure maximum."""
    capacity: int | None = None
    """K_max: no site has more non-empty bins. None: agreed by a secure maximum (Section 5.5)."""
    h: int | None = None
    """How many hulls may meet in one bin (Section 5.4). None: as many as fit, up to 6."""
    embedding: Literal["none", "discriminant"] = "none"
    """"none": rows are points of the disc. "discriminant": a joint map to the disc is made first."""
    least_points: int = 2
    """Sites refuse to send the hull of a class with fewer rows."""
    smallest: int = 2
    """The fewest sites that make a result."""
    as_published: bool = False
    """Follow the reference implementation in details that change digits (see `published`)."""

    def __post_init__(self) -> None:
        for name in ("epsilon", "C", "curvature"):
            if not (getattr(self, name) > 0 and math.isfinite(getattr(self, name))):
                raise InputError(f"{name}={getattr(self, name)} given; wanted a positive number")
        if self.trim != "auto" and not (isinstance(self.trim, int | float) and 0 <= self.trim < 1):
            raise InputError(f'trim={self.trim!r} given; wanted a share in [0, 1) or "auto"')
        if self.n_classes is not None and self.n_classes < 2:
            raise InputError(f"n_classes={self.n_classes} given; a classifier needs at least 2")
        if self.radius is not None and not 0 < self.radius < 1 / math.sqrt(self.curvature):
            raise InputError(f"radius={self.radius} given; wanted less than {1 / math.sqrt(self.curvature):.6g}")
        if self.grouping not in ("constrained", "spectral", "kernighan-lin", "published"):
            raise InputError(f"grouping={self.grouping!r} is unknown")
        if self.embedding not in ("none", "discriminant"):
            raise InputError(f'embedding={self.embedding!r} is unknown; wanted "none" or "discriminant"')

    @classmethod
    def published(cls, **changes: Any) -> Hulls:
        """Return the paper's settings (Appendix I.2): no trimming, λ = 0.1, published grouping."""
        base = cls(trim=0.0, C=0.1, grouping="published", least_points=1, as_published=True)
        return replace(base, **changes)

    def check_together(self, sites: Sequence[SiteData]) -> None:
        """Refuse sites whose tables do not fit together, before anything is sent."""
        check_columns({site.name: site.X.shape[1] for site in sites})
        if self.embedding == "none":
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

    def _check_grid(self, farthest: float) -> None:
        from fedgeom.geometry.hyperbolic.grid import PolarGrid

        try:
            PolarGrid(self.epsilon, self.radius or farthest or 0.1, c=self.curvature)
        except InputError as error:
            raise InputError(f"epsilon={self.epsilon} is too fine: {error}") from error

    def conduct(self, sites: Sites) -> HullModel:
        """Hold the conversation: join, agree, sum, decode, group, fit, tell."""
        terms = self.parameters()
        sums = HullSite.sums(terms)
        cohort = join(sites, rounds=len(sums), terms=terms, smallest=self.smallest)
        among, done = cohort.names, 0
        matrix: npt.NDArray[np.float64] | None = None
        if SumScatter.kind in sums:
            matrix, among = self._joint_map(cohort, done, among)
            done += 1
        reach = [self.n_classes or 0, self.capacity or 0, 0]
        if Reach.kind in sums:
            reach, among = self._reach(cohort, done, among, matrix)
            done += 1
        plan = self._plan(reach, len(cohort.names))
        total = secure_sum(
            cohort,
            done,
            lambda ticket: EncodeHulls(ticket=ticket, plan=plan, embedding=_array(matrix), trim=self.trim),
            modulus=plan.code.modulus,
            length=plan.code.length,
            among=among,
            smallest=self.smallest,
        )
        hulls, crowded = decode_hulls(plan, total.vector)
        if crowded > MOST_CROWDED * (crowded + sum(len(hull.bins) for hull in hulls)):
            raise InputError(
                f"in {crowded} bins more than h={plan.h} hulls met, so that too much of them is lost: use a finer "
                "epsilon or a larger h"
            )
        model, groups = self._learn(plan, hulls, matrix, sites)
        told = sites.ask(Learn(groups=groups, model=model.to_bytes()), of=total.sites, expect=Learnt)
        told.need(self.smallest, "that they can use the model")
        sites.metrics |= {
            "sites": len(total.sites),
            "classes": plan.classes,
            "hulls": len(hulls),
            "hull_points": sum(len(hull.bins) for hull in hulls),
            "crowded_bins": crowded,
            "grid_bins": plan.grid.size,
            "symbols": plan.code.length,
            "field_bits": plan.code.modulus.bit_length(),
            "h": plan.h,
            "radius": plan.radius,
        }
        return model

    def _joint_map(
        self, cohort: Cohort, done: int, among: Sequence[str]
    ) -> tuple[npt.NDArray[np.float64], tuple[str, ...]]:
        columns = cohort.keys[among[0]].columns
        total = secure_sum(
            cohort,
            done,
            lambda ticket: SumScatter(ticket=ticket),
            modulus=2**64,
            length=joint_map.scatter_length(columns),
            among=among,
            smallest=self.smallest,
        )
        values = from_fixed(total.vector, fraction_bits=joint_map.FRACTION_BITS)
        return joint_map.projection(values, columns), total.sites

    def _reach(
        self, cohort: Cohort, done: int, among: Sequence[str], matrix: npt.NDArray[np.float64] | None
    ) -> tuple[list[int], tuple[str, ...]]:
        total = secure_sum(
            cohort,
            done,
            lambda ticket: Reach(
                ticket=ticket, embedding=_array(matrix), curvature=self.curvature, trim=self.trim
            ),
            modulus=maximum.MODULUS,
            length=sum(LEVELS),
            among=among,
            smallest=self.smallest,
        )
        return maximum.read_levels(total.vector, LEVELS), total.sites

    def _plan(self, reach: Sequence[int], blocks: int) -> HullPlan:
        classes = self.n_classes or reach[0]
        if classes < 2:
            raise InputError("no site has more than one class; say how many classes there are: n_classes=…")
        s = 1 / math.sqrt(self.curvature)
        radius = self.radius or s * math.tanh(reach[2] * RADIUS_STEP / 2)  # Eq. 9
        plan = HullPlan(
            epsilon=self.epsilon,
            radius=radius,
            curvature=self.curvature,
            classes=classes,
            blocks=blocks,
            capacity=self.capacity or count_of_level(reach[1]),
            h=self.h or 1,
        )
        if self.h is None:
            plan = HullPlan(
                **{f: getattr(plan, f) for f in plan.__struct_fields__ if f != "h"},
                h=largest_order(classes, blocks, plan.grid.size),
            )
        return plan

    def _learn(
        self, plan: HullPlan, hulls: list[Hull], matrix: npt.NDArray[np.float64] | None, sites: Sites
    ) -> tuple[HullModel, tuple[int, ...]]:
        """Group the hulls and fit the classifier; the hidden order of sites does not enter."""
        from fedgeom.geometry.hyperbolic.svm import PoincareSVC
        from fedgeom.methods.hulls.plain import fit_groups, group_hulls, points_of_groups

        bins = [np.array(hull.bins) for hull in hulls]
        owners = np.array([hull.label // plan.classes for hull in hulls])
        members = group_hulls(bins, owners, plan.classes, grid=plan.grid, how=self.grouping, seed=sites.seed)
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
        groups = [-1] * (plan.classes * plan.blocks)
        for hull, member in zip(hulls, members.tolist(), strict=True):
            groups[hull.label] = member
        sites.artifacts |= {
            "hull_bins": np.concatenate(bins),
            "hull_points": plan.grid.center(np.concatenate(bins)),
            "hull_of_point": np.repeat(np.arange(len(bins)), [len(b) for b in bins]),
            "owner_of_hull": owners,
            "group_of_hull": np.asarray(members),
        }
        return HullModel.of(svc, plan.classes, matrix), tuple(groups)


def _array(matrix: npt.NDArray[np.float64] | None) -> Array | None:
    return None if matrix is None else Array.of(matrix)
