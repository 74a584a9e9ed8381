"""The plane in which classes differ most."""

from __future__ import annotations

import numpy as np

from fedgeom.geometry.discriminant import discriminant_plane


def test_the_directions_are_those_of_the_largest_ratios():
    P = discriminant_plane(np.eye(3), np.diag([1.0, 9.0, 4.0]), 1.0)
    np.testing.assert_allclose(P[0], 0, atol=1e-6)
    assert P[1, 0] > 0
    assert P[2, 1] > 0
    np.testing.assert_allclose(np.trace(P.T @ np.diag([2.0, 10.0, 5.0]) @ P), 1.0, rtol=1e-5)


def test_two_classes_have_a_second_direction_all_the_same():
    between = np.outer([1.0, 0, 0], [1.0, 0, 0])
    P = discriminant_plane(np.diag([1.0, 1.0, 5.0]), between, 2.0)
    np.testing.assert_allclose(np.abs(P[:, 1]) / np.abs(P[:, 1]).max(), [0, 0, 1], atol=1e-6)
