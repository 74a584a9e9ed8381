"""The joint map: scatter adds over sites and knows no names; its directions are Fisher's."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from fedgeom.errors import InputError
from fedgeom.geometry.hyperbolic.poincare import exp0
from fedgeom.methods.hulls.embedding import (
    check_width,
    column_scales,
    embed,
    joint_scales,
    projection,
    scatter_length,
    site_scatter,
)


def table(classes: int = 3, columns: int = 4, rows: int = 60, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    y = np.arange(rows) % classes
    return rng.normal(size=(rows, columns)) + 2 * rng.normal(size=(classes, columns))[y], y


def standardised(X: np.ndarray) -> np.ndarray:
    return (X - X.mean(axis=0)) / X.std(axis=0)


def test_scales_are_means_and_deviations_and_a_constant_column_stays() -> None:
    scales = column_scales(np.array([[1.0, 5.0], [3.0, 5.0]]))
    assert scales.tolist() == [[2.0, 5.0], [1.0, 1.0]]


def test_scatter_of_four_rows_by_hand() -> None:
    """One column that is already standardised: within 0, between 4; the other: within 4, between 0."""
    X, y = np.array([[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0]]), np.array(["a", "a", "b", "b"])
    found = site_scatter(X, y)
    assert found.tolist() == [4.0, 0.0, 0.0, 4.0, 4.0, 0.0, 0.0, 0.0, 0.0, 4.0, 4.0]  # and its scale
    assert len(found) == scatter_length(2)


@pytest.mark.parametrize("seed", range(3))
def test_scatter_does_not_depend_on_what_classes_are_called_nor_on_units(seed: int) -> None:
    X, y = table(seed=seed)
    first = site_scatter(X, y)
    np.testing.assert_allclose(site_scatter(X, np.array(["z", "a", "m"])[y]), first, atol=1e-9)
    np.testing.assert_allclose(site_scatter(X * [1e3, 1e-3, 1, 7] + 5, y)[:-8], first[:-8], atol=1e-6)


@pytest.mark.parametrize("seed", range(3))
def test_the_directions_are_fishers(seed: int) -> None:
    X, y = table(seed=seed)
    P = projection(site_scatter(X, y), 4)
    theirs = LinearDiscriminantAnalysis(solver="eigen").fit(standardised(X), y).scalings_[:, :2]
    for ours, other in zip(P.T, theirs.T, strict=True):
        cosine = ours @ other / np.linalg.norm(ours) / np.linalg.norm(other)
        assert abs(cosine) == pytest.approx(1, abs=1e-6)


def test_most_points_lie_between_the_middle_and_the_edge() -> None:
    X, y = table(rows=300)
    Z = standardised(X) @ projection(site_scatter(X, y), 4)
    assert np.sqrt(np.mean((Z**2).sum(axis=1))) == pytest.approx(1.0, abs=1e-6)
    points = embed(X, projection(site_scatter(X, y), 4), column_scales(X), c=1.0)
    np.testing.assert_allclose(points, exp0(Z), atol=1e-12)
    assert (np.linalg.norm(points, axis=1) < 1).all()


def test_curvature_only_scales_the_disc() -> None:
    X, y = table()
    P, scales = projection(site_scatter(X, y), 4), column_scales(X)
    np.testing.assert_allclose(2 * embed(X, P, scales, c=1.0), embed(X, P, scales, c=0.25))


def test_two_classes_differ_along_one_line_and_the_second_is_the_broadest_beside_it() -> None:
    """Inside classes the second direction is uncorrelated with the first, and no sign has to be guessed."""
    X, y = table(classes=2, rows=200)
    P = projection(site_scatter(X, y), 4)
    Z = standardised(X)
    within = sum(np.cov(Z[y == k].T, bias=True) * np.mean(y == k) for k in (0, 1))
    first, second = P.T
    assert first @ within @ second == pytest.approx(0, abs=1e-6)
    fisher = LinearDiscriminantAnalysis(solver="eigen").fit(Z, y).scalings_[:, 0]
    assert abs(first @ fisher) == pytest.approx(np.linalg.norm(first) * np.linalg.norm(fisher), rel=1e-6)
    assert (P[np.abs(P).argmax(axis=0), [0, 1]] > 0).all()


def test_adding_up_sites_is_the_map_of_all_of_them() -> None:
    parts = [table(seed=0), table(seed=0)]
    total = sum(site_scatter(X, y) for X, y in parts)
    np.testing.assert_allclose(projection(total, 4), projection(site_scatter(*table(seed=0)), 4), atol=1e-9)


def test_one_column_makes_no_disc() -> None:
    with pytest.raises(InputError, match="at least 2 columns, the sites have 1"):
        projection(np.ones(scatter_length(1)), 1)


def test_the_joint_scale_is_the_sites_average() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 4)) * [1.0, 1e5, 1e-3, 0.0] + [0.0, 1e7, 0.0, 3.0]
    y = np.arange(40) % 2
    mean, deviation = joint_scales(site_scatter(X[:30], y[:30]) + site_scatter(X[30:], y[30:]), 4)
    np.testing.assert_allclose(mean, X.mean(axis=0), rtol=1e-9, atol=1e-12)
    own = (30 * X[:30].std(axis=0) + 10 * X[30:].std(axis=0)) / 40
    np.testing.assert_allclose(deviation, [*own[:3], 1.0])  # the last column is constant


def test_there_is_no_joint_scale_where_the_sums_say_too_little_of_a_column() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 2)) * [1.0, 1e-9]
    assert joint_scales(site_scatter(X, np.arange(40) % 2), 2) is None


def test_columns_whose_scatter_fits_no_message_are_refused_with_how_many_would() -> None:
    with pytest.raises(
        InputError, match=r"a joint map of 13,656 columns .* the limit is 67,108,864 .*2,894 or less"
    ):
        check_width(13_656, 2**26)
    check_width(2_894, 2**26)
