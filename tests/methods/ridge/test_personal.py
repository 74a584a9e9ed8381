"""A site's own ridge: against scikit-learn, row by row left out, and the choice among strengths."""

from __future__ import annotations

from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.linear_model import Ridge

from fedgeom.methods.ridge.personal import STRENGTHS, PersonalRidge, choose, evidence, left_over, own_ridge, signs


def site(rows: int, features: int, seed: int = 0) -> PersonalRidge:
    rng = np.random.default_rng(seed)
    return PersonalRidge(rng.standard_normal((rows, features)) + 1.0, rng.standard_normal((rows, 3)))


@pytest.mark.parametrize("shape", [(30, 4), (8, 20), (5, 5)])
@pytest.mark.parametrize("strength", [1.0, 31.6])
def test_weights_are_scikit_learns_ridge_of_what_is_left_over(shape: tuple[int, int], strength: float) -> None:
    own = site(*shape)
    theirs = Ridge(alpha=strength).fit(own.features, own.left)
    intercept, weights = own.weights(strength)
    np.testing.assert_allclose(weights, theirs.coef_.T, atol=1e-10)
    np.testing.assert_allclose(intercept, theirs.intercept_, atol=1e-10)


@pytest.mark.parametrize("shape", [(25, 4), (8, 20)])
def test_left_out_scores_are_those_of_a_fit_without_the_row(shape: tuple[int, int]) -> None:
    own = site(*shape)
    for row in range(3):
        others = np.arange(shape[0]) != row
        theirs = Ridge(alpha=3.0).fit(own.features[others], own.left[others])
        np.testing.assert_allclose(own.left_out(3.0)[row], theirs.predict(own.features[[row]])[0], atol=1e-9)


def test_an_infinite_strength_adds_nothing() -> None:
    own = site(6, 3)
    assert not own.left_out(np.inf).any()
    assert not any(part.any() for part in own.weights(np.inf))


def test_what_is_left_over_by_hand() -> None:
    # Score .5 for the row's class, leverage a half: without the row it would have been (.5 - .5)/.5 = 0.
    left = left_over(np.array([[0.5, -1.0]]), np.array([0]), 0.5)
    np.testing.assert_allclose(left, [[1.0, 0.0]])


def test_one_row_or_none_is_no_evidence() -> None:
    for rows in (0, 1):
        own = own_ridge(np.ones((rows, 2)), np.ones(2), np.zeros((rows, 2)), np.zeros(rows, np.int64), 0.1)
        assert not evidence(own, np.zeros(rows, np.int64)).any()
        assert own.weights(1.0)[1].shape == (2, 2)


def test_evidence_prefers_an_own_way_where_the_joint_model_is_wrong() -> None:
    rng = np.random.default_rng(1)
    codes = rng.integers(0, 2, 80)
    Z = rng.standard_normal((80, 3)) + 2 * signs(codes, 2)[:, :1]
    wrong = -signs(codes, 2)
    told = evidence(own_ridge(Z, np.ones(3), wrong, codes, 0.0), codes)
    assert told[-1] == 80
    assert told[-2] == 0  # the joint model errs everywhere
    assert told[0] > 75
    assert choose(told, told) == STRENGTHS[int(np.flatnonzero(told[:-1] == told[:-1].max())[-1])]


def test_a_small_site_follows_the_others_and_a_large_one_itself() -> None:
    blank = np.zeros(len(STRENGTHS) + 1)
    small, large, others = blank.copy(), blank.copy(), blank.copy()
    small[[0, -1]] = 4, 4
    large[[0, -1]] = 4000, 4000
    others[[-2, -1]] = 900, 1000
    assert choose(small, small + others) == np.inf
    assert choose(large, large + others) == STRENGTHS[0]
    assert choose(blank, blank) == np.inf  # nobody knows anything


@given(st.integers(0, 1000))
def test_rows_of_any_kind_give_finite_weights(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows, features = rng.integers(1, 9, 2)
    X = rng.integers(-1, 2, (rows, features)).astype(float)
    codes = rng.integers(0, 3, rows)
    own = own_ridge(X, np.ones(features), rng.standard_normal((rows, 3)), codes, 0.2)
    assert all(np.isfinite(part).all() for part in own.weights(1.0))
    assert np.isfinite(evidence(own, codes)).all()


def test_with_floors_rows_count_in_groups() -> None:
    """By hand: two groups of neighbours, each as a Gaussian of its mean and deviation; few rows say nothing."""
    rng = np.random.default_rng(4)
    codes = np.zeros(25, np.int64)
    margin = np.sort(rng.normal(1.0, 1.0, 25))
    scores = np.column_stack([margin / 2, -margin / 2])
    own = PersonalRidge(rng.standard_normal((25, 2)), signs(codes, 2) - scores)
    told = evidence(own, codes, 10)
    expected = sum(
        len(group) * (1 - NormalDist(float(group.mean()), float(group.std())).cdf(0.0))
        for group in (margin[:10], margin[10:])
    )
    assert told[-2] == pytest.approx(expected, abs=1e-9)  # the joint model
    assert told[-1] == 25
    assert evidence(own, codes)[-2] == (margin > 0).sum()
    assert not evidence(own, codes, 26).any()


def test_a_site_takes_off_what_it_added() -> None:
    exact = np.zeros(len(STRENGTHS) + 1)
    exact[[0, -1]] = 90, 100
    added = np.zeros(len(STRENGTHS) + 1)
    added[[3, -1]] = 100, 100
    assert choose(exact, added, added) == STRENGTHS[0]  # nobody else says anything
