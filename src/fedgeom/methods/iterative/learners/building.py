"""From a learner's name and options, as they stand in terms and model files, to the learner."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fedgeom.memo import memoize
from fedgeom.methods.iterative.learners.base import Learner, learner_named
from fedgeom.methods.iterative.learners.logistic import Logistic
from fedgeom.methods.iterative.learners.torch_module import NAME as NETWORK
from fedgeom.methods.iterative.learners.torch_module import network_learner


def built_learner(name: str, options: Mapping[str, Any]) -> Learner:
    """Return a learner by its name; options are for "logistic" and for networks."""
    if name == NETWORK:
        return network_learner(options)
    return _logistic(float(options["C"])) if name == Logistic.name and "C" in options else learner_named(name)


@memoize(64)
def _logistic(C: float) -> Learner:
    return Logistic(C)
