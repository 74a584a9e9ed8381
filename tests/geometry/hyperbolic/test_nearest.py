"""The nearest corners are the least of all distances."""

from __future__ import annotations

import numpy as np
import pytest

from fedgeom.geometry.hyperbolic.poincare import distance, pairwise_sinh_half
from fedgeom.geometry.hyperbolic.reference import NearestCorners


@pytest.mark.parametrize(
    ("hulls", "most", "points", "d", "c"), [(1, 1, 1, 2, 1.0), (70, 9, 600, 2, 0.7), (5, 90, 3, 3, 1.0)]
)
def test_it_is_the_least_distance_to_a_corner_of_each_hull(
    hulls: int, most: int, points: int, d: int, c: float
) -> None:
    rng = np.random.default_rng(hulls)
    made = [rng.uniform(-0.5, 0.5, size=(int(rng.integers(1, most + 1)), d)) for _ in range(hulls)]
    X = rng.uniform(-0.5, 0.5, size=(points, d))
    wanted = np.column_stack([pairwise_sinh_half(X, hull, c=c).min(axis=1) for hull in made])
    assert np.allclose(NearestCorners(made, c=c)(X), wanted, rtol=1e-14, atol=0)


def test_two_points_and_a_hull_by_hand() -> None:
    hull = np.array([[0.5, 0.0], [0.0, 0.25], [-0.5, 0.0]])
    found = NearestCorners([hull])(np.array([[0.0, 0.0], [0.5, 0.0]]))
    assert np.allclose(2 * np.arcsinh(found[:, 0]), [distance([0, 0], [0, 0.25]), 0.0])
