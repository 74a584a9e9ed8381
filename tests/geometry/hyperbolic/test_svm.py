"""The SVMs: reference points, invariances, refusals, and scikit-learn's own estimator checks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.svm import LinearSVC
from sklearn.utils.estimator_checks import parametrize_with_checks

from fedgeom.errors import InputError
from fedgeom.geometry.hyperbolic.hull import convex_hull
from fedgeom.geometry.hyperbolic.poincare import distance, exp0, exp_map, log_map, midpoint, mobius_add
from fedgeom.geometry.hyperbolic.svm import EuclideanSVC, PoincareSVC

Floats = NDArray[np.float64]


def sample(seed: int, n: int = 300, d: int = 2, c: float = 1.0, gap: float = 0.2) -> tuple[Floats, Floats, Floats]:
    """Two classes on either side of a Poincaré hyperplane through the returned point, ``gap`` apart from it."""
    rng = np.random.default_rng(seed)
    p = exp0(rng.normal(size=d) * 0.4, c=c)
    w = rng.normal(size=d)
    w /= np.linalg.norm(w)
    v = rng.normal(size=(4 * n, d)) * (1 - c * p @ p)
    side = v @ w
    v = v[np.abs(side) > gap * np.linalg.norm(v, axis=1)][:n]
    return exp_map(p, v, c=c), np.where(v @ w > 0, 1, -1).astype(float), p


def three_classes(seed: int = 0, n: int = 40, d: int = 2) -> tuple[Floats, NDArray[Any]]:
    rng = np.random.default_rng(seed)
    centres = np.eye(3, d) if d >= 3 else np.array([[1.0, 0.0], [-0.5, 0.8], [-0.5, -0.8]])
    X = exp0(np.vstack([centre + 0.25 * rng.normal(size=(n, d)) for centre in centres]))
    return X, np.repeat(["a", "b", "c"], n)


@pytest.mark.parametrize("c", [1.0, 0.25, 4.0])
def test_reference_point_is_the_midpoint_of_the_closest_extreme_points(c: float) -> None:
    X, y, _ = sample(4, c=c)
    model = PoincareSVC(pairs=1, curvature=c).fit(X, y)
    a, b = X[y > 0], X[y < 0]
    a, b = a[convex_hull(a, c=c)], b[convex_hull(b, c=c)]
    D = distance(a[:, None], b[None], c=c)
    i, j = np.unravel_index(np.argmin(D), D.shape)
    np.testing.assert_allclose(model.reference_, [midpoint(a[i], b[j], c=c)])


def test_more_pairs_never_lower_the_training_accuracy() -> None:
    for seed in range(5):
        X, y, _ = sample(seed, gap=0.0)
        accuracy = [PoincareSVC(C=0.1, pairs=k).fit(X, y).score(X, y) for k in (1, 3, 6)]
        assert accuracy == sorted(accuracy)


@pytest.mark.parametrize("d", [2, 3, 7])
@pytest.mark.parametrize("c", [1.0, 0.1])
def test_finds_a_hyperbolic_boundary(d: int, c: float) -> None:
    X, y, p = sample(1, n=600, d=d, c=c)
    assert PoincareSVC(C=1e4, curvature=c, reference=p, margin="hard").fit(X, y).score(X, y) == 1.0
    assert PoincareSVC(C=1e4, curvature=c).fit(X, y).score(X, y) > 0.95


def test_the_score_is_the_inner_product_with_the_logarithm() -> None:
    X, y, _ = sample(2)
    model = PoincareSVC().fit(X, y)
    np.testing.assert_allclose(model.decision_function(X), log_map(model.reference_[0], X) @ model.coef_[0])
    np.testing.assert_array_equal(model.predict(X) > 0, model.decision_function(X) > 0)


def test_curvature_is_a_unit_of_length() -> None:
    """Points scaled by s in the ball of curvature 1/s² are the same configuration."""
    X, y, _ = sample(5)
    one, other = PoincareSVC(C=1e6).fit(X, y), PoincareSVC(C=1e6 / 16, curvature=1 / 16).fit(4 * X, y)
    np.testing.assert_allclose(4 * one.reference_, other.reference_)
    np.testing.assert_allclose(one.decision_function(X), other.decision_function(4 * X), rtol=1e-6)


def test_hard_margin_does_not_depend_on_where_the_origin_is() -> None:
    X, y, p = sample(6, gap=0.3)
    shift = np.array([0.3, -0.2])
    one = PoincareSVC(margin="hard", reference=p).fit(X, y)
    moved = PoincareSVC(margin="hard", reference=mobius_add(shift, p)).fit(mobius_add(shift, X), y)
    np.testing.assert_allclose(one.decision_function(X), moved.decision_function(mobius_add(shift, X)), rtol=1e-6)


def test_the_order_of_the_points_does_not_matter() -> None:
    X, y = three_classes()
    order = np.random.default_rng(0).permutation(len(X))
    one, other = PoincareSVC().fit(X, y), PoincareSVC().fit(X[order], y[order])
    np.testing.assert_array_equal(one.reference_, other.reference_)
    np.testing.assert_allclose(one.coef_, other.coef_, rtol=1e-9)


@pytest.mark.parametrize("d", [2, 3])
@pytest.mark.parametrize("loss", ["squared_hinge", "hinge"])
def test_many_classes(d: int, loss: str) -> None:
    X, y = three_classes(d=d)
    for model in (PoincareSVC(loss=loss, random_state=0), EuclideanSVC(loss=loss, random_state=0)):
        model.fit(X, y)
        assert model.score(X, y) > 0.95
        proba = model.predict_proba(X)
        np.testing.assert_allclose(proba.sum(axis=1), 1)
        np.testing.assert_array_equal(model.classes_[proba.argmax(axis=1)], model.predict(X))
        assert model.scores(X).shape == (len(X), 3)


def test_euclidean_is_linearsvc() -> None:
    X, y, _ = sample(7, gap=0.0)
    theirs = LinearSVC(C=0.1, tol=1e-12, max_iter=100_000, dual=False).fit(X, y)
    ours = EuclideanSVC(C=0.1).fit(X, y)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(ours.intercept_, theirs.intercept_, rtol=1e-4, atol=1e-6)


def test_integer_weights_are_copies() -> None:
    X, y = three_classes(n=15)
    w = np.random.default_rng(0).integers(0, 3, size=len(X))
    for model in (PoincareSVC(), EuclideanSVC()):
        weighted = clone(model).fit(X, y, sample_weight=w)
        copied = clone(model).fit(np.repeat(X, w, axis=0), np.repeat(y, w))
        np.testing.assert_allclose(weighted.predict_proba(X), copied.predict_proba(X), rtol=1e-6, atol=1e-9)


def test_published_setting() -> None:
    X, y = three_classes()
    X, y = np.vstack([X, [[0.0, 0.0]]]), np.append(y, "d")
    model = PoincareSVC.published()
    assert (model.C, model.pairs, model.loss, model.as_published) == (0.1, 3, "squared_hinge", True)
    model.fit(X, y)
    np.testing.assert_array_equal(model.predict_proba(X)[:, 3], 0)
    assert "d" not in model.predict(X)
    assert PoincareSVC(C=0.1).fit(X, y).predict_proba(X)[:, 3].min() > 0


def test_far_points_still_have_probabilities() -> None:
    X, y = three_classes()
    model = PoincareSVC(C=1e8).fit(X, y)
    edge = 0.9999999 * np.array([[np.cos(t), np.sin(t)] for t in np.linspace(0, 6, 30)])
    proba = model.predict_proba(edge)
    np.testing.assert_allclose(proba.sum(axis=1), 1)


# --- refusals -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("X", "y", "words"),
    [
        ([[0.1, 0.2], [1.0, 0.3]], [0, 1], "ball"),
        ([[0.1, 0.2], [np.nan, 0.3]], [0, 1], "NaN"),
        ([[0.1, 0.2], [0.2, 0.3]], [1, 1], "one class"),
        ([[0.1, 0.2], [0.2, 0.3]], [0.5, 1.7], "continuous"),
    ],
)
def test_refuses_bad_data(X: Any, y: Any, words: str) -> None:
    with pytest.raises(InputError, match=words):
        PoincareSVC().fit(X, y)


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"C": 0}, "C must be positive"),
        ({"curvature": -1.0}, "curvature"),
        ({"loss": "logistic"}, "loss must be"),
        ({"margin": "wide"}, "margin must be"),
        ({"pairs": 0}, "pairs must be"),
        ({"reference": [0.1, 0.2, 0.3]}, "reference must have shape"),
        ({"reference": [1.1, 0.2]}, "reference"),
    ],
)
def test_refuses_bad_parameters(parameters: dict[str, Any], words: str) -> None:
    X, y, _ = sample(0)
    with pytest.raises(InputError, match=words):
        PoincareSVC(**parameters).fit(X, y)


def test_refuses_points_outside_the_ball_when_predicting() -> None:
    X, y, _ = sample(0)
    with pytest.raises(InputError, match="ball"):
        PoincareSVC().fit(X, y).predict([[2.0, 0.0]])


def test_hard_margin_refuses_overlapping_classes() -> None:
    X, y, _ = sample(0, gap=0.0)
    with pytest.raises(InputError, match="cannot be separated"):
        PoincareSVC(margin="hard").fit(X, np.roll(y, 1))


def test_negative_weights_are_refused() -> None:
    X, y, _ = sample(0)
    with pytest.raises(InputError, match="negative"):
        PoincareSVC().fit(X, y, sample_weight=-np.ones(len(X)))


# --- scikit-learn's checks ----------------------------------------------------------------------------------


class AnywherePoincareSVC(PoincareSVC):
    """PoincareSVC behind a map of flat space into the ball, since the checks use points of any norm."""

    def _check_points(self, points: Floats) -> Floats:
        return super()._check_points(exp0(points / (10 + np.linalg.norm(points, axis=1, keepdims=True))))


def cannot_apply(estimator: Any) -> dict[str, str]:
    """Name the checks that contradict what a classifier is, with the reason."""
    if isinstance(estimator, EuclideanSVC):
        reason = "Platt's probability of one half need not lie on the hyperplane (one of 200 points, as in SVC)"
        return {"check_classifiers_train": reason}
    return {}


@parametrize_with_checks(
    [AnywherePoincareSVC(), AnywherePoincareSVC.published(C=1.0), EuclideanSVC()],
    expected_failed_checks=cannot_apply,
)
def test_estimator_checks(estimator: Any, check: Any) -> None:
    check(estimator)
