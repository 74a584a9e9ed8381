"""Convolutions: widths, banks of filters, and rows that do not depend on each other."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from fedgeom.errors import ProtocolError
from fedgeom.methods.ridge.features import FeatureContext
from fedgeom.methods.ridge.image_features import (
    Conv,
    RandomConv,
    brightness,
    grid,
    normalised_patches,
    pool_matrix,
    pooled_responses,
)

SHAPE = (6, 5, 2)
X = np.random.default_rng(0).integers(0, 255, (20, 60)).astype(np.uint8)
GROUND = FeatureContext(60, 4, SHAPE, X.mean(axis=0), X.std(axis=0), np.ones(60), float(X.std()))


def test_random_filters_have_mean_0_and_length_1_and_depend_on_the_seed() -> None:
    filters, offsets = RandomConv(n_filters=9, patch_size=3).bank(GROUND)
    assert filters.shape == (18, 9)
    np.testing.assert_allclose(filters.mean(axis=0), 0, atol=1e-6)
    np.testing.assert_allclose(np.linalg.norm(filters, axis=0), 1, rtol=1e-5)
    assert not offsets.any()
    assert not np.allclose(filters, RandomConv(n_filters=9, patch_size=3).bank(replace(GROUND, seed=5))[0])


def test_features_are_pooled_responses_and_brightness() -> None:
    one = RandomConv(n_filters=4, patch_size=3, padding=1, pools=2, means=1, threshold=0.1)
    found = one.transform(X, GROUND)
    assert found.shape == (20, one.width(60, SHAPE) or 0)
    assert found.dtype == np.float32
    patches = normalised_patches(X, SHAPE, 3, 1, GROUND.contrast)
    wanted = pooled_responses(patches, *one.bank(GROUND), 0.1, pool_matrix(*grid(SHAPE, 3, 1), 2))
    np.testing.assert_allclose(found[:, :-2], wanted, rtol=1e-5, atol=1e-6)
    usual = float(GROUND.mean.mean())
    np.testing.assert_allclose(found[:, -2:], brightness(X, SHAPE, 1, usual) / GROUND.contrast, rtol=1e-5)


def test_an_image_has_the_same_features_alone_as_among_others() -> None:
    one = RandomConv(n_filters=4, patch_size=3)
    alone = np.vstack([one.transform(row[None], GROUND) for row in X])
    np.testing.assert_array_equal(one.transform(X, GROUND), alone)


def test_brighter_and_stronger_images_of_one_kind_have_the_same_filtered_features() -> None:
    """Contrast is measured beside that of all images, so that the unit of cells does not matter."""
    one = RandomConv(n_filters=4, patch_size=3, padding=0, means=0)
    other = replace(GROUND, mean=7 * GROUND.mean + 3, contrast=7 * GROUND.contrast)
    np.testing.assert_allclose(one.transform(7.0 * X + 3, other), one.transform(X, GROUND), rtol=1e-3, atol=1e-3)


def test_learnt_filters_are_those_of_the_sums() -> None:
    filters, offsets = np.ones((18, 2), np.float32), np.zeros(2, np.float32)
    found = Conv(n_filters=2, patch_size=3).bank(replace(GROUND, filters=filters, offsets=offsets))
    assert found[0] is filters
    with pytest.raises(ProtocolError, match="not learnt yet"):
        Conv().bank(GROUND)


def test_no_feature_exceeds_what_its_digits_are_planned_for() -> None:
    one = RandomConv(n_filters=30, patch_size=3, pools=2)
    assert (one.transform(X, GROUND) ** 2).mean(axis=0).max() < one.mean_square


@pytest.mark.parametrize("shape", [(6, 5, 2), (5, 4, 3)])
@pytest.mark.parametrize("pools", [1, 2, 3])
def test_an_image_and_its_mirror_image_have_the_means_of_their_features(shape, pools) -> None:
    one = RandomConv(n_filters=4, patch_size=3, padding=1, pools=pools, means=3, mirror="always")
    ground, turned = replace(GROUND, shape=shape), X.reshape(20, *shape)[:, :, ::-1].reshape(20, -1)
    found = one.transform(X, ground)
    assert found.shape == (20, one.width(60, shape) or 0)
    np.testing.assert_allclose(one.transform(turned, ground), found, rtol=1e-4, atol=1e-5)
    plain, split = replace(one, mirror="never"), 8 * pools**2
    both = (plain.transform(X, ground) + plain.transform(turned, ground)) / 2
    np.testing.assert_allclose(found[:, :split], both[:, :split], rtol=1e-4, atol=1e-5)
    left = both[:, split:].reshape(20, 3, 3, shape[2])[:, :, :2].reshape(20, -1)
    np.testing.assert_allclose(found[:, split:], left, rtol=1e-4, atol=1e-5)


def test_images_of_three_channels_are_mirrored_and_grey_ones_are_not() -> None:
    assert [Conv().mirrors((5, 5, channels)) for channels in (1, 2, 3, 4)] == [False, False, True, True]
    assert not Conv(mirror="never").mirrors((5, 5, 3))
