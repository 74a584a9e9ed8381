"""Directions at right angles."""

from __future__ import annotations

import pytest

from fedgeom.errors import InputError
from fedgeom.methods.iterative import Orthonormal
from tests.methods.iterative.torching import torch


def test_directions_stand_at_right_angles_and_follow_from_the_seed():
    D = Orthonormal(seed=3).build(6, 4).directions
    assert torch.allclose(D @ D.T, torch.eye(4), atol=1e-6)
    assert torch.equal(D, Orthonormal(seed=3).build(6, 4).directions)
    assert not torch.equal(D, Orthonormal(seed=4).build(6, 4).directions)


def test_there_are_no_more_right_angles_than_features():
    with pytest.raises(InputError, match="features=4 or more"):
        Orthonormal().build(3, 4)
