"""What every learner has by default, on bowls, and how learners are found by name."""

from __future__ import annotations

import numpy as np
import pytest

from fedgeom.errors import InputError
from fedgeom.methods.iterative import Effort, Learner, Logistic, Objective, Tree, register
from fedgeom.methods.iterative.learners import LEARNERS, learner_named
from tests.methods.iterative.making import Bowl

ROWS = np.array([[10.0, 1.0], [2.0, 1.0]])
Y = np.zeros(2, np.int64)


def fit(start: Tree, objective=None, **effort) -> Tree:
    chosen = Effort(**({"epochs": 1, "batch_size": None, "learning_rate": 0.5} | effort))
    return Bowl().fit(
        start, ROWS, Y, objective=objective or Objective(), effort=chosen, rng=np.random.default_rng(0)
    )


def test_steps_by_hand():
    start = Tree(w=np.zeros(1))
    assert fit(start)["w"] == pytest.approx([3.0])
    assert fit(start, steps=2)["w"] == pytest.approx([3 + 0.5 * 3])
    # −6 + ⟨1⟩ + 2·(0 − 4) = −13.
    terms = Objective(Tree(w=np.ones(1)), 2.0, Tree(w=np.array([4.0])))
    assert fit(start, terms)["w"] == pytest.approx([6.5])
    assert start["w"].tolist() == [0.0]


def test_batches_are_drawn_from_the_generator():
    first, again = (fit(Tree(w=np.zeros(1)), batch_size=1)["w"][0] for _ in range(2))
    assert first == again
    # 10 then 2: 5, then 5 + 0.5·(2 − 5) = 3.5; 2 then 10: 1, then 5.5.
    assert first in (pytest.approx(3.5), pytest.approx(5.5))


def test_the_dtype_stays():
    found = fit(Tree(w=np.zeros(1, np.float32)), steps=3)
    assert found["w"].dtype == np.float32
    assert found["w"] == pytest.approx([6 * (1 - 0.5**3)])


def test_no_exact_solver_where_nothing_is_said():
    with pytest.raises(InputError, match='learner \'bowl\' knows no solver "exact"; use solver="sgd"'):
        fit(Tree(w=np.zeros(1)), solver="exact")


def test_nll_is_that_of_the_probabilities():
    class Sure(Bowl):
        name = "test-sure"

        def predict_proba(self, parameters, X):
            return np.tile([0.8, 0.2], (len(X), 1))

    assert Sure().nll(Tree(), ROWS, np.array([0, 1])) == pytest.approx(-(np.log(0.8) + np.log(0.2)) / 2)

    class Wrong(Bowl):
        name = "test-wrong-and-sure"

        def predict_proba(self, parameters, X):
            return np.tile([1.0, 0.0], (len(X), 1))

    assert np.isfinite(Wrong().nll(Tree(), ROWS, np.array([1, 1])))


def test_no_statistics_no_head_nothing_to_bind_where_nothing_is_said():
    assert Bowl().statistics == Bowl().head == ()
    Bowl().bind(2, 2)


def test_names(monkeypatch):
    monkeypatch.setattr(LEARNERS, "_known", dict(LEARNERS._known))
    assert isinstance(learner_named("logistic"), Logistic)
    with pytest.raises(InputError, match=r"learner='forest' is unknown; there are: logistic"):
        learner_named("forest")

    class Other(Bowl):
        name = "logistic"

    with pytest.raises(
        InputError, match=r"there is a learner 'logistic' already \(.*:Logistic\); choose another name"
    ):
        register(Other())
    assert isinstance(learner_named("logistic"), Logistic)

    class New(Bowl):
        name = "test-new"

    new = register(New())
    assert isinstance(new, Learner)
    assert learner_named("test-new") is new
    newer = register(New())  # the cell of a notebook, run again
    assert learner_named("test-new") is newer


def test_a_learner_that_knows_only_the_mean_weighs_rows_one_by_one():
    """−(10 − 0)·3/2 − (2 − 0)·1/2 = −16 over two rows that count 3 and 1."""
    weighed = fit(Tree(w=np.zeros(1)), Objective(row_weights=np.array([3.0, 1.0])))
    assert weighed["w"] == pytest.approx([0.5 * 16])
    alike = fit(Tree(w=np.zeros(1)), Objective(row_weights=np.ones(2)))
    assert alike["w"] == pytest.approx(fit(Tree(w=np.zeros(1)))["w"])
    assert fit(Tree(w=np.zeros(1)), Objective(row_weights=np.zeros(2)))["w"].tolist() == [0.0]
