"""From class moments to a classifier: what both halves and the plain twin compute."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from fedgeom.data.findings import FaultsError, fault
from fedgeom.geometry.gaussians.class_sums import ClassSums, length
from fedgeom.methods.moments.model import MomentsModel
from fedgeom.methods.moments.settings import MomentsSettings


def check_width(settings: MomentsSettings, classes: int, columns: int, limit: int) -> None:
    """Refuse moments of so many columns that no message of ``limit`` bytes could hold them; say what to do."""
    size = 8 * length(classes, columns, squares=settings.squares)
    if size <= limit:
        return
    most = columns
    while 8 * length(classes, most, squares=settings.squares) > limit:
        most = most * 9 // 10
    instead = 'take rule="centroid", which needs none, or ' if settings.squares else ""
    what = "covariances" if settings.squares else "means"
    said = (
        f"the {what} of {classes} classes and {columns:,} columns are a message of {size:,} bytes; the limit is "
        f"{limit:,} (max_message_bytes in the policy)"
    )
    raise FaultsError([fault(said, f"{instead}take fewer columns, some {most:,} or less", topic="size")])


def build_model(
    settings: MomentsSettings, total: npt.NDArray[np.float64], classes: Sequence[str], columns: int
) -> MomentsModel:
    """Turn the sum of all sites' moments into a classifier.

    total: all classes' moments in one vector, f8, as `ClassSums` reads it.
    """
    sums = ClassSums(total, classes, columns, min_rows=settings.min_rows, squares=settings.squares)
    centroids = sums.centroids(c=settings.c)
    if not settings.squares:
        priors, means = sums.priors_and_means()
        none = np.empty((len(classes), 0, 0))
        return MomentsModel(tuple(classes), settings.rule, priors, means, none, centroids, settings.c)
    pull = settings.shrinkage if settings.shrinkage is not None else columns + 1.0
    priors, means, covariances = sums.gaussians(pull)
    return MomentsModel(tuple(classes), settings.rule, priors, means, covariances, centroids, settings.c)
