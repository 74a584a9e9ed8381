"""From decoded hulls to a classifier: groups have canonical numbers, and the given classifier stays as it was."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from fedgeom.geometry.hyperbolic.grid import PolarGrid
from fedgeom.geometry.hyperbolic.svm import EuclideanSVC, PoincareSVC
from fedgeom.methods.hulls.core import covering_radius, local_hulls
from fedgeom.methods.hulls.fitting import fit_groups, group_hulls, points_of_groups
from tests.methods.hulls.drawing import pairs


def test_groups_are_numbered_by_their_smallest_bins() -> None:
    sites = pairs()
    grid = PolarGrid(0.05, covering_radius([X for X, _ in sites]))
    local = [local_hulls(X, y, grid) for X, y in sites]
    hulls = [bins for site in local for bins in site.values()]
    owners = np.repeat(np.arange(4), 3)
    members = group_hulls(hulls, owners, 3, grid=grid, how="constrained")
    smallest = [min(int(b.min()) for b, m in zip(hulls, members, strict=True) if m == g) for g in range(3)]
    assert smallest == sorted(smallest)
    groups = points_of_groups(hulls, members, grid)
    assert all(len(np.unique(points, axis=0)) == len(points) for points in groups)
    fitted = fit_groups(groups, EuclideanSVC())
    np.testing.assert_array_equal(fitted.classes_, [0, 1, 2])


@pytest.mark.parametrize("seed", range(3))
def test_the_order_of_hulls_changes_no_number(seed: int) -> None:
    grid = PolarGrid(0.05, covering_radius([X for X, _ in pairs()]))
    hulls = [bins for X, y in pairs() for bins in local_hulls(X, y, grid).values()]
    owners = np.repeat(np.arange(4), 3)
    order = np.random.default_rng(seed).permutation(len(hulls))
    first = group_hulls(hulls, owners, 3, grid=grid, how="constrained")
    other = group_hulls([hulls[i] for i in order], owners[order], 3, grid=grid, how="constrained")
    assert other.tolist() == first[order].tolist()


def test_points_of_a_group_are_the_centres_of_its_distinct_bins() -> None:
    grid = PolarGrid(0.5, 0.9)
    hulls = [np.array([3, 7]), np.array([1]), np.array([7, 9])]
    first, second = points_of_groups(hulls, np.array([0, 1, 0]), grid)
    np.testing.assert_array_equal(first, grid.center(np.array([3, 7, 9])))
    np.testing.assert_array_equal(second, grid.center(np.array([1])))


def test_the_given_classifier_is_copied() -> None:
    given = PoincareSVC(C=0.7)
    groups = [np.array([[0.1, 0.0], [0.2, 0.1]]), np.array([[-0.1, 0.0], [-0.2, 0.1]])]
    fitted = fit_groups(groups, given)
    assert fitted.C == 0.7
    assert [fitted.predict(points).tolist() for points in groups] == [[0, 0], [1, 1]]
    with pytest.raises(NotFittedError):
        given.predict(groups[0])
