"""Feature maps against direct computations."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import ndtr, ndtri

from fedgeom.errors import InputError
from fedgeom.methods.ridge.features import (
    Binned,
    FeatureContext,
    FeatureMap,
    Fourier,
    LinearFeatures,
    check_widths,
    feature_seed,
    normals,
    stack,
    total_width,
)
from fedgeom.methods.ridge.image_features import RandomConv


def ground(X: np.ndarray, seed: int = 0) -> FeatureContext:
    scale = X.std(axis=0)
    varies = (scale > 0).astype(float)
    return FeatureContext(X.shape[1], seed, (), X.mean(axis=0), np.where(scale > 0, scale, 1.0), varies)


@pytest.fixture
def X() -> np.ndarray:
    rng = np.random.default_rng(0)
    return np.asarray(rng.normal(size=(4000, 5)) * [1, 10, 0.1, 1, 0] + [0, 5, 1, -2, 7])


def test_linear_features_have_mean_0_and_variance_1_and_constant_columns_vanish(X: np.ndarray) -> None:
    found = LinearFeatures().transform(X, ground(X))
    np.testing.assert_allclose(found.mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(found.std(axis=0), [1, 1, 1, 1, 0], atol=1e-12)


def test_fourier_features_approximate_the_gaussian_kernel(X: np.ndarray) -> None:
    some, where = X[:60], ground(X)
    found = Fourier(n_components=20_000, bandwidth=1.5).transform(some, where)
    Z = where.standardised(some)
    apart = ((Z[:, None] - Z[None]) ** 2).sum(axis=2)
    kernel = np.exp(-apart / (2 * 1.5**2 * 4))  # four columns vary
    assert np.abs(found @ found.T / 20_000 - kernel).max() < 0.05
    assert np.abs(found).max() <= np.sqrt(2)


def test_fourier_features_are_the_cosines_of_the_seed(X: np.ndarray) -> None:
    where = ground(X, seed=3)
    omega, phase = normals(3, "frequencies", 7, 5), 2 * np.pi * ndtr(normals(3, "phases", 7, 1)[:, 0])
    wanted = np.sqrt(2) * np.cos(where.standardised(X[:9]) @ omega.T / np.sqrt(4) + phase)
    np.testing.assert_allclose(Fourier(n_components=7).transform(X[:9], where), wanted, atol=1e-12)


def test_binned_features_are_one_hot_over_groups_of_columns(X: np.ndarray) -> None:
    where, method = ground(X), Binned(n_bins=3, group_size=2, n_shuffles=2)
    found = method.transform(X[:50], where)
    assert found.shape == (50, method.width(5, ()))
    blocks = found.reshape(50, 2, 3, 9)
    np.testing.assert_array_equal(blocks.sum(axis=3), 1)
    bins = np.searchsorted(ndtri([1 / 3, 2 / 3]), where.standardised(X[:50]), side="right")
    order = np.argsort(normals(0, "shuffle 1", 1, 5)[0], kind="stable")
    first = bins[:, order[0]] * 3 + bins[:, order[3]]  # columns are dealt to the groups in turn
    np.testing.assert_array_equal(blocks[:, 1, 0].argmax(axis=1), first)


@pytest.mark.parametrize("one", [LinearFeatures(), Fourier(n_components=6), Binned()])
@pytest.mark.parametrize("dtype", [np.uint8, np.float32, np.int64])
def test_rows_of_any_dtype_give_the_same_features(one: FeatureMap, dtype: type) -> None:
    X = np.random.default_rng(1).integers(0, 200, (40, 5))
    where = ground(X.astype(float))
    np.testing.assert_array_equal(one.transform(X.astype(dtype), where), one.transform(X.astype(float), where))


def test_maps_stand_side_by_side_and_their_widths_add_up(X: np.ndarray) -> None:
    maps = (LinearFeatures(), Fourier(n_components=6))
    where = ground(X)
    found = stack(maps, X[:5], where)
    np.testing.assert_array_equal(found[:, :5], LinearFeatures().transform(X[:5], where))
    assert total_width(maps, 5, ()) == found.shape[1] == 11
    assert total_width(maps, None, ()) is None
    assert total_width(maps[1:], None, ()) == 6


def test_draws_differ_by_seed_and_by_what_they_are_for() -> None:
    assert feature_seed(0, "a") != feature_seed(1, "a") != feature_seed(1, "b")
    assert not np.allclose(normals(0, "a", 3, 2), normals(1, "a", 3, 2))


def test_too_many_features_and_images_of_another_shape_are_refused() -> None:
    assert check_widths((LinearFeatures(),), 30, (), 30) == 30
    with pytest.raises(InputError, match=r"31 features given; wanted max_features = 30 at most"):
        check_widths((LinearFeatures(),), 31, (), 30)
    with pytest.raises(InputError, match=r"784 cells, but rows have 100 columns"):
        check_widths((RandomConv(),), 100, (28, 28, 1), 10_000)


def test_fourier_features_of_components_keep_their_sizes() -> None:
    """Columns of one common scale: a large column says more than a small one, and units of all together nothing."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 2)) * [10.0, 0.1]
    one = Fourier(n_components=2000, bandwidth=0.7, scale="joint")

    def of(rows):
        return one.transform(rows, FeatureContext(2, 0, (), rows.mean(axis=0), rows.std(axis=0), np.ones(2)))

    found = of(X)
    np.testing.assert_allclose(of(1000 * X), found, atol=1e-6)
    far = ((X[:100] - X[100:]) ** 2).sum(axis=1) / X.var(axis=0).sum()
    wanted = np.exp(-far / (2 * 0.7**2))
    np.testing.assert_allclose((found[:100] * found[100:]).mean(axis=1), wanted, atol=0.1)
