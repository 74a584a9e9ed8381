"""The plain twin: Definition 3, canonical groups, independence of order and labels, and the published row."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from fedgeom.errors import InputError
from fedgeom.geometry.hyperbolic.grid import PolarGrid
from fedgeom.geometry.hyperbolic.hull import convex_hull
from fedgeom.geometry.hyperbolic.poincare import distance, exp0
from fedgeom.geometry.hyperbolic.svm import EuclideanSVC
from fedgeom.methods.hulls.plain import (
    covering_radius,
    fit_groups,
    group_hulls,
    local_hulls,
    name_groups,
    plain,
    points_of_groups,
)
from papers.common import confidence, data_folder
from papers.hulls import published

Floats = NDArray[np.float64]


def make_sites(L: int = 4, J: int = 3, n: int = 40, seed: int = 0) -> list[tuple[Floats, NDArray[Any]]]:
    rng = np.random.default_rng(seed)
    sites = []
    for _ in range(L):
        y = np.repeat(np.arange(J), n)
        angle = 2 * np.pi * y / J
        X = exp0(np.stack([np.cos(angle), np.sin(angle)], axis=1) + 0.25 * rng.normal(size=(len(y), 2)))
        sites.append((X, y))
    return sites


def test_local_hulls_are_definition_3() -> None:
    X, y = make_sites(1)[0]
    grid = PolarGrid(0.1, 0.99)
    hulls = local_hulls(X, y, grid, trim=0.0)
    assert list(hulls) == [0, 1, 2]
    for label, bins in hulls.items():
        points = X[y == label]
        corners = points[convex_hull(points)]
        quantized = np.unique(grid.bin(corners))
        assert set(bins) <= set(quantized)
        np.testing.assert_array_equal(bins, np.unique(bins))
        centers = grid.center(bins)
        assert len(convex_hull(centers)) == len(bins)  # nonredundant
        together = grid.center(quantized)
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


@pytest.mark.parametrize("how", ["constrained", "spectral", "published"])
def test_learns_and_names(how: Any) -> None:
    sites = make_sites()
    X, y = np.vstack([X for X, _ in sites]), np.concatenate([y for _, y in sites])
    model = plain(sites, how=how)
    assert np.mean(model.predict(X) == y) > 0.95
    flat = plain(sites, how=how, classifier=EuclideanSVC())
    assert np.mean(flat.predict(X) == y) > 0.95


def test_two_classes() -> None:
    sites = make_sites(J=2)
    for how in ("constrained", "published"):
        model = plain(sites, how=how)  # type: ignore[arg-type]
        assert np.mean([np.mean(model.predict(X) == y) for X, y in sites]) > 0.95


def test_the_order_of_sites_and_rows_does_not_matter() -> None:
    sites = make_sites()
    one = plain(sites, epsilon=0.05)
    rng = np.random.default_rng(1)
    for _ in range(3):
        shuffled = []
        for i in rng.permutation(len(sites)):
            order = rng.permutation(len(sites[i][0]))
            shuffled.append((sites[i][0][order], sites[i][1][order]))
        other = plain(shuffled, epsilon=0.05)
        for name in ("reference_", "coef_", "platt_"):
            np.testing.assert_array_equal(getattr(one.classifier, name), getattr(other.classifier, name))


def test_labels_do_not_matter_to_the_classifier() -> None:
    """Label switching: every site may use names of its own."""
    sites = make_sites()
    switched = [(X, (y + i) % 3) for i, (X, y) in enumerate(sites)]
    np.testing.assert_array_equal(plain(sites).classifier.coef_, plain(switched).classifier.coef_)


def test_groups_are_numbered_by_their_smallest_bins() -> None:
    sites = make_sites()
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


def test_group_names_are_distinct_and_agree_with_most_hulls() -> None:
    members = np.array([0, 0, 1, 1, 1, 2])
    assert name_groups(members, ["b", "b", "a", "a", "b", "c"]) == ("b", "a", "c")
    assert name_groups(np.array([0, 0, 0, 1, 1]), ["a", "a", "a", "a", "b"]) == ("a", "b")
    assert name_groups(np.array([0, 1, 2]), ["a", "b", "b"])[0] == "a"


def test_radius_stays_inside_the_ball() -> None:
    assert covering_radius([np.array([[0.5, 0.0]])]) == pytest.approx(0.5001)
    assert 0.99999 < covering_radius([np.array([[0.99999, 0.0]])]) < 1
    assert covering_radius([np.array([[1.5, 0.0]])], c=0.25) == pytest.approx(1.5001)


def test_other_curvatures() -> None:
    sites = [(3 * X, y) for X, y in make_sites()]
    model = plain(sites, c=1 / 9)
    assert np.mean([np.mean(model.predict(X) == y) for X, y in sites]) > 0.95


@pytest.mark.parametrize(
    ("sites", "words"),
    [
        ([], "at least one site"),
        ([([[2.0, 0.0]], [0])], "site 0"),
        ([([[0.1, 0.0, 0.0]], [0])], "site 0"),
        ([([[0.1, 0.0]], [0, 1])], "one label each"),
    ],
)
def test_refuses(sites: Any, words: str) -> None:
    with pytest.raises(InputError, match=words):
        plain(sites)


# --- the published row --------------------------------------------------------------------------------------

needs_olsson = pytest.mark.skipif(
    not (data_folder() / "olsson.npz").is_file(),
    reason="olsson.npz is absent: set FEDGEOM_DATA to the folder of the data sets",
)
FLP = [85.42, 87.50, 87.50, 85.42, 85.42, 85.42, 81.25, 87.50, 87.50, 87.50]


def two_digits(values: Any) -> list[float]:
    return [round(float(value), 2) for value in values]


def test_partition_is_complete_and_even() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(50, 2)), rng.integers(0, 4, size=50)
    sites = published.published_partition(X, y, 3, seed=3)
    together = np.vstack([part for part, _ in sites])
    np.testing.assert_array_equal(np.unique(together, axis=0), np.unique(X, axis=0))
    assert len(together) == 50
    again = published.published_partition(X, y, 3, seed=3)
    np.testing.assert_array_equal(sites[1][0], again[1][0])


def test_confidence_is_students() -> None:
    mean, half = confidence([1.0, 2.0, 3.0])
    assert mean == 2.0
    assert half == pytest.approx(4.302653 / np.sqrt(3), rel=1e-6)


@needs_olsson
@pytest.mark.parametrize("shuffle", [None, 0])
def test_the_published_row_digit_for_digit(shuffle: int | None) -> None:
    """Also with the sites and their rows in another order, as an anonymous coordinator sees them."""
    row = published.row(shuffle=shuffle)
    assert two_digits(row["FLP"]) == FLP
    assert two_digits(confidence(row["FLP"])) == [86.04, 1.41]
    assert two_digits(confidence(row["FLE"])) == [75.0, 3.51]
    assert two_digits(row["CP"] + row["CE"]) == [79.17, 68.75]
    assert two_digits(row["CH-CP"] + row["CH-CE"]) == [83.33, 77.08]


@needs_olsson
@pytest.mark.parametrize(("epsilon", "flp", "fle"), [(0.1, 85.625, 75.625), (1.0, 85.41667, 79.16667)])
def test_published_row_at_coarser_grids(epsilon: float, flp: float, fle: float) -> None:
    row = published.row(epsilon=epsilon)
    assert np.mean(row["FLP"]) == pytest.approx(flp, abs=1e-4)
    assert np.mean(row["FLE"]) == pytest.approx(fle, abs=1e-4)


@needs_olsson
def test_the_plain_twin_on_olsson() -> None:
    X, X_test, y, y_test = published.olsson_split()
    sites = published.published_partition(X, y, 3, seed=0)
    model = plain(sites)
    assert np.mean(model.predict(X_test) == y_test) > 0.85
    assert sorted(model.names) == list(range(8))
