"""Hulls: the fast one against the paper's scan, against brute force, and on input that is degenerate."""

from __future__ import annotations

import math
import warnings
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedgeom.errors import InputError
from fedgeom.geometry.hyperbolic import poincare as pb
from fedgeom.geometry.hyperbolic.grid import PolarGrid
from fedgeom.geometry.hyperbolic.hull import convex_hull, default_trim, graham_scan, trimmed_hull
from fedgeom.geometry.hyperbolic.sampling import uniform_disc
from tests.tiers import examples

CURVATURES = (0.0015, 0.5, 1.0, 4.0)


def same(points, c=1.0):
    """Assert that both algorithms name the same vertices and return the fast one's."""
    fast, slow = convex_hull(points, c=c), graham_scan(points, c=c)
    assert set(fast.tolist()) == set(slow.tolist())
    assert len(fast) == len(set(fast.tolist()))
    assert fast.dtype == slow.dtype == np.intp
    return fast


@pytest.mark.parametrize("c", CURVATURES)
@pytest.mark.parametrize("radius", [1e-8, 1e-3, 0.5, 0.95, 0.9999])
@pytest.mark.parametrize("n", [3, 4, 10, 300])
def test_agrees_with_the_scan_on_random_points(n, radius, c):
    for seed in range(3):
        rng = np.random.default_rng(seed)
        same(uniform_disc(n, radius / math.sqrt(c), rng, c=c), c)


@pytest.mark.parametrize("c", CURVATURES)
def test_agrees_with_the_scan_behind_the_filter(c):
    rng = np.random.default_rng(int(1000 * c))
    scale = 1 / math.sqrt(c)
    same(uniform_disc(2000, 0.95 * scale, rng, c=c), c)
    same(pb.exp_map(np.array([0.5, 0.3]) * scale, 0.1 * scale * rng.normal(size=(2000, 2)), c=c), c)


@pytest.mark.parametrize("c", CURVATURES)
@pytest.mark.parametrize("epsilon", [0.05, 0.3, 1.0, 4.0])
def test_agrees_with_the_scan_on_quantised_points(epsilon, c):
    for seed, n in product(range(3), (5, 60, 800)):
        rng = np.random.default_rng(seed)
        points = uniform_disc(n, 0.95 / math.sqrt(c), rng, c=c)
        same(PolarGrid(epsilon / math.sqrt(c), 0.95 / math.sqrt(c), c=c).quantize(points), c)


@pytest.mark.parametrize("c", CURVATURES)
@pytest.mark.parametrize("radius", [0.01, 0.5, 0.95, 0.999])
def test_points_on_one_geodesic_give_its_ends(radius, c):
    for seed in range(10):
        rng = np.random.default_rng(seed)
        x, y = uniform_disc(2, radius / math.sqrt(c), rng, c=c)
        t = rng.permutation(np.linspace(0, 1, 25))
        hull = same(pb.geodesic(x, y, t, c=c), c)
        assert sorted(hull) == sorted([int(np.argmin(t)), int(np.argmax(t))])
        many = np.repeat(pb.geodesic(x, y, t, c=c), 100, axis=0)
        assert sorted(convex_hull(many, c=c)) == sorted(100 * hull)


@pytest.mark.parametrize("c", CURVATURES)
def test_points_on_the_sides_of_a_polygon_are_dropped(c):
    for seed in range(10):
        rng = np.random.default_rng(seed)
        angles = np.sort(rng.random(5) + np.arange(5)) * 2 * np.pi / 5
        corners = 0.9 / math.sqrt(c) * np.c_[np.cos(angles), np.sin(angles)]
        sides = [pb.geodesic(corners[i], corners[i - 1], np.linspace(0.05, 0.95, 12), c=c) for i in range(5)]
        order = rng.permutation(65)
        points = np.vstack([corners, *sides])[order]
        hull = same(points, c)
        assert sorted(order[hull]) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("c", CURVATURES)
