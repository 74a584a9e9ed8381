"""Interpolation: from the joint model to the local one."""

from __future__ import annotations

import pytest

from fedgeom import FedAvg, Interpolated
from fedgeom.methods.iterative import Interpolation
from tests.methods.iterative.algorithms.against_papers import SITES, same
from tests.methods.iterative.making import own, whole


def test_from_joint_to_local():
    joint, tuned = FedAvg().plain(SITES), FedAvg(personal="finetuned").plain(SITES)
    none, half, full = (Interpolated(personal=Interpolation(mix)).plain(SITES) for mix in (0.0, 0.5, 1.0))
    for site in SITES:
        same(own(none, site.name), whole(joint.model))
        same(own(full, site.name), own(tuned, site.name))
        middle = (whole(joint.model) + own(tuned, site.name)) / 2
        assert own(half, site.name) == pytest.approx(middle)
    same(whole(none.model), whole(joint.model))


def test_it_is_fedavg_with_a_personal_part():
    one, other = Interpolated().plain(SITES), FedAvg(personal="interpolated").plain(SITES)
    for site in SITES:
        assert (own(one, site.name) == own(other, site.name)).all()
    assert Interpolated().terms()["personal"] == {"name": "interpolated", "mix": None}
