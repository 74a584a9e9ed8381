"""From class moments to a classifier: what both halves and the plain twin compute."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from fedgeom.geometry.gaussians.class_sums import ClassSums
from fedgeom.methods.moments.model import MomentsModel
from fedgeom.methods.moments.settings import MomentsSettings


def build_model(
    settings: MomentsSettings, total: npt.NDArray[np.float64], classes: Sequence[str], columns: int
) -> MomentsModel:
    """Turn the sum of all sites' moments into a classifier.

    total: all classes' moments in one vector, f8, as `ClassSums` reads it.
    """
    sums = ClassSums(total, classes, columns, min_rows=settings.min_rows)
    pull = settings.shrinkage if settings.shrinkage is not None else columns + 1.0
    priors, means, covariances = sums.gaussians(pull)
    centroids = sums.centroids(c=settings.c)
    return MomentsModel(tuple(classes), settings.rule, priors, means, covariances, centroids, settings.c)
