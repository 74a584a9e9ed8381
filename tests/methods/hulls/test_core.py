"""What a site computes of its rows: Definition 3, levels that round up, and radii inside the disc."""

from __future__ import annotations

import math

import numpy as np
import pytest

from fedgeom import memo
from fedgeom.errors import InputError
from fedgeom.geometry.hyperbolic.grid import PolarGrid
from fedgeom.geometry.hyperbolic.hull import convex_hull
from fedgeom.geometry.hyperbolic.poincare import distance, exp0
from fedgeom.methods.hulls.core import (
    COUNT_LEVELS,
    LEVELS,
    RADIUS_LEVELS,
    check_corner_share,
    class_hulls,
    corner_shares,
    count_of_level,
    hulls_by_name,
    level_of_count,
    radius_of_level,
    reach_levels,
)
from papers.hulls.plain import covering_radius, local_hulls
from tests.methods.hulls.drawing import pairs


def test_local_hulls_are_definition_3() -> None:
    X, y = pairs(1)[0]
    grid = PolarGrid(0.1, 0.99)
    hulls = local_hulls(X, y, grid, trim=0.0)
    assert list(hulls) == [0, 1, 2]
    for label, bins in hulls.items():
        points = X[y == label]
        corners = points[convex_hull(points)]
        quantised = np.unique(grid.bin(corners))
        assert set(bins) <= set(quantised)
        np.testing.assert_array_equal(bins, np.unique(bins))
        centers = grid.center(bins)
        assert len(convex_hull(centers)) == len(bins)  # nonredundant
        together = grid.center(quantised)
        again = {grid.bin(together[i : i + 1])[0] for i in convex_hull(together)}
        assert again == set(bins)  # and contains everything
        assert distance(corners[:, None], centers[None]).min(axis=0).max() <= 0.1


def test_tiny_classes() -> None:
    grid = PolarGrid(0.1, 0.9)
    X = np.array([[0.1, 0.2], [0.3, 0.4], [0.3, 0.4], [0.5, 0.1], [0.1, 0.5]])
    hulls = local_hulls(X, np.array(["a", "b", "b", "c", "c"]), grid)
    assert {label: len(bins) for label, bins in hulls.items()} == {"a": 1, "b": 1, "c": 2}


def test_trimming_leaves_out_outliers() -> None:
    rng = np.random.default_rng(0)
    X = np.vstack([exp0(0.1 * rng.normal(size=(200, 2))), [[0.8, 0.0]]])
    grid = PolarGrid(0.05, 0.9)
    outlier = int(grid.bin([[0.8, 0.0]])[0])
    y = np.zeros(201, dtype=int)
    assert outlier in local_hulls(X, y, grid, trim=0.0)[0]
    assert outlier not in local_hulls(X, y, grid, trim=0.05)[0]


def test_one_label_for_each_point_is_wanted() -> None:
    with pytest.raises(InputError, match="one label each"):
        local_hulls([[0.1, 0.0]], [0, 1], PolarGrid(0.1, 0.9))


def test_radius_stays_inside_the_ball() -> None:
    assert covering_radius([np.array([[0.5, 0.0]])]) == pytest.approx(0.5001)
    assert 0.99999 < covering_radius([np.array([[0.99999, 0.0]])]) < 1
    assert covering_radius([np.array([[1.5, 0.0]])], c=0.25) == pytest.approx(1.5001)


@pytest.mark.parametrize("count", [1, 2, 3, 10, 11, 99, 12345, 9_999_999])
def test_levels_round_counts_up_by_at_most_a_tenth(count: int) -> None:
    level = level_of_count(count)
    assert count <= count_of_level(level) <= 1.1 * count + 1
    assert level == 1 or count_of_level(level - 1) < count


def test_radius_of_a_level_is_its_hyperbolic_length_in_steps_of_a_twentieth() -> None:
    assert radius_of_level(20, c=1.0) == pytest.approx(math.tanh(0.5))
    assert radius_of_level(20, c=4.0) == pytest.approx(math.tanh(0.5) / 2)
    assert radius_of_level(RADIUS_LEVELS, c=1.0) <= 1


