"""From decoded hulls to a classifier: groups have canonical numbers, and the given classifier stays as it was."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from fedgeom.errors import InputError
from fedgeom.geometry.hyperbolic.grid import PolarGrid
from fedgeom.geometry.hyperbolic.svm import EuclideanSVC, PoincareSVC
from fedgeom.methods.hulls.core import classifier_of, fit_groups, group_hulls, points_of_groups
from fedgeom.methods.hulls.settings import HullSettings
from papers.hulls.plain import covering_radius, local_hulls
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


A = 0.5
"""Where the two points lie on either side of the origin, which is their midpoint, in the tests below."""
T = math.atanh(A)
"""How long log_0 makes them (Eq. 1)."""
FAR = 100.0


@pytest.mark.parametrize(
    ("settings", "length"),
    [
        ({"margin": "hard"}, 1 / T),  # Eq. 6: w·t = 1
        ({"loss": "hinge", "C": 0.1}, 2 * 0.1 * T),  # Eq. 7: w = Σ λ t while both violate
        ({"loss": "hinge", "C": FAR}, 1 / T),
        ({"C": 0.1}, 4 * 0.1 * T / (1 + 4 * 0.1 * T * T)),  # w = Σ 2 λ t (1 - w t)
        ({"space": "euclidean", "margin": "hard"}, 1 / A),
        ({"space": "euclidean", "loss": "hinge", "C": 0.1}, 2 * 0.1 * A),
        ({"space": "euclidean", "C": 0.1}, 4 * 0.1 * A / (1 + 4 * 0.1 * A * A)),
    ],
)
def test_the_normal_vector_of_two_points_by_hand(settings: dict[str, Any], length: float) -> None:
    groups = [np.array([[-A, 0.0]]), np.array([[A, 0.0]])]
    fitted = fit_groups(groups, classifier_of(HullSettings(**settings)))
    assert fitted.coef_ == pytest.approx(np.array([[length, 0.0]]), rel=1e-4, abs=1e-9)
    assert fitted.reference_ == pytest.approx(np.zeros((1, 2)))


@pytest.mark.parametrize("space", ["poincare", "euclidean"])
def test_a_hard_margin_is_refused_where_nothing_separates(space: Any) -> None:
    groups = [np.array([[-A, 0.0], [A, 0.0]]), np.array([[0.0, 0.1], [0.0, -0.1], [0.7, 0.0]])]
    with pytest.raises(InputError, match=r"cannot be separated.*margin='soft'"):
        fit_groups(groups, classifier_of(HullSettings(margin="hard", space=space)))
