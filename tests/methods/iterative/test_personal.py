"""Personal parts: the mixture is chosen on rows that the local model did not see, and without a penalty."""

from __future__ import annotations

import numpy as np
import pytest

import fedgeom
from fedgeom.methods.iterative import Effort, Logistic, Task
from fedgeom.methods.iterative.personal import best_mix, folds, personal_model
from fedgeom.methods.iterative.vectors import Layout


def task(X, y, *, C=1.0, solver="exact"):
    learner = Logistic(C=C)
    start = learner.start(X.shape[1], 2, np.random.default_rng(0))
    layout = Layout.of(start)
    rng = np.random.default_rng(0)
    return Task(learner, layout, X, y, Effort(solver=solver), rng, 2, layout.pack(start))


def drawn(rows, seed=0, flip=0.0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, 3))
    y = (X[:, 0] - X[:, 1] + 0.5 * rng.normal(size=rows) > 0).astype(np.int64)
    return X, np.where(rng.random(rows) < flip, 1 - y, y)


def test_folds_share_out_every_class():
    y = np.array([0] * 9 + [1] * 5)
    parts = folds(y, np.random.default_rng(0))
    assert sorted(np.concatenate(parts).tolist()) == list(range(14))
    assert all(2 <= (y[part] == 0).sum() <= 3 and 1 <= (y[part] == 1).sum() <= 2 for part in parts)


def test_a_good_joint_model_and_few_odd_rows_mix_little_a_bad_one_much():
    good = np.array([0.0, 2.0, -2.0, 0.0])  # intercept, weights
    few = task(*drawn(12, flip=0.4, seed=3), C=100.0)
    many = task(*drawn(300))
    assert best_mix(few, good) <= 0.3
    assert best_mix(many, -good) >= 0.9


def test_the_penalty_does_not_choose_the_mixture():
    """A strong penalty shrinks the local model. Rows that were set aside must judge by likelihood alone."""
    X, y = drawn(200)
    joint = np.array([0.0, 2.0, -2.0, 0.0])
    here = task(X, y, C=1e-3)  # the local model is nearly 0 = knows nothing
    assert best_mix(here, joint) <= 0.2


def test_ways():
    X, y = drawn(40)
    joint = np.array([0.1, 0.2, 0.3, 0.4])
    assert personal_model("none", task(X, y), joint, mix=None) is joint
    tuned = personal_model("finetuned", task(X, y), joint, mix=None)
    assert tuned == pytest.approx(task(X, y).fit(joint))
    mixed = personal_model("interpolated", task(X, y), joint, mix=0.25)
    assert mixed == pytest.approx(0.75 * joint + 0.25 * tuned)


def test_tiny_sites():
    assert 0 <= best_mix(task(*drawn(1)), np.zeros(4)) <= 1
    assert 0 <= best_mix(task(*drawn(3)), np.zeros(4)) <= 1


def test_a_personal_model_is_the_sites_own():
    sites = [fedgeom.SiteData(f"s{at}", *drawn(40, seed=at)) for at in range(3)]
    run = fedgeom.run(fedgeom.methods.iterative.Interpolated(rounds=2), sites)
    own = {name: run.model.at(run.local[name]).parameters["weights"] for name in run.local}
    assert (own["s0"] != own["s1"]).any()