def test_twins_one_rounding_error_apart_count_once(c):
    """The midpoint of x and x is x up to its last digit; either twin may be named, but only one of them."""
    for seed in range(20):
        rng = np.random.default_rng(seed)
        X = uniform_disc(40, 0.95 / math.sqrt(c), rng, c=c)
        both = np.vstack([X, pb.midpoint(X, X, c=c), pb.midpoint(X, X[::-1], c=c)])
        hull = set(convex_hull(X, c=c).tolist())
        for algorithm in (convex_hull, graham_scan):
            assert sorted(int(i) % 40 for i in algorithm(both, c=c)) == sorted(hull)


def test_sets_of_zero_to_three_points():
    assert same(np.empty((0, 2))).tolist() == []
    assert convex_hull([]).tolist() == []
    assert same(np.array([[0.3, 0.1]])).tolist() == [0]
    assert same(np.array([[0.0, 0.0]])).tolist() == [0]
    assert same(np.array([[0.3, 0.1]] * 2)).tolist() == [0]
    assert same(np.array([[0.0, 0.0]] * 5)).tolist() == [0]
    assert same(np.array([[0.3, 0.1], [0.2, 0.1]])).tolist() == [1, 0]
    assert same(np.array([[0.3, 0.1], [-0.2, 0.1], [0.0, 0.4]])).tolist() == [1, 0, 2]
    assert same(np.array([[0.3, 0.0], [0.1, 0.0], [-0.2, 0.0]])).tolist() == [2, 0]
    assert same(np.array([[0.3, 0.0], [0.0, -0.0], [-0.2, 0.0], [-0.0, 0.0]])).tolist() == [2, 0]


def test_of_equal_points_the_first_is_named():
    rng = np.random.default_rng(0)
    few = uniform_disc(40, 0.9, rng)
    hull = same(few)
    twice = np.vstack([few, few[::-1], few])
    assert same(twice).tolist() == hull.tolist()
    many = np.vstack([few] * 100)
    assert convex_hull(many).tolist() == hull.tolist()


@pytest.mark.parametrize("n", [30, 2000])
def test_order_is_counter_clockwise_from_the_smallest(n):
    X = uniform_disc(n, 0.9, np.random.default_rng(1))
    ring = pb.to_klein(X[convex_hull(X)])
    after = np.roll(ring, -1, axis=0)
    assert (ring[:, 0] * after[:, 1] - ring[:, 1] * after[:, 0]).sum() > 0
    assert np.lexsort(ring.T[::-1])[0] == 0
    scan = graham_scan(X)
    assert np.linalg.norm(X[scan[0]]) == np.linalg.norm(X, axis=1).max()
    assert np.roll(scan, -scan.tolist().index(convex_hull(X)[0])).tolist() == convex_hull(X).tolist()


def test_hull_contains_every_point_and_no_vertex_is_spare():
    X = uniform_disc(300, 0.95, np.random.default_rng(2))
    hull = convex_hull(X)
    K = pb.to_klein(X)
    ring, after = K[hull], np.roll(K[hull], -1, axis=0)
    along, toward = (after - ring)[:, None], K - ring[:, None]
    assert (along[..., 0] * toward[..., 1] - along[..., 1] * toward[..., 0]).min() > -1e-15
    for vertex in hull:
        rest = np.delete(np.arange(300), vertex)
        assert set(rest[convex_hull(X[rest])]) >= set(hull) - {vertex}


@pytest.mark.parametrize("shape", ["sorted", "ring", "two clusters", "slab", "upright", "square"])
def test_filter_never_changes_the_answer(shape):
    from fedgeom.geometry.hyperbolic import hull as hyperbolic_hull

    rng = np.random.default_rng(5)
    X = uniform_disc(6000, 0.95, rng)
    if shape == "sorted":
        X = X[np.argsort(X[:, 0])]
    elif shape == "ring":
        X = 0.9 * X / np.linalg.norm(X, axis=1, keepdims=True)
    elif shape == "two clusters":
        X = np.vstack([X[:3000] * 0.01 + 0.6, X[3000:] * 0.01 - 0.6])
    elif shape == "slab":
        X = X * [1.0, 1e-9]
    elif shape == "upright":
        X = X * [1e-9, 1.0]
    else:
        K = rng.integers(-5, 6, size=(6000, 2)) / 10.0
        X = pb.from_klein(K)
    klein = hyperbolic_hull.to_klein_unit(X, 1.0)
    assert convex_hull(X).tolist() == hyperbolic_hull._vertices(klein).tolist()
    if shape == "square":
        assert len(convex_hull(X)) == 4


