"""Logistic regression against finite differences, scikit-learn, and numbers that overflow."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from fedgeom.errors import InputError
from fedgeom.methods.iterative import Effort, Logistic, Objective, Tree


def drawn(classes: int, rows: int = 60, columns: int = 3, seed: int = 0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, columns))
    y = (X @ rng.normal(size=(columns, classes)) + rng.normal(size=(rows, classes))).argmax(axis=1)
    y[:classes] = np.arange(classes)
    return X, y


def anywhere(learner, columns, classes, seed=0) -> tuple[Tree, np.ndarray]:
    """The first model, and some other one as a vector."""
    start = learner.start(columns, classes, np.random.default_rng(0))
    return start, np.random.default_rng(seed).normal(size=start.size)


@pytest.mark.parametrize("classes", [2, 3, 5])
@pytest.mark.parametrize("C", [0.1, 10.0])
def test_gradient_is_that_of_the_loss(classes, C):
    learner, (X, y) = Logistic(C=C), drawn(classes)
    shape, w = anywhere(learner, 3, classes)
    slope = learner.gradient(shape.like(w), X, y).flat()
    for at, step in enumerate(1e-6 * np.eye(shape.size)):
        up, down = (learner.loss(shape.like(w + s), X, y) for s in (step, -step))
        assert slope[at] == pytest.approx((up - down) / 2e-6, abs=1e-7)


def test_loss_by_hand():
    learner = Logistic(C=0.5)
    parameters = Tree(intercept=np.array([0.5]), weights=np.array([[2.0]]))
    X, y = np.array([[1.0], [-1.0]]), np.array([1, 1])
    likelihood = np.log1p(np.exp(-2.5)) + np.log1p(np.exp(1.5))
    assert learner.nll(parameters, X, y) == pytest.approx(likelihood / 2)
    assert learner.loss(parameters, X, y) == pytest.approx(likelihood / 2 + 4 / (2 * 0.5 * 2))


@pytest.mark.parametrize("classes", [2, 3, 5])
@pytest.mark.parametrize("C", [0.05, 1.0, 50.0])
def test_exact_is_scikit_learns_optimum(classes, C):
    learner, (X, y) = Logistic(C=C), drawn(classes, rows=120)
    start = learner.start(3, classes, np.random.default_rng(0))
    found = learner.fit(start, X, y, effort=Effort(solver="exact"), rng=np.random.default_rng(0))
    theirs = LogisticRegression(C=C, tol=1e-12, max_iter=10_000).fit(X, y)
    assert np.allclose(found["weights"].T, theirs.coef_, atol=2e-4)
    assert learner.predict_proba(found, X) == pytest.approx(theirs.predict_proba(X), abs=2e-5)


def test_exact_with_an_objective_is_stationary():
    learner, (X, y) = Logistic(), drawn(3)
    shape, centre = anywhere(learner, 3, 3)
    middle = shape.like(centre)
    objective = Objective(linear=0.1 * middle, strength=0.3, centre=middle)
    start = learner.start(3, 3, np.random.default_rng(0))
    found = learner.fit(
        start, X, y, objective=objective, effort=Effort(solver="exact"), rng=np.random.default_rng(0)
    )
    slope = learner.gradient(found, X, y).flat() + objective.flat().gradient(found.flat())
    assert np.abs(slope).max() < 1e-5


@pytest.mark.parametrize("classes", [2, 4])
def test_nothing_overflows(classes):
    learner = Logistic()
    shape, w = anywhere(learner, 3, classes)
    X, y = 1e6 * drawn(classes)[0], drawn(classes)[1]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        parameters = shape.like(1e3 * w)
        assert np.isfinite(learner.loss(parameters, X, y))
        assert np.isfinite(learner.gradient(parameters, X, y).flat()).all()
        chances = learner.predict_proba(parameters, X)
    assert chances.sum(axis=1) == pytest.approx(np.ones(len(X)))


def test_minibatches_descend_the_whole_objective():
    """The mean of the steps over all batches of an epoch is the full step: so also for the penalty."""
    learner, (X, y) = Logistic(C=0.1), drawn(2, rows=40)
    shape, w = anywhere(learner, 3, 2)
    full = learner.gradient(shape.like(w), X, y).flat()
    total = np.zeros_like(w)
    for at in range(4):
        effort = Effort(steps=1, only=np.arange(10 * at, 10 * at + 10), learning_rate=1.0)
        moved = learner.fit(shape.like(w), X, y, effort=effort, rng=np.random.default_rng(0))
        total += (w - moved.flat()) / 4
    assert total == pytest.approx(full)


@pytest.mark.parametrize("C", [0.0, -1.0, float("nan"), float("inf")])
def test_penalty_must_make_sense(C):
    with pytest.raises(InputError, match="wanted a positive, finite number"):
        Logistic(C=C)


@pytest.mark.parametrize("solver", ["sgd", "exact"])
def test_single_precision_trains_like_double(solver):
    """What comes back has the dtype that went in; the steps are taken in double precision."""
    learner, (X, y) = Logistic(), drawn(3)
    start = learner.start(3, 3, np.random.default_rng(0))
    single = start.map(lambda leaf: leaf.astype(np.float32))
    effort = Effort(solver=solver, epochs=3, batch_size=10)
    expected, found = (
        learner.fit(begin, X, y, effort=effort, rng=np.random.default_rng(0)) for begin in (start, single)
    )
    assert single.same_dtypes(found)
    assert found.flat() == pytest.approx(expected.flat(), rel=1e-5, abs=1e-6)
    assert (found.flat() != 0).any()


def test_what_is_given_stays_as_it_is():
    learner, (X, y) = Logistic(), drawn(2)
    start = learner.start(3, 2, np.random.default_rng(0))
    learner.fit(start, X, y, rng=np.random.default_rng(0))
    assert not start.flat().any()


def test_one_column_of_weights_for_two_classes_one_each_for_more():
    shapes = [Logistic().start(3, classes, np.random.default_rng(0))["weights"].shape for classes in (2, 3, 5)]
    assert shapes == [(3, 1), (3, 3), (3, 5)]


@pytest.mark.parametrize("classes", [2, 4])
def test_row_weights_are_those_of_scikit_learn(classes):
    X, y = drawn(classes)
    weights = np.random.default_rng(1).uniform(0.1, 3, len(y))
    learner = Logistic(C=0.7)
    start, _ = anywhere(learner, 3, classes)
    exact = {"effort": Effort(solver="exact"), "rng": np.random.default_rng(0)}
    ours = learner.fit(start, X, y, objective=Objective(row_weights=weights), **exact)
    theirs = LogisticRegression(C=0.7, tol=1e-10, max_iter=5000).fit(X, y, sample_weight=weights)
    np.testing.assert_allclose(learner.predict_proba(ours, X), theirs.predict_proba(X), atol=1e-5)
    alike = learner.fit(start, X, y, objective=Objective(row_weights=np.ones(len(y))), **exact)
    np.testing.assert_array_equal(alike.flat(), learner.fit(start, X, y, **exact).flat())


def test_steps_of_weighted_rows_by_finite_differences():
    X, y = drawn(3)
    weights = np.random.default_rng(1).uniform(0, 2, len(y))
    learner = Logistic()
    start, w = anywhere(learner, 3, 3)
    at = start.like(w)
    one = Effort(steps=1, batch_size=None, learning_rate=1.0)
    moved = learner.fit(
        at, X, y, objective=Objective(row_weights=weights), effort=one, rng=np.random.default_rng(0)
    )
    slope = w - moved.flat()
    for place in range(len(w)):
        step = np.zeros_like(w)
        step[place] = 1e-6
        up, down = (learner._loss(start.like(w + sign * step), X, y, len(y), weights) for sign in (1, -1))
        assert slope[place] == pytest.approx((up - down) / 2e-6, abs=1e-6)
