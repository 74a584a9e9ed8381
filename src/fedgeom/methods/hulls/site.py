"""The hulls method where the data is: hull, quantise, label, encode, mask."""

from __future__ import annotations

from typing import Any, ClassVar

import msgspec
import numpy as np

from fedgeom.arrays import Floats
from fedgeom.crypto.keys import fingerprint
from fedgeom.data.sites import SiteData
from fedgeom.data.validation import Collector, FaultsError, check_ball, check_known_labels, check_table, fault
from fedgeom.errors import InputError, ProtocolError
from fedgeom.federation.messages import LARGEST_MESSAGE
from fedgeom.federation.model import Model
from fedgeom.federation.novelty import MOST_SCORED
from fedgeom.federation.site import Memory, Part, answers
from fedgeom.geometry.hyperbolic.poincare import check_points
from fedgeom.methods.hulls import embedding as joint_map
from fedgeom.methods.hulls.core import (
    LEVELS,
    Bins,
    ClassHull,
    check_corner_share,
    corner_shares,
    count_of_level,
    hulls_by_name,
    reach_levels,
    rounded_hulls,
)
from fedgeom.methods.hulls.encoding import check_plan
from fedgeom.methods.hulls.matching import MatchEvidence, check_grouping
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
from fedgeom.protocols.fixed_point import write_levels
from fedgeom.protocols.model_delivery import DeliveredModel
from fedgeom.protocols.names import LabelNames, NamesMemory
from fedgeom.protocols.secure_sum.messages import SumResult
from fedgeom.protocols.site import Contribution, SecureMemory, SummingPart, SummingSite

LONGEST = 2.0
"""How many times longer than the joint average a site's rows may be in the tangent space."""
LONGEST_JOINT = 4.0
"""The same where all sites have one scale: one that has far classes only is long by itself."""
LARGEST_ENTRY = 1e6
"""Rows are standardised, so that an honest map has entries of a few units."""
SAME_MAP = 1e-4
"""How far a map may be from the site's own, as a share of its largest entry: machines differ in the last digits."""


class MapMemory(msgspec.Struct, kw_only=True):
    """What a site remembers of the map."""

    told: bytes = b""
    """A hash of the joint map, of which there is one."""
    scales: bytes = b""
    """The joint scale, (2, columns), f8, where the terms have one."""


