"""Rips diagrams: numbers by hand, laws of the plane, the spanning tree, stability, tiny clouds and refusals."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from gudhi import bottleneck_distance
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.distance import directed_hausdorff
from scipy.stats import ortho_group

from fedgeom import memo
from fedgeom.errors import InputError
from fedgeom.geometry.topology import persistence
from fedgeom.geometry.topology.persistence import (
    diagrams_of_distances,
    pairwise_distances,
    rips_diagrams,
    scale_to_unit_box,
    spanning_tree,
    subsample,
)
from tests.tiers import examples

seeds = st.integers(0, 9999)


def cloud(n: int, d: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(n, d))


def ordered(diagram: np.ndarray) -> np.ndarray:
    return diagram[np.lexsort(diagram.T)]


def circle(n: int) -> np.ndarray:
    angle = 2 * np.pi * np.arange(n) / n
    return np.column_stack([np.cos(angle), np.sin(angle)])


def test_a_square_has_one_loop_from_its_side_to_its_diagonal() -> None:
    found = rips_diagrams([[0, 0], [1, 0], [1, 1], [0, 1]])
    np.testing.assert_allclose(found.h0, [[0, 1]] * 3)
    np.testing.assert_allclose(found.h1, [[1, np.sqrt(2)]])
    assert found.points == 4


def test_a_triangle_has_no_loop() -> None:
    found = rips_diagrams([[0, 0], [1, 0], [0.5, np.sqrt(0.75)]])
    np.testing.assert_allclose(found.h0, [[0, 1]] * 2)
    assert found.h1.shape == (0, 2)


def test_a_hexagon_fills_at_the_distance_of_every_second_corner() -> None:
    found = rips_diagrams(circle(6))
    np.testing.assert_allclose(found.h0[:, 1], 1.0)
    np.testing.assert_allclose(found.h1, [[1, np.sqrt(3)]])


def test_two_far_squares_have_their_loops_one_between_them_and_one_long_merge() -> None:
    square = np.array([[0, 0], [1, 0], [1, 1], [0, 1.0]])
    found = rips_diagrams(np.vstack([square, square + np.array([10, 0])]))
    np.testing.assert_allclose(found.h1, [[9, np.sqrt(82)], *([[1, np.sqrt(2)]] * 2)])
    np.testing.assert_allclose(found.h0[:, 1], [1] * 6 + [9])


def test_points_on_a_line_merge_at_their_gaps_and_make_no_loop() -> None:
    found = rips_diagrams([[0.0], [1.0], [3.0], [7.0], [15.0]])
    np.testing.assert_allclose(found.h0, [[0, 1], [0, 2], [0, 4], [0, 8]])
    assert not len(found.h1)


@pytest.mark.parametrize("n", [0, 1, 2, 3])
def test_tiny_clouds_have_n_minus_one_merges_and_no_loop(n: int) -> None:
    found = rips_diagrams(cloud(n, 3, n))
    assert found.h0.shape == (max(n - 1, 0), 2)
    assert found.h1.shape == (0, 2)
    assert found.points == n


def test_duplicates_are_one_point_and_a_constant_column_is_nothing() -> None:
    X = cloud(9, 2, 1)
    twice = rips_diagrams(np.vstack([X, X[:4]]))
    wider = rips_diagrams(np.column_stack([X, np.full(9, 7.0)]))
    for other in (twice, wider):
        np.testing.assert_allclose(ordered(other.h0), ordered(rips_diagrams(X).h0), atol=1e-12)
        np.testing.assert_allclose(ordered(other.h1), ordered(rips_diagrams(X).h1), atol=1e-12)
    assert twice.points == 13
    assert len(rips_diagrams([[0.1 + 0.2], [0.3], [1.0]]).h0) == 1  # duplicates but for the last digit
    same = rips_diagrams(np.ones((5, 3)))
    assert len(same.h0) == len(same.h1) == 0


@examples(25)
@given(st.integers(4, 40), st.integers(2, 8), seeds)
def test_an_isometry_or_another_order_changes_nothing_and_a_factor_scales(n: int, d: int, seed: int) -> None:
    rng, X = np.random.default_rng(seed), cloud(n, d, seed)
    turned = X @ ortho_group.rvs(d, random_state=seed) + rng.normal(size=d)
    base, moved, scaled = (rips_diagrams(Y) for Y in (X, turned[rng.permutation(n)], 3.5 * X))
    for at in (0, 1):
        np.testing.assert_allclose(ordered(moved[at]), ordered(base[at]), atol=1e-9)
        np.testing.assert_allclose(ordered(scaled[at]), 3.5 * ordered(base[at]), atol=1e-9)


def test_a_rotated_grid_keeps_its_number_of_loops() -> None:
    grid = np.stack(np.meshgrid(np.arange(5.0), np.arange(5.0)), -1).reshape(-1, 2)
    turned = grid @ ortho_group.rvs(2, random_state=3)
    assert len(rips_diagrams(grid).h1) == len(rips_diagrams(turned).h1) == 16
    assert len(rips_diagrams(turned).h0) == 24


@examples(25)
@given(st.integers(2, 30), st.integers(1, 6), seeds)
def test_h0_deaths_are_the_edges_of_the_spanning_tree(n: int, d: int, seed: int) -> None:
    D = pairwise_distances(cloud(n, d, seed))
    edges, lengths = spanning_tree(D)
    np.testing.assert_allclose(np.sort(diagrams_of_distances(D).h0[:, 1]), lengths)
    np.testing.assert_array_equal(D[edges[:, 0], edges[:, 1]], lengths)
    group = np.arange(n)
    for a, b in edges:  # no edge closes a circle, so that n − 1 of them reach every point
        assert group[a] != group[b]
        group[group == group[a]] = group[b]


def test_the_spanning_tree_reaches_duplicates_at_length_zero() -> None:
    edges, lengths = spanning_tree(pairwise_distances([[0.0], [0.0], [2.0], [2.0], [5.0]]))
    np.testing.assert_array_equal(lengths, [0, 0, 2, 3])
    assert set(edges.ravel().tolist()) == set(range(5))


@examples(25)
@given(st.integers(5, 30), st.integers(5, 30), seeds)
def test_diagrams_are_stable(n: int, m: int, seed: int) -> None:
    """Eq. 4 with the factor 2 that diameters need; the paper's factor 1 holds for radii.

    Clouds of different size are compared by the finite pairs and the bound still holds: for H0, births are all 0.
    """
    X, Y = cloud(n, 2, seed), cloud(m, 2, seed + 1)
    apart = max(directed_hausdorff(X, Y)[0], directed_hausdorff(Y, X)[0])
    for A, B in zip(rips_diagrams(X)[:2], rips_diagrams(Y)[:2], strict=True):
        assert bottleneck_distance(A, B) <= 2 * apart + 1e-9


def test_the_papers_factor_one_does_not_hold_for_distances() -> None:
    A, B = rips_diagrams([[0.0], [1.0]]), rips_diagrams([[-0.2], [1.2]])
    assert bottleneck_distance(A.h0, B.h0) == pytest.approx(0.4)  # Hausdorff distance 0.2


def test_the_unit_box_of_the_site_or_of_public_bounds() -> None:
    X = np.array([[0.0, 5.0, -1.0], [4.0, 5.0, 1.0], [1.0, 5.0, 0.0]])
    np.testing.assert_allclose(scale_to_unit_box(X), [[0, 0, 0], [1, 0, 1], [0.25, 0, 0.5]])
    np.testing.assert_allclose(scale_to_unit_box(X, 0, [2, 10, 4]), [[0, 0.5, 0], [1, 0.5, 0.25], [0.5, 0.5, 0]])
    huge = scale_to_unit_box([[-1.7e308], [1.7e308], [0.0]])
    np.testing.assert_allclose(huge, [[0], [1], [0.5]])
    assert scale_to_unit_box(np.empty((0, 3))).shape == (0, 3)


def test_a_subsample_is_drawn_by_its_seed_without_replacement() -> None:
    first, again = (subsample(100, 30, np.random.default_rng(5)) for _ in range(2))
    np.testing.assert_array_equal(first, again)
    assert len(set(first.tolist())) == 30
    assert (np.diff(first) > 0).all()
    assert not np.array_equal(first, subsample(100, 30, np.random.default_rng(6)))
    np.testing.assert_array_equal(subsample(7, 30, None), np.arange(7))
    np.testing.assert_array_equal(subsample(7, None, None), np.arange(7))


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: rips_diagrams([1.0, 2.0]), "one point per row"),
        (lambda: rips_diagrams([[0.0, np.nan]]), "not finite"),
        (lambda: rips_diagrams(np.empty((3, 0))), "one point per row"),
        (lambda: rips_diagrams([["a"]]), "dtype"),
        (lambda: subsample(10, 5, None), "rng"),
        (lambda: subsample(10, 0, None), "at least one"),
        (lambda: scale_to_unit_box([[1.0]], low=0), "both"),
        (lambda: scale_to_unit_box([[1.0]], low=0, high=0), "below"),
    ],
)
def test_what_cannot_be_used_is_refused(call: object, words: str) -> None:
    with pytest.raises(InputError, match=words):
        call()  # type: ignore[operator]


def test_without_gudhi_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    memo.clear(persistence._rips)
    monkeypatch.setitem(sys.modules, "gudhi.sklearn", None)
    with pytest.raises(InputError, match=r"pip install 'fedgeom\[topology\]'"):
        rips_diagrams([[0.0], [1.0]])
    assert rips_diagrams([[0.0]]).points == 1
    monkeypatch.undo()
    assert len(rips_diagrams([[0.0], [1.0]]).h0) == 1