points_on_a_lattice = st.lists(st.tuples(st.integers(-6, 6), st.integers(-6, 6)), min_size=0, max_size=25)


@examples(300)
@given(points_on_a_lattice, st.sampled_from(CURVATURES))
def test_lattice_hulls_are_exact(lattice, c):
    """Klein points on a lattice have many exact ties; integers tell the true hull."""
    K = np.array(lattice, dtype=np.float64).reshape(-1, 2) / (10.0 * math.sqrt(c))
    hull = same(pb.from_klein(K, c=c), c)
    assert sorted(lattice[i] for i in hull) == sorted(integer_hull(lattice))


def integer_hull(points):
    """Andrew's monotone chain on integers."""
    points = sorted(set(points))
    if len(points) <= 2:
        return points
    chains = []
    for run in (points, points[::-1]):
        chain = []
        for p in run:
            while len(chain) > 1 and (
                (chain[-1][0] - chain[-2][0]) * (p[1] - chain[-2][1])
                - (chain[-1][1] - chain[-2][1]) * (p[0] - chain[-2][0])
                <= 0
            ):
                chain.pop()
            chain.append(p)
        chains += chain[:-1]
    return chains


@examples(100)
@given(st.integers(0, 10**6), st.integers(3, 60), st.sampled_from(CURVATURES), st.floats(0.0, 0.8))
def test_hull_moves_with_isometries(seed, n, c, shift):
    rng = np.random.default_rng(seed)
    X = uniform_disc(n, 0.8 / math.sqrt(c), rng, c=c)
    moved = pb.mobius_add(np.array([shift, 0.1]) / math.sqrt(c), X, c=c)
    assert set(convex_hull(X, c=c)) == set(convex_hull(moved, c=c))


@pytest.mark.parametrize("dim", [3, 4, 5, 6])
def test_cubes_in_more_dimensions(dim):
    corners = np.array(list(product((-1.0, 1.0), repeat=dim))) * 0.3
    rng = np.random.default_rng(dim)
    weights = rng.dirichlet(np.ones(len(corners)), size=30)
    faces = rng.uniform(-0.3, 0.3, size=(40, dim))
    faces[np.arange(40), rng.integers(0, dim, 40)] = 0.3
    lattice = np.array(list(product((-0.3, 0.0, 0.3), repeat=dim)))
    K = np.vstack([corners, weights @ corners, faces, lattice, corners])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        hull = convex_hull(pb.from_klein(K))
    assert hull.tolist() == list(range(2**dim))


@pytest.mark.parametrize("dim", [3, 4, 5, 6])
@pytest.mark.parametrize("rank", [0, 1, 2, 3])
def test_flat_sets_in_more_dimensions(dim, rank):
    if rank >= dim:
        pytest.skip("not flat")
    rng = np.random.default_rng(10 * dim + rank)
    frame = np.linalg.qr(rng.normal(size=(dim, dim)))[0][:rank]
    flat = rng.uniform(-0.4, 0.4, size=(50, rank))
    if rank:
        flat[: 2**rank] = np.array(list(product((-0.45, 0.45), repeat=rank)))
    X = pb.from_klein(flat @ frame + 0.05)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        hull = convex_hull(X)
    assert sorted(hull) == list(range(2**rank))


