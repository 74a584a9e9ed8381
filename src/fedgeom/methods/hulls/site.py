"""The hulls method where the data is: hull, quantize, label, encode, mask."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from fedgeom.crypto.keys import fingerprint
from fedgeom.data.checks import check_ball, check_table
from fedgeom.data.findings import Collector, FaultsError, fault
from fedgeom.data.sites import SiteData
from fedgeom.errors import InputError, ProtocolError
from fedgeom.federation.messages import LARGEST_MESSAGE
from fedgeom.federation.model import Model
from fedgeom.federation.site import Memory, answers
from fedgeom.methods.hulls import embedding as joint_map
from fedgeom.methods.hulls.core import LEVELS, check_corner_share, corner_shares, local_hulls, reach_levels
from fedgeom.methods.hulls.messages import EncodeHulls, Learn, Learnt, Reach, SumScatter
from fedgeom.methods.hulls.model import HullModel
from fedgeom.methods.hulls.plan import check_plan
from fedgeom.methods.hulls.settings import HullSettings
from fedgeom.protocols.handing_out import HandedModel
from fedgeom.protocols.maximum import write_levels
from fedgeom.protocols.secure_sum.messages import SumQuestion, SumResult
from fedgeom.protocols.site import Contribution, SecureMemory, SummingSite

LONGEST = 2.0
"""How many times longer than the joint average a site's rows may be in the tangent space."""
LARGEST_ENTRY = 1e6
"""Rows are standardised, so that an honest map has entries of a few units."""


SAME_MAP = 1e-4
"""How far a map may be from the site's own, as a share of its largest entry: machines differ in the last digits."""


class HullMemory(SecureMemory, kw_only=True):
    """What the site remembers beside its keys: its slots, and in the end the model."""

    slots: dict[str, int] = {}
    """For each of the site's names, which of its J labels stands for it."""
    classes: int = 0
    groups: dict[str, int] = {}
    """For each of the site's names the global class, or -1."""
    joint_map: bytes = b""
    """A hash of the joint map, of which there is one."""


