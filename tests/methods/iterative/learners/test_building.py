"""From names and options to learners."""

from __future__ import annotations

from fedgeom.methods.iterative import Logistic
from fedgeom.methods.iterative.learners.torch_module import built_learner


def test_logistic_regression_gets_its_penalty_and_others_are_found_by_name():
    found = built_learner("logistic", {"C": 0.25})
    assert isinstance(found, Logistic)
    assert found.C == 0.25
    assert built_learner("logistic", {"C": 0.25}) is found
    assert built_learner("logistic", {}).C == 1.0