class JointMap(SummingPart[MapMemory]):
    """Takes the site's rows to the disc; the site says which rows take part (``rows``)."""

    name: ClassVar[str] = "map"

    @property
    def _rows(self) -> SiteData:
        found: SiteData = self.site.rows  # type: ignore[attr-defined]
        return found

    @answers(SumHullScales)
    def scale(self, ask: SumHullScales) -> Contribution:
        """Add this site's column means and deviations to the secure sum."""
        self.site.check_size(joint_map.scale_length(self.site.data.shape[1]))
        return self.contribute(ask, joint_map.site_scale(self._rows.X))

    @answers(SumScatter)
    def scatter(self, ask: SumScatter) -> Contribution:
        """Add this site's scatter matrices to the secure sum."""
        columns = self.site.data.shape[1]
        self.site.check_size(joint_map.scatter_length(columns))
        if (ask.scales is not None) != self.settings.joint_scale:
            raise ProtocolError("a joint scale came where the terms have none, or none where they have one")
        scales = None
        if ask.scales is not None:
            if ask.scales.total.shape != (joint_map.scale_length(columns),):
                raise ProtocolError("the joint scale does not fit the columns")
            self.site.sums.check_result(ask.scales, SumHullScales)
            scales = joint_map.joint_scales(ask.scales.reals(SumHullScales), columns)
            if scales is None:  # it depends on the sum alone, which is the same for all sites
                raise ProtocolError("a column varies too little for a joint scale")
            self.memory.scales = scales.tobytes()
        rows = self._rows
        return self.contribute(ask, joint_map.site_scatter(rows.X, rows.y.astype(str), scales))

    def _scales(self) -> Floats:
        """Return the means and deviations by which the site's rows are standardised, (2, columns), f8."""
        columns = self.site.data.shape[1]
        if not self.settings.joint_scale:
            return joint_map.column_scales(self._rows.X)
        if len(self.memory.scales) != 2 * 8 * columns:
            raise ProtocolError("a joint map came before the joint scale")
        return np.frombuffer(self.memory.scales).reshape(2, columns)

    def points(self, ask: HullExtent | EncodeHulls | EncodeCorners, c: float) -> Floats:
        """Return the site's rows as points of the disc, (rows, 2), f8; a map must be the one that the sums say."""
        X = self._rows.X
        matrix = ask.embedding
        if (matrix is not None) != self.settings.maps:
            raise ProtocolError("a joint map came where the terms have none, or none where they have one")
        if matrix is None:
            return X
        P = matrix.numpy()
        scales = self._scales()
        memory = self.memory
        if P.dtype != np.float64 or P.shape != (X.shape[1], 2) or not (np.abs(P) < LARGEST_ENTRY).all():
            raise ProtocolError(f"a joint map of shape {P.shape} came; wanted moderate numbers, ({X.shape[1]}, 2)")
        told = fingerprint(b"map", matrix.data)
        if memory.told and memory.told != told:
            raise ProtocolError("another joint map came before; one run has one map")
        if not memory.told:
            self._check_map(P, ask.scatter)
        memory.told = told
        length = joint_map.tangent_length(X, P, scales)
        longest = LONGEST_JOINT if self.settings.joint_scale else LONGEST
        if length > longest * joint_map.SPREAD:
            # With a zoom all rows lie at the rim, where each is a corner. It depends on the rows, so the site leaves.
            raise InputError(
                f"the joint map makes the rows {length:.3g} long on average; wanted {longest} at most"
            )
        return joint_map.embed(X, P, scales, c=c)

    def _check_map(self, P: Floats, scatter: SumResult | None) -> None:
        """Refuse a map that does not follow from the sites' sums: a coordinator could look at columns of its choice."""
        columns = self.site.data.shape[1]
        if scatter is None or scatter.total.shape != (joint_map.scatter_length(columns),):
            raise ProtocolError("a joint map came without the sums that it follows from")
        self.site.sums.check_result(scatter, SumScatter)
        try:  # it depends on the sums alone, which are the same for all sites
            own = joint_map.projection(scatter.reals(SumScatter), columns)
        except (InputError, ValueError) as error:
            raise ProtocolError(f"no joint map follows from the sites' sums: {error}") from error
        if not np.allclose(P, own, rtol=0, atol=SAME_MAP * float(np.abs(own).max())):
            raise ProtocolError("the joint map that came does not follow from the sites' sums")


class HullMemory(SecureMemory, kw_only=True):
    """What the site remembers beside its keys: its slots, and in the end the model."""

    slots: dict[str, int] = {}
    """For each of the site's names, which of its J labels stands for it."""
    classes: int = 0
    groups: dict[str, int] = {}
    """For each of the site's names the global class, or -1."""
    evidence: dict[str, MatchEvidence] = {}
    """For each of the site's names how near its class and the next best one are."""
    map: MapMemory = msgspec.field(default_factory=MapMemory)
    names: NamesMemory = msgspec.field(default_factory=NamesMemory)


