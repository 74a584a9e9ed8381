"""From summed moments to a classifier: Bayes' rule with Gaussians, and Lorentz centroids."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from fedgeom import Moments
from fedgeom.data.sites import SiteData
from fedgeom.errors import InputError
from fedgeom.geometry.gaussians import class_moments
from fedgeom.geometry.hyperbolic.poincare import log0, lorentz_centroid
from fedgeom.methods.moments.core import build_model
from fedgeom.methods.moments.model import MomentsModel
from tests.methods.hulls.drawing import blobs


def pooled(method: Moments, sites: list[SiteData]) -> MomentsModel:
    X = np.vstack([site.X for site in sites])
    y = np.concatenate([site.y.astype(str) for site in sites])
    names = tuple(np.unique(y).tolist())
    return build_model(method, class_moments(X, y, names, c=method.c, squares=method.squares), names, X.shape[1])


def test_without_shrinkage_it_is_bayes_rule_with_a_gaussian_per_class_in_the_tangent_space() -> None:
    sites = blobs(3, 3, spread=0.5)
    model = pooled(Moments(shrinkage=0.0), sites)
    X, y = np.vstack([s.X for s in sites]), np.concatenate([s.y for s in sites])
    V = log0(X)
    densities = np.column_stack(
        [
            np.mean(y == k) * multivariate_normal(V[y == k].mean(axis=0), np.cov(V[y == k].T)).pdf(V)
            for k in range(3)
        ]
    )
    assert np.allclose(model.predict_proba(X), densities / densities.sum(axis=1, keepdims=True), atol=1e-6)


@pytest.mark.parametrize("c", [0.25, 1.0, 4.0])
def test_centroids_are_lorentz_centroids_also_at_other_curvatures(c: float) -> None:
    sites = [SiteData(s.name, s.X / np.sqrt(c), s.y) for s in blobs(3, 2)]
    model = pooled(Moments(rule="centroid", curvature=c), sites)
    for k, name in enumerate(model.names):
        members = np.vstack([s.X[s.y.astype(str) == name] for s in sites])
        assert np.allclose(model.centroids[k], lorentz_centroid(members, c=c), atol=1e-9)


def test_the_pull_is_one_more_than_the_columns_unless_it_is_given() -> None:
    sites = blobs(3, 2)
    usual, given = pooled(Moments(), sites), pooled(Moments(shrinkage=3.0), sites)
    np.testing.assert_array_equal(usual.covariances, given.covariances)
    assert not np.allclose(usual.covariances, pooled(Moments(shrinkage=30.0), sites).covariances)


def test_a_class_too_small_over_all_sites_is_named() -> None:
    total = class_moments(np.zeros((1, 2)), np.array(["rare"]), ("rare",), c=None)
    with pytest.raises(InputError, match="fewer than 2 rows at all sites together: rare"):
        build_model(Moments(space="euclidean"), total, ("rare",), 2)
