"""Personal parts: the mixture is chosen on rows that the local model did not see, and without a penalty."""

from __future__ import annotations

import numpy as np
import pytest

import fedgeom
from fedgeom import FedAvg, Interpolated
from fedgeom.errors import InputError
from fedgeom.methods.iterative import Effort, FineTuned, Interpolation, Logistic, Personal, Task, Tree
from fedgeom.methods.iterative.personal import NotPersonal, best_mix, folds
from tests.methods.iterative.making import own


def task(X, y, *, C=1.0, solver="exact", rate=0.1):
    learner = Logistic(C=C)
    first = learner.start(X.shape[1], 2, np.random.default_rng(0))
    return Task(learner, X, y, Effort(solver=solver, learning_rate=rate), np.random.default_rng(0), 2, first)


def model(*numbers) -> Tree:
    """Intercept and weights."""
    return Tree(intercept=np.array(numbers[:1]), weights=np.array(numbers[1:])[:, None])


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
    good = model(0.0, 2.0, -2.0, 0.0)
    few = task(*drawn(12, flip=0.4, seed=3), C=100.0)
    many = task(*drawn(300))
    assert best_mix(few, good) <= 0.3
    assert best_mix(many, -good) >= 0.9


def test_the_penalty_does_not_choose_the_mixture():
    """A strong penalty shrinks the local model. Rows that were set aside must judge by likelihood alone."""
    X, y = drawn(200)
    here = task(X, y, C=1e-3)  # the local model is nearly 0 = knows nothing
    assert best_mix(here, model(0.0, 2.0, -2.0, 0.0)) <= 0.2


def test_what_each_makes_of_the_joint_model():
    X, y = drawn(40)
    joint = model(0.1, 0.2, 0.3, 0.4)
    assert NotPersonal().model(task(X, y), joint) is joint
    tuned = FineTuned().model(task(X, y), joint)
    assert tuned.flat() == pytest.approx(task(X, y).fit(joint).flat())
    assert (tuned.flat() != joint.flat()).any()
    mixed = Interpolation(0.25).model(task(X, y), joint)
    assert mixed.flat() == pytest.approx(0.75 * joint.flat() + 0.25 * tuned.flat())
    chosen = Interpolation().model(task(X, y), joint)
    a = best_mix_after_a_fit(task(X, y), joint)
    assert chosen.flat() == pytest.approx(((1 - a) * joint + a * tuned).flat())


def best_mix_after_a_fit(here: Task, joint: Tree) -> float:
    """The local model is fitted first, and draws first."""
    here.fit(joint)
    return best_mix(here, joint)


@pytest.mark.parametrize("personal", [NotPersonal(), FineTuned(), Interpolation(), Interpolation(0.5)])
def test_a_site_without_rows_keeps_the_joint_model(personal):
    joint = model(0.1, 0.2, 0.3, 0.4)
    empty = task(np.empty((0, 3)), np.empty(0, np.int64))
    assert (personal.model(empty, joint).flat() == joint.flat()).all()


def test_tiny_sites():
    assert 0 <= best_mix(task(*drawn(1)), model(0, 0, 0, 0)) <= 1
    assert 0 <= best_mix(task(*drawn(3)), model(0, 0, 0, 0)) <= 1


def test_a_personal_model_is_the_sites_own():
    sites = [fedgeom.SiteData(f"s{at}", *drawn(40, seed=at)) for at in range(3)]
    run = fedgeom.run(Interpolated(n_rounds=2), sites)
    assert (own(run, "s0") != own(run, "s1")).any()


@pytest.mark.parametrize(
    ("given", "same", "plain"),
    [
        ("none", NotPersonal(), "none"),
        ("finetuned", FineTuned(), {"name": "finetuned", "steps": None, "learning_rate": None}),
        ("interpolated", Interpolation(), {"name": "interpolated", "mix": None}),
        ({"name": "interpolated", "mix": 0.5}, Interpolation(0.5), {"name": "interpolated", "mix": 0.5}),
    ],
)
def test_an_object_a_name_and_a_table_are_the_same(given, same, plain):
    assert FedAvg(personal=given) == FedAvg(personal=same)
    assert FedAvg(personal=given).terms()["personal"] == plain
    assert Personal.read(plain, "personal") == same


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("yes", "personal='yes' is unknown; there are: none, finetuned, interpolated"),
        ({"name": "interpolated", "mix": 2.0}, "mix=2.0 given; wanted a number from 0 to 1 or None"),
        ({"name": "finetuned", "mix": 0.5}, "personal: 'finetuned' has no setting 'mix'; it has steps"),
        (True, r"personal=True given; wanted a name \(none, finetuned, interpolated\)"),
    ],
)
def test_refusals(given, message):
    with pytest.raises(InputError, match=message):
        FedAvg(personal=given)


def test_fine_tuning_can_be_a_few_steps():
    X, y = drawn(40)
    joint = model(0.1, 0.2, 0.3, 0.4)
    few = FineTuned(steps=2).model(task(X, y, solver="sgd"), joint)
    np.testing.assert_array_equal(few.flat(), task(X, y, solver="sgd").fit(joint, steps=2).flat())
    assert np.abs(few.flat() - FineTuned().model(task(X, y, solver="sgd"), joint).flat()).max() > 0
    with pytest.raises(InputError, match="steps"):
        FineTuned(steps=0)


def test_fine_tuning_can_have_a_rate_of_its_own():
    X, y = drawn(40)
    joint = model(0.1, 0.2, 0.3, 0.4)
    slow = FineTuned(steps=2, learning_rate=0.01).model(task(X, y, solver="sgd"), joint)
    np.testing.assert_array_equal(slow.flat(), task(X, y, solver="sgd", rate=0.01).fit(joint, steps=2).flat())
    with pytest.raises(InputError, match="rate"):
        FineTuned(learning_rate=0.0)
