"""The hulls method where the data is: hull, quantize, label, encode, mask."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from fedgeom.crypto.keys import fingerprint
from fedgeom.data.checks import check_table
from fedgeom.errors import FedgeomError, InputError, ProtocolError
from fedgeom.federation import modelfile
from fedgeom.federation.messages import Array
from fedgeom.federation.site import Memory, answers
from fedgeom.methods.hulls import embedding as joint_map
from fedgeom.methods.hulls.messages import EncodeHulls, Learn, Learnt, Reach, SumScatter
from fedgeom.methods.hulls.model import HullModel
from fedgeom.protocols.cohort import SecureMemory
from fedgeom.protocols.maximum import write_levels
from fedgeom.protocols.secure_sum import MaskedVector
from fedgeom.protocols.summing_site import SummingSite

MOST_CLASSES = 256
LARGEST_ENTRY = 1e6
"""Rows are standardised, so that an honest map has entries of a few units."""
RADIUS_STEP = 0.05
RADIUS_LEVELS = 640
"""Hyperbolic radii up to 32 (for curvature -1): beyond what float64 can tell from the edge."""
GROWTH = 1.1
COUNT_LEVELS = 170
"""Hull point counts up to 1.1^169, about ten million."""

LEVELS = (MOST_CLASSES, COUNT_LEVELS, RADIUS_LEVELS)


def count_of_level(level: int) -> int:
    """Return the number of hull points that a level stands for, rounded up."""
    return math.ceil(GROWTH ** (level - 1))


def level_of_count(count: int) -> int:
    """Return the lowest level that stands for at least ``count`` hull points."""
    level = max(1, math.floor(math.log(max(count - 1, 1), GROWTH)))
    while count_of_level(level) < count:
        level += 1
    return level


class HullMemory(SecureMemory, kw_only=True):
    """What the site remembers beside its keys: its slots, and in the end the model."""

    slots: dict[str, int] = {}
    classes: int = 0
    groups: dict[str, int] = {}
    model: bytes = b""


class HullSite(SummingSite[HullMemory]):
    """Answers the questions of `Hulls`."""

    memory_type: ClassVar[type[Memory]] = HullMemory

    def check(self, terms: Mapping[str, Any]) -> None:
        """Refuse data that the method cannot use, naming the site."""
        labels, me = check_table(self.data, least_points=terms["least_points"]), self.badge.name
        most = terms["n_classes"]
        if most is not None and len(labels) > most:
            raise InputError(
                f"site {me!r} has {len(labels)} classes, {', '.join(labels[:8])}, but n_classes={most}"
            )
        if terms["embedding"] == "none":
            try:
                self._check_disc(self.data.X, float(terms["curvature"]), terms["radius"])
            except InputError as error:
                raise InputError(f"site {me!r}: {error}") from error

    @classmethod
    def sums(cls, terms: Mapping[str, Any]) -> tuple[str, ...]:
        """Return the secure sums that follow from the terms, in order: no other is answered."""
        settled = all(terms[name] is not None for name in ("radius", "capacity", "n_classes"))
        mapped = [SumScatter.kind] if terms["embedding"] != "none" else []
        return (*mapped, *([] if settled else [Reach.kind]), EncodeHulls.kind)

    def _check_disc(self, X: npt.NDArray[np.float64], c: float, radius: float | None) -> None:
        from fedgeom.geometry.hyperbolic.poincare import check_points

        if X.shape[1] != 2:
            raise InputError(
                f"rows have {X.shape[1]} columns; the disc has 2. Give a 2-D Poincaré embedding, or use "
                'Hulls(embedding="discriminant") to make a joint one'
            )
        check_points(X, c=c, name="X", dim=2)
        norms = np.linalg.norm(X, axis=1)
        if radius is not None and norms.max() > radius:
            at = int(norms.argmax())
            raise InputError(f"row {at} has norm {norms[at]:.6g}, outside the agreed radius {radius:.6g}")

    def result(self) -> dict[str, Any]:
        """Return which of the site's names means which global class, and how well the model fits its rows.

        A name whose hull was lost (too many hulls met in its bins) is listed under "unknown".
        """
        if not self.memory.model:
            return {}
        names = {label: group for label, group in self.memory.groups.items() if group >= 0}
        right = np.mean(self.model().predict(self.data.X) == self.data.y.astype(str))
        unknown = sorted(set(self.memory.groups) - set(names))
        return {"names": names, "unknown": unknown, "fits": float(right), "rows": len(self.data)}

    def model(self) -> HullModel:
        """Return the joint model in the site's own words."""
        _, arrays, facts = modelfile.from_bytes(self.memory.model)
        names = {label: group for label, group in self.memory.groups.items() if group >= 0}
        return HullModel.from_tensors(arrays, facts).named(names, self.data.X)

    @answers(SumScatter)
    def scatter(self, ask: SumScatter) -> MaskedVector:
        """Add this site's scatter matrices to the secure sum."""
        self.admit(ask.ticket)
        values = joint_map.site_scatter(self.data.X, self.data.y.astype(str))
        return self.mask(ask.ticket, joint_map.as_vector(values, len(ask.ticket.participants)))

    @answers(Reach)
    def reach(self, ask: Reach) -> MaskedVector:
        """Say, masked, how many classes and hull points there are here and how far out the points lie."""
        from fedgeom.geometry.hyperbolic.hull import trimmed_hull
        from fedgeom.geometry.hyperbolic.poincare import hyperbolic_radius

        self.keep_to_terms(curvature=ask.curvature, trim=ask.trim)
        self.admit(ask.ticket)
        points = self._points(ask.embedding, ask.curvature)
        labels = self.data.y.astype(str)
        names = np.unique(labels)
        count = sum(len(trimmed_hull(points[labels == n], trim=ask.trim, c=ask.curvature)) for n in names)
        farthest = float(np.linalg.norm(points, axis=1).max())
        distance = float(hyperbolic_radius(farthest, c=ask.curvature)) * math.sqrt(ask.curvature)
        radius_level = min(RADIUS_LEVELS, math.floor(distance / RADIUS_STEP) + 1)
        key = fingerprint(b"levels", self.memory.private, str(ask.ticket.round).encode())
        reached = (len(names), min(level_of_count(count), COUNT_LEVELS), radius_level)
        return self.mask(ask.ticket, write_levels(list(zip(reached, LEVELS, strict=True)), key))

    @answers(EncodeHulls)
    def encode(self, ask: EncodeHulls) -> MaskedVector:
        """Send the quantized hulls, under this site's labels, encoded and masked."""
        from fedgeom.methods.hulls.plain import local_hulls

        plan = ask.plan
        self.keep_to_terms(
            epsilon=plan.epsilon,
            radius=plan.radius,
            curvature=plan.curvature,
            n_classes=plan.classes,
            capacity=plan.capacity,
            h=plan.h,
            trim=ask.trim,
        )
        self.admit(ask.ticket)
        if plan.blocks != len(self.memory.order) or int(ask.ticket.modulus) != plan.code.modulus:
            raise ProtocolError("the plan does not fit the sites that joined")
        most = self.badge.policy.largest_message
        if 8 * plan.code.length > most:
            raise ProtocolError(
                f"the answer would have {8 * plan.code.length:,} bytes; the site's policy allows {most:,}"
            )
        points = self._points(ask.embedding, plan.curvature)
        hulls = local_hulls(points, self.data.y.astype(str), plan.grid, ask.trim)
        self._choose_slots(list(hulls), plan.classes)
        word: dict[int, int] = {}
        for label, bins in hulls.items():
            value = plan.labels.labels[plan.classes * self.block + self.memory.slots[label]]
            for place in bins.tolist():
                word[place] = word.get(place, 0) + value
        if len(word) > plan.capacity:
            raise InputError(f"the hulls have {len(word)} bins, more than the agreed {plan.capacity}")
        return self.mask(ask.ticket, plan.code.encode(list(word), list(word.values())))

    @answers(Learn)
    def learn(self, ask: Learn) -> Learnt:
        """Keep the model, and find out which global class each local name means."""
        memory = self.memory
        wanted = memory.classes * len(memory.order)
        # Whether an answer is refused must not depend on the hidden order, or refusals would tell it.
        if len(ask.groups) != wanted or not all(-1 <= group < memory.classes for group in ask.groups):
            raise ProtocolError(f"the result must give each of {wanted} labels a class or none")
        try:
            _, arrays, facts = modelfile.from_bytes(ask.model)
            HullModel.from_tensors(arrays, facts)
        except FedgeomError as error:
            raise ProtocolError(f"the model that came cannot be used: {error}") from error
        first = memory.classes * self.block
        memory.groups = {label: ask.groups[first + slot] for label, slot in memory.slots.items()}
        memory.model = ask.model
        return Learnt()

    def _points(self, matrix: Array | None, c: float) -> npt.NDArray[np.float64]:
        X = self.data.X
        if matrix is None:
            return X
        P = matrix.numpy()
        if P.dtype != np.float64 or P.shape != (X.shape[1], 2) or not (np.abs(P) < LARGEST_ENTRY).all():
            raise ProtocolError(f"a joint map of shape {P.shape} came; wanted moderate numbers, ({X.shape[1]}, 2)")
        return joint_map.embed(X, P, joint_map.column_scales(X), c=c)

    def _choose_slots(self, labels: list[str], classes: int) -> None:
        """Shuffle the site's classes over its J labels, so that their order tells nothing either."""
        if len(labels) > classes:
            raise InputError(f"{len(labels)} classes at the site, {classes} in the plan")
        key = self.memory.private
        order = sorted(range(classes), key=lambda slot: fingerprint(b"slot", key, str(slot).encode()))
        self.memory.slots = dict(zip(labels, order, strict=False))
        self.memory.classes = classes
