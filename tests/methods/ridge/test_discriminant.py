"""Discriminants from a ridge, beside scikit-learn's discriminant analysis."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

import fedgeom
from fedgeom.errors import InputError
from fedgeom.methods.ridge.core import LEAST_LOG, cuts, packed_gram, solve, starts, turn, turn_of, turned
from fedgeom.methods.ridge.features import Fourier
from fedgeom.testing import Check, parametrize_with_checks
from tests.methods.ridge.making import blobs, pooled


def sums(part: int = 10**6):
    """Return rows, classes of very different sizes, the parts of the sums and which rows they have."""
    rng = np.random.default_rng(0)
    codes = rng.choice(4, 400, p=[0.6, 0.25, 0.1, 0.05])
    X = rng.normal(size=(400, 6)) + 1.5 * rng.normal(size=(4, 6))[codes]
    whole, at = packed_gram(lambda some: X[some], codes, 4, 6), starts(6, 4)
    parts = cuts(6, 4, part)
    return X, codes, [whole[at[first] : at[last]] for first, last in parts], parts


@pytest.mark.parametrize("part", [20, 10**6])
def test_without_penalty_or_correction_they_are_scikit_learns(part: int) -> None:
    X, codes, vectors, parts = sums(part)
    found = solve(vectors, parts, 6, 4, 1e-8)
    weights = turned(found.weights, turn_of(vectors, parts, found.weights, 0.0))
    theirs = LinearDiscriminantAnalysis(solver="lsqr").fit(X, codes)
    ours, wanted = X @ weights[1:] + weights[0], theirs.decision_function(X)
    np.testing.assert_allclose(ours - ours[:, :1], wanted - wanted[:, :1], rtol=1e-6, atol=1e-6)


def test_with_a_penalty_they_are_those_of_the_penalised_covariance() -> None:
    X, codes, vectors, parts = sums()
    found = solve(vectors, parts, 6, 4, 30.0)
    weights = turned(found.weights, turn_of(vectors, parts, found.weights, 0.0))
    means, share = np.array([X[codes == k].mean(axis=0) for k in range(4)]), np.bincount(codes) / len(codes)
    within = np.cov((X - means[codes]).T, bias=True) + 30.0 / len(X) * np.diag((X**2).mean(axis=0))
    V = np.linalg.solve(within, means.T)
    wanted = X @ V - 0.5 * np.einsum("kd,dk->k", means, V) + np.log(share)
    ours = X @ weights[1:] + weights[0]
    np.testing.assert_allclose(ours - ours[:, :1], wanted - wanted[:, :1], rtol=1e-7, atol=1e-7)


def test_a_class_that_no_row_has_is_never_the_answer() -> None:
    scores, sizes = np.array([[40.0, -40.0, -60.0], [-20.0, 20.0, -30.0], [0, 0, 0]]), np.array([60.0, 30.0, 0.0])
    by = turn(scores, sizes, 2.0)
    assert by[0, 2] == LEAST_LOG
    assert not by[1:, 2].any()
    assert np.isfinite(by).all()


def test_rows_that_were_learnt_from_are_not_taken_at_their_word() -> None:
    """With more degrees of freedom, classes are farther apart than new rows will be: discriminants are less sure."""
    _, _, vectors, parts = sums()
    found = solve(vectors, parts, 6, 4, 1.0)
    sure, wary = (turn_of(vectors, parts, found.weights, freedom)[1:] for freedom in (0.0, 100.0))
    assert np.abs(np.diag(wary)).max() < np.abs(np.diag(sure)).max()


DISCRIMINANT = fedgeom.Ridge(features=Fourier(n_components=30, scale="joint"), rule="discriminant")


@pytest.mark.full
@parametrize_with_checks({"discriminant": DISCRIMINANT}, lambda: blobs(classes=2))
def test_a_run_yields_them_and_keeps_the_contract(check: Check) -> None:
    check()


def test_a_class_between_two_others_is_seen() -> None:
    rng = np.random.default_rng(1)
    y = rng.integers(0, 3, 900)
    X = np.column_stack([3.0 * y + rng.normal(size=900), rng.normal(size=900)])
    sites = fedgeom.split(X, np.array(["low", "middle", "high"])[y], n_sites=3)
    right = {
        rule: fedgeom.run(fedgeom.Ridge(features="linear", rule=rule), sites).model.score(*pooled(sites))  # type: ignore[arg-type]
        for rule in ("ridge", "discriminant")
    }
    assert right["ridge"] < 0.75
    assert right["discriminant"] > 0.88


def test_personal_models_are_around_ridges_only() -> None:
    with pytest.raises(InputError, match='wanted rule="ridge"'):
        fedgeom.Ridge(rule="discriminant", personal=True)
