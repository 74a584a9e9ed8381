"""Reference points: closest pairs, ties, and independence of the order of points."""

from __future__ import annotations

import numpy as np
import pytest

from fedgeom.geometry.hyperbolic.poincare import distance, exp0, midpoint
from fedgeom.geometry.hyperbolic.reference import closest_pairs, extreme_points, reference_points, with_start_twice


def test_closest_pairs_against_brute_force(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    left, right = exp0(rng.normal(size=(30, 2))), exp0(rng.normal(size=(40, 2)))
    every = sorted((float(distance(a, b)), i, j) for i, a in enumerate(left) for j, b in enumerate(right))
    expected = [(i, j) for _, i, j in every[:7]]
    assert closest_pairs(left, right, 7) == expected
    monkeypatch.setattr("fedgeom.geometry.hyperbolic.reference.BLOCK", 100)  # several blocks give the same answer
    assert closest_pairs(left, right, 7) == expected
    assert len(closest_pairs(left[:2], right[:2], 10)) == 4


def test_ties_are_listed_by_index() -> None:
    square = np.array([[0.1, 0.1], [0.1, -0.1]])
    assert closest_pairs(square, -square[::-1], 3) == [(0, 0), (1, 1), (0, 1)]


@pytest.mark.parametrize("d", [1, 2, 3, 7])
def test_extreme_points_do_not_depend_on_the_order(d: int) -> None:
    rng = np.random.default_rng(d)
    X = exp0(rng.normal(size=(60, d)))
    hull = extreme_points(X)
    np.testing.assert_array_equal(hull, extreme_points(X[rng.permutation(60)]))
    assert len(hull) == {1: 2, 7: 60}.get(d, len(hull))


def test_start_twice() -> None:
    hull = exp0(np.array([[1.0, 0], [0, 2], [-1, 0], [0, -1]]))
    np.testing.assert_array_equal(with_start_twice(hull)[4], hull[1])
    assert len(with_start_twice(hull[:3])) == 3


def test_reference_points_are_midpoints_nearest_pair_first() -> None:
    left, right = np.array([[-0.1, 0.0], [-0.4, 0.0]]), np.array([[0.1, 0.0], [0.0, 0.8]])
    found = reference_points(left, right, 2)
    np.testing.assert_allclose(found, [[0.0, 0.0], midpoint(left[1], right[0])], atol=1e-15)