@pytest.mark.parametrize("thickness", [1e-16, 1e-15, 3e-15, 1e-14, 1e-13, 1e-10])
@pytest.mark.parametrize("dim", [2, 3, 4])
def test_almost_flat_sets_have_a_hull(dim, thickness):
    rng = np.random.default_rng(dim)
    box = rng.uniform(-0.3, 0.3, size=(60, dim))
    box[:, -1] *= thickness
    turn = np.linalg.qr(rng.normal(size=(dim, dim)))[0]
    X = pb.from_klein(box @ turn)
    hull = convex_hull(X)
    if not 1e-15 < thickness < 1e-13:  # between them the breadth is a few rounding errors, neither some nor none
        assert set(hull[convex_hull(X[hull])]) == set(hull)
    assert {int(np.argmin(box[:, 0])), int(np.argmax(box[:, 0]))} <= set(hull.tolist())


def test_dimension_limits():
    rng = np.random.default_rng(0)
    with pytest.raises(InputError, match="at most 6"):
        convex_hull(rng.normal(size=(10, 7)) * 0.01)
    with pytest.raises(InputError, match="one column"):
        convex_hull([[0.1], [0.2]])
    with pytest.warns(UserWarning, match="most of the data"):
        convex_hull(rng.normal(size=(30, 5)) * 0.01)
    with pytest.raises(InputError, match="columns"):
        graham_scan(np.zeros((3, 3)))
    with pytest.raises(InputError, match="norm"):
        convex_hull([[0.1, 0.2], [1.1, 0.2], [0.3, 0.3]])


def test_trimming_nothing_is_the_hull():
    X = uniform_disc(500, 0.9, np.random.default_rng(0))
    assert trimmed_hull(X, trim=0).tolist() == convex_hull(X).tolist()
    assert trimmed_hull(X[:10], trim="auto").tolist() == convex_hull(X[:10]).tolist()
    assert trimmed_hull([], trim=0.5).tolist() == []
    assert trimmed_hull(X[:1], trim=0.9).tolist() == [0]


@pytest.mark.parametrize("c", CURVATURES)
def test_trimming_drops_outliers_wherever_the_class_lies(c):
    rng = np.random.default_rng(1)
    scale = 1 / math.sqrt(c)
    class_ = 0.2 * rng.normal(size=(190, 2))
    outliers = 2.0 * np.c_[np.cos(np.arange(10)), np.sin(np.arange(10))]
    X = pb.exp0(np.vstack([class_, outliers]) * scale, c=c)
    hull = trimmed_hull(X, trim=0.05, c=c)
    assert hull.max() < 190
    assert set(hull) == set(convex_hull(X[:190], c=c))
    moved = pb.mobius_add(np.array([0.5, -0.4]) * scale, X, c=c)
    assert set(trimmed_hull(moved, trim=0.05, c=c)) == set(hull)


def test_trimming_is_deterministic_and_counts_exactly():
    equal = np.tile([[0.1, 0.2], [0.3, -0.1]], (10, 1))
    assert trimmed_hull(equal, trim=0.7).tolist() == trimmed_hull(equal, trim=0.7).tolist()
    angles = np.linspace(0, 2 * np.pi, 10, endpoint=False)
    spiral = (0.1 + 0.05 * np.arange(10))[:, None] * np.c_[np.cos(angles), np.sin(angles)]
    for trim, count in ((0.7, 3), (0.5, 5), (0.95, 1), (0.1, 9)):
        assert len(trimmed_hull(spiral, trim=trim)) <= count
    line = np.c_[np.linspace(-0.5, 0.5, 21), np.zeros(21)]
    assert sorted(trimmed_hull(line, trim=2 / 21)) == [1, 19]
    assert trimmed_hull(np.zeros((9, 2)), trim=0.5).tolist() == [0]
    for bad in (-0.1, 1.0, math.nan, "some"):
        with pytest.raises(InputError, match="trim is"):
            trimmed_hull(line, trim=bad)


def test_default_trim_grows_with_the_class():
    shares = [default_trim(n) for n in range(3000)]
    assert shares == sorted(shares)
    assert shares[9] == 0.0
    assert shares[10] == 0.0
    assert 0.0 < shares[30] < 0.1
    assert shares[100] == pytest.approx(0.1)
    assert default_trim(10**9) == pytest.approx(0.1)
