"""SphereFed: the nearest fixed direction is predicted, and only the body travels."""

from __future__ import annotations

import numpy as np

from fedgeom import SphereFed
from fedgeom.methods.iterative import Orthonormal, SquaredError
from tests.methods.iterative.torching import DIGITS, digits, torch


def test_the_nearest_direction_is_predicted():
    assert torch.__version__
    sites = digits()
    rule = SphereFed(**(DIGITS | {"rounds": 4, "epochs": 3, "rate": 0.3}))
    model = rule.plain(sites).model
    assert all(name.startswith("body.") for name in model.parameters)
    learner = rule.build_learner()
    learner.bind(64, 3)
    X, y = (np.concatenate([getattr(site, part) for site in sites]) for part in ("X", "y"))
    Z = learner.features(model.parameters, X)
    directions = Orthonormal().build(Z.shape[1], 3).directions.numpy()
    nearest = (Z @ directions.T).argmax(axis=1)
    assert np.array_equal(model.predict(X), nearest.astype(str))
    assert np.mean(nearest == y) > 0.8
    assert (rule.head, rule.loss) == (Orthonormal(), SquaredError())
