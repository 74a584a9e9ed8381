"""Propagation: the dense formula, a chain worked out by hand, and what cannot be reached."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from fedgeom.errors import InputError
from fedgeom.geometry.graphs.knn import attach, degrees, knn_graph, normalise
from fedgeom.geometry.graphs.propagation import extend, influence_columns, propagate
from tests.tiers import examples


def graph(n: int, k: int, seed: int) -> sp.csr_array:
    X = np.random.default_rng(seed).normal(size=(n, 4))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    return normalise(knn_graph(X @ X.T, k))


@pytest.mark.parametrize("solver", ["cg", "lu", "auto"])
@pytest.mark.parametrize("alpha", [0.1, 0.9, 0.99, 0.999])
@pytest.mark.parametrize("n", [2, 50, 300])
def test_columns_are_those_of_the_dense_inverse(solver: str, alpha: float, n: int) -> None:
    W = graph(n, 5, n)
    dense = np.linalg.inv(np.eye(n) - alpha * W.toarray())
    columns = np.random.default_rng(0).permutation(n)[: max(1, n // 3)]
    found = influence_columns(W, alpha, columns, solver=solver)  # type: ignore[arg-type]
    assert np.abs(found - dense[:, columns]).max() < 1e-8


@examples(20)
@given(st.integers(2, 60), st.integers(1, 6), st.floats(0.05, 0.99), st.integers(0, 999))
def test_propagated_labels_satisfy_their_equation(n: int, k: int, alpha: float, seed: int) -> None:
    W, Y = graph(n, k, seed), np.random.default_rng(seed).random((n, 3))
    Z = propagate(W, alpha, Y, solver="cg")
    np.testing.assert_allclose(Z - alpha * (W @ Z), Y, atol=1e-9)
    np.testing.assert_allclose(propagate(W, alpha, Y, solver="lu"), Z, atol=1e-8)


def test_a_chain_of_three_by_hand() -> None:
    # Weights 1 and 1; degrees 1, 2, 1; W12 = W23 = 1/√2. With α = 1/2 the determinant of Id - αW is 3/4, and a label
    # at the first point gives (1 - α²/2, α/√2, α²/2) / (1 - α²) = (7/6, √2/3, 1/6).
    W = normalise(sp.csr_array(np.array([[0.0, 1, 0], [1, 0, 1], [0, 1, 0]])))
    expected = np.array([7 / 6, np.sqrt(2) / 3, 1 / 6])
    for solver in ("cg", "lu"):
        found = influence_columns(W, 0.5, [0], solver=solver)[:, 0]  # type: ignore[arg-type]
        np.testing.assert_allclose(found, expected, atol=1e-12)


def test_influence_is_symmetric_positive_and_zero_where_no_path_leads() -> None:
    W = sp.csr_array(sp.block_diag([graph(20, 3, 1), graph(30, 3, 2)]))
    S = influence_columns(W, 0.9, np.arange(50), solver="cg")
    np.testing.assert_allclose(S, S.T, atol=1e-9)
    assert (S >= 0).all()
    assert (S[:20, 20:] == 0).all()
    assert (np.diag(S) >= 1).all()


def test_a_label_matrix_is_a_sum_of_columns_so_that_labels_can_stay_at_sites() -> None:
    W, rng = graph(80, 5, 4), np.random.default_rng(4)
    Y = np.zeros((80, 3))
    labelled = rng.permutation(80)[:20]
    Y[labelled, rng.integers(0, 3, 20)] = 1
    S = influence_columns(W, 0.95, labelled)
    np.testing.assert_allclose(propagate(W, 0.95, Y), S @ Y[labelled], atol=1e-8)


def test_renaming_points_renames_scores() -> None:
    W, order = graph(60, 4, 5), np.random.default_rng(5).permutation(60)
    Y = np.random.default_rng(6).random((60, 2))
    moved = propagate(sp.csr_array(W[order][:, order]), 0.9, Y[order], solver="cg")
    np.testing.assert_allclose(moved, propagate(W, 0.9, Y, solver="cg")[order], atol=1e-9)


def test_many_columns_go_in_blocks() -> None:
    from fedgeom.geometry.graphs import propagation

    W, whole = graph(200, 5, 7), propagation._BLOCK_BYTES
    expected = influence_columns(W, 0.9, np.arange(100), solver="cg")
    try:
        propagation._BLOCK_BYTES = 200 * 8 * 7
        found = influence_columns(W, 0.9, np.arange(100), solver="cg")
    finally:
        propagation._BLOCK_BYTES = whole
    np.testing.assert_allclose(found, expected, atol=1e-9)


def test_empty_requests_and_columns_of_zeros() -> None:
    W = graph(10, 3, 8)
    assert influence_columns(W, 0.9, []).shape == (10, 0)
    assert propagate(W, 0.9, np.zeros((10, 2)), solver="cg").sum() == 0


def test_newcomers_get_what_a_one_way_edge_would_give_them() -> None:
    rng = np.random.default_rng(9)
    X = rng.normal(size=(40, 4))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    S = X @ X.T
    W = knn_graph(S[:30, :30], 4)
    Y = rng.random((30, 2))
    w = attach(S[30:, :30], degrees(W), 4)
    found = extend(w, 0.9, propagate(normalise(W), 0.9, Y))
    # The same as one linear system in which new rows listen to old ones and old ones do not listen to them.
    system = np.eye(40)
    system[:30, :30] -= 0.9 * normalise(W).toarray()
    system[30:, :30] -= 0.9 * w.toarray()
    np.testing.assert_allclose(found, np.linalg.solve(system, np.vstack([Y, np.zeros((10, 2))]))[30:], atol=1e-8)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: propagate(graph(5, 2, 0), 1.0, np.zeros((5, 1))), "alpha"),
        (lambda: propagate(graph(5, 2, 0), 0.9, np.zeros((4, 1))), "one row per point"),
        (lambda: influence_columns(graph(5, 2, 0), 0.9, [5]), "5 points"),
        (lambda: influence_columns(graph(5, 2, 0), 0.9, [0], solver="qr"), "qr"),  # type: ignore[arg-type]
    ],
)
def test_refuses(call: object, words: str) -> None:
    with pytest.raises(InputError, match=words):
        call()  # type: ignore[operator]
