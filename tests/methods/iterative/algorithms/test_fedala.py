"""FedALA: weights between the own and the joint model, by hand on bowls, and at both ends."""

from __future__ import annotations

import numpy as np
import pytest

from fedgeom import FedALA, FedAvg
from fedgeom.errors import InputError
from fedgeom.methods.iterative import Tree
from tests.methods.iterative.algorithms.against_papers import PLAIN, SITES, bowl_task, one
from tests.methods.iterative.making import own, whole


def test_by_hand():
    # The own model 4, the joint one 2, the site's lowest point 3: v + (w − v)·W = 4 − 2W, and the slope at it is
    # (4 − 2W) − 3. From W = 1, η = 0.1: slope −1, W ← 1 − 0.1·(−1)·(−2) = 0.8; slope −0.6, W ← 0.8 − 0.12 = 0.68.
    kept = Tree(personal=one(4.0))
    rule = FedALA(weight_learning_rate=0.1, weight_steps=2)
    found = rule.personalise(bowl_task((3, 1)), Tree(model=one(2.0)), kept)
    assert kept["weights"]["w"] == pytest.approx([0.68])
    assert found["w"] == pytest.approx([4 - 2 * 0.68])
    # And on from there: slope (4 − 1.36) − 3 = −0.36, W ← 0.68 − 0.072.
    FedALA(weight_learning_rate=0.1, weight_steps=1).personalise(bowl_task((3, 1)), Tree(model=one(2.0)), kept)
    assert kept["weights"]["w"] == pytest.approx([0.608])


def test_weights_stay_between_the_own_and_the_joint_model():
    for lowest, wanted in ((100.0, 4.0), (-100.0, 2.0)):
        kept = Tree(personal=one(4.0), weights=one(0.5))
        found = FedALA().personalise(bowl_task((lowest, 1)), Tree(model=one(2.0)), kept)
        assert found["w"] == pytest.approx([wanted])


def test_a_site_without_a_model_of_its_own_takes_the_joint_one():
    assert FedALA().personalise(bowl_task((3, 1)), Tree(model=one(2.0)), Tree())["w"] == [2.0]
    once, other = (kind(**(PLAIN | {"n_rounds": 1})).plain(SITES).model for kind in (FedALA, FedAvg))
    assert np.array_equal(whole(once), whole(other))


def test_weights_that_hardly_move_are_fedavg_and_those_of_the_head_leave_the_rest_alone():
    still = FedALA(weight_learning_rate=1e-12, **PLAIN).plain(SITES)
    assert whole(still.model) == pytest.approx(whole(FedAvg(**PLAIN).plain(SITES).model), abs=1e-6)
    head = FedALA(mixed="head", weight_learning_rate=50.0, **PLAIN).plain(SITES)
    joint = head.model.parameters
    for site in SITES:
        mine = head.model.for_site(head.local[site.name]).parameters
        assert np.array_equal(mine["weights"], joint["weights"])
    assert any(own(head, site.name)[0] != whole(head.model)[0] for site in SITES)
    with pytest.raises(InputError, match="names no head"):
        FedALA(mixed="head", learner="bowl")
