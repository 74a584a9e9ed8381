"""Gaussians: hand-computable distances, moments of unions."""

from __future__ import annotations

import numpy as np
import pytest

from fedgeom.geometry.gaussians import Gaussians, bhattacharyya


def drawn(seed: int, k: int, d: int) -> Gaussians:
    rng = np.random.default_rng(seed)
    roots = rng.normal(size=(k, d, d))
    covariances = roots @ roots.transpose(0, 2, 1) + 0.2 * np.eye(d)
    return Gaussians(rng.integers(5, 50, k).astype(float), rng.normal(size=(k, d)), covariances)


def test_in_one_dimension_the_distance_is_the_textbook_formula() -> None:
    a = Gaussians(np.ones(1), np.array([[0.0]]), np.array([[[1.0]]]))
    b = Gaussians(np.ones(1), np.array([[2.0]]), np.array([[[4.0]]]))
    # (0 - 2)² / (4 (1 + 4)) + ln((1 + 4) / (2 · 1 · 2)) / 2
    assert bhattacharyya(a, b)[0, 0] == pytest.approx(4 / 20 + np.log(5 / 4) / 2)


@pytest.mark.parametrize("seed", range(5))
def test_the_distance_is_symmetric_zero_for_equals_and_blind_to_units(seed: int) -> None:
    some = drawn(seed, 4, 3)
    gaps = bhattacharyya(some, some)
    assert np.allclose(gaps, gaps.T, atol=1e-9)
    assert np.allclose(np.diag(gaps), 0, atol=1e-9)
    turn = np.random.default_rng(seed).normal(size=(3, 3))
    other = Gaussians(some.counts, some.means @ turn.T + 7, turn @ some.covariances @ turn.T)
    assert np.allclose(bhattacharyya(other, other), gaps, atol=1e-6)


@pytest.mark.parametrize("pull", [0.0, 4.0])
def test_covariances_have_inverses_however_few_rows_and_others_stay_as_they_are(pull: float) -> None:
    some = drawn(1, 3, 3)
    flat = np.array(some.covariances)
    flat[0], flat[1] = 0.0, np.outer([1, -1, 0], [1, -1, 0]) - 1e-8 * np.eye(3)  # a point; rounding below a line
    made = Gaussians(np.array([1.0, 2.0, 40.0]), some.means, flat).shrunk(np.diag([1.0, 1.0, 0.0]), pull)
    assert np.linalg.eigvalsh(made.covariances).min() > 1e-8
    assert np.linalg.cholesky(made.covariances).shape == (3, 3, 3)
    expected = (40 * flat[2] + pull * np.diag([1.0, 1.0, 0.0])) / (39 + pull)
    assert np.allclose(made.covariances[2], expected, rtol=0, atol=1e-8)


def test_what_gaussians_make_together_are_the_moments_of_all_rows() -> None:
    rng = np.random.default_rng(0)
    parts = [rng.normal(size=(n, 3)) + at for at, n in enumerate((8, 20, 5))]
    counts = np.array([len(rows) for rows in parts], float)
    means = np.array([rows.mean(axis=0) for rows in parts])
    covariances = np.array([np.cov(rows.T, bias=True) for rows in parts])
    found = Gaussians(counts, means, covariances).merged(np.array([0, 1, 0]), 2)
    rows = np.vstack([parts[0], parts[2]])
    assert np.allclose(found.means[0], rows.mean(axis=0))
    assert np.allclose(found.covariances[0], np.cov(rows.T, bias=True))
    assert found.counts.tolist() == [13, 20]


def test_a_flat_gaussian_has_an_inverse_once_it_is_shrunk() -> None:
    flat = Gaussians(np.array([2.0]), np.zeros((1, 2)), np.array([[[1.0, 1.0], [1.0, 1.0]]]))
    found = flat.shrunk(np.eye(2), 3.0).covariances[0]
    assert np.allclose(found, (2 * np.ones((2, 2)) + 3 * np.eye(2)) / (1 + 3), atol=1e-6)
    assert np.linalg.slogdet(found)[0] == 1
