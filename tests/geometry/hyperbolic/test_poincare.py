"""The laws of the Poincaré ball, swept over seeds, dimensions, curvatures and magnitudes up to the edge."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedgeom.errors import InputError
from fedgeom.geometry.hyperbolic import poincare as pb
from tests.tiers import examples

EPS = float(np.finfo(np.float64).eps)
CURVATURES = (0.0015, 0.5, 1.0, 4.0)
DIMS = (2, 3, 5, 10)
GAPS = (0.5, 1e-2, 1e-4, 1e-6)


def draw(n, dim, c, gap, seed):
    """Points of scaled norm up to 1 - gap: half of them at that norm, half anywhere below."""
    rng = np.random.default_rng(seed)
    direction = rng.normal(size=(n, dim))
    direction /= np.linalg.norm(direction, axis=1, keepdims=True)
    radius = np.where(np.arange(n) % 2 == 0, 1.0, rng.random(n)) * (1.0 - gap)
    return direction * radius[:, None] / math.sqrt(c)


sweep = pytest.mark.parametrize(
    ("dim", "c", "gap", "seed"),
    [(d, c, g, s) for d in DIMS for c in CURVATURES for g in GAPS for s in (0, 1)],
)


def allowed(c, gap):
    """A position near the edge is known up to rounding over the gap, in hyperbolic length."""
    return 1e3 * EPS / gap / math.sqrt(c)


@sweep
def test_left_cancellation(dim, c, gap, seed):
    x, y = draw(40, dim, c, gap, seed), draw(40, dim, c, 0.3, seed + 10)
    back = pb.mobius_add(-x, pb.mobius_add(x, y, c=c), c=c)
    assert pb.distance(back, y, c=c).max() <= allowed(c, gap)


@sweep
def test_origin_is_neutral_and_inverse_is_minus(dim, c, gap, seed):
    x = draw(40, dim, c, gap, seed)
    zero = np.zeros(dim)
    np.testing.assert_allclose(pb.mobius_add(zero, x, c=c), x, rtol=1e-13, atol=1e-15)
    np.testing.assert_allclose(pb.mobius_add(x, zero, c=c), x, rtol=1e-13, atol=1e-15)
    assert np.abs(pb.mobius_add(-x, x, c=c)).max() == 0.0


def naive_mobius(x, y, c):
    """Eq. 3 as printed."""
    xy, xx, yy = ((a * b).sum(-1, keepdims=True) for a, b in ((x, y), (x, x), (y, y)))
    top = (1 + 2 * c * xy + c * yy) * x + (1 - c * xx) * y
    return top / (1 + 2 * c * xy + c * c * xx * yy)


def naive_log(p, x, c):
    """Eq. 1 as printed."""
    z = naive_mobius(-p, x, c)
    norm = np.linalg.norm(z, axis=-1, keepdims=True)
    factor = (1 - c * (p * p).sum(-1, keepdims=True)) / math.sqrt(c)
    return factor * np.arctanh(math.sqrt(c) * norm) * z / norm


def naive_exp(p, v, c):
    """Eq. 2 as printed."""
    norm = np.linalg.norm(v, axis=-1, keepdims=True)
    step = np.tanh(math.sqrt(c) * norm / (1 - c * (p * p).sum(-1, keepdims=True))) * v / (math.sqrt(c) * norm)
    return naive_mobius(p, step, c)


@pytest.mark.parametrize("c", CURVATURES)
@pytest.mark.parametrize("dim", DIMS)
def test_forms_equal_the_papers_equations(dim, c):
    p, x = draw(60, dim, c, 0.2, 1), draw(60, dim, c, 0.2, 2)
    v = naive_log(p, x, c)
    scale = 1.0 / math.sqrt(c)
    np.testing.assert_allclose(pb.mobius_add(p, x, c=c), naive_mobius(p, x, c), rtol=0, atol=1e-12 * scale)
    np.testing.assert_allclose(pb.log_map(p, x, c=c), v, rtol=0, atol=1e-12 * scale)
    np.testing.assert_allclose(pb.exp_map(p, v, c=c), naive_exp(p, v, c), rtol=0, atol=1e-12 * scale)
    eq4 = 2 * scale * np.arctanh(math.sqrt(c) * np.linalg.norm(naive_mobius(-p, x, c), axis=-1))
    np.testing.assert_allclose(pb.distance(p, x, c=c), eq4, rtol=1e-11)
    z = naive_mobius(-p, x, c)
    w = np.random.default_rng(3).normal(size=(60, dim))
    flat = 2 * math.sqrt(c) * (z * w).sum(-1) / ((1 - c * (z * z).sum(-1)) * np.linalg.norm(w, axis=-1))
    offset = pb.hyperplane_distance(x, p, w, c=c)
    np.testing.assert_allclose(offset, np.arcsinh(flat) * scale, rtol=0, atol=1e-11 * scale)


@sweep
def test_exp_inverts_log(dim, c, gap, seed):
    p, x = draw(40, dim, c, gap, seed), draw(40, dim, c, gap, seed + 10)
    length = pb.distance(p, x, c=c)
    back = pb.exp_map(p, pb.log_map(p, x, c=c), c=c)
    # An error in the direction of a walk of length d is magnified by sinh(√c d): float64 holds no more.
    bound = allowed(c, gap) + 1e2 * EPS * np.exp(math.sqrt(c) * length) / math.sqrt(c)
    assert (pb.distance(back, x, c=c) <= bound).all()


@sweep
def test_log_inverts_exp(dim, c, gap, seed):
    p = draw(40, dim, c, gap, seed)
    v = draw(40, dim, c, 0.1, seed + 10) * (1.0 - c * (p * p).sum(-1, keepdims=True))
    back = pb.log_map(p, pb.exp_map(p, v, c=c), c=c)
    assert (np.abs(back - v).max(-1) <= 1e3 * EPS / gap * np.linalg.norm(v, axis=-1) + 1e-300).all()


@sweep
def test_length_of_log_is_the_distance(dim, c, gap, seed):
    p, x = draw(40, dim, c, gap, seed), draw(40, dim, c, gap, seed + 10)
    conformal = 2.0 / (1.0 - c * (p * p).sum(-1))
    np.testing.assert_allclose(
        conformal * np.linalg.norm(pb.log_map(p, x, c=c), axis=-1), pb.distance(p, x, c=c), rtol=1e-8
    )


@sweep
def test_distance_is_a_metric_and_isometric(dim, c, gap, seed):
    x, y, z = (draw(40, dim, c, gap, seed + k) for k in (0, 10, 20))
    np.testing.assert_array_equal(pb.distance(x, y, c=c), pb.distance(y, x, c=c))
    assert (pb.distance(x, z, c=c) <= pb.distance(x, y, c=c) + pb.distance(y, z, c=c) + allowed(c, gap)).all()
    assert (pb.distance(x, x, c=c) == 0.0).all()
    a = draw(40, dim, c, 0.3, seed + 30)
    moved = pb.distance(pb.mobius_add(a, x, c=c), pb.mobius_add(a, y, c=c), c=c)
    np.testing.assert_allclose(moved, pb.distance(x, y, c=c), rtol=0, atol=10 * allowed(c, gap))


@sweep
def test_curvature_only_scales(dim, c, gap, seed):
    x, y = draw(40, dim, c, gap, seed), draw(40, dim, c, gap, seed + 10)
    root = math.sqrt(c)
    np.testing.assert_allclose(
        pb.distance(x, y, c=c), pb.distance(root * x, root * y) / root, rtol=0, atol=allowed(c, gap)
    )


def test_small_curvature_is_euclidean_with_factor_two():
    x, y = draw(50, 3, 1.0, 0.1, 0), draw(50, 3, 1.0, 0.1, 1)
    c = 1e-12
    np.testing.assert_allclose(pb.distance(x, y, c=c), 2 * np.linalg.norm(x - y, axis=1), rtol=1e-11)
    np.testing.assert_allclose(pb.mobius_add(x, y, c=c), x + y, rtol=0, atol=1e-11)
    np.testing.assert_allclose(pb.log_map(x, y, c=c), y - x, rtol=0, atol=1e-11)
    np.testing.assert_allclose(pb.exp_map(x, y, c=c), x + y, rtol=0, atol=1e-9)
    np.testing.assert_allclose(pb.midpoint(x, y, c=c), (x + y) / 2, rtol=0, atol=1e-11)


def test_numbers_computed_by_hand():
    origin, x = np.zeros(2), np.array([0.5, 0.0])
    assert pb.distance(origin, x) == pytest.approx(math.log(3.0), rel=1e-15)
    assert pb.distance(-x, x) == pytest.approx(2 * math.log(3.0), rel=1e-15)
    assert pb.distance(origin, x / 2, c=4.0) == pytest.approx(math.log(3.0) / 2, rel=1e-15)
    np.testing.assert_allclose(pb.mobius_add(x, x), [0.8, 0.0], rtol=1e-15)
    np.testing.assert_allclose(pb.midpoint(origin, [0.8, 0.0]), x, rtol=1e-15)
    np.testing.assert_allclose(pb.to_klein(x), [0.8, 0.0], rtol=1e-15)
    np.testing.assert_allclose(pb.to_hyperboloid(x), [5 / 3, 4 / 3, 0.0], rtol=1e-15)
    assert pb.hyperbolic_radius(0.5) == pytest.approx(math.log(3.0), rel=1e-15)
    assert pb.hyperplane_distance([0.0, 0.5], origin, [0.0, 2.0]) == pytest.approx(math.log(3.0), rel=1e-15)
    assert pb.hyperplane_distance([0.0, -0.5], origin, [0.0, 2.0]) == pytest.approx(-math.log(3.0), rel=1e-15)


def test_tiny_distances_keep_their_digits():
    x = np.array([0.9, 0.0])
    for step in (1e-6, 1e-10, 1e-14):
        exact = 2.0 * ((0.9 + step) - 0.9) / (1 - 0.81)
        assert pb.distance(x, x + np.array([step, 0.0])) == pytest.approx(exact, rel=1e-4)
    tiny = np.array([1e-12, 2e-12])
    np.testing.assert_allclose(pb.exp_map(np.zeros(2), tiny), tiny, rtol=1e-14)
    np.testing.assert_allclose(pb.exp0(pb.log0(tiny)), tiny, rtol=1e-14)


@pytest.mark.parametrize("c", CURVATURES)
@pytest.mark.parametrize("dim", DIMS)
def test_nothing_breaks_at_the_edge(dim, c):
    with np.errstate(all="raise", under="ignore"):
        x, y = draw(80, dim, c, 1e-12, 5), draw(80, dim, c, 1e-12, 6)
        radius = 1.0 / math.sqrt(c)
        for point in (
            pb.mobius_add(x, y, c=c),
            pb.mobius_add(-x, y, c=c),
            pb.exp_map(x, pb.log_map(x, y, c=c), c=c),
            pb.exp_map(x, 1e6 * y, c=c),
            pb.exp_map(x, np.zeros(dim), c=c),
            pb.exp0(pb.log0(x, c=c), c=c),
            pb.exp0(1e6 * x, c=c),
            pb.midpoint(x, y, c=c),
            pb.midpoint(x, x, c=c),
            pb.geodesic(x, y, 0.3, c=c),
            pb.geodesic(x, x, 0.3, c=c),
            pb.from_klein(pb.to_klein(x, c=c), c=c),
            pb.from_hyperboloid(pb.to_hyperboloid(x, c=c), c=c),
            pb.lorentz_centroid(x, c=c)[None],
        ):
            assert np.isfinite(point).all()
            assert (c * (point * point).sum(-1) < 1.0).all()
            assert np.linalg.norm(point, axis=-1).max() < radius
        for value in (
            pb.distance(x, y, c=c),
            pb.pairwise_distance(x, y, c=c),
            pb.log_map(x, y, c=c),
            pb.log_map(x, x, c=c),
            pb.log0(x, c=c),
            pb.hyperplane_distance(x, y, x, c=c),
            pb.hyperbolic_radius(np.linalg.norm(x, axis=1), c=c),
        ):
            assert np.isfinite(value).all()


@sweep
def test_geodesics_have_constant_speed(dim, c, gap, seed):
    x, y = draw(40, dim, c, gap, seed), draw(40, dim, c, gap, seed + 10)
    total = pb.distance(x, y, c=c)
    for t in (0.0, 0.2, 0.5, 0.9, 1.0):
        point = pb.geodesic(x, y, t, c=c)
        np.testing.assert_allclose(pb.distance(x, point, c=c), t * total, rtol=0, atol=allowed(c, gap))
        np.testing.assert_allclose(pb.distance(point, y, c=c), (1 - t) * total, rtol=0, atol=allowed(c, gap))
        np.testing.assert_allclose(pb.geodesic(y, x, 1 - t, c=c), point, rtol=0, atol=1e-14 / math.sqrt(c))
    half = pb.geodesic(x, y, 0.5, c=c)
    np.testing.assert_allclose(half, pb.midpoint(x, y, c=c), rtol=0, atol=1e-14 / math.sqrt(c))


def test_geodesic_broadcasts_its_parameter():
    t = np.linspace(0, 1, 7)
    assert pb.geodesic([0.1, 0.2], [0.5, -0.3], t).shape == (7, 2)
    assert pb.geodesic(np.zeros((4, 1, 3)), np.full((4, 1, 3), 0.2), t).shape == (4, 7, 3)


@sweep
def test_geodesics_are_straight_in_klein(dim, c, gap, seed):
    x, y = draw(20, dim, c, gap, seed), draw(20, dim, c, gap, seed + 10)
    ends = pb.to_klein(x, c=c), pb.to_klein(y, c=c)
    inner = pb.to_klein(pb.geodesic(x[:, None], y[:, None], np.linspace(0, 1, 9), c=c), c=c)
    along = ends[1] - ends[0]
    along /= np.linalg.norm(along, axis=1, keepdims=True)
    offset = inner - ends[0][:, None]
    across = offset - (offset * along[:, None]).sum(-1, keepdims=True) * along[:, None]
    assert np.abs(across).max() <= 1e-13 / math.sqrt(c)


@sweep
def test_models_round_trip(dim, c, gap, seed):
    x, y = draw(40, dim, c, gap, seed), draw(40, dim, c, gap, seed + 10)
    X, Y = pb.to_hyperboloid(x, c=c), pb.to_hyperboloid(y, c=c)
    np.testing.assert_allclose(pb.from_hyperboloid(X, c=c), x, rtol=1e-12, atol=1e-14)
    # Klein's gap is the square of Poincaré's, whence the larger loss.
    np.testing.assert_allclose(pb.from_klein(pb.to_klein(x, c=c), c=c), x, rtol=10 * EPS / gap + 1e-13, atol=1e-14)
    scale = (c * X[:, 0] ** 2).max()
    lorentz = -(X[:, 0] ** 2) + (X[:, 1:] ** 2).sum(1)
    np.testing.assert_allclose(c * lorentz, -1.0, rtol=0, atol=1e3 * EPS * scale + allowed(1.0, gap) * scale)
    if gap >= 1e-2:
        inner = X[:, 0] * Y[:, 0] - (X[:, 1:] * Y[:, 1:]).sum(1)
        np.testing.assert_allclose(np.arccosh(c * inner) / math.sqrt(c), pb.distance(x, y, c=c), rtol=1e-7)


@pytest.mark.parametrize("c", CURVATURES)
def test_pairwise_distance_is_distance(c):
    X, Y = draw(700, 3, c, 1e-3, 0), draw(800, 3, c, 1e-3, 1)
    np.testing.assert_allclose(
        pb.pairwise_distance(X, Y, c=c), pb.distance(X[:, None], Y[None], c=c), rtol=1e-13, atol=0
    )
    assert pb.pairwise_distance(X[:0], Y, c=c).shape == (0, 800)
    assert pb.pairwise_distance(X, Y[:0], c=c).shape == (700, 0)


@sweep
def test_lorentz_centroid_moves_with_isometries(dim, c, gap, seed):
    X = draw(30, dim, c, 0.2, seed)
    a = draw(2, dim, c, gap, seed + 10)[0]
    weights = np.random.default_rng(seed).random(30)
    here = pb.lorentz_centroid(X, weights=weights, c=c)
    there = pb.lorentz_centroid(pb.mobius_add(a, X, c=c), weights=weights, c=c)
    assert pb.distance(there, pb.mobius_add(a, here, c=c), c=c) <= allowed(c, gap)


def test_lorentz_centroid_is_what_it_says():
    X = draw(30, 2, 1.0, 0.05, 3)
    total = pb.to_hyperboloid(X).sum(0)
    total /= math.sqrt(total[0] ** 2 - total[1] ** 2 - total[2] ** 2)
    np.testing.assert_allclose(pb.lorentz_centroid(X), pb.from_hyperboloid(total), atol=1e-13)
    np.testing.assert_allclose(pb.lorentz_centroid(X[:2]), pb.midpoint(X[0], X[1]), atol=1e-14)
    np.testing.assert_allclose(pb.lorentz_centroid(X, weights=np.eye(30)[4]), X[4], atol=1e-14)
    stacked = pb.lorentz_centroid(X.reshape(3, 10, 2))
    np.testing.assert_allclose(stacked[1], pb.lorentz_centroid(X[10:20]), atol=1e-15)
    with pytest.raises(InputError, match="one weight per point"):
        pb.lorentz_centroid(X, weights=[1.0])
    with pytest.raises(InputError, match="not negative"):
        pb.lorentz_centroid(X, weights=-np.ones(30))
    with pytest.raises(InputError, match="pass some points"):
        pb.lorentz_centroid(X[:0])


@pytest.mark.parametrize("c", CURVATURES)
def test_hyperplane_distance_is_the_distance_to_the_nearest_point(c):
    p, w = np.array([0.3, 0.2]) / math.sqrt(c), np.array([1.0, 0.4])
    along = np.array([-w[1], w[0]])
    line = pb.exp_map(p, np.linspace(-3, 3, 20001)[:, None] * along / math.sqrt(c), c=c)
    assert np.abs(pb.hyperplane_distance(line, p, w, c=c)).max() < 1e-9
    for x in draw(10, 2, c, 0.2, 7):
        nearest = pb.pairwise_distance(x[None], line, c=c).min()
        assert abs(pb.hyperplane_distance(x, p, w, c=c)) == pytest.approx(nearest, abs=1e-4)
    with pytest.raises(InputError, match="zero vector"):
        pb.hyperplane_distance(p, p, np.zeros(2), c=c)


@pytest.mark.parametrize("c", CURVATURES)
def test_radii_are_inverse(c):
    r = np.linspace(0, 0.9999, 50) / math.sqrt(c)
    np.testing.assert_allclose(pb.euclidean_radius(pb.hyperbolic_radius(r, c=c), c=c), r, rtol=1e-12)
    s = 1 / math.sqrt(c)
    np.testing.assert_allclose(pb.hyperbolic_radius(r, c=c), s * np.log((s + r) / (s - r)), rtol=1e-10)
    assert math.sqrt(c) * pb.euclidean_radius(1e9, c=c) < 1.0


unit = st.floats(-1.0, 1.0, allow_subnormal=False)
inner = st.tuples(unit, unit, unit).map(lambda t: 0.55 * np.array(t))
curvature = st.floats(1e-3, 10.0)


@examples(200)
@given(inner, inner, inner, curvature)
def test_laws_hold_for_any_points(x, y, a, c):
    x, y, a = (v / math.sqrt(c) for v in (x, y, a))
    unit_length = 1.0 / math.sqrt(c)
    assert pb.distance(pb.mobius_add(-a, pb.mobius_add(a, x, c=c), c=c), x, c=c) < 1e-10 * unit_length
    assert pb.distance(pb.exp_map(a, pb.log_map(a, x, c=c), c=c), x, c=c) < 1e-9 * unit_length
    d = pb.distance(x, y, c=c)
    assert pb.distance(pb.mobius_add(a, x, c=c), pb.mobius_add(a, y, c=c), c=c) == pytest.approx(
        float(d), abs=1e-9 * unit_length
    )
    middle = pb.midpoint(x, y, c=c)
    assert pb.distance(x, middle, c=c) == pytest.approx(float(d) / 2, abs=1e-11 * unit_length)


def test_check_points_says_what_is_wrong():
    good = pb.check_points([[0, 0.5], [0.1, 0.2]])
    assert good.dtype == np.float64
    assert pb.check_points([]).shape == (0, 2)
    assert pb.check_points([], dim=5).shape == (0, 5)
    cases = [
        ([[0.1, 0.2], [1.0, 0.0]], {}, r"points\[1\] has norm 1\.0,"),
        ([[0.1, 0.2], [0.6, 0.0]], {"c": 4.0}, r"points\[1\] has norm 0\.6.* below 1/√c = 0\.5"),
        ([[0.1, np.nan]], {"name": "X"}, r"X\[0\] is .*must be finite"),
        ([[0.1, np.inf]], {}, "must be finite"),
        ([0.1, 0.2], {}, r"shape \(2,\)"),
        (np.zeros((2, 2, 2)), {}, r"shape \(2, 2, 2\)"),
        (np.zeros((3, 3)), {"dim": 2}, "3 columns"),
        (np.zeros((3, 2), dtype=complex), {}, "real numbers"),
        ([["a", "b"]], {}, "real numbers"),
        (np.zeros((3, 2)), {"c": -1.0}, "c > 0"),
        (np.zeros((3, 2)), {"c": math.nan}, "c > 0"),
    ]
    for X, options, message in cases:
        with pytest.raises(InputError, match=message):
            pb.check_points(X, **options)