class HullSite(SummingSite[HullMemory]):
    """Answers the questions of `Hulls`."""

    memory_type: ClassVar[type[Memory]] = HullMemory
    parts: ClassVar[tuple[type[Part[Any]], ...]] = (LabelNames, JointMap)
    takes_models: ClassVar[bool] = False
    handed: DeliveredModel[HullModel]
    names: LabelNames
    map: JointMap

    def check(self, settings: HullSettings) -> None:
        """Refuse data that the method cannot use, naming the site."""
        faults = Collector(self.name)
        labels = [str(name) for name in self.data.classes.tolist()]
        with faults.take():
            check_table(self.data, min_rows=settings.min_rows, min_rows_per_class=self.policy.min_rows_per_class)
        if settings.shared:
            with faults.take():
                check_known_labels(self.name, labels, settings.classes)
        most = settings.given_classes
        if most is not None and len(labels) > most:
            shown = f"has {len(labels)} classes, {', '.join(labels[:8])}, but n_classes={most}"
            faults.found.append(fault(shown, site=self.name, topic="classes"))
        with faults.take():
            if settings.maps:
                joint_map.check_width(self.data.shape[1], min(self.policy.max_message_bytes, LARGEST_MESSAGE))
            else:
                check_disc(self.data, settings.curvature, settings.radius)
        faults.raise_all()

    def result(self) -> dict[str, Any]:
        """Return which of the site's names means which global class, and how well the model fits its rows.

        A name whose hull was lost (too many hulls met in its bins) is listed under "unknown".
        """
        joint = self.handed.model
        if joint is None:
            return {}
        found = self._meanings(joint)
        some = self.data.some(MOST_SCORED)
        right = np.mean(joint.for_site(found).predict(some.X) == some.y.astype(str))
        return found | {"fits": float(right), "rows": len(self.data), **self.names.left_out()}

    def _meanings(self, joint: HullModel) -> dict[str, Any]:
        """Return what the joint model's classes mean here: names, how sure they are, and the scale of the columns."""
        names = {label: group for label, group in self.memory.groups.items() if group >= 0}
        found: dict[str, Any] = {"names": names, "unknown": sorted(set(self.memory.groups) - set(names))}
        if not self.settings.shared:
            found["evidence"] = {name: self.memory.evidence[name].told() for name in names}
        if joint.embedding is not None and not self.settings.joint_scale:
            found["scales"] = joint_map.column_scales(self.rows.X).tolist()
        return found

    def model_file(self) -> bytes:
        """Return the joint model in the site's own words, with the scale of its columns."""
        joint = self.handed.model
        return b"" if joint is None else joint.for_site(self._meanings(joint)).to_bytes()

    def class_numbers(self, model: Model) -> dict[str, int]:
        """Return the global class of each of the site's words; of a word whose hull was lost, none."""
        return {label: group for label, group in self.memory.groups.items() if group >= 0}

    @answers(HullExtent)
    def reach(self, ask: HullExtent) -> Contribution:
        """Say, masked, how many classes and hull points there are here and how far out the points lie.

        With shared names the number of classes is agreed on already, and none is said.
        """
        settings: HullSettings = self.settings
        points = self.map.points(ask, settings.curvature)
        self._check_corners(points)
        classes, count, radius = reach_levels(points, self._class_hulls(points), c=settings.curvature)
        reached = (0 if settings.shared else classes, count, radius)
        key = fingerprint(b"levels", self.joining.memory.private, str(ask.ticket.round).encode())
        levels = write_levels(list(zip(reached, LEVELS, strict=True)), key)
        return self.contribute(ask, np.append(levels, np.uint64(count_of_level(count))))

    @answers(EncodeHulls)
    def encode(self, ask: EncodeHulls) -> Contribution:
        """Send the quantised hulls, under this site's labels, encoded and masked."""
        hulls = self._hulls(ask)
        self._choose_slots(list(hulls), ask.plan.classes)
        first = ask.plan.classes * self.joining.block
        return self._word(ask, hulls, {label: first + slot for label, slot in self.memory.slots.items()})

    @answers(EncodeCorners)
    def encode_corners(self, ask: EncodeCorners) -> Contribution:
        """Send the quantised hulls, under the labels of their classes, encoded and masked."""
        agreed = self.names.agreed
        if ask.plan.classes != len(agreed):
            raise ProtocolError(
                f"the plan has {ask.plan.classes} classes; the sites agreed on {len(agreed)} words"
            )
        hulls = self._hulls(ask)
        self.memory.slots = {label: agreed.index(label) for label in hulls}
        self.memory.classes = ask.plan.classes
        return self._word(ask, hulls, self.memory.slots)

    def _hulls(self, ask: EncodeHulls | EncodeCorners) -> dict[str, Bins]:
        """Return the quantised hulls of the site's classes, if the plan is one that follows from the terms."""
        plan = ask.plan
        settings = self.settings
        self.joining.keep_to_terms(
            epsilon=plan.epsilon,
            radius=plan.radius,
            curvature=plan.curvature,
            capacity=plan.capacity,
            h=plan.h,
        )
        if settings.given_classes is not None:
            self.joining.keep_to_terms(n_classes=plan.classes)
        # In this order: what the plan says is cheap to look at, labels and words are not cheap to build.
        check_plan(plan, settings, len(self.joining.memory.order))
        self.check_size(plan.length)
        if int(ask.ticket.modulus) != plan.code.modulus:
            raise ProtocolError("the plan does not fit the sites that joined, or the terms")
        points = self.map.points(ask, plan.curvature)
        self._check_corners(points)
        check_points(points, c=plan.grid.c, dim=2, name="X")
        return rounded_hulls(self._class_hulls(points), plan.grid)

    def _word(
        self, ask: EncodeHulls | EncodeCorners, hulls: dict[str, Bins], labels: dict[str, int]
    ) -> Contribution:
        """Return the encoded bins of the hulls, each under its label."""
        plan = ask.plan
        word = dict[int, int]()
        for name, bins in hulls.items():
            value = plan.labels.labels[labels[name]]
            for place in bins.tolist():
                word[place] = word.get(place, 0) + value
        if len(word) > plan.capacity:
            raise InputError(f"the hulls have {len(word)} bins, more than the agreed {plan.capacity}")
        return self.contribute(ask, plan.code.encode(list(word), list(word.values())))

    @answers(TakeHullModel)
    def learn(self, ask: TakeHullModel) -> HullModelTaken:
        """Keep the model, and find out which global class each local name means."""
        memory = self.memory
        if not memory.classes:
            raise ProtocolError("a result came before the site sent its hulls")
        if self.settings.shared:
            if ask.groups or ask.evidence:
                raise ProtocolError("a result that matches names came where the terms have shared ones")
            words = self.handed.read(ask.model).names
            agreed = self.names.agreed
            kept = tuple(
                word for word in agreed if word in words
            )  # sites that alone had a word may be lost by now
            if len(words) < 2 or words != kept:
                raise ProtocolError("the model has other classes than the words that the sites agreed on")
            self.handed.keep(ask.model)
            memory.groups = {word: words.index(word) if word in words else -1 for word in memory.slots}
            return HullModelTaken()
        wanted = memory.classes * len(self.joining.memory.order)
        # Whether an answer is refused must not depend on the hidden order, or refusals would tell it.
        check_grouping(ask.groups, ask.evidence, wanted, memory.classes)
        self.handed.keep(ask.model)
        first = memory.classes * self.joining.block
        memory.groups = {label: ask.groups[first + slot] for label, slot in memory.slots.items()}
        memory.evidence = {label: ask.evidence[first + slot] for label, slot in memory.slots.items()}
        return HullModelTaken()

    @property
    def rows(self) -> SiteData:
        """Return the rows that take part: all but those whose words are too rare."""
        if self.settings.shared and not self.names.agreed:  # rows of rare words would take part before
            raise ProtocolError("the sites agreed on no words")
        if not len(self.table):
            raise InputError("all labels of the site are too rare to take part")
        return self.table

    def _check_corners(self, points: Floats) -> None:
        """Leave the run before anything is sent where the policy allows fewer corners."""
        most = self.policy.max_corner_share
        if most < 1:
            check_corner_share(corner_shares(self._class_hulls(points)), most)

    def _class_hulls(self, points: Floats) -> dict[str, ClassHull]:
        """Return the corners of the site's classes."""
        return hulls_by_name(points, self.rows.y, self.settings.trim, c=self.settings.curvature)

    def _choose_slots(self, labels: list[str], classes: int) -> None:
        """Shuffle the site's classes over its J labels, so that their order tells nothing either."""
        if len(labels) > classes:
            raise InputError(f"{len(labels)} classes at the site, {classes} in the plan")
        key = self.joining.memory.private
        order = sorted(range(classes), key=lambda slot: fingerprint(b"slot", key, str(slot).encode()))
        self.memory.slots = dict(zip(labels, order, strict=False))
        self.memory.classes = classes


def check_disc(site: SiteData, c: float, radius: float | None) -> None:
    """Refuse rows that are not points of the disc, or lie outside the agreed radius."""
    if site.shape[1] != 2:
        what = f"rows have {site.shape[1]:,} columns; the disc has 2"
        remedy = 'give a 2-D Poincaré embedding, or use Hulls(embedding="discriminant") to make a joint one'
        raise FaultsError([fault(what, remedy, site=site.name, topic="ball")])
    check_ball(
        site, c, 'scale the embedding into the disc, or use Hulls(embedding="discriminant") to make a joint one'
    )
    if radius is None:
        return
    norms = np.linalg.norm(site.X, axis=1)
    if norms.max(initial=0.0) > radius:
        at = int(norms.argmax())
        number = at if site.row_numbers is None else site.row_numbers[at]
        raise InputError(
            f"site {site.name!r}: row {number} has norm {norms[at]:.6g}, outside the agreed radius {radius:.6g}"
        )
