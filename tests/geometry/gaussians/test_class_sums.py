"""Class moments: they add, they are what they say, and two classifiers follow from them."""

from __future__ import annotations

import numpy as np
import pytest

from fedgeom.errors import InputError
from fedgeom.geometry.gaussians import PIECE, ClassSums, class_moments, length
from fedgeom.geometry.hyperbolic.poincare import exp0, log0, lorentz_centroid, to_hyperboloid

NAMES = ("x", "z")


def table(seed: int = 0, rows: int = 30, columns: int = 3) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    y = np.where(np.arange(rows) % 3 == 0, "x", "z")
    return rng.normal(size=(rows, columns)) + (y == "x")[:, None], y


@pytest.mark.parametrize("columns", [1, 2, 5])
@pytest.mark.parametrize("c", [None, 1.0])
def test_as_many_numbers_as_said(columns: int, c: float | None) -> None:
    X, y = table(columns=columns)
    rows = X if c is None else exp0(X, c=c)
    assert class_moments(rows, y, NAMES, c=c).shape == (length(2, columns),)


def test_moments_of_three_rows_by_hand() -> None:
    X, y = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]), np.array(["x", "x", "z"])
    first = [2, 4, 6, 10, 14, 20, 2, 4, 6]  # count, sum, the squares 1+9, 2+12, 4+16, count and sum once more
    assert class_moments(X, y, NAMES, c=None).tolist() == [*first, 1, 5, 6, 25, 30, 36, 1, 5, 6]
    assert class_moments(X, y, ("absent",), c=None).tolist() == [0] * 9


@pytest.mark.parametrize("c", [0.25, 1.0, 4.0])
def test_in_the_ball_they_are_moments_of_the_logarithm_and_of_the_hyperboloid(c: float) -> None:
    X, y = table()
    points = exp0(X / 3, c=c)
    found = class_moments(points, y, NAMES, c=c).reshape(2, -1)
    for row, name in zip(found, NAMES, strict=True):
        v, z = log0(points[y == name], c=c), to_hyperboloid(points[y == name], c=c)
        np.testing.assert_allclose(row[1:4], v.sum(axis=0))
        np.testing.assert_allclose(row[-4:], z.sum(axis=0))


@pytest.mark.parametrize("c", [None, 1.0])
@pytest.mark.parametrize("seed", range(3))
def test_moments_of_parts_add_up_to_those_of_all(seed: int, c: float | None) -> None:
    X, y = table(seed)
    rows = X if c is None else exp0(X, c=c)
    parts = [class_moments(rows[at::4], y[at::4], NAMES, c=c) for at in range(4)]
    np.testing.assert_allclose(np.sum(parts, axis=0), class_moments(rows, y, NAMES, c=c))


@pytest.mark.parametrize("seed", range(3))
def test_without_shrinkage_gaussians_are_the_sample_means_and_covariances(seed: int) -> None:
    X, y = table(seed)
    sums = ClassSums(class_moments(X, y, NAMES, c=None), NAMES, 3)
    priors, means, covariances = sums.gaussians(0.0)
    np.testing.assert_allclose(np.exp(priors), [1 / 3, 2 / 3])
    for k, name in enumerate(NAMES):
        np.testing.assert_allclose(means[k], X[y == name].mean(axis=0))
        np.testing.assert_allclose(covariances[k], np.cov(X[y == name].T), atol=1e-7)


def test_much_shrinkage_gives_all_classes_the_pooled_covariance() -> None:
    X, y = table()
    sums = ClassSums(class_moments(X, y, NAMES, c=None), NAMES, 3)
    scatter = sum((np.sum(y == name) - 1) * np.cov(X[y == name].T) for name in NAMES)
    for covariance in sums.gaussians(1e12)[2]:
        np.testing.assert_allclose(covariance, scatter / (len(X) - 2), rtol=1e-6)


def test_a_class_of_one_row_and_equal_rows_still_have_a_covariance_that_can_be_inverted() -> None:
    X, y = np.array([[0.0, 0.0], [1.0, 0.0], [5.0, 0.0]]), np.array(["x", "x", "z"])
    sums = ClassSums(class_moments(X, y, NAMES, c=None), NAMES, 2)
    for covariance in sums.gaussians(3.0)[2]:
        assert np.linalg.eigvalsh(covariance).min() > 0


@pytest.mark.parametrize("c", [None, 0.25, 1.0, 4.0])
def test_centroids_are_means_or_lorentz_centroids(c: float | None) -> None:
    X, y = table()
    rows = X if c is None else exp0(X / 3, c=c)
    found = ClassSums(class_moments(rows, y, NAMES, c=c), NAMES, 3).centroids(c=c)
    for k, name in enumerate(NAMES):
        members = rows[y == name]
        wanted = members.mean(axis=0) if c is None else lorentz_centroid(members, c=c)
        np.testing.assert_allclose(found[k], wanted, atol=1e-12)


def test_classes_with_too_few_rows_in_all_are_named() -> None:
    X, y = table(rows=4)  # x, z, z, x
    total = class_moments(X, y, ("x", "y", "z"), c=None)
    with pytest.raises(InputError, match=r"fewer than 1 rows at all sites together: y;"):
        ClassSums(total, ("x", "y", "z"), 3)
    with pytest.raises(InputError, match=r"fewer than 3 rows at all sites together: x, y, z;"):
        ClassSums(total, ("x", "y", "z"), 3, min_rows=3)


@pytest.mark.parametrize("c", [None, 1.0])
def test_without_squares_counts_means_and_centroids_are_the_same(c: float | None) -> None:
    X, y = table()
    rows = X if c is None else exp0(X, c=c)
    total = class_moments(rows, y, NAMES, c=c, squares=False)
    assert total.shape == (length(2, 3, squares=False),) == (2 * 2 * 4,)
    sums, whole = (
        ClassSums(total, NAMES, 3, squares=False),
        ClassSums(class_moments(rows, y, NAMES, c=c), NAMES, 3),
    )
    np.testing.assert_array_equal(sums.centroids(c=c), whole.centroids(c=c))
    for mine, known in zip(sums.priors_and_means(), whole.gaussians(1.0), strict=False):
        np.testing.assert_array_equal(mine, known)


def test_many_rows_are_added_up_in_pieces_to_the_same_sums() -> None:
    X, y = table(rows=40_000)
    found = class_moments(X, y, NAMES, c=None).reshape(2, -1)
    for row, name in zip(found, NAMES, strict=True):
        v = X[y == name]
        assert row[0] == len(v) > PIECE
        np.testing.assert_allclose(row[1:4], v.sum(axis=0), rtol=1e-12)
        np.testing.assert_allclose(row[4:10], (v.T @ v)[np.triu_indices(3)], rtol=1e-12)
