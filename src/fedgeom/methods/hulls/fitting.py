"""What the coordinator computes of decoded hulls: groups of one class each, and a classifier that tells them apart.

Importing this takes two seconds, most of it scikit-learn: it is imported where it is used.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone

from fedgeom.arrays import Floats, Indices
from fedgeom.geometry.hyperbolic.grid import Grid
from fedgeom.geometry.hyperbolic.svm import EuclideanSVC, PoincareSVC
from fedgeom.methods.hulls.core import Bins
from fedgeom.methods.hulls.grouping import How, group
from fedgeom.methods.hulls.settings import HullSettings

Classifier = PoincareSVC | EuclideanSVC


def classifier_of(settings: HullSettings) -> Classifier:
    """Make the classifier that the settings name, not yet fitted.

    The hinge's solver takes its steps in a random order; its seed is fixed, so that two coordinators find the same.
    """
    if settings.space == "euclidean":
        return EuclideanSVC(settings.C, loss=settings.loss, margin=settings.margin, random_state=0)
    return PoincareSVC(
        settings.C,
        curvature=settings.curvature,
        loss=settings.loss,
        margin=settings.margin,
        pairs=settings.pairs,
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
    fitted: Classifier = clone(classifier).fit(np.vstack(groups), codes)
    return fitted


def _union(hulls: Sequence[Bins], members: Indices, g: int) -> Bins:
    return np.unique(np.concatenate([bins for bins, m in zip(hulls, members.tolist(), strict=True) if m == g]))
