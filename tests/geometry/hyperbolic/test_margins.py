"""The solvers: optima, limits, and data that cannot be separated."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.svm import LinearSVC

from fedgeom.errors import InputError
from fedgeom.geometry.hyperbolic import svm

Floats = NDArray[np.float64]


def objective(w: Floats, rows: Floats, signs: Floats, costs: Floats, power: int) -> float:
    return float(w @ w / 2 + costs @ np.maximum(0, 1 - signs * (rows @ w)) ** power)


@pytest.mark.parametrize("C", [1e-3, 0.1, 1.0, 100.0])
@pytest.mark.parametrize("d", [1, 2, 6])
def test_squared_hinge_agrees_with_linearsvc(C: float, d: int) -> None:
    rng = np.random.default_rng(d)
    rows = rng.normal(size=(150, d))
    signs = np.where(rows[:, 0] + 0.5 * rng.normal(size=150) > 0, 1.0, -1.0)
    w, _ = svm.squared_hinge(rows, signs, np.full(150, C))
    theirs = LinearSVC(C=C, fit_intercept=False, dual=False, tol=1e-12, max_iter=100_000).fit(rows, signs).coef_[0]
    np.testing.assert_allclose(w, theirs, rtol=1e-5, atol=1e-7)


def test_squared_hinge_reaches_the_optimum_where_liblinear_stops_early() -> None:
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(5000, 2))
    signs = np.where(rows @ [1.0, 0.3] > 0, 1.0, -1.0)
    costs = np.full(5000, 2e4)
    w, _ = svm.squared_hinge(rows, signs, costs)
    early = LinearSVC(C=2e4, fit_intercept=False, dual=False, max_iter=10_000).fit(rows, signs).coef_[0]
    reached = objective(w, rows, signs, costs, 2)
    assert reached <= objective(early, rows, signs, costs, 2)
    rng = np.random.default_rng(1)
    for _ in range(200):  # no point nearby is better
        assert reached <= objective(w * (1 + 1e-4 * rng.normal(size=2)), rows, signs, costs, 2)


def test_hinge_is_a_minimum() -> None:
    rng = np.random.default_rng(2)
    rows = rng.normal(size=(80, 2))
    signs = np.where(rows[:, 0] + 0.7 * rng.normal(size=80) > 0, 1.0, -1.0)
    costs = rng.random(80)
    w, _ = svm.hinge(rows, signs, costs, random_state=0)
    reached = objective(w, rows, signs, costs, 1)
    for _ in range(200):
        assert reached <= objective(w + 1e-2 * rng.normal(size=2), rows, signs, costs, 1) + 1e-6


@pytest.mark.parametrize("gap", [1e-1, 1e-3, 1e-5])
@pytest.mark.parametrize("d", [2, 4])
def test_hard_margin_is_the_limit_of_the_soft_one(gap: float, d: int) -> None:
    rng = np.random.default_rng(3)
    normal = np.eye(d)[0]
    rows = rng.normal(size=(400, d))
    signs = np.where(rows @ normal > 0, 1.0, -1.0)
    rows = rows + np.outer(signs, normal) * gap
    w, _ = svm.hard_margin(rows, signs)
    assert np.min(signs * (rows @ w)) == pytest.approx(1, abs=1e-9)
    soft, _ = svm.squared_hinge(rows, signs, np.full(400, 1e9))
    np.testing.assert_allclose(w / np.linalg.norm(w), soft / np.linalg.norm(soft), atol=1e-3)
    assert np.linalg.norm(w) >= np.linalg.norm(soft) * (1 - 1e-9)


def test_hard_margin_says_when_there_is_none() -> None:
    rows = np.array([[1.0, 0.0], [0.5, 0.1], [-1.0, 0.0], [2.0, 0.0]])
    with pytest.raises(InputError, match="cannot be separated"):
        svm.hard_margin(rows, np.array([1.0, 1.0, -1.0, -1.0]))
    with pytest.raises(InputError, match="coincide"):
        svm.hard_margin(np.zeros((2, 2)), np.array([1.0, -1.0]))
