"""What a site computes of its rows: quantised hulls, and how large they are; both halves and the twin use it."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from cryptography.hazmat.primitives.poly1305 import Poly1305
from numpy.typing import ArrayLike, NDArray

from fedgeom.arrays import Floats, Indices
from fedgeom.errors import InputError
from fedgeom.geometry.hyperbolic.grid import EqualAreaGrid, Grid, PolarGrid
from fedgeom.geometry.hyperbolic.hull import convex_hull, trimmed_hull
from fedgeom.geometry.hyperbolic.poincare import hyperbolic_radius
from fedgeom.memo import memoize
from fedgeom.methods.hulls.matching import How, group
from fedgeom.methods.hulls.settings import HullSettings

Bins = NDArray[np.int64]

MOST_CLASSES = 256
RADIUS_STEP = 0.05
RADIUS_LEVELS = 640
"""Hyperbolic radii up to 32 (for curvature -1): beyond what float64 can tell from the edge."""
GROWTH = 1.1
COUNT_LEVELS = 170
"""Hull point counts up to 1.1^169, about ten million."""

LEVELS = (MOST_CLASSES, COUNT_LEVELS, RADIUS_LEVELS)
"""How many levels the three secure maxima have: classes, hull points, radius."""
REACH = sum(LEVELS) + 1
"""How many numbers a site adds: the levels, and how many hull points its level stands for."""


def count_of_level(level: int) -> int:
    """Return the number of hull points that a level stands for, rounded up."""
    return math.ceil(GROWTH ** (level - 1))


def level_of_count(count: int) -> int:
    """Return the lowest level that stands for at least ``count`` hull points."""
    level = max(1, math.floor(math.log(max(count - 1, 1), GROWTH)))
    while count_of_level(level) < count:
        level += 1
    return level


def radius_of_level(level: int, *, c: float) -> float:
    """Return the Euclidean radius that a level stands for (Eq. 9)."""
    return 1 / math.sqrt(c) * math.tanh(level * RADIUS_STEP / 2)


_KEY = os.urandom(32)


@dataclass(frozen=True)
class ClassHull:
    """The corners of one class's rows."""

    corners: Floats
    """(corners, 2), f8"""
    rows: int
    """How many rows the class has."""


@memoize(4096, key=lambda points, y, trim, *, c: (hash_rows(points), hash_rows(y), str(trim), c))
def class_hulls(points: Floats, y: NDArray[Any], trim: float | str, *, c: float) -> Mapping[Any, ClassHull]:
    """Return the corners of each class, after trimming and before rounding.

    points (n, 2), f8, y (n,). A process remembers them: how far they reach, how long a word will be, what is sent and
    what the steward is shown all follow from the same corners.
    """
    found: dict[Any, ClassHull] = {}
    for label in np.unique(y):
        inside = points[y == label]
        found[label.item()] = ClassHull(inside[trimmed_hull(inside, trim=trim, c=c)], len(inside))
    return MappingProxyType(found)


def hulls_by_name(points: Floats, y: NDArray[Any], trim: float | str, *, c: float) -> dict[str, ClassHull]:
    """Return the corners of each class by its label as text, in that order.

    To write a million whole numbers as text takes longer than to find their hulls, so that is done for classes only.
    """
    found = class_hulls(points, y if y.dtype.kind in "biuU" else y.astype(str), trim, c=c)
    return {str(label): found[label] for label in sorted(found, key=str)}


def hash_rows(array: NDArray[Any]) -> bytes:
    """Return what stands, in this process, for an array's numbers or labels."""
    whole = np.ascontiguousarray(array)
    # A keyed hash whose key nobody knows: four times as fast as others, and rows are looked up several times.
    return Poly1305.generate_tag(_KEY, whole.view(np.uint8).reshape(-1).data)


def reach_levels(points: Floats, hulls: Mapping[Any, ClassHull], *, c: float) -> tuple[int, int, int]:
    """Return the levels of a site: how many classes, how many hull points, how far out the farthest point lies.

    points (n, 2), f8.
    """
    count = sum(len(hull.corners) for hull in hulls.values())
    farthest = math.sqrt(float((points[:, 0] ** 2 + points[:, 1] ** 2).max()))
    distance = float(hyperbolic_radius(farthest, c=c)) * math.sqrt(c)
    radius_level = min(RADIUS_LEVELS, math.floor(distance / RADIUS_STEP) + 1)
    return len(hulls), min(level_of_count(count), COUNT_LEVELS), radius_level


