"""Points of least norm against hand-computed cases, a general solver, and the printed rule."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

from fedgeom.errors import InputError
from fedgeom.geometry import min_norm


def squared_norm(gram, weights):
    """‖Σ p_k Δ_k‖²."""
    return float(weights @ gram @ weights)


def gram_of(vectors):
    vectors = np.asarray(vectors, float)
    return vectors @ vectors.T


def reference(V, mixed=1.0):
    """A general nonlinear solver: slow, and it shares nothing with the tested way."""
    count = len(V)
    bounds = [{"type": "eq", "fun": lambda p: p.sum() - 1, "jac": lambda p: np.ones(count)}]
    if mixed > 1:
        bounds.append({"type": "ineq", "fun": lambda p: 1 / mixed - p @ p, "jac": lambda p: -2 * p})
    scaled = V / np.diag(V).max()
    found = minimize(
        lambda p: p @ scaled @ p,
        np.full(count, 1 / count),
        jac=lambda p: 2 * scaled @ p,
        bounds=[(0, 1)] * count,
        constraints=bounds,
        method="SLSQP",
        options={"ftol": 1e-15, "maxiter": 1000},
    )
    return found.x


def draw(seed, count=8, dim=20, drift=0.5):
    """Deviations with a common direction and very different lengths, as sites have."""
    rng = np.random.default_rng(seed)
    vectors = rng.normal(size=(count, dim)) + drift * rng.normal(size=dim)
    return vectors * rng.lognormal(size=(count, 1))


@pytest.mark.parametrize(
    ("vectors", "share"),
    [
        (((1, 0), (0, 1)), 0.5),
        (((2, 0), (0, 1)), 0.2),  # the perpendicular foot on the line from (2, 0) to (0, 1)
        (((1, 0), (3, 0)), 1.0),  # case 3: the first is shorter and in the way
        (((3, 1), (1, 0)), 0.0),  # case 2
        (((-1, 0), (1, 0)), 0.5),
        (((1, 1), (1, 1)), 0.0),
    ],
)
def test_two_vectors_have_the_closed_form(vectors, share):
    V = gram_of(vectors)
    found = min_norm.line_search(V[0, 0], V[0, 1], V[1, 1])
    assert found == pytest.approx(share, abs=1e-12)
    if not np.array_equal(*vectors):
        np.testing.assert_allclose(min_norm.least_norm(V), [share, 1 - share], atol=1e-9)


def test_the_point_of_a_triangle_around_the_origin_is_the_origin():
    V = gram_of([(1, 0), (-1, 1), (-1, -1)])
    np.testing.assert_allclose(min_norm.least_norm(V), [0.5, 0.25, 0.25], atol=1e-9)


def test_a_vector_of_norm_zero_takes_all_weight_when_raw():
    V = gram_of([(1, 0), (0, 0), (0, 2)])
    np.testing.assert_allclose(min_norm.least_norm(V), [0, 1, 0], atol=1e-9)
    assert np.isfinite(min_norm.consistent_weights(V)).all()


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("deviations", ["raw", "unit"])
@pytest.mark.parametrize("mixed", [1.0, 3.0, 5.5, 7.9])
def test_weights_equal_a_quadratic_program(seed, deviations, mixed):
    V = gram_of(draw(seed))
    found = min_norm.consistent_weights(V, deviations=deviations, mixed=mixed)
    W = min_norm.unit_gram(V) if deviations == "unit" else V
    wanted = reference(W, mixed)
    assert found.sum() == pytest.approx(1.0, abs=1e-12)
    assert (found >= 0).all()
    assert 1 / (found @ found) >= mixed - 1e-9
    scale = np.diag(W).max()
    assert squared_norm(W, found) <= squared_norm(W, wanted) + 1e-9 * scale
    np.testing.assert_allclose(found, wanted, atol=2e-6)


@pytest.mark.parametrize("seed", range(4))
def test_the_optimum_is_consistent_with_every_deviation(seed):
    """At the optimum no vector has a smaller product with the point than the point with itself (Pareto)."""
    V = gram_of(draw(seed))
    p = min_norm.least_norm(V)
    assert (V @ p >= squared_norm(V, p) - 1e-9 * np.diag(V).max()).all()


@pytest.mark.parametrize("seed", range(4))
def test_line_searches_with_the_mean_of_the_others_reach_the_optimum(seed):
    V = min_norm.unit_gram(gram_of(draw(seed)))
    start = np.arange(1.0, 9.0)
    best = squared_norm(V, min_norm.least_norm(V))
    norms = [squared_norm(V, min_norm.frank_wolfe(V, start, steps=n)) for n in (0, 1, 5, 50, 5000)]
    assert norms == sorted(norms, reverse=True)
    assert norms[-1] <= best * (1 + 1e-3)


def test_the_printed_rule_stays_above_the_optimum():
    above = []
    for seed in range(8):
        V = min_norm.unit_gram(gram_of(draw(seed)))
        best = squared_norm(V, min_norm.least_norm(V))
        above.append(squared_norm(V, min_norm.as_printed(V, np.ones(8), steps=5000)) / best)
    assert min(above) > 1.001
    assert np.median(above) > 1.01


def test_the_printed_rule_by_hand():
    # p = (1/2, 1/2), τ = the second; the others sum to (1, 0): line search from there to (0, 1) gives 1/2.
    V = gram_of([(2, 0), (0, 1)])
    np.testing.assert_allclose(min_norm.as_printed(V, [1, 1], steps=1), [0.25, 0.75])
    np.testing.assert_allclose(min_norm.frank_wolfe(V, [1, 1], steps=1), [0.2, 0.8])


def test_unit_deviations_forget_lengths():
    vectors = draw(3)
    lengths = np.linspace(0.1, 10, 8)[:, None]
    one, other = (min_norm.consistent_weights(gram_of(v)) for v in (vectors, vectors * lengths))
    np.testing.assert_allclose(one, other, atol=1e-9)


def test_with_the_bound_at_the_number_of_sites_all_count_alike():
    np.testing.assert_allclose(min_norm.least_norm(gram_of(draw(0)), mixed=8), np.full(8, 1 / 8))
    np.testing.assert_allclose(min_norm.least_norm([[4.0]]), [1.0])


@pytest.mark.parametrize("mixed", [1.0, 1.5, 2.0, 3.0, 9.0])
def test_weights_are_evened_just_enough(mixed):
    p = np.array([0.8, 0.2, 0.0])
    found = min_norm.evened(p, mixed=mixed)
    assert found.sum() == pytest.approx(1)
    assert 1 / (found @ found) == pytest.approx(min(max(mixed, 1 / (p @ p)), 3))
    assert (np.diff(found) <= 1e-12).all()


def test_equal_vectors_and_no_movement_at_all():
    for V in (np.ones((4, 4)), np.zeros((4, 4))):
        p = min_norm.consistent_weights(V, mixed=3)
        assert p.sum() == pytest.approx(1)
        assert 1 / (p @ p) >= 3 - 1e-9


@pytest.mark.parametrize(
    ("gram", "options"),
    [
        (np.ones((2, 3)), {}),
        (np.zeros((0, 0)), {}),
        ([[np.nan]], {}),
        (-np.eye(2), {}),
        (np.eye(2), {"mixed": 3}),
        (np.eye(2), {"mixed": 0.5}),
    ],
)
def test_what_is_no_gram_matrix_or_no_bound_is_refused(gram, options):
    with pytest.raises(InputError):
        min_norm.least_norm(gram, **options)


@pytest.mark.parametrize("start", [[0, 0], [-1, 2], [np.inf, 1]])
def test_what_is_no_start_is_refused(start):
    with pytest.raises(InputError, match="start"):
        min_norm.frank_wolfe(np.eye(2), start)
