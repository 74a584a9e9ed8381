"""Euclidean hulls as the hyperbolic ones need them: minimal, and exact about degenerate input."""

from __future__ import annotations

import numpy as np
import pytest

from fedgeom.geometry.hyperbolic.hull import hull_indices, to_klein_unit


def test_klein_coordinates_lie_on_the_same_rays_in_the_unit_ball() -> None:
    points = np.array([[0.3, 0.4], [0.0, 0.0], [0.0, -1.2]])
    klein = to_klein_unit(points, 0.25)
    # K = 2√c·x/(1 + c‖x‖²), by hand: ‖x‖ = 0.5 gives 0.5/1.0625 of x/‖x‖, and 1.2 gives 1.2/1.36.
    np.testing.assert_allclose(np.linalg.norm(klein, axis=1), [0.5 / 1.0625, 0.0, 1.2 / 1.36])
    np.testing.assert_allclose(klein[0] / np.linalg.norm(klein[0]), [0.6, 0.8])


@pytest.mark.parametrize("rows", [30, 4000])  # the larger set is filtered first
def test_the_vertices_of_a_ring_around_a_cloud_are_the_ring(rows: int) -> None:
    rng = np.random.default_rng(0)
    angles = np.arange(8) * np.pi / 4
    ring = 0.8 * np.column_stack([np.cos(angles), np.sin(angles)])
    cloud = 0.3 * rng.uniform(-1, 1, (rows, 2))
    found = hull_indices(np.vstack([ring, cloud]), 1.0)
    assert sorted(found.tolist()) == list(range(8))


def test_points_of_a_line_have_two_ends_and_one_point_is_its_own_hull() -> None:
    # Straight through the origin is straight in every model.
    line = np.array([[0.1, 0.1], [0.5, 0.5], [-0.2, -0.2], [0.3, 0.3]])
    assert sorted(hull_indices(line, 1.0).tolist()) == [1, 2]
    assert hull_indices(np.array([[0.2, 0.1]] * 3), 1.0).tolist() == [0]


def test_in_three_dimensions_inner_points_are_no_vertices() -> None:
    corners = 0.5 * np.array([[1, 1, 1], [1, -1, -1], [-1, 1, -1], [-1, -1, 1.0]])
    assert hull_indices(np.vstack([np.zeros((1, 3)), corners]), 1.0).tolist() == [1, 2, 3, 4]
