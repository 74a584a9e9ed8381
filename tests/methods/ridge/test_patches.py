"""Patches against direct computations."""

from __future__ import annotations

import numpy as np
import pytest

from fedgeom.methods.ridge.image_features import (
    CONTRAST,
    WHITENING,
    assign,
    blocks,
    brightness,
    count_images,
    grid,
    normalised_patches,
    patch_moments,
    pool_matrix,
    pooled_responses,
    sum_cells,
    whitening,
)

SHAPE = (5, 7, 2)


def some(images: int = 3) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 255, (images, 5 * 7 * 2)).astype(np.uint8)


def test_every_patch_is_cut_out_and_normalised_by_its_own_contrast() -> None:
    X, contrast = some(), 60.0
    found = normalised_patches(X, SHAPE, 3, 1, contrast)
    assert grid(SHAPE, 3, 1) == (5, 7)
    assert found.shape == (3, 35, 18)
    assert found.dtype == np.float32
    padded = np.pad(X.reshape(3, *SHAPE).astype(float), ((0, 0), (1, 1), (1, 1), (0, 0)))
    cut = padded[1, 2:5, 4:7].transpose(2, 0, 1).ravel()  # the place in row 2, column 4
    wanted = (cut - cut.mean()) / np.sqrt(cut.var() + (CONTRAST * contrast) ** 2)
    np.testing.assert_allclose(found[1, 2 * 7 + 4], wanted, rtol=1e-4, atol=1e-5)


def test_the_lattice_has_the_same_places_in_all_images() -> None:
    X = np.random.default_rng(1).integers(0, 255, (2, 20 * 20)).astype(np.uint8)
    every = normalised_patches(X, (20, 20, 1), 4, 0, 50.0).reshape(2, 17, 17, 16)
    few = normalised_patches(X, (20, 20, 1), 4, 0, 50.0, lattice=True)
    places = [0, 3, 6, 10, 13, 16]
    np.testing.assert_array_equal(few.reshape(2, 6, 6, 16), every[:, places][:, :, places])


def test_whitening_makes_the_covariance_of_patches_nearly_the_identity() -> None:
    rng = np.random.default_rng(2)
    rows = (rng.normal(size=(5000, 4)) @ rng.normal(size=(4, 4)) * 3 + 1).astype(np.float32)
    mean, whitener = whitening(patch_moments(rows[None]), 4)
    np.testing.assert_allclose(mean, rows.mean(axis=0), rtol=1e-4)
    values, vectors = np.linalg.eigh(np.cov(rows.T.astype(float), bias=True))
    np.testing.assert_allclose(whitener, (vectors / np.sqrt(values + WHITENING)) @ vectors.T, rtol=1e-3, atol=1e-5)


def test_clusters_are_counted_by_image_and_summed_by_patch() -> None:
    rng = np.random.default_rng(3)
    patches = rng.normal(size=(4, 6, 5)).astype(np.float32)
    mean, whitener, centres = np.zeros(5), np.eye(5), np.eye(5)[:3]
    cells, units = assign(patches, mean, whitener, centres)
    flat = patches.reshape(-1, 5)
    unit = flat / np.linalg.norm(flat, axis=1, keepdims=True)
    np.testing.assert_array_equal(cells, (unit @ centres.T).argmax(axis=1))
    per_image = cells.reshape(4, 6)
    wanted = [sum(cluster in set(one.tolist()) for one in per_image) for cluster in range(3)]
    assert count_images(cells, 4, 3).tolist() == wanted
    sums = sum_cells(cells, units, np.array([0, 2]), 3)
    np.testing.assert_allclose(sums, [unit[cells == 0].sum(axis=0), unit[cells == 2].sum(axis=0)], rtol=1e-5)


def test_responses_are_two_sided_and_pooled() -> None:
    rng = np.random.default_rng(4)
    patches, filters = rng.normal(size=(2, 6, 4)).astype(np.float32), rng.normal(size=(4, 3)).astype(np.float32)
    offsets, pools = np.array([0.1, 0.0, -0.2], np.float32), pool_matrix(2, 3, 1)
    found = pooled_responses(patches, filters, offsets, 0.25, pools)
    r = patches.astype(float) @ filters - offsets
    up, down = np.maximum(r - 0.25, 0).mean(axis=1), np.maximum(-r - 0.25, 0).mean(axis=1)
    np.testing.assert_allclose(found, np.sqrt(np.hstack([up, down])), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(("down", "across", "pools"), [(6, 9, 3), (5, 7, 2), (4, 4, 4), (3, 3, 1)])
def test_pools_cover_every_place_once(down: int, across: int, pools: int) -> None:
    found = pool_matrix(down, across, pools)
    assert found.shape == (pools**2, down * across)
    np.testing.assert_allclose(found.sum(axis=1), 1, rtol=1e-6)
    np.testing.assert_array_equal((found > 0).sum(axis=0), 1)


def test_pools_that_overlap_weigh_places_by_their_distance_from_the_middle() -> None:
    found = pool_matrix(6, 4, 2, 0.5)
    np.testing.assert_allclose(found.sum(axis=1), 1, rtol=1e-6)
    first = found[0].reshape(6, 4)  # its middle is in row 1, and between columns 0 and 1
    assert first.argmax() in (4, 5)
    np.testing.assert_allclose(first[:, 0], first[:, 1], rtol=1e-6)
    np.testing.assert_allclose(first[2] / first[1], np.exp(-((1 / 1.5) ** 2) / 2), rtol=1e-5)
    np.testing.assert_allclose(first[:, 3] / first[:, 1], np.exp(-(2.5**2 - 0.5**2) / 2), rtol=1e-5)
    np.testing.assert_allclose(found[3], found[0][::-1], rtol=1e-6)
    np.testing.assert_allclose(pool_matrix(6, 4, 1, 4.0), 1 / 24, rtol=0.1)


def test_brightness_is_the_mean_of_each_region_and_channel() -> None:
    X = some()
    found = brightness(X, SHAPE, 1, 10.0)
    np.testing.assert_allclose(found, X.reshape(3, 35, 2).mean(axis=1) - 10, rtol=1e-4)


def test_blocks_go_through_all_rows() -> None:
    assert [range(7)[one] for one in blocks(7, 3)] == [range(3), range(3, 6), range(6, 7)]
