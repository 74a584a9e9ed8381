"""Prototypes against closed forms, published Tammes angles and limits."""

from __future__ import annotations

import math

import numpy as np
import pytest

from fedgeom.errors import InputError
from fedgeom.geometry.hyperbolic import poincare, prototypes

# Minimal angles in degrees of the best known arrangements on the sphere (those up to 14 points and of 24 are proven).
SPHERE = {
    4: 109.4712206,
    5: 90.0,
    6: 90.0,
    7: 77.8695421,
    8: 74.8584922,
    9: 70.5287794,
    10: 66.1468220,
    12: 63.4349488,
    14: 55.6705700,
    24: 43.6907671,
}


def rng(seed=0):
    return np.random.default_rng(seed)


def angle(W):
    return math.degrees(math.acos(prototypes.largest_cosine(W)))


@pytest.mark.parametrize(("count", "degrees"), SPHERE.items())
def test_the_sphere_has_the_published_angles(count, degrees):
    W = prototypes.tammes(count, 3, rng=rng())
    np.testing.assert_allclose(np.linalg.norm(W, axis=1), 1.0, atol=1e-12)
    assert degrees - 2e-5 <= angle(W) <= degrees + 1e-6


@pytest.mark.parametrize("count", [2, 3, 4, 5, 7, 30])
def test_the_plane_has_regular_polygons(count):
    W = prototypes.tammes(count, 2, rng=rng())
    assert angle(W) == pytest.approx(360.0 / count, abs=1e-9)


@pytest.mark.parametrize(("count", "dim"), [(2, 1), (2, 5), (3, 2), (10, 20), (10, 9), (21, 20), (4, 3)])
def test_up_to_dim_plus_one_vectors_are_a_simplex(count, dim):
    W = prototypes.tammes(count, dim, rng=rng())
    cosines = W @ W.T
    np.testing.assert_allclose(np.diag(cosines), 1.0, atol=1e-12)
    np.testing.assert_allclose(cosines[~np.eye(count, dtype=bool)], -1.0 / (count - 1), atol=1e-12)
    np.testing.assert_allclose(W.sum(axis=0), 0.0, atol=1e-12)


@pytest.mark.parametrize(("count", "dim"), [(22, 20), (30, 20), (40, 20), (6, 3), (8, 4), (5, 4), (7, 5)])
def test_up_to_twice_the_dimension_the_largest_cosine_is_zero(count, dim):
    W = prototypes.tammes(count, dim, rng=rng())
    np.testing.assert_allclose(np.linalg.norm(W, axis=1), 1.0, atol=1e-12)
    wanted = -1.0 / (count - 1) if count <= dim + 1 else 0.0
    assert prototypes.largest_cosine(W) == pytest.approx(wanted, abs=1e-12)


def test_a_single_class_and_a_line():
    np.testing.assert_array_equal(prototypes.tammes(1, 3, rng=rng()), [[1.0, 0.0, 0.0]])
    assert prototypes.largest_cosine(prototypes.tammes(2, 1, rng=rng())) == -1.0
    assert prototypes.largest_cosine(np.eye(3)[:1]) == -1.0


def test_the_same_seed_gives_the_same_and_more_starts_are_never_worse():
    one = prototypes.tammes(10, 3, rng=rng(3), starts=2)
    np.testing.assert_array_equal(one, prototypes.tammes(10, 3, rng=rng(3), starts=2))
    more = prototypes.tammes(10, 3, rng=rng(3), starts=6)
    assert prototypes.largest_cosine(more) <= prototypes.largest_cosine(one)


def test_the_published_descent_stops_above_the_simplex():
    W = prototypes.published(10, 20, rng=rng())
    np.testing.assert_allclose(np.linalg.norm(W, axis=1), 1.0, atol=1e-12)
    assert -0.1 < prototypes.largest_cosine(W) < -0.085
    np.testing.assert_array_equal(W, prototypes.published(10, 20, rng=rng()))
    assert prototypes.published(1, 3, rng=rng()).shape == (1, 3)


def test_one_published_step_follows_the_gradient_of_equation_5():
    start = prototypes.random_directions(4, 3, rng=rng(1))

    def loss(W):
        W = W / np.linalg.norm(W, axis=1, keepdims=True)
        return (W @ W.T - 2 * np.eye(4)).max(axis=1).mean()

    def raw(flat):
        W = flat.reshape(4, 3)
        return (W @ W.T - 2 * np.diag((W * W).sum(axis=1))).max(axis=1).mean()

    flat, step = start.ravel(), 1e-6
    slope = np.array([(raw(flat + step * e) - raw(flat - step * e)) / (2 * step) for e in np.eye(12)])
    moved = start - 0.1 * slope.reshape(4, 3)
    moved /= np.linalg.norm(moved, axis=1, keepdims=True)
    np.testing.assert_allclose(prototypes.published(4, 3, rng=rng(1), steps=1), moved, atol=1e-8)
    assert loss(moved) < loss(start)


def test_contracted_prototypes_have_the_slope_as_norm_and_known_distances():
    W = prototypes.contract(prototypes.tammes(10, 20, rng=rng()), 0.9)
    np.testing.assert_allclose(np.linalg.norm(W, axis=1), 0.9, atol=1e-12)
    gaps = prototypes.distances(W, W)
    # cosh d = 1 + 2·s²·2(1 + 1/9)/(1 - s²)²
    wanted = math.acosh(1 + 4 * 0.81 * (1 + 1 / 9) / 0.19**2)
    np.testing.assert_allclose(gaps[~np.eye(10, dtype=bool)], wanted, rtol=1e-12)


def test_on_the_edge_distances_are_the_limit_of_distance_differences():
    W = prototypes.tammes(5, 3, rng=rng())
    points = poincare.exp0(rng(2).normal(size=(20, 3)))
    ideal = prototypes.distances(points, prototypes.contract(W, 1.0))
    slope = 1 - 1e-9
    near = poincare.pairwise_distance(points, slope * W) - 2 * math.atanh(slope)
    np.testing.assert_allclose(ideal, near, atol=1e-6)
    np.testing.assert_allclose(prototypes.distances(np.zeros((1, 3)), W), 0.0, atol=1e-12)
    with pytest.raises(InputError, match="all or none"):
        prototypes.distances(points, np.array([[1.0, 0, 0], [0.5, 0, 0]]))


@pytest.mark.parametrize("slope", [0.0, -0.1, 1.1, float("nan")])
def test_a_slope_outside_is_refused(slope):
    with pytest.raises(InputError, match="slope"):
        prototypes.contract(np.eye(2), slope)


@pytest.mark.parametrize(("count", "dim"), [(0, 2), (2, 0), (3, 1)])
def test_impossible_sizes_are_refused(count, dim):
    with pytest.raises(InputError):
        prototypes.tammes(count, dim, rng=rng())


def test_without_starts_there_is_no_search():
    with pytest.raises(InputError, match="starts"):
        prototypes.tammes(9, 3, rng=rng(), starts=0)
