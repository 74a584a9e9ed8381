"""What Shrunk yields: a logistic regression, for more than two classes one for each against the others."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.special import log_expit, softmax

from fedgeom.arrays import Floats
from fedgeom.methods.iterative.learners import Learner
from fedgeom.methods.iterative.model import TrainedModel
from fedgeom.methods.iterative.tree import Tree


class ShrunkModel(TrainedModel):
    """A classifier; `for_site` makes it a site's own."""

    def chances(self, learner: Learner, features: Floats) -> Floats:
        """Return probabilities; of more than two classes each against the others, brought to a sum of one."""
        if len(self.names) == 2:
            return super().chances(learner, features)
        return np.asarray(softmax(log_expit(learner.scores(self.parameters, features)), axis=1))


def as_model(
    classes: Sequence[str], w: Floats, b: Floats, centre: Floats | None, spread: Floats | None
) -> ShrunkModel:
    """Return directions and intercepts as a model.

    w (columns, outcomes), b (outcomes,), centre and spread (columns,), f8.
    """
    return ShrunkModel(
        method="shrunk",
        names=tuple(classes),
        learner="logistic",
        options={},
        parameters=Tree(intercept=b, weights=w),
        columns=len(w),
        centre=centre,
        spread=spread,
    )
