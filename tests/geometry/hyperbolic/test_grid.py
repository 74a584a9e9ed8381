"""Grids: bins are as small as Definition 2 says, and numbers and centers fit together."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedgeom.errors import InputError
from fedgeom.geometry.hyperbolic import poincare as pb
from fedgeom.geometry.hyperbolic.grid import EqualAreaGrid, Grid, PolarGrid
from fedgeom.geometry.hyperbolic.sampling import uniform_disc
from tests.tiers import examples

CURVATURES = (0.0015, 0.5, 1.0, 4.0)

kinds = st.sampled_from([PolarGrid, EqualAreaGrid.for_epsilon])
curvatures = st.sampled_from(CURVATURES)
radii = st.one_of(st.floats(0.01, 0.9999), st.sampled_from([1e-6, 0.95, 0.9999]))
widths = st.floats(math.log(0.003), math.log(20.0)).map(math.exp)


def make(kind, epsilon, radius, c) -> Grid:
    """Make a grid whose parameters are given for the unit ball."""
    return kind(epsilon / math.sqrt(c), radius / math.sqrt(c), c=c)


def ring_edges(grid, ring):
    """The hyperbolic radii of a ring's two circles, by Eq. 11 or Eq. 17, written independently of the module."""
    s = 1 / math.sqrt(grid.c)
    outer = s * math.log((s + grid.radius) / (s - grid.radius))
    share = np.array([ring, ring + 1]) / grid.n_radial
    if isinstance(grid, PolarGrid):
        return share * outer
    return 2 * s * np.arcsinh(np.sqrt(share) * math.sinh(outer / (2 * s)))


def points_of(grid, number, rng):
    """Points of one bin: its corners, midpoints of its sides, and random ones."""
    ring, sector = divmod(number - 1, grid.n_angular)
    low, high = ring_edges(grid, ring)
    share = np.concatenate([[0, 0, 1, 1, 0.5, 0.5, 0, 1], rng.random(12)])
    turn = np.concatenate([[0, 1, 0, 1, 0, 1, 0.5, 0.5], rng.random(12)])
    norm = pb.euclidean_radius(low + share * (high - low), c=grid.c)
    angle = 2 * np.pi * (sector + turn) / grid.n_angular
    return norm[:, None] * np.c_[np.cos(angle), np.sin(angle)]


@examples(300)
@given(kinds, widths, radii, curvatures, st.integers(0, 2**32))
def test_two_points_of_a_bin_are_within_epsilon(kind, epsilon, radius, c, seed):
    grid = make(kind, epsilon, radius, c)
    rng = np.random.default_rng(seed)
    numbers = {1, grid.size, min(grid.n_angular + 1, grid.size), int(rng.integers(1, grid.size + 1))}
    for number in numbers:
        X = points_of(grid, number, rng)
        widest = pb.pairwise_distance(X, X, c=c).max()
        assert widest <= epsilon / math.sqrt(c) * (1 + 1e-7)
        assert (grid.bin(X[8:]) == number).mean() > 0.9


@examples(200)
@given(kinds, widths, radii, curvatures, st.integers(0, 2**32))
def test_numbers_and_centers_fit_together(kind, epsilon, radius, c, seed):
    grid = make(kind, epsilon, radius, c)
    rng = np.random.default_rng(seed)
    numbers = np.unique(np.r_[1, grid.size, rng.integers(1, grid.size + 1, 50)])
    np.testing.assert_array_equal(grid.bin(grid.center(numbers)), numbers)
    X = uniform_disc(50, grid.radius, rng, c=c)
    np.testing.assert_array_equal(grid.bin(grid.quantize(X)), grid.bin(X))
    assert pb.distance(X, grid.quantize(X), c=c).max() <= epsilon / math.sqrt(c) * (1 + 1e-7)


@pytest.mark.parametrize("kind", [PolarGrid, EqualAreaGrid.for_epsilon])
@pytest.mark.parametrize("c", CURVATURES)
@pytest.mark.parametrize("radius", [0.3, 0.95, 0.9999])
def test_every_bin_of_a_grid_is_its_centers(kind, c, radius):
    grid = make(kind, 1.0 if radius < 0.99 else 8.0, radius, c)
    numbers = np.arange(1, min(grid.size, 200_000) + 1)
    np.testing.assert_array_equal(grid.bin(grid.center(numbers)), numbers)


