"""The model of Shrunk: logistic for two classes, chances against the others for more."""

from __future__ import annotations

import numpy as np

from fedgeom.methods.shrunk.core import as_model


def test_direction_and_intercept_are_a_logistic_model() -> None:
    X = np.array([[1.0, 2.0], [-3.0, 0.5]])
    model = as_model(("no", "yes"), np.array([[0.5], [-1.0]]), np.array([0.25]), np.zeros(2), np.ones(2))
    np.testing.assert_allclose(model.predict_proba(X)[:, 1], 1 / (1 + np.exp(-(X @ [0.5, -1.0] + 0.25))))


def test_chances_against_the_others_are_brought_to_a_sum_of_one() -> None:
    model = as_model(("a", "b", "c"), np.eye(3), np.zeros(3), np.zeros(3), np.ones(3))
    odds = np.log([[1.0, 3.0, 1 / 3]])  # chances of 1/2, 3/4 and 1/4
    np.testing.assert_allclose(model.predict_proba(odds), [[1 / 3, 1 / 2, 1 / 6]])
    far = model.predict_proba([[-900.0, -800.0, -1000.0]])
    np.testing.assert_allclose(far, [[0, 1, 0]], atol=1e-12)
