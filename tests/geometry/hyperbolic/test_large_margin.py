"""What the classifiers of both geometries share: one hyperplane for two classes, one each for more."""

from __future__ import annotations

import numpy as np
import pytest

from fedgeom.errors import InputError
from fedgeom.geometry.hyperbolic.svm import EuclideanSVC, PoincareSVC


@pytest.fixture
def points() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(1)
    y = np.arange(60) % 3
    centres = np.array([[0.5, 0.0], [-0.3, 0.4], [-0.3, -0.4]])
    return centres[y] + 0.05 * rng.standard_normal((60, 2)), np.array(["a", "b", "c"])[y]


@pytest.mark.parametrize("kind", [PoincareSVC, EuclideanSVC])
def test_scores_probabilities_and_classes_agree(kind, points) -> None:
    X, y = points
    model = kind().fit(X, y)
    assert model.classes_.tolist() == ["a", "b", "c"]
    assert model.decision_function(X).shape == (60, 3)
    p = model.predict_proba(X)
    np.testing.assert_allclose(p.sum(axis=1), 1.0)
    assert (model.classes_[p.argmax(axis=1)] == model.predict(X)).all()
    assert (model.predict(X) == y).all()


@pytest.mark.parametrize("kind", [PoincareSVC, EuclideanSVC])
def test_two_classes_have_one_hyperplane_and_its_sides(kind, points) -> None:
    X, y = points
    kept = y != "c"
    model = kind().fit(X[kept], y[kept])
    scores = model.decision_function(X[kept])
    assert scores.shape == (40,)
    assert (model.classes_[(scores > 0).astype(int)] == model.predict(X[kept])).all()


def test_one_class_is_none_to_tell_apart(points) -> None:
    X, y = points
    with pytest.raises((InputError, ValueError), match="class"):
        PoincareSVC().fit(X[y == "a"], y[y == "a"])
