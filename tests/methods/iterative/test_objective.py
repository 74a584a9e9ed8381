"""Objectives: the gradient is that of the value, in trees and in vectors."""

from __future__ import annotations

import numpy as np
import pytest

from fedgeom.errors import InputError
from fedgeom.methods.iterative import Calibrated, CrossEntropy, Objective, Tree

rng = np.random.default_rng(0)
LINEAR, CENTRE, AT = (Tree(b=rng.normal(size=1), a=rng.normal(size=(3, 1))) for _ in range(3))
ALL = [
    Objective(),
    Objective(linear=LINEAR),
    Objective(strength=0.7),
    Objective(strength=0.7, centre=CENTRE),
    Objective(linear=LINEAR, strength=0.7, centre=CENTRE),
]


@pytest.mark.parametrize("objective", ALL)
def test_value_and_gradient_agree(objective):
    flat, w = objective.flat(), AT.flat()
    steps = 1e-6 * np.eye(4)
    slope = [(flat.value(w + step) - flat.value(w - step)) / 2e-6 for step in steps]
    assert flat.gradient(w) == pytest.approx(slope, abs=1e-7)
    assert objective.plain == (objective.linear is None and objective.strength == 0)


def test_by_hand():
    """⟨(1, 2), w⟩ + 3/2·‖w − (1, 1)‖² at (2, 4): 10 + 1.5·10, with the gradient (1, 2) + 3·(1, 3)."""
    flat = Objective(Tree(w=np.array([1.0, 2.0])), 3.0, Tree(w=np.ones(2))).flat()
    assert flat.value(np.array([2.0, 4.0])) == pytest.approx(25.0)
    assert flat.gradient(np.array([2.0, 4.0])) == pytest.approx([4.0, 11.0])


@pytest.mark.parametrize("objective", ALL)
def test_a_gradient_leaves_the_terms_as_they_are(objective):
    flat = objective.flat()
    before = None if flat.linear is None else flat.linear.copy()
    flat.gradient(AT.flat())
    assert before is None or (flat.linear == before).all()


def test_frozen_arrays_are_marked_and_learners_without_networks_take_terms_only():
    assert Objective().free(AT) is None
    assert Objective(frozen=("a",)).free(AT).tolist() == [0.0, 0.0, 0.0, 1.0]  # in the order of the names
    Objective(linear=LINEAR, frozen=("a",)).only_terms("logistic")
    with pytest.raises(InputError, match="for networks"):
        Objective(loss=Calibrated()).only_terms("logistic")
    Objective(row_weights=np.ones(3)).only_terms("logistic")
    assert Objective().chosen_loss == CrossEntropy()
