"""Directions at right angles, or as far apart as can be."""

from __future__ import annotations

import math

import pytest

from fedgeom.methods.iterative import Orthonormal
from tests.methods.iterative.torching import torch


def test_directions_stand_at_right_angles_and_follow_from_the_seed():
    D = Orthonormal(seed=3).build(6, 4).directions
    assert torch.allclose(D @ D.T, torch.eye(4), atol=1e-6)
    assert torch.equal(D, Orthonormal(seed=3).build(6, 4).directions)
    assert not torch.equal(D, Orthonormal(seed=4).build(6, 4).directions)


@pytest.mark.parametrize(
    ("features", "classes", "largest"), [(3, 4, -1 / 3), (3, 5, 0.0), (2, 5, math.cos(2 * math.pi / 5))]
)
def test_more_directions_than_features_are_as_far_apart_as_can_be(features, classes, largest):
    """Tammes' optimum: a simplex, an octahedron less a corner, a regular pentagon."""
    D = Orthonormal(seed=3).build(features, classes).directions
    assert D.shape == (classes, features)
    cosines = D @ D.T
    assert torch.allclose(cosines.diagonal(), torch.ones(classes), atol=1e-6)
    assert float((cosines - 3 * torch.eye(classes)).max()) == pytest.approx(largest, abs=1e-6)
    assert not torch.allclose(D, Orthonormal(seed=4).build(features, classes).directions)
