"""FedBABU: the head stays until the end."""

from __future__ import annotations

import numpy as np
import pytest

from fedgeom import FedBABU
from fedgeom.errors import InputError
from fedgeom.methods.iterative import Logistic
from tests.methods.iterative.making import own, unlike

SITES = unlike(n_sites=2, rows=8)
STEPS = {"n_rounds": 2, "steps": 3, "batch_size": None, "learning_rate": 0.3, "scale": "none"}


def test_by_hand():
    """Weights descend with the intercept at 0; in the end both descend at each site, from the joint weights."""
    learner = Logistic()
    data = [(site.X, (site.y == "class 1").astype(np.int64)) for site in SITES]
    weights = [len(y) / sum(len(other) for _, other in data) for _, y in data]

    def descend(model, X, y, fixed):
        model = model.copy()
        for _ in range(3):
            slope = learner.gradient(model, X, y)
            model["weights"] = model["weights"] - 0.3 * slope["weights"]
            if not fixed:
                model["intercept"] = model["intercept"] - 0.3 * slope["intercept"]
        return model

    joint = learner.start(2, 2, np.random.default_rng(0))
    for _ in range(2):
        trained = [descend(joint, X, y, fixed=True) for X, y in data]
        joint["weights"] = sum(p * one["weights"] for p, one in zip(weights, trained, strict=True))
    found = FedBABU(**STEPS).plain(SITES)
    assert found.model.parameters["intercept"].tolist() == [0.0]
    assert found.model.parameters.flat() == pytest.approx(joint.flat(), abs=1e-7)
    for site, (X, y) in zip(SITES, data, strict=True):
        assert own(found, site.name) == pytest.approx(descend(joint, X, y, fixed=False).flat(), abs=1e-6)


def test_a_learner_without_a_head_is_refused():
    with pytest.raises(InputError, match="names no head"):
        FedBABU(learner="bowl")
