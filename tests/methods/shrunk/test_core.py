"""The local halves: the profiled loss, personal optima, and ranks."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from fedgeom.methods.shrunk.core import (
    TAU,
    Terms,
    intercept,
    personal,
    profile,
    rank_quality,
    site_terms,
    terms_length,
    told_apart,
)
from tests.methods.shrunk.making import outcomes


def test_one_site_is_scikit_learns_ridge() -> None:
    X, y = outcomes()
    w, b = personal(X, y, np.zeros(3), 2.0)
    known = LogisticRegression(C=0.5, tol=1e-10, max_iter=1000).fit(X, y)
    assert w == pytest.approx(known.coef_[0], abs=2e-3)  # ours has a trace of a penalty on the intercept
    assert b == pytest.approx(float(known.intercept_[0]), abs=2e-3)


def test_the_gradient_and_hessian_of_the_profile() -> None:
    X, y = outcomes()
    w, step = np.array([0.3, -0.2, 0.1]), 1e-5
    _, gradient, hessian = profile(X, y, w)
    for at in range(3):
        unit = np.eye(3)[at] * step
        up, down = profile(X, y, w + unit), profile(X, y, w - unit)
        assert gradient[at] == pytest.approx((up[0] - down[0]) / (2 * step), rel=1e-6)
        assert hessian[at] == pytest.approx((up[1] - down[1]) / (2 * step), rel=1e-5)


@pytest.mark.parametrize("outcome", [0, 1])
def test_a_site_with_one_class_has_a_finite_intercept(outcome: int) -> None:
    X = np.ones((5, 1))
    b = intercept(X, np.full(5, outcome), np.zeros(1))
    assert np.isfinite(b)
    assert 5 * (1 / (1 + np.exp(-b)) - outcome) + TAU * b == pytest.approx(0, abs=1e-7)


def test_strength_goes_from_local_to_joint() -> None:
    X, y = outcomes()
    centre = np.array([5.0, 5.0, 5.0])
    gaps = [np.linalg.norm(personal(X, y, centre, s)[0] - centre) for s in (0.1, 1.0, 10.0, 1e3, np.inf)]
    assert gaps == sorted(gaps, reverse=True)
    assert gaps[-1] == 0
    assert personal(X, y, centre, 1e-6)[0] == pytest.approx(personal(X, y, np.zeros(3), 1e-6)[0], abs=1e-3)


@pytest.mark.parametrize("seed", range(3))
def test_rank_quality_is_the_auc(seed: int) -> None:
    rng = np.random.default_rng(seed)
    y, scores = rng.integers(0, 2, 40), np.round(rng.normal(size=40), 1)
    assert rank_quality(y, scores) == pytest.approx(roc_auc_score(y, scores))
    assert rank_quality(np.zeros(4, np.int64), scores[:4]) == 0.5


@pytest.mark.parametrize("seed", range(3))
def test_terms_are_written_and_read_back(seed: int) -> None:
    rng = np.random.default_rng(seed)
    half = rng.normal(size=(2, 4, 3, 3))
    terms = Terms(rng.normal(size=(2, 4)), rng.normal(size=(2, 4, 3)), half + half.transpose(0, 1, 3, 2))
    flat = terms.flat()
    assert len(flat) == terms_length((2, 4), 3) == 8 * (1 + 3 + 6)
    again = Terms.read(flat, (2, 4), 3)
    np.testing.assert_array_equal(again.values, terms.values)
    np.testing.assert_array_equal(again.gradients, terms.gradients)
    np.testing.assert_array_equal(again.hessians, terms.hessians)


def test_a_sites_terms_leave_out_a_fold_each_and_in_the_end_none() -> None:
    X, y = outcomes()
    fold, w = np.arange(len(y)) % 2, np.array([0.3, -0.2, 0.1])
    found = site_terms(X, y[None], fold, np.broadcast_to(w, (1, 3, 3)))
    for f, kept in enumerate([fold != 0, fold != 1, fold >= 0]):
        value, gradient, hessian = profile(X[kept], y[kept], w)
        assert found.values[0, f] == value
        np.testing.assert_array_equal(found.gradients[0, f], gradient)
        np.testing.assert_array_equal(found.hessians[0, f], hessian)


def test_more_than_two_classes_are_told_apart_one_after_the_other() -> None:
    rng = np.random.default_rng(0)
    X, y, fold = rng.normal(size=(30, 2)), rng.integers(0, 3, 30), np.arange(30) % 2
    assert told_apart(y % 2, 2).tolist() == [(y % 2).tolist()]
    told, directions = told_apart(y, 3), rng.normal(size=(6, 3, 2))
    assert told.sum(axis=0).tolist() == [1] * 30
    together = site_terms(X, told, fold, directions)
    for c in range(3):
        alone = site_terms(X, told[c : c + 1], fold, directions[2 * c : 2 * c + 2])
        np.testing.assert_array_equal(together.values[2 * c : 2 * c + 2], alone.values)
        np.testing.assert_array_equal(together.hessians[2 * c : 2 * c + 2], alone.hessians)