class HullSite(SummingSite[HullMemory]):
    """Answers the questions of `Hulls`."""

    memory_type: ClassVar[type[Memory]] = HullMemory
    takes_models: ClassVar[bool] = False
    handed: HandedModel[HullModel]

    def check(self, settings: HullSettings) -> None:
        """Refuse data that the method cannot use, naming the site."""
        faults, labels = Collector(self.name), [str(name) for name in self.data.classes.tolist()]
        with faults.take():
            check_table(self.data, min_rows=settings.min_rows, min_rows_per_class=self.policy.min_rows_per_class)
        most = settings.n_classes
        if most is not None and len(labels) > most:
            shown = f"has {len(labels)} classes, {', '.join(labels[:8])}, but n_classes={most}"
            faults.found.append(fault(shown, site=self.name, topic="classes"))
        with faults.take():
            if settings.maps:
                joint_map.check_width(self.data.shape[1], min(self.policy.max_message_bytes, LARGEST_MESSAGE))
            else:
                check_disc(self.data, settings.curvature, settings.radius)
        faults.raise_all()

    @classmethod
    def planned_sums(cls, settings: HullSettings) -> Sequence[type[SumQuestion]]:
        """Return the secure sums that follow from the settings, in order."""
        mapped = (SumScatter,) if settings.maps else ()
        return (*mapped, *(() if settings.settled else (Reach,)), EncodeHulls)

    def result(self) -> dict[str, Any]:
        """Return which of the site's names means which global class, and how well the model fits its rows.

        A name whose hull was lost (too many hulls met in its bins) is listed under "unknown".
        """
        joint = self.handed.model
        if joint is None:
            return {}
        names = {label: group for label, group in self.memory.groups.items() if group >= 0}
        found: dict[str, Any] = {"names": names, "unknown": sorted(set(self.memory.groups) - set(names))}
        if joint.embedding is not None:
            found["scales"] = joint_map.column_scales(self.data.X).tolist()
        right = np.mean(joint.for_site(found).predict(self.data.X) == self.data.y.astype(str))
        return found | {"fits": float(right), "rows": len(self.data)}

    def model_file(self) -> bytes:
        """Return the joint model in the site's own words, with the scale of its columns."""
        joint = self.handed.model
        return b"" if joint is None else joint.for_site(self.result()).to_bytes()

    def class_numbers(self, model: Model) -> dict[str, int]:
        """Return the global class of each of the site's words; of a word whose hull was lost, none."""
        return {label: group for label, group in self.memory.groups.items() if group >= 0}

    @answers(SumScatter)
    def scatter(self, ask: SumScatter) -> Contribution:
        """Add this site's scatter matrices to the secure sum."""
        self.check_size(joint_map.scatter_length(self.data.shape[1]))
        return self.contribute(ask, joint_map.site_scatter(self.data.X, self.data.y.astype(str)))

    @answers(Reach)
    def reach(self, ask: Reach) -> Contribution:
        """Say, masked, how many classes and hull points there are here and how far out the points lie."""
        settings: HullSettings = self.settings
        points = self._points(ask, settings.curvature)
        self._check_corners(points)
        reached = reach_levels(points, self.data.y, settings.trim, c=settings.curvature)
        key = fingerprint(b"levels", self.joining.memory.private, str(ask.ticket.round).encode())
        return self.contribute(ask, write_levels(list(zip(reached, LEVELS, strict=True)), key))

    @answers(EncodeHulls)
    def encode(self, ask: EncodeHulls) -> Contribution:
        """Send the quantized hulls, under this site's labels, encoded and masked."""
        plan, settings = ask.plan, self.settings
        self.joining.keep_to_terms(
            epsilon=plan.epsilon,
            radius=plan.radius,
            curvature=plan.curvature,
            n_classes=plan.classes,
            capacity=plan.capacity,
            h=plan.h,
        )
        # In this order: what the plan says is cheap to look at, labels and words are not cheap to build.
        check_plan(plan, settings, len(self.joining.memory.order))
        self.check_size(plan.length)
        if int(ask.ticket.modulus) != plan.code.modulus:
            raise ProtocolError("the plan does not fit the sites that joined, or the terms")
        points = self._points(ask, plan.curvature)
        self._check_corners(points)
        hulls = local_hulls(points, self.data.y.astype(str), plan.grid, settings.trim)
        self._choose_slots(list(hulls), plan.classes)
        word: dict[int, int] = {}
        for label, bins in hulls.items():
            value = plan.labels.labels[plan.classes * self.joining.block + self.memory.slots[label]]
            for place in bins.tolist():
                word[place] = word.get(place, 0) + value
        if len(word) > plan.capacity:
            raise InputError(f"the hulls have {len(word)} bins, more than the agreed {plan.capacity}")
        return self.contribute(ask, plan.code.encode(list(word), list(word.values())))

    @answers(Learn)
    def learn(self, ask: Learn) -> Learnt:
        """Keep the model, and find out which global class each local name means."""
        memory = self.memory
        wanted = memory.classes * len(self.joining.memory.order)
        if not wanted:
            raise ProtocolError("a result came before the site sent its hulls")
        # Whether an answer is refused must not depend on the hidden order, or refusals would tell it.
        if len(ask.groups) != wanted or not all(-1 <= group < memory.classes for group in ask.groups):
            raise ProtocolError(f"the result must give each of {wanted} labels a class or none")
        self.handed.keep(ask.model)
        first = memory.classes * self.joining.block
        memory.groups = {label: ask.groups[first + slot] for label, slot in memory.slots.items()}
        return Learnt()

    def _points(self, ask: Reach | EncodeHulls, c: float) -> npt.NDArray[np.float64]:
        X, matrix = self.data.X, ask.embedding
        if (matrix is not None) != self.settings.maps:
            raise ProtocolError("a joint map came where the terms have none, or none where they have one")
        if matrix is None:
            return X
        P, scales, memory = matrix.numpy(), joint_map.column_scales(X), self.memory
        if P.dtype != np.float64 or P.shape != (X.shape[1], 2) or not (np.abs(P) < LARGEST_ENTRY).all():
            raise ProtocolError(f"a joint map of shape {P.shape} came; wanted moderate numbers, ({X.shape[1]}, 2)")
        told = fingerprint(b"map", matrix.data)
        if memory.joint_map and memory.joint_map != told:
            raise ProtocolError("another joint map came before; one run has one map")
        if not memory.joint_map:
            self._check_map(P, ask.scatter)
        memory.joint_map = told
        length = joint_map.tangent_length(X, P, scales)
        if length > LONGEST * joint_map.SPREAD:
            # With a zoom all rows lie at the rim, where each is a corner. It depends on the rows, so the site leaves.
            raise InputError(
                f"the joint map makes the rows {length:.3g} long on average; wanted {LONGEST} at most"
            )
        return joint_map.embed(X, P, scales, c=c)

    def _check_map(self, P: npt.NDArray[np.float64], scatter: SumResult | None) -> None:
        """Refuse a map that does not follow from the sites' sums: a coordinator could look at columns of its choice."""
        columns = self.data.shape[1]
        if scatter is None or scatter.total.shape != (joint_map.scatter_length(columns),):
            raise ProtocolError("a joint map came without the sums that it follows from")
        self.sums.check_result(scatter, SumScatter)
        try:  # it depends on the sums alone, which are the same for all sites
            own = joint_map.projection(scatter.reals(SumScatter), columns)
        except (InputError, ValueError) as error:
            raise ProtocolError(f"no joint map follows from the sites' sums: {error}") from error
        if not np.allclose(P, own, rtol=0, atol=SAME_MAP * float(np.abs(own).max())):
            raise ProtocolError("the joint map that came does not follow from the sites' sums")

    def _check_corners(self, points: npt.NDArray[np.float64]) -> None:
        """Leave the run before anything is sent where the policy allows fewer corners."""
        most, settings = self.policy.max_corner_share, self.settings
        if most < 1:
            check_corner_share(corner_shares(points, self.data.y, settings.trim, c=settings.curvature), most)

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
    norms = np.linalg.norm(site.X, axis=1)
    if radius is not None and norms.max(initial=0.0) > radius:
        at = int(norms.argmax())
        number = at if site.row_numbers is None else site.row_numbers[at]
        raise InputError(
            f"site {site.name!r}: row {number} has norm {norms[at]:.6g}, outside the agreed radius {radius:.6g}"
        )
