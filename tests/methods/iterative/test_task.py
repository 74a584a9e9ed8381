"""A task: what an algorithm gets to work with at a site, by hand on bowls."""

from __future__ import annotations

import numpy as np
import pytest

from fedgeom.methods.iterative import Effort, Objective, Task, Tree
from tests.methods.iterative.making import Bowl

ROWS = np.array([[10.0, 1.0], [2.0, 1.0], [6.0, 1.0]])


def task(**effort) -> Task:
    chosen = Effort(**({"epochs": 1, "batch_size": None, "learning_rate": 0.5} | effort))
    return Task(Bowl(), ROWS, np.zeros(3, np.int64), chosen, np.random.default_rng(0), 2, Tree(w=np.zeros(1)))


def test_by_hand():
    here, start = task(), Tree(w=np.zeros(1))
    assert here.rows == 3
    assert here.gradient(start)["w"] == pytest.approx([-6.0])
    assert here.loss(start) == pytest.approx((100 + 4 + 36) / 6)
    assert here.fit(start)["w"] == pytest.approx([3.0])
    assert here.fit(start, Objective(linear=Tree(w=np.array([2.0]))))["w"] == pytest.approx([2.0])


def test_the_effort_can_be_changed_for_one_fit():
    here, start = task(), Tree(w=np.zeros(1))
    assert here.fit(start, steps=2)["w"] == pytest.approx([3.0 + 1.5])
    assert here.fit(start, learning_rate=0.1)["w"] == pytest.approx([0.6])
    assert here.fit(start)["w"] == pytest.approx([3.0])


def test_steps_are_those_of_one_fit():
    assert task().steps == 1
    assert task(batch_size=1, epochs=2).steps == 6
    assert task(steps=7).steps == 7


def test_a_part_has_some_of_the_rows():
    part = task().part(np.array([0, 2]))
    assert part.rows == 2
    assert part.gradient(Tree(w=np.zeros(1)))["w"] == pytest.approx([-8.0])


def test_a_bowl_tosses_a_coin():
    here = task()
    assert here.nll(Tree(w=np.zeros(1))) == pytest.approx(np.log(2))
    assert here.probabilities(Tree(w=np.zeros(1)), ROWS[:1]).tolist() == [[0.5, 0.5]]


def test_a_frozen_array_stays_and_classes_are_counted():
    here, start = task(), Tree(w=np.zeros(1))
    assert here.fit(start, frozen=("w",))["w"].tolist() == [0.0]
    assert here.fit(start, strength=1.0, learning_rate=0.25)["w"].tolist() == [1.5]
    assert here.counts.tolist() == [3, 0]
    assert here.features(start) is here.X


def test_rows_count_as_the_task_says_and_a_part_has_its_own_weights():
    start, weighed = Tree(w=np.zeros(1)), task()
    weighed.row_weights = np.array([2.0, 0.0, 0.0])
    assert weighed.fit(start)["w"] == pytest.approx([0.5 * 2 * ROWS[0, 0] / 3])
    assert weighed.part(np.array([1, 2])).row_weights.tolist() == [0.0, 0.0]
    assert weighed.fit(start, row_weights=np.ones(3))["w"] == pytest.approx(task().fit(start)["w"])
