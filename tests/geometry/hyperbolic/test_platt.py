"""Platt scaling: the optimum, its limits, and its meaning of weights."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

from fedgeom.errors import InputError
from fedgeom.geometry.hyperbolic.svm import fit_sigmoid, sigmoid


def noisy_scores(seed: int, n: int = 200, scale: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    s = rng.normal(size=n)
    y = np.where(rng.random(n) < 1 / (1 + np.exp(-(2 * s + 0.5))), 1, -1)
    return scale * s, y


@pytest.mark.parametrize("seed", range(5))
def test_reaches_the_maximum_of_the_likelihood(seed: int) -> None:
    s, y = noisy_scores(seed)
    n_pos, n_neg = np.sum(y > 0), np.sum(y < 0)
    t = np.where(y > 0, (n_pos + 1) / (n_pos + 2), 1 / (n_neg + 2))

    def loss(ab: np.ndarray) -> float:
        p = 1 / (1 + np.exp(ab[0] * s + ab[1]))
        return float(-np.sum(t * np.log(p) + (1 - t) * np.log(1 - p)))

    best = minimize(loss, [0.0, 0.0], method="BFGS", options={"gtol": 1e-9})
    found = fit_sigmoid(s, y)
    assert loss(np.array(found)) <= best.fun + 1e-9
    np.testing.assert_allclose(found, best.x, rtol=1e-4, atol=1e-5)


def test_weights_are_copies_to_the_last_digits() -> None:
    """The loss is flat to half its digits around the optimum: judged by it alone, steps creep and stop short."""
    for seed in range(100):
        s, y = noisy_scores(seed, n=30)
        w = np.random.default_rng(seed).integers(0, 4, size=30)
        copies = fit_sigmoid(np.repeat(s, w), np.repeat(y, w))
        np.testing.assert_allclose(fit_sigmoid(s, y, weights=w), copies, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("scale", [1e-9, 1e-3, 1.0, 1e3, 1e9])
def test_the_unit_of_the_score_does_not_matter(scale: float) -> None:
    s, y = noisy_scores(0)
    expected = sigmoid(s, *fit_sigmoid(s, y))
    np.testing.assert_allclose(sigmoid(scale * s, *fit_sigmoid(scale * s, y)), expected, rtol=1e-6)


def test_probabilities_grow_with_the_score_and_stay_inside_on_separable_data() -> None:
    s = np.r_[np.linspace(-3, -1, 20), np.linspace(1, 3, 10)]
    a, b = fit_sigmoid(s, s)
    assert np.isfinite([a, b]).all()
    assert a < 0
    p = sigmoid(s, a, b)
    assert np.all(np.diff(p) > 0)
    # At the optimum the fitted probabilities have the mass and the mean score of the softened targets.
    wanted = np.where(s > 0, 11 / 12, 1 / 22)
    assert p.sum() == pytest.approx(wanted.sum(), rel=1e-6)
    assert s @ p == pytest.approx(s @ wanted, rel=1e-6)


def test_integer_weights_are_copies_and_zero_weights_are_absence() -> None:
    s, y = noisy_scores(3, n=40)
    w = np.random.default_rng(1).integers(0, 4, size=40)
    np.testing.assert_allclose(
        fit_sigmoid(s, y, weights=w), fit_sigmoid(np.repeat(s, w), np.repeat(y, w)), rtol=1e-6
    )


def test_equal_scores_give_the_smoothed_frequency() -> None:
    a, b = fit_sigmoid(np.zeros(10), np.r_[np.ones(3), -np.ones(7)])
    expected = (3 * 4 / 5 + 7 * 1 / 9) / 10
    assert sigmoid(0.0, a, b) == pytest.approx(expected, abs=1e-6)


def test_one_class_only_is_allowed() -> None:
    assert sigmoid([1.0], *fit_sigmoid([1.0, 2.0], [1, 1]))[0] == pytest.approx(3 / 4, abs=0.02)


def test_sigmoid_does_not_overflow() -> None:
    np.testing.assert_array_equal(sigmoid([1e308, -1e308], -1.0, 0.0), [1.0, 0.0])
    assert sigmoid([5.0], 0.0, np.inf)[0] == 0.0


@pytest.mark.parametrize(
    ("scores", "targets", "weights", "words"),
    [
        ([1.0, np.nan], [1, -1], None, "finite"),
        ([1.0, 2.0], [1], None, "one length"),
        ([[1.0]], [1], None, "one-dimensional"),
        ([1.0, 2.0], [1, -1], [1.0, -1.0], "negative"),
        ([1.0, 2.0], [1, -1], [0.0, 0.0], "positive weight"),
    ],
)
def test_refuses(scores: object, targets: object, weights: object, words: str) -> None:
    with pytest.raises(InputError, match=words):
        fit_sigmoid(scores, targets, weights=weights)  # type: ignore[arg-type]
