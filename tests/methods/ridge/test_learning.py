"""Making features from sums: moments, whitening and k-means, the same as on pooled rows."""

from __future__ import annotations

import numpy as np
import pytest

from fedgeom import Ridge
from fedgeom.errors import ProtocolError
from fedgeom.methods.ridge.statistics import (
    PATCH_BITS,
    FeatureFit,
    FeatureProblem,
    cluster_sums,
    column_moments,
    features_of,
    patch_sums,
)
from fedgeom.protocols.fixed_point import to_fixed, to_wide
from tests.methods.ridge.making import SHAPE, SMALL_CONV, blobs, images, pooled

CONV = Ridge(features=SMALL_CONV, shape=SHAPE)


def codes(y: np.ndarray) -> np.ndarray:
    return np.unique(y, return_inverse=True)[1]


def begun(floors: tuple[int, int] = (1, 1)) -> tuple[FeatureFit, FeatureProblem, np.ndarray]:
    X, y = pooled(images())
    plan, fit = FeatureProblem(CONV, 0, floors, X.shape[1], 2), FeatureFit()
    fit.take(to_wide(column_moments(X, codes(y), 2), sites=1), plan)
    fit.take(to_fixed(patch_sums(X, fit, plan), fraction_bits=PATCH_BITS, sites=1), plan)
    return fit, plan, X


def test_moments_are_those_of_the_pooled_table_whatever_the_units() -> None:
    sites = blobs()
    X, y = pooled(sites)
    plan, fit = FeatureProblem(Ridge(features="linear"), 0, (1, 1), 5, 3), FeatureFit()
    words = [to_wide(column_moments(s.X, codes(s.y), 3), sites=4) for s in sites]
    fit.take(np.add.reduce(words, axis=0, dtype=np.uint64), plan)
    ground = fit.finished(plan)
    np.testing.assert_allclose(ground.mean, X.mean(axis=0), rtol=1e-8)
    np.testing.assert_allclose(ground.scale, X.std(axis=0), rtol=1e-5)  # 10⁻³ squared, to 2⁻⁴⁰
    np.testing.assert_allclose(fit.class_counts(), np.bincount(codes(y)))
    assert fit.rows() == len(X)


def test_clusters_of_few_images_or_sites_are_not_summed_and_their_filters_stay() -> None:
    fit, plan, X = begun(floors=(2, 1))
    assert fit.centres is not None
    before = fit.centres.numpy()
    counted, sums = cluster_sums(X, fit, plan)
    fit.take(np.array([[50, 2, 50, 50, 3], [2, 2, 1, 2, 2]]).ravel().view(np.uint64), plan)
    assert fit.kept is not None
    assert fit.kept.numpy().tolist() == [0, 3, 4]  # the second has two images, the third one site
    assert fit.length(plan) == 3 * 9
    fit.take(to_fixed(sums[[0, 3, 4]], fraction_bits=PATCH_BITS, sites=1), plan)
    after = fit.centres.numpy()
    np.testing.assert_array_equal(after[[1, 2]], before[[1, 2]])
    np.testing.assert_allclose(after[0], sums[0] / np.linalg.norm(sums[0]), atol=1e-6)
    assert counted.max() <= len(X)


def test_sums_over_sites_are_those_of_the_pooled_images() -> None:
    fit, plan, X = begun()
    counted, sums = cluster_sums(X, fit, plan)
    parts = [cluster_sums(site.X, fit, plan) for site in images()]
    np.testing.assert_array_equal(np.sum([one for one, _ in parts], axis=0), counted)
    np.testing.assert_allclose(np.sum([one for _, one in parts], axis=0), sums, atol=1e-3)


def test_filters_are_ready_after_all_sums_and_not_before() -> None:
    fit, plan, X = begun()
    assert plan.steps == 6
    for _ in range(2):
        with pytest.raises(ProtocolError, match="not made yet"):
            fit.finished(plan)
        counted, sums = cluster_sums(X, fit, plan)
        fit.take(np.concatenate([counted, counted > 0]).astype(np.int64).view(np.uint64), plan)
        assert fit.kept is not None
        fit.take(to_fixed(sums[fit.kept.numpy()], fraction_bits=PATCH_BITS, sites=1), plan)
    ground = fit.finished(plan)
    assert ground.filters is not None
    assert ground.filters.shape == (9, 5)
    assert features_of(X, plan, ground)(slice(3, 9)).shape == (6, plan.width)
    with pytest.raises(ProtocolError, match="made already"):
        fit.length(plan)


def test_sums_of_another_length_and_questions_before_their_time_are_refused() -> None:
    plan, fit = FeatureProblem(CONV, 0, (1, 1), 36, 2), FeatureFit()
    with pytest.raises(ProtocolError, match="a sum of 3 words came; wanted 148"):
        fit.take(np.zeros(3, np.uint64), plan)
    for early in (fit.class_counts, lambda: fit.ground(plan)):
        with pytest.raises(ProtocolError, match="yet"):
            early()
