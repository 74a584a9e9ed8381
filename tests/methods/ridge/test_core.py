"""The ridge's equations against scikit-learn, and λ and temperatures against direct computations."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import RidgeClassifier

from fedgeom.errors import InputError
from fedgeom.methods.ridge.core import (
    GRID,
    TEMPERATURES,
    System,
    best_temperature,
    calibration_nll,
    choose,
    class_weights,
    cuts,
    held_out,
    packed_gram,
    solve,
    starts,
)

CLASSES = 3


def problem(n: int = 300, width: int = 12) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    y = rng.integers(0, CLASSES, n)
    F = rng.normal(size=(n, width)) @ rng.normal(size=(width, width)) + 2
    return F + 2 * rng.normal(size=(CLASSES, width))[y], y


def parts_of(F: np.ndarray, y: np.ndarray, weights: np.ndarray | None = None, part: int = 60) -> tuple[list, list]:
    whole, at = packed_gram(lambda r: F[r], y, CLASSES, F.shape[1], weights), starts(F.shape[1], CLASSES)
    rows = cuts(F.shape[1], CLASSES, part)
    return [whole[at[a] : at[b]] for a, b in rows], rows


def scale(F: np.ndarray, w: np.ndarray) -> np.ndarray:
    return np.sqrt((w[:, None] * F**2).sum(axis=0) / w.sum())


@pytest.mark.parametrize("alpha", [1e-3, 1.0, 50.0])
@pytest.mark.parametrize("balanced", [False, True])
def test_the_solution_is_that_of_scikit_learn(alpha: float, balanced: bool) -> None:
    F, y = problem()
    weights = class_weights(np.bincount(y, minlength=CLASSES).astype(float)) if balanced else None
    found = solve(*parts_of(F, y, weights), F.shape[1], CLASSES, alpha)
    unit = scale(F, np.ones(len(F)) if weights is None else weights[y])
    theirs = RidgeClassifier(alpha=alpha, class_weight="balanced" if balanced else None).fit(F / unit, y)
    np.testing.assert_allclose(found.weights[1:] * unit[:, None], theirs.coef_.T, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(found.weights[0], theirs.intercept_, rtol=1e-8)


def smoother(F: np.ndarray, alpha: float) -> np.ndarray:
    Z = F / scale(F, np.ones(len(F)))
    Z = Z - Z.mean(axis=0)
    return np.full((len(F), len(F)), 1 / len(F)) + Z @ np.linalg.solve(Z.T @ Z + alpha * np.eye(F.shape[1]), Z.T)


def test_a_fit_is_remembered_and_the_last_one_may_write_over_the_equations() -> None:
    F, y = problem()
    kept, spent = (System.of(*parts_of(F, y), F.shape[1], CLASSES) for _ in range(2))
    before = kept.gram.copy()
    first = kept.fit(2.0)
    assert kept.fit(2.0) is first
    np.testing.assert_array_equal(kept.gram, before)
    assert not np.triu(before, 1).any()
    found, trace = spent.fit(2.0, last=True)
    np.testing.assert_array_equal(found, first[0])
    assert trace == first[1]


@pytest.mark.parametrize("alpha", [0.1, 30.0])
def test_freedom_and_gcv_are_those_of_the_smoother(alpha: float) -> None:
    F, y = problem()
    vectors, rows = parts_of(F, y)
    system, S, Y = System.of(vectors, rows, F.shape[1], CLASSES), smoother(F, alpha), 2 * np.eye(CLASSES)[y] - 1
    assert system.solution(alpha).freedom == pytest.approx(np.trace(S), rel=1e-9)
    wanted = len(F) * ((Y - S @ Y) ** 2).sum() / (len(F) - np.trace(S)) ** 2
    assert system.gcv(alpha) == pytest.approx(wanted, rel=1e-9)


def test_folds_are_scored_on_rows_that_were_left_out() -> None:
    F, y = problem()
    even = np.arange(len(F)) % 2 == 0
    whole = System.of(*parts_of(F, y), F.shape[1], CLASSES)
    folds = [System.of(*parts_of(F[own], y[own]), F.shape[1], CLASSES, whole.scale) for own in (even, ~even)]
    wanted = 0.0
    for own in (even, ~even):
        learnt = RidgeClassifier(alpha=2.0).fit(F[own] / whole.scale, y[own])
        scores = learnt.decision_function(F[~own] / whole.scale)
        wanted += ((2 * np.eye(CLASSES)[y[~own]] - 1 - scores) ** 2).sum()
    assert held_out(folds, 2.0) == pytest.approx(wanted, rel=1e-8)
    vectors = [v for own in (even, ~even) for v in parts_of(F[own], y[own])[0]]
    rows = parts_of(F, y)[1] * 2
    found = solve(vectors, rows, F.shape[1], CLASSES, "folds")
    assert found.alpha == choose(lambda one: held_out(folds, one))
    np.testing.assert_allclose(found.weights, whole.solution(found.alpha).weights, rtol=1e-7, atol=1e-9)


def test_the_lowest_score_of_the_grid_is_found_and_ties_go_to_the_larger_alpha() -> None:
    for place, best in enumerate(GRID):
        assert choose(lambda one, best=best: abs(np.log(one / best))) == best, place
    assert choose(lambda one: 1.0) == GRID[-1]
    with pytest.raises(InputError, match="no alpha fits"):
        choose(lambda one: np.inf)


def test_features_that_are_alike_need_some_alpha() -> None:
    F, y = problem(40, 3)
    doubled = np.hstack([F, F])
    vectors, rows = parts_of(doubled, y)
    assert System.of(vectors, rows, 6, CLASSES).gcv(0.0) == np.inf
    with pytest.raises(InputError, match="too much alike"):
        System.of(vectors, rows, 6, CLASSES).solution(0.0)
    assert np.isfinite(solve(vectors, rows, 6, CLASSES, "gcv").weights).all()


def test_a_feature_that_is_always_zero_gets_no_weight() -> None:
    F, y = problem(60, 4)
    F[:, 2] = 0
    found = solve(*parts_of(F, y), 4, CLASSES, 1.0)
    assert not found.weights[3].any()


def test_balanced_classes_count_the_same() -> None:
    counts = np.array([10.0, 30.0, 0.0])
    found = class_weights(counts)
    np.testing.assert_allclose(found * counts, [20, 20, 0])


def test_surprise_is_the_loss_of_scores_without_the_rows_own_pull() -> None:
    rng = np.random.default_rng(1)
    scores, codes = rng.normal(size=(50, CLASSES)), rng.integers(0, CLASSES, 50)
    found = calibration_nll(scores, codes, 10.0, 100.0)
    assert found.shape == (len(TEMPERATURES),)
    fresh = (scores - 0.1 * (2 * np.eye(CLASSES)[codes] - 1)) / 0.9
    for at in (0, 20, len(TEMPERATURES) - 1):
        logits = fresh / TEMPERATURES[at]
        top = logits.max(axis=1)
        loss = np.log(np.exp(logits - top[:, None]).sum(axis=1)) + top - logits[np.arange(50), codes]
        assert found[at] == pytest.approx(loss.sum(), rel=1e-9)


def test_surprise_of_groups_is_that_of_their_means() -> None:
    """By hand, for two classes: of sorted margins, groups of ten, and one row that is as wrong as the mean is right."""
    rng = np.random.default_rng(2)
    codes = rng.integers(0, 2, 47)
    margin = np.append(rng.normal(2.0, 0.4, 44), [-1.0, -3.0, 0.1])
    scores = np.where(codes[:, None] == [0, 1], margin[:, None] / 2, -margin[:, None] / 2)
    found = calibration_nll(scores, codes, 0.0, 94.0, least=10)
    ordered = np.sort(margin)
    groups = np.array([ordered[:10].mean(), ordered[10:20].mean(), ordered[20:30].mean(), ordered[30:].mean()])
    sizes = np.array([10, 10, 10, 17])
    for at in (10, 20, 42):
        t = TEMPERATURES[at]
        expected = sizes @ np.log1p(np.exp(-groups / t))
        expected += 47 / 94 * np.log1p(np.exp(margin.mean() / t))
        assert found[at] == pytest.approx(expected, rel=1e-9)


def test_no_row_is_surprising_by_itself() -> None:
    """Rows of a group may change as they like, while their mean stays; too few rows say nothing."""
    rng = np.random.default_rng(3)
    codes = rng.integers(0, CLASSES, 30)
    scores = rng.normal(size=(30, CLASSES))
    scores[np.arange(30), codes] += np.repeat([0.0, 20.0, 40.0], 10)
    found = calibration_nll(scores, codes, 3.0, 30.0, least=10)
    assert not np.allclose(found, calibration_nll(scores, codes, 3.0, 30.0))
    moved = scores.copy()
    moved[0, codes[0]] -= 0.4
    moved[1, codes[1]] += 0.4
    np.testing.assert_allclose(calibration_nll(moved, codes, 3.0, 30.0, least=10), found, rtol=1e-9)
    few = calibration_nll(scores[:9], codes[:9], 3.0, 30.0, least=10)
    assert not few.any()
    assert 0.2 < best_temperature(few) < 0.5
    assert best_temperature(found) == TEMPERATURES[int(np.argmin(found))]
