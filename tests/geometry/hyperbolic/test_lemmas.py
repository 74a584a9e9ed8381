"""The lemmas behind Theorems 5.1 and 5.2 of the hulls paper, each checked by itself on numbers."""

from __future__ import annotations

import numpy as np
import pytest

from fedgeom.geometry.hyperbolic import PolarGrid, convex_hull, uniform_disc
from fedgeom.geometry.hyperbolic.poincare import (
    distance,
    euclidean_radius,
    hyperbolic_radius,
    hyperplane_distance,
    log_map,
    to_klein,
)

RADIUS = 0.9
WHOLE = 4 * np.pi * np.sinh(hyperbolic_radius(RADIUS) / 2) ** 2
"""The hyperbolic area of the disc of that radius."""


def turn(a, b, x):
    """CCW(a, b, x) of Algorithm 2: the sine of the turn from b to x, as seen from a."""
    u, v = log_map(a, b), log_map(a, x)
    return float(u[0] * v[1] - u[1] * v[0])


@pytest.mark.parametrize("seed", range(20))
def test_lemma_a2_all_points_and_the_origin_lie_on_one_side_of_the_tangent_at_the_farthest(seed):
    points = uniform_disc(30, RADIUS, np.random.default_rng(seed))
    far = points[np.argmax(np.linalg.norm(points, axis=1))]
    others = points[(points != far).any(axis=1)]
    assert (hyperplane_distance(np.vstack([others, np.zeros(2)]), far, far / np.linalg.norm(far)) < 0).all()


@pytest.mark.parametrize("seed", range(20))
def test_lemma_a3_a_point_is_in_a_triangle_if_and_only_if_all_three_turns_have_one_sign(seed):
    """As printed it says "there exists another point x"; that x is the point whose turns are taken."""
    rng = np.random.default_rng(seed)
    a, b, c = uniform_disc(3, RADIUS, rng)
    corners = to_klein(np.array([a, b, c]))  # where triangles are straight
    inside = 0
    for x in uniform_disc(50, RADIUS, rng):
        shares = np.linalg.solve(np.vstack([corners.T, np.ones(3)]), [*to_klein(x), 1.0])
        signs = {np.sign(turn(*pair, x)) for pair in ((a, b), (b, c), (c, a))}
        assert (len(signs) == 1) == bool((shares > 0).all())
        inside += len(signs) == 1
    assert inside < 50


def area(points):
    """Return the hyperbolic area of a hull: (n − 2)π less its angles."""
    corners = points[convex_hull(points)]
    n = len(corners)
    if n < 3:
        return 0.0
    angles = []
    for at in range(n):
        u, v = (log_map(corners[at], corners[(at + step) % n]) for step in (1, -1))
        angles.append(np.arccos(np.clip(u @ v / (np.linalg.norm(u) * np.linalg.norm(v)), -1, 1)))
    return (n - 2) * np.pi - float(np.sum(angles))


def test_the_area_of_a_triangle_is_what_its_angles_lack():
    """Of the ideal triangle's π hardly anything lacks near the edge; a tiny one is Euclidean, with 4 for the metric."""
    corners = np.array([[np.cos(t), np.sin(t)] for t in 2 * np.pi * np.arange(3) / 3])
    assert area((1 - 1e-9) * corners) == pytest.approx(np.pi, abs=1e-3)
    assert area(1e-3 * corners) == pytest.approx(4 * 3 * np.sqrt(3) / 4 * 1e-6, rel=1e-3)


@pytest.mark.parametrize("epsilon", [None, 0.05, 0.3, 1.0], ids=lambda e: f"bins of {e}" if e else "as they are")
def test_lemmas_d1_and_e1_as_many_corners_as_area_is_missing_with_half_the_points(epsilon):
    """E[corners of N] ≤ N·f(N/2), f the share of the disc that the hull leaves out; in the mean of 25 draws."""
    grid = None if epsilon is None else PolarGrid(epsilon, RADIUS)
    rng = np.random.default_rng(1)
    for n in (16, 64, 256):
        corners, missing = [], []
        for _ in range(25):
            points = uniform_disc(n, RADIUS, rng)
            points = points if grid is None else grid.quantize(points)
            corners.append(len(convex_hull(points)))
            missing.append(1 - area(points[: n // 2]) / WHOLE)
        assert np.mean(corners) <= n * np.mean(missing)
        assert np.mean(corners) > 4  # not met by having none


def test_lemma_d2_a_geodesic_over_three_sectors_dips_by_a_bounded_number_of_rings():
    """Of m² rings of equal area, however many, it crosses as many as X and a constant that does not grow with m."""
    outer = np.sinh(hyperbolic_radius(RADIUS) / 2) ** 2
    dips = []
    for m in (20, 100, 1000, 10_000):
        for ring in (1, 2, 5):
            norm = euclidean_radius(2 * np.arcsinh(np.sqrt(outer * (1 - (ring - 1) / m**2))))
            half = 3 * np.pi / m  # at most 6π/m between both points
            ends = norm * np.array([[np.cos(half), np.sin(half)], [np.cos(half), -np.sin(half)]])
            middle = to_klein(ends).mean(axis=0)  # the nearest point of the geodesic, in Klein coordinates
            low = np.arctanh(np.linalg.norm(middle))  # its hyperbolic distance to the origin
            assert low < distance(ends[0], np.zeros(2))
            dips.append(m**2 * (1 - np.sinh(low / 2) ** 2 / outer) - (ring - 1))
    assert max(dips) < 1.05 * dips[-1]