@pytest.mark.parametrize("c", [0.25, 1.0, 4.0])
@pytest.mark.parametrize("seed", range(3))
def test_what_is_reached_is_covered_by_its_levels(seed: int, c: float) -> None:
    X, y = pairs(1, seed=seed)[0]
    points = X / math.sqrt(c)
    classes, corners, radius = reach_levels(points, class_hulls(points, y, 0.0, c=c), c=c)
    counted = sum(len(convex_hull(points[y == k], c=c)) for k in range(3))
    assert classes == 3
    assert counted <= count_of_level(corners) <= 1.1 * counted + 1
    farthest = float(np.linalg.norm(points, axis=1).max())
    assert radius_of_level(radius - 1, c=c) <= farthest < radius_of_level(radius, c=c)


def test_levels_stay_among_those_that_the_maxima_have() -> None:
    edge = np.array([[1 - 1e-16, 0.0], [0.0, 0.0]])
    reached = reach_levels(edge, class_hulls(edge, np.zeros(2), 0.0, c=1.0), c=1.0)
    assert reached == (1, 2, RADIUS_LEVELS)
    assert all(level <= most for level, most in zip(reached, LEVELS, strict=True))


@pytest.mark.parametrize("level", range(1, COUNT_LEVELS + 1))
def test_a_count_that_was_agreed_on_is_known_as_one(level: int) -> None:
    count = count_of_level(level)
    assert count_of_level(level_of_count(count)) == count


def test_corners_are_counted_class_by_class_before_rounding() -> None:
    square = np.array([[0.3, 0.3], [-0.3, 0.3], [-0.3, -0.3], [0.3, -0.3]])
    points = np.vstack([square, np.zeros((4, 2)), square[:3]])
    y = np.repeat(["square", "corner"], [8, 3])
    shares = corner_shares(class_hulls(points, y, 0.0, c=1.0))
    assert shares == {"square": 0.5, "corner": 1.0}
    check_corner_share(shares, 1.0)
    with pytest.raises(InputError, match=r"^100% of 'corner' would become corners.*max_corner_share = 0.5"):
        check_corner_share(shares, 0.5)


def test_hulls_are_remembered_by_what_the_rows_are() -> None:
    X, y = pairs(1)[0]
    memo.clear(class_hulls)
    first = class_hulls(X, y, 0.0, c=1.0)
    with pytest.raises(TypeError):  # what is remembered cannot be changed from outside
        first[0] = first[1]
    again = class_hulls(X.copy(), y.copy(), 0.0, c=1.0)
    assert again is first
    assert set(again) == {0, 1, 2}
    inside = 0.5 * X[y == 0]
    moved = class_hulls(0.5 * X, y, 0.0, c=1.0)
    assert np.array_equal(moved[0].corners, inside[convex_hull(inside)])
    assert class_hulls(X, y, 0.3, c=1.0)[0].corners.tolist() != again[0].corners.tolist()
    assert set(class_hulls(X, 1 - y, 0.0, c=1.0)) == {-1, 0, 1}


@pytest.mark.parametrize(
    "y",
    [
        np.array([2, 10, 2, 10] * 3),
        np.array([True, False] * 6),
        np.array([2, "10"] * 6, object),
        np.array([0.5, 2.0] * 6),
    ],
)
def test_by_names_classes_are_those_of_labels_as_text(y: np.ndarray) -> None:
    points = np.random.default_rng(1).uniform(-0.5, 0.5, size=(12, 2))
    wanted = class_hulls(points, y.astype(str), 0.0, c=1.0)
    found = hulls_by_name(points, y, 0.0, c=1.0)
    assert list(found) == list(wanted)
    for name, hull in wanted.items():
        assert found[name].rows == hull.rows
        np.testing.assert_array_equal(found[name].corners, hull.corners)
