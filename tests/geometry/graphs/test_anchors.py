"""Anchors: sums over sites, Woodbury's identity, codes, and what small cells would give away."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from fedgeom.errors import InputError
from fedgeom.geometry.graphs.anchors import (
    anchor_graph,
    anchor_scores,
    assign,
    cell_counts,
    cell_sums,
    codes,
    first_cells,
    fit_anchors,
    grouped_gram,
    move,
    neighbours,
    occupied,
    unit_rows,
)
from tests.tiers import examples

SEED = bytes(range(32))


def blobs(n: int, classes: int, seed: int = 0, d: int = 10) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    y = rng.integers(0, classes, n)
    return 3 * rng.normal(size=(classes, d))[y] + rng.normal(size=(n, d)), y


@examples(20)
@given(st.integers(5, 60), st.integers(2, 12), st.integers(1, 4), st.floats(0.1, 0.99), st.integers(0, 999))
def test_two_small_sums_give_the_dense_formula(n: int, A: int, m: int, alpha: float, seed: int) -> None:
    X, y = blobs(n, 3, seed)
    anchors = fit_anchors([X], A, SEED, rounds=3)
    Z, Y = codes(X, anchors, m), np.eye(3)[y]
    Z = sp.csr_array(Z[np.asarray(Z.sum(axis=1)).ravel() > 0])
    Y = Y[: Z.shape[0]]
    gram = (Z.T @ Z).toarray()
    dense = Z.toarray()
    used = dense.sum(axis=0) > 0
    W = dense[:, used] @ np.diag(1 / dense[:, used].sum(axis=0)) @ dense[:, used].T
    np.testing.assert_allclose(W.sum(axis=1), 1.0)
    wanted = np.linalg.solve(np.eye(len(W)) - alpha * W, Y)
    np.testing.assert_allclose(Y + Z @ anchor_scores(gram, Z.T @ Y, alpha), wanted, atol=1e-8)


def test_with_every_point_its_own_anchor_the_graph_is_two_steps_of_the_neighbour_graph() -> None:
    X, _ = blobs(25, 3)
    Z = codes(X, unit_rows(X), m=4)
    assert (Z.diagonal() > 0).all()  # a point is its own nearest anchor
    np.testing.assert_allclose(anchor_graph((Z.T @ Z).toarray()), anchor_graph(Z.T.toarray() @ Z.toarray()))
    alone = codes(X, unit_rows(X), m=1)
    np.testing.assert_array_equal(alone.toarray(), np.eye(25))


def test_codes_are_few_positive_weights_that_sum_to_one() -> None:
    X, _ = blobs(200, 4)
    Z = codes(X, fit_anchors([X], 20, SEED), m=3)
    assert Z.shape == (200, 20)
    assert np.diff(Z.indptr).max() <= 3
    assert (Z.data > 0).all()
    np.testing.assert_allclose(np.asarray(Z.sum(axis=1)).ravel(), 1.0)
    np.testing.assert_allclose(codes(7.5 * X, fit_anchors([X], 20, SEED)).toarray(), Z.toarray(), atol=1e-12)


def test_rows_of_zeros_have_empty_codes() -> None:
    X, _ = blobs(20, 2)
    Z = codes(np.vstack([X, np.zeros((1, 10))]), unit_rows(X)[:5])
    assert Z.toarray()[-1].sum() == 0
    assert codes(np.zeros((0, 10)), unit_rows(X)[:5]).shape == (0, 5)


def test_the_anchors_do_not_depend_on_how_rows_are_dealt_to_sites() -> None:
    X, _ = blobs(150, 5)
    whole = fit_anchors([X], 16, SEED, least=3)
    for parts in ([X[:50], X[50:]], [X[100:], X[:100], X[:0]], [X[::-1]]):
        np.testing.assert_allclose(fit_anchors(parts, 16, SEED, least=3), whole, atol=1e-9)


def test_sums_of_sites_add_up() -> None:
    X, _ = blobs(90, 3)
    anchors = unit_rows(X[:7])
    cells = assign(X, anchors)
    total = cell_sums(X[:40], cells[:40], 7) + cell_sums(X[40:], cells[40:], 7)
    np.testing.assert_allclose(total, cell_sums(X, cells, 7))
    np.testing.assert_array_equal(
        cell_counts(cells[:40], 7) + cell_counts(cells[40:], 7), np.bincount(cells, minlength=7)
    )


def test_k_means_comes_near_the_cost_of_a_library() -> None:
    from sklearn.cluster import KMeans

    X, _ = blobs(600, 12)
    U = unit_rows(X)
    ours = (U @ fit_anchors([X], 40, SEED, rounds=10).T).max(axis=1).mean()
    theirs = (U @ unit_rows(KMeans(40, n_init=1, random_state=0).fit(U).cluster_centers_).T).max(axis=1).mean()
    assert 1 - ours <= 1.15 * (1 - theirs)


@pytest.mark.parametrize("least", [1, 4, 10])
def test_no_anchor_is_the_mean_of_fewer_points_than_allowed(least: int) -> None:
    X, _ = blobs(200, 4)
    anchors = fit_anchors([X], 64, SEED, least=least)
    assert len(anchors) <= 200 // least
    counts = np.random.default_rng(least).integers(0, 20, 50)
    assert (counts[occupied(counts, least)] >= least).all()
    assert np.delete(counts, occupied(counts, least)).max(initial=0) < least
    assert occupied([1, 2, 0], 10).tolist() == [1]


def test_splitting_adds_at_most_as_many_anchors_as_there_are_and_keeps_unit_length() -> None:
    sums = np.array([[3.0, 0.0, 0.0], [0.0, 2.0, 1.0]])
    grown = move(sums, [10, 3], 64, SEED)
    assert grown.shape == (4, 3)
    np.testing.assert_allclose(np.linalg.norm(grown, axis=1), 1.0)
    np.testing.assert_allclose(move(sums, [10, 3], 2, SEED), unit_rows(sums))
    assert move(sums, [10, 3], 3, SEED).shape == (3, 3)  # only the wider cell, the one of ten points
    np.testing.assert_allclose(move(sums, [10, 3], 3, SEED)[1], unit_rows(sums)[1])


def test_first_cells_are_regions() -> None:
    X, y = blobs(300, 3)
    cells = first_cells(X, unit_rows(X).mean(axis=0), SEED, 8)
    assert cells.max() < 8
    same = np.mean([len(np.unique(cells[y == c])) for c in range(3)])
    assert same < 6


def test_unused_anchors_get_no_score() -> None:
    gram = np.diag([2.0, 0.0, 1.0])
    assert anchor_scores(gram, np.array([[1.0], [0.0], [0.0]]), 0.9)[1].tolist() == [0.0]
    assert np.linalg.eigvalsh(anchor_graph(gram)).max() <= 1 + 1e-12


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: fit_anchors([np.ones((3, 2))], 0, SEED), "positive"),
        (lambda: codes(np.ones((3, 2)), np.ones((2, 2)), m=0), "positive"),
        (lambda: anchor_scores(np.ones((2, 3)), np.ones((2, 1)), 0.9), "square"),
        (lambda: anchor_scores(np.eye(2), np.ones((3, 1)), 0.9), "2 anchors"),
        (lambda: unit_rows(np.array([[np.inf, 1.0]])), "finite"),
    ],
)
def test_refuses(call: object, words: str) -> None:
    with pytest.raises(InputError, match=words):
        call()  # type: ignore[operator]


@given(st.integers(0, 90), st.integers(1, 12), st.integers(1, 4))
def test_rows_are_grouped_with_neighbours_and_no_group_is_small(rows: int, least: int, columns: int) -> None:
    X = np.random.default_rng(rows).normal(size=(rows, columns)).round(1)
    groups = neighbours(X, least)
    assert len(groups) == (rows if rows >= least else 0)
    sizes = np.bincount(groups)
    assert ((sizes >= least) & (sizes < 2 * least)).all()
    if len(sizes) > 3 and columns == 1:  # on a line, no group lies within another
        parts = [X[groups == one, 0] for one in range(len(sizes))]
        assert all(a.max() <= b.min() or b.max() <= a.min() for a, b in combinations(parts, 2))


def test_equal_rows_are_grouped_too() -> None:
    assert sorted(np.bincount(neighbours(np.ones((35, 3)), 10)).tolist()) == [10, 10, 15]


def test_codes_are_tied_by_the_means_of_their_groups() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(37, 4))
    Z = codes(X, unit_rows(rng.normal(size=(6, 4))))
    groups = neighbours(unit_rows(X), 5)
    means = np.array([Z.toarray()[groups == one].mean(axis=0) for one in range(groups.max() + 1)])[groups]
    np.testing.assert_allclose(grouped_gram(Z, groups), means.T @ means, atol=1e-12)
    assert not grouped_gram(Z, groups[:0]).any()
