"""Principal components, as scikit-learn finds them in pooled rows."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn import decomposition

from fedgeom.data.sites import SiteData
from fedgeom.preparation import PCA, fit_plain
from fedgeom.preparation.pca import BESIDE, leading
from tests.preparation.raw import counts, pooled


def tables(columns=12, seed=0):
    rng = np.random.default_rng(seed)
    mix = rng.normal(size=(columns, columns)) * 0.7 ** np.arange(columns)[:, None]
    return [SiteData(f"s{i}", rng.normal(size=(40, columns)) @ mix + 5 + i, np.zeros(40)) for i in range(4)]


def test_components_are_those_of_pooled_rows_signs_and_all():
    sites = tables()
    made = fit_plain([PCA(5)], sites)
    pooled_fit = decomposition.PCA(5, svd_solver="full").fit(pooled(sites))
    np.testing.assert_allclose(np.abs(made.fits[0].get("components").T), np.abs(pooled_fit.components_), atol=1e-7)
    np.testing.assert_allclose(made.fits[0].get("variances"), pooled_fit.explained_variance_, rtol=1e-9)
    weights = made.fits[0].get("components")
    assert (weights[np.abs(weights).argmax(axis=0), range(5)] > 0).all()
    found = pooled([made.transform(s) for s in sites])
    np.testing.assert_allclose(np.abs(found), np.abs(pooled_fit.transform(pooled(sites))), atol=1e-6)


@pytest.mark.parametrize("sparse", [True, False])
def test_beyond_so_many_columns_the_iteration_comes_near_them(sparse):
    sites = counts(columns=120, sparse=sparse)
    near, exact = (fit_plain([PCA(3, exact_columns=most)], sites) for most in (1, 500))
    assert "directions" not in near.fits[0].arrays
    angle = np.abs((near.fits[0].get("components") * exact.fits[0].get("components")).sum(axis=0))
    assert (angle > 0.999).all(), angle
    assert near.transform(sites[0]).table.dtype == np.float32


def test_there_are_no_more_components_than_columns():
    assert fit_plain([PCA(50)], tables(columns=6)).columns.names[-1] == "component 6"


def test_the_policy_hears_of_all_products():
    assert PCA(5, exact_columns=700).most_features == 700
    assert PCA(900, exact_columns=1).most_features == 900 + BESIDE


def test_leading_vectors_of_a_small_matrix():
    vectors, values = leading(np.array([2.0, 0.0, 5.0]).tobytes(), 2, 1)
    np.testing.assert_allclose(np.abs(vectors), [[0], [1]])
    assert values.tolist() == [5.0]


def test_with_privacy_no_row_has_a_part_in_the_components_of_another():
    sites = tables(columns=30)
    made, plain = fit_plain([PCA(7, clip=50.0)], sites), fit_plain([PCA(7)], sites)
    whole = made.transform(sites[0])
    np.testing.assert_allclose(np.abs(whole.X), np.abs(plain.transform(sites[0]).X), atol=1e-4)
    for left_out in (0, 11, 39):
        kept = np.delete(np.arange(40), left_out)
        assert (whole.X[kept] == made.transform(sites[0].take(kept)).X).all()
