"""Logistic regression against finite differences, scikit-learn, and numbers that overflow."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from fedgeom.methods.iterative.vectors import Layout
from sklearn.linear_model import LogisticRegression

from fedgeom.errors import InputError
from fedgeom.methods.iterative import Effort, Logistic, Objective
from fedgeom.methods.iterative.learners import learner_named, register


def drawn(classes: int, rows: int = 60, columns: int = 3, seed: int = 0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, columns))
    y = (X @ rng.normal(size=(columns, classes)) + rng.normal(size=(rows, classes))).argmax(axis=1)
    y[:classes] = np.arange(classes)
    return X, y


def anywhere(learner, columns, classes, seed=0):
    start = learner.start(columns, classes, np.random.default_rng(0))
    layout = Layout.of(start)
    return layout, np.random.default_rng(seed).normal(size=layout.size)


@pytest.mark.parametrize("classes", [2, 3, 5])
@pytest.mark.parametrize("C", [0.1, 10.0])
def test_gradient_is_that_of_the_loss(classes, C):
    learner, (X, y) = Logistic(C=C), drawn(classes)
    layout, w = anywhere(learner, 3, classes)
    slope = layout.pack(learner.gradient(layout.unpack(w), X, y))
    for at, step in enumerate(1e-6 * np.eye(layout.size)):
        up, down = (learner.loss(layout.unpack(w + s), X, y) for s in (step, -step))
        assert slope[at] == pytest.approx((up - down) / 2e-6, abs=1e-7)


def test_loss_by_hand():
    learner = Logistic(C=0.5)
    parameters = {"intercept": np.array([0.5]), "weights": np.array([[2.0]])}
    X, y = np.array([[1.0], [-1.0]]), np.array([1, 1])
    likelihood = np.log1p(np.exp(-2.5)) + np.log1p(np.exp(1.5))
    assert learner.surprise(parameters, X, y) == pytest.approx(likelihood / 2)
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
    layout, centre = anywhere(learner, 3, 3)
    objective = Objective(linear=0.1 * centre, strength=0.3, centre=centre)
    start = learner.start(3, 3, np.random.default_rng(0))
    found = learner.fit(
        start, X, y, objective=objective, effort=Effort(solver="exact"), rng=np.random.default_rng(0)
    )
    slope = layout.pack(learner.gradient(found, X, y)) + objective.gradient(layout.pack(found))
    assert np.abs(slope).max() < 1e-5


@pytest.mark.parametrize("classes", [2, 4])
def test_nothing_overflows(classes):
    learner = Logistic()
    layout, w = anywhere(learner, 3, classes)
    X, y = 1e6 * drawn(classes)[0], drawn(classes)[1]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        parameters = layout.unpack(1e3 * w)
        assert np.isfinite(learner.loss(parameters, X, y))
        assert np.isfinite(layout.pack(learner.gradient(parameters, X, y))).all()
        chances = learner.predict_proba(parameters, X)
    assert chances.sum(axis=1) == pytest.approx(np.ones(len(X)))


def test_minibatches_descend_the_whole_objective():
    """The mean of the steps over all batches of an epoch is the full step: so also for the penalty."""
    learner, (X, y) = Logistic(C=0.1), drawn(2, rows=40)
    layout, w = anywhere(learner, 3, 2)
    full = layout.pack(learner.gradient(layout.unpack(w), X, y))
    total = np.zeros_like(w)
    for at in range(4):
        effort = Effort(steps=1, only=np.arange(10 * at, 10 * at + 10), rate=1.0)
        moved = learner.fit(layout.unpack(w), X, y, effort=effort, rng=np.random.default_rng(0))
        total += (w - layout.pack(moved)) / 4
    assert total == pytest.approx(full)


@pytest.mark.parametrize("C", [0.0, -1.0, float("nan"), float("inf")])
def test_penalty_must_make_sense(C):
    with pytest.raises(InputError, match="wanted a positive, finite number"):
        Logistic(C=C)


def test_names():
    assert isinstance(learner_named("logistic", C=2.0), Logistic)
    with pytest.raises(InputError, match="there is no learner 'forest' here; there are: logistic"):
        learner_named("forest")
    with pytest.raises(InputError, match="'logistic' is the name of a learner that comes with fedgeom"):
        register(Logistic())
