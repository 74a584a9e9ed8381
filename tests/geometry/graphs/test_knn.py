"""Neighbour graphs: blocks, ties, symmetry, spectrum, and points that come later."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedgeom.errors import InputError
from fedgeom.geometry.graphs.knn import Neighbours, attach, degrees, knn_graph, normalise
from tests.tiers import examples


def cosines(n: int, seed: int = 0, d: int = 5) -> np.ndarray:
    X = np.random.default_rng(seed).normal(size=(n, d))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    return X @ X.T


def slow_graph(S: np.ndarray, k: int, power: int, self_loops: bool, clip: float) -> np.ndarray:
    """Line 7 and 8, row by row."""
    B = np.zeros_like(S)
    for i, row in enumerate(S):
        order = [j for j in sorted(range(len(row)), key=lambda j: (-row[j], j)) if self_loops or j != i]
        for j in order[:k]:
            B[i, j] = row[j] ** power if row[j] > clip else 0.0
    return B + B.T


@examples(40)
@given(
    st.integers(2, 25),
    st.integers(1, 8),
    st.sampled_from([1, 3, 8]),
    st.booleans(),
    st.booleans(),
    st.integers(0, 999),
)
def test_equals_the_slow_definition_also_with_ties(
    n: int, k: int, power: int, loops: bool, ties: bool, seed: int
) -> None:
    S = cosines(n, seed)
    S = np.round(S, 1) if ties else S
    found = knn_graph(S, k, power=power, self_loops=loops)
    np.testing.assert_allclose(found.toarray(), slow_graph(S, k, power, loops, 0.0), atol=1e-12)


@examples(25)
@given(st.integers(0, 999), st.lists(st.integers(0, 9), min_size=1, max_size=5))
def test_blocks_of_site_pairs_in_any_order_give_the_same_graph(seed: int, sizes: list[int]) -> None:
    n = sum(sizes)
    if n < 2:
        return
    S, rng = np.round(cosines(n, seed), 1), np.random.default_rng(seed)
    ends = np.cumsum([0, *sizes])
    blocks = []
    for i in range(len(sizes)):
        for j in range(i, len(sizes)):
            a, b = (i, j) if rng.random() < 0.5 else (j, i)
            blocks.append((int(ends[a]), int(ends[b]), S[ends[a] : ends[a + 1], ends[b] : ends[b + 1]]))
    blocks = [blocks[i] for i in rng.permutation(len(blocks))]
    np.testing.assert_array_equal(knn_graph(blocks, 3, n=n).toarray(), knn_graph(S, 3).toarray())


@pytest.mark.parametrize("seed", range(3))
def test_renaming_points_renames_the_graph(seed: int) -> None:
    S, order = cosines(30, seed), np.random.default_rng(seed).permutation(30)
    W, V = (normalise(knn_graph(T, 4)).toarray() for T in (S, S[np.ix_(order, order)]))
    np.testing.assert_allclose(V, W[np.ix_(order, order)], atol=1e-14)


@pytest.mark.parametrize("k", [1, 3, 10])
@pytest.mark.parametrize("loops", [False, True])
def test_the_normalised_graph_is_symmetric_with_spectrum_at_most_one(k: int, loops: bool) -> None:
    W = normalise(knn_graph(cosines(60, 3), k, self_loops=loops)).toarray()
    np.testing.assert_array_equal(W, W.T)
    eigenvalues = np.linalg.eigvalsh(W)
    assert np.abs(eigenvalues).max() == pytest.approx(1.0, abs=1e-12)


def test_negative_similarities_make_no_edge_and_isolated_rows_have_degree_one() -> None:
    S = np.array([[1.0, 0.5, -0.2], [0.5, 1.0, -0.4], [-0.2, -0.4, 1.0]])
    W = knn_graph(S, 2)
    np.testing.assert_array_equal(W.toarray(), [[0, 1.0, 0], [1.0, 0, 0], [0, 0, 0]])
    np.testing.assert_array_equal(degrees(W), [1.0, 1.0, 1.0])
    assert np.isfinite(normalise(W).toarray()).all()


def test_a_missing_block_is_a_pair_that_is_not_connected() -> None:
    S = np.full((4, 4), 0.9)
    W = knn_graph([(0, 0, S[:2, :2]), (2, 2, S[2:, 2:])], 3, n=4).toarray()
    assert W[:2, 2:].sum() == 0
    assert W[0, 1] > 0


def test_newcomers_hang_on_to_their_nearest_without_changing_the_rest() -> None:
    S = cosines(20, 1)
    W = knn_graph(S[:15, :15], 4)
    w = attach(S[15:, :15], degrees(W), 4, power=2)
    assert w.shape == (5, 15)
    for row, s in zip(w.toarray(), S[15:, :15], strict=True):
        kept = np.argsort(-s)[:4]
        expected = np.zeros(15)
        expected[kept] = np.maximum(s[kept], 0) ** 2
        expected /= np.sqrt(max(expected.sum(), 1e-300) * degrees(W))
        np.testing.assert_allclose(row, expected, atol=1e-12)


def test_one_point_alone() -> None:
    assert knn_graph(np.ones((1, 1)), 5).toarray().tolist() == [[0.0]]


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: knn_graph(np.ones((2, 3)), 1), r"\(n, n\)"),
        (lambda: knn_graph(np.full((2, 2), np.nan), 1), "NaN"),
        (lambda: knn_graph([(0, 1, np.ones((2, 2)))], 1, n=3), "diagonal"),
        (lambda: knn_graph([(0, 2, np.ones((2, 2)))], 1, n=3), "3 points"),
        (lambda: Neighbours(0, 1), "positive"),
        (lambda: knn_graph(np.ones((2, 2)), 1, power=0), "power"),
    ],
)
def test_refuses(call: object, words: str) -> None:
    with pytest.raises(InputError, match=words):
        call()  # type: ignore[operator]