def corner_shares(hulls: Mapping[Any, ClassHull]) -> dict[str, float]:
    """Return which share of each class's rows would be corners of its hull; rounding can only make them fewer."""
    return {str(name): len(hull.corners) / hull.rows for name, hull in hulls.items()}


def check_corner_share(shares: dict[str, float], most: float) -> None:
    """Raise `InputError` when a larger share of a class's rows would become corners than the policy allows."""
    over = [f"{share:.0%} of {name!r}" for name, share in sorted(shares.items()) if share > most]
    if over:
        raise InputError(
            f"{', '.join(over)} would become corners, which others learn; the policy says max_corner_share = {most:g}: "
            "a larger trim or larger classes show a smaller share"
        )


def make_grid(epsilon: float, radius: float, *, c: float = 1.0, equal_area: bool = False) -> Grid:
    """Cut a disc into bins: of rings of equal breadth (Section 5.2), or of equal area (Appendix C)."""
    return EqualAreaGrid.for_epsilon(epsilon, radius, c=c) if equal_area else PolarGrid(epsilon, radius, c=c)


def rounded_hulls(hulls: Mapping[Any, ClassHull], grid: Grid) -> dict[Any, Bins]:
    """Give the quantised hull of each class, from the corners of its rows."""
    found: dict[Any, Bins] = {}
    for label, hull in hulls.items():
        bins = np.unique(grid.bin(hull.corners))
        found[label] = np.sort(bins[convex_hull(grid.center(bins), c=grid.c)])
    return found


if TYPE_CHECKING:
    from fedgeom.geometry.hyperbolic.svm import EuclideanSVC, PoincareSVC

Classifier: TypeAlias = "PoincareSVC | EuclideanSVC"


def classifier_of(settings: HullSettings) -> Classifier:
    """Make the classifier that the settings name, not yet fitted.

    The hinge's solver takes its steps in a random order; its seed is fixed, so that two coordinators find the same.
    """
    from fedgeom.geometry.hyperbolic.svm import EuclideanSVC, PoincareSVC  # scikit-learn: 2 s

    if settings.space == "euclidean":
        return EuclideanSVC(settings.C, loss=settings.loss, margin=settings.margin, random_state=0)
    return PoincareSVC(
        settings.C,
        curvature=settings.curvature,
        loss=settings.loss,
        margin=settings.margin,
        pairs=settings.n_pairs,
        as_published=settings.as_published,
        random_state=0,
    )


def group_hulls(
    hulls: Sequence[Bins], owners: ArrayLike | None, n_classes: int, *, grid: Grid, how: How, seed: int = 0
) -> Indices:
    """Group quantised hulls by class (Section 5.6); groups are numbered by their smallest bins.

    owners (hulls,); returns (hulls,), whole numbers.

    The numbers depend on the hulls alone, so that two coordinators who list them differently agree.
    """
    members = group([grid.center(bins) for bins in hulls], owners, n_classes, how, seed, c=grid.c)
    numbers = np.unique(members).tolist()
    unions = {g: _union(hulls, members, g).tolist() for g in numbers}
    new = {g: rank for rank, g in enumerate(sorted(numbers, key=lambda g: (unions[g], g)))}
    return np.array([new[g] for g in members.tolist()], dtype=np.intp)


def points_of_groups(hulls: Sequence[Bins], members: Indices, grid: Grid) -> list[Floats]:
    """Give the global point sets PS_j of Section 5.6: the distinct corners of all hulls of a group.

    members (hulls,); each set returned is (points, 2), f8.
    """
    return [grid.center(_union(hulls, members, g)) for g in np.unique(members).tolist()]


def fit_groups(groups: Sequence[Floats], classifier: Classifier) -> Classifier:
    """Learn to tell the groups apart (Section 5.7): reference point, normal vector, Platt scaling.

    Each group (points, 2), f8.

    The given classifier is copied, not changed. The fitted one predicts the groups' positions in the list.
    """
    codes = np.repeat(np.arange(len(groups)), [len(points) for points in groups])
    from sklearn.base import clone  # scikit-learn: 2 s

    fitted: Classifier = clone(classifier).fit(np.vstack(groups), codes)
    return fitted


def _union(hulls: Sequence[Bins], members: Indices, g: int) -> Bins:
    return np.unique(np.concatenate([bins for bins, m in zip(hulls, members.tolist(), strict=True) if m == g]))