def test_counts_are_the_papers():
    grid = PolarGrid(0.01, 0.9771)
    outer = math.log(1.9771 / 0.0229)
    assert grid.n_angular == math.ceil(2 * 2 * math.pi * math.sinh(outer) / 0.01)
    assert grid.n_radial == math.ceil(2 * outer / 0.01)
    assert grid.size == pytest.approx(4.87e7, rel=0.01)


def test_numbering_starts_in_the_middle_and_goes_counter_clockwise():
    for grid in (PolarGrid(1.0, 0.9), EqualAreaGrid(8, 5, 0.9)):
        n = grid.n_angular
        tiny = 1e-3
        assert grid.bin([[0.0, 0.0], [tiny, 1e-9], [0.0, tiny], [tiny, -1e-9]]).tolist() == [
            1,
            1,
            n // 4 + 1,
            n,
        ]
        outermost = grid.bin([[0.9, 0.0]])[0]
        assert outermost == grid.size - n + 1
        rings = (grid.bin(np.c_[np.linspace(0, 0.9, 99), np.zeros(99)]) - 1) // n
        assert (np.diff(rings) >= 0).all()
        assert grid.bin(np.empty((0, 2))).shape == (0,)
        assert grid.center(np.empty(0, dtype=int)).shape == (0, 2)
        assert grid.bin([[0.1, 0.1]]).dtype == np.int64


def test_equal_area_bins_have_equal_area():
    grid = EqualAreaGrid(6, 40, 0.95)
    edges = np.array([ring_edges(grid, j) for j in range(40)])
    area = 4 * np.pi * (np.sinh(edges[:, 1] / 2) ** 2 - np.sinh(edges[:, 0] / 2) ** 2)
    np.testing.assert_allclose(area, area[0], rtol=1e-9)
    X = uniform_disc(240_000, 0.95, np.random.default_rng(0))
    counts = np.bincount(grid.bin(X), minlength=241)[1:]
    chi2 = ((counts - 1000) ** 2 / 1000).sum()
    assert 150 < chi2 < 340  # 239 degrees of freedom


def test_points_beyond_the_radius_are_refused():
    grid = PolarGrid(0.1, 0.9)
    angle = np.linspace(0, 2 * np.pi, 1000)
    last = grid.bin(0.9 * np.c_[np.cos(angle), np.sin(angle)])
    assert last.min() > grid.size - grid.n_angular
    with pytest.raises(InputError, match=r"points\[1\] has norm 0\.91.*up to 0\.9"):
        grid.bin([[0.1, 0.1], [0.91, 0.0]])
    with pytest.raises(InputError, match="columns"):
        grid.bin(np.zeros((1, 3)))


def test_bad_parameters_are_refused():
    with pytest.raises(InputError, match="coarsen ε"):
        PolarGrid(1e-9, 0.9)
    with pytest.raises(InputError, match="coarsen ε"):
        EqualAreaGrid.for_epsilon(1e-6, 0.99)
    for kind in (PolarGrid, EqualAreaGrid.for_epsilon):
        for epsilon in (0.0, -1.0, math.inf, math.nan):
            with pytest.raises(InputError, match="epsilon is"):
                kind(epsilon, 0.9)
        for radius in (0.0, 1.0, -0.5, math.nan):
            with pytest.raises(InputError, match="radius is"):
                kind(0.1, radius)
        with pytest.raises(InputError, match="c is"):
            kind(0.1, 0.9, c=0.0)
        assert kind(1e9, 0.9).size == 1
    with pytest.raises(InputError, match="n_angular is 0"):
        EqualAreaGrid(0, 3, 0.9)
    grid = PolarGrid(1.0, 0.9)
    for bad in ([0], [grid.size + 1], [-3]):
        with pytest.raises(InputError, match="is not a bin"):
            grid.center(bad)
    with pytest.raises(InputError, match="integers"):
        grid.center([1.5])


def test_grids_are_values():
    assert PolarGrid(0.1, 0.9) == PolarGrid(0.1, 0.9, c=1.0)
    assert hash(PolarGrid(0.1, 0.9)) == hash(PolarGrid(0.1, 0.9))
    assert PolarGrid(0.1, 0.9) != PolarGrid(0.2, 0.9)
    with pytest.raises(AttributeError):
        PolarGrid(0.1, 0.9).epsilon = 0.3
