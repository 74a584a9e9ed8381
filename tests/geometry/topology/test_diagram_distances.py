"""Wasserstein distances of diagrams: by hand, by brute force, against gudhi's bottleneck, and metric laws."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from gudhi.hera import wasserstein_distance
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array
from scipy.sparse.csgraph import maximum_bipartite_matching

from fedgeom.errors import InputError
from fedgeom.geometry.topology.distances import site_distance_matrix, wasserstein, wasserstein_matrix
from fedgeom.geometry.topology.persistence import rips_diagrams
from tests.tiers import examples

seeds = st.integers(0, 9999)
NONE = np.empty((0, 2))


def diagram(m: int, seed: int) -> np.ndarray:
    births, lives = np.random.default_rng(seed).random((2, m))
    return np.column_stack([births, births + lives])


def brute_force(A: np.ndarray, B: np.ndarray, p: float, ground: str) -> float:
    """Eq. 3 over all matchings, each diagram filled up with diagonal points of the other."""
    order = np.inf if ground == "linf" else 2
    a, b = [tuple(u) for u in A] + [None] * len(B), [tuple(v) for v in B] + [None] * len(A)

    def cost(u: tuple[float, float] | None, v: tuple[float, float] | None) -> float:
        if u is None and v is None:
            return 0.0
        if u is None or v is None:
            x = np.array(u if v is None else v)
            return float(np.linalg.norm(x - x.mean(), order))
        return float(np.linalg.norm(np.subtract(u, v), order))

    totals = []
    for image in permutations(range(len(b))):
        costs = np.array([cost(u, b[j]) for u, j in zip(a, image, strict=True)])
        totals.append(costs.max(initial=0.0) if np.isinf(p) else (costs**p).sum() ** (1 / p))
    return min(totals)


def test_points_by_hand() -> None:
    A, B = [[0.0, 4.0]], [[1.0, 4.0]]
    assert wasserstein(A, B) == wasserstein(A, B, ground="linf") == 1.0
    assert wasserstein(A, NONE) == pytest.approx(4 / np.sqrt(2))
    assert wasserstein(A, NONE, ground="linf", p=1) == 2.0
    # Far from each other and near the diagonal: both go there.
    assert wasserstein([[0.0, 1.0]], [[9.0, 10.0]], p=1, ground="linf") == 1.0
    assert wasserstein([[0.0, 1.0]], [[9.0, 10.0]], p=2, ground="linf") == pytest.approx(np.sqrt(0.5))
    assert wasserstein([[0.0, 1.0]], [[9.0, 10.0]], p=np.inf, ground="linf") == 0.5
    assert wasserstein([[0.0, 4.0], [0.0, 1.0]], B, p=1, ground="linf") == 1.5


def test_diagrams_on_a_line_by_hand() -> None:
    A, B = (np.column_stack([np.zeros(3), deaths]) for deaths in ([3.0, 5.0, 9.0], [9.5, 3.0, 5.25]))
    assert wasserstein(A, B, p=1) == pytest.approx(0.75)
    assert wasserstein(A, B, p=2) == pytest.approx(np.hypot(0.25, 0.5))
    assert wasserstein(A, B, p=np.inf) == pytest.approx(0.5)


@examples(40)
@given(st.integers(0, 3), st.integers(0, 3), st.sampled_from([1, 1.5, 2, 7, 60, np.inf]), st.booleans(), seeds)
def test_equals_brute_force(m: int, k: int, p: float, l2: bool, seed: int) -> None:
    A, B, ground = diagram(m, seed), diagram(k, seed + 1), "l2" if l2 else "linf"
    assert wasserstein(A, B, p=p, ground=ground) == pytest.approx(brute_force(A, B, p, ground), abs=1e-12)


def bottleneck(A: np.ndarray, B: np.ndarray) -> float:
    """Return the least largest cost of a perfect matching; gudhi's is not always the least."""
    m, k = len(A), len(B)
    costs = np.zeros((m + k, m + k))
    if m:
        costs[:m, k:] = (A[:, 1:] - A[:, :1]) / 2
    if k:
        costs[m:, :k] = (B[:, 1] - B[:, 0]) / 2
    if m and k:
        costs[:m, :k] = np.abs(A[:, None] - B[None]).max(axis=2)
    for limit in np.unique(costs):
        if (maximum_bipartite_matching(csr_array(costs <= limit), perm_type="column") >= 0).all():
            return float(limit)
    return 0.0


@examples(30)
@given(st.integers(0, 25), st.integers(0, 25), seeds)
def test_agrees_with_references_and_large_p_comes_near_the_bottleneck(m: int, k: int, seed: int) -> None:
    A, B = diagram(m, seed), diagram(k, seed + 1)
    limit = bottleneck(A, B)
    assert wasserstein(A, B, p=np.inf, ground="linf") == pytest.approx(limit, abs=1e-12)
    for p in (50.0, 400.0, 5000.0):
        near = wasserstein(A, B, p=p, ground="linf")
        assert limit - 1e-9 <= near <= limit * (m + k + 1) ** (1 / p) + 1e-9
    if m + k:
        hera = wasserstein_distance(A, B, order=2.0, internal_p=2.0, delta=1e-6)
        assert wasserstein(A, B) == pytest.approx(hera, rel=1e-4)


@examples(30)
@given(st.integers(0, 12), st.integers(0, 12), st.integers(0, 12), st.sampled_from([1, 2, np.inf]), seeds)
def test_is_a_metric(m: int, k: int, r: int, p: float, seed: int) -> None:
    A, B, C = diagram(m, seed), diagram(k, seed + 1), diagram(r, seed + 2)
    assert wasserstein(A, A[::-1], p=p) == 0.0
    assert wasserstein(A, B, p=p) == pytest.approx(wasserstein(B, A, p=p), abs=1e-12)
    assert wasserstein(A, C, p=p) <= wasserstein(A, B, p=p) + wasserstein(B, C, p=p) + 1e-9
    assert wasserstein(3 * A, 3 * B, p=p) == pytest.approx(3 * wasserstein(A, B, p=p), abs=1e-12)
    on_diagonal = np.vstack([A, [[0.3, 0.3]]])
    assert wasserstein(A, on_diagonal, p=p) == 0.0


def test_matrices_of_sites_join_both_dimensions() -> None:
    rng = np.random.default_rng(0)
    sites = [rips_diagrams(rng.normal(size=(20, 2))) for _ in range(4)]
    h0, h1 = (wasserstein_matrix([site[at] for site in sites]) for at in (0, 1))
    assert h0[1, 2] == wasserstein(sites[1].h0, sites[2].h0)
    np.testing.assert_array_equal(h0, h0.T)
    assert not np.diagonal(h0).any()
    np.testing.assert_allclose(site_distance_matrix(sites), np.sqrt(h0**2 + h1**2))
    highest = site_distance_matrix(sites, p=np.inf)
    assert (highest <= site_distance_matrix(sites) + 1e-12).all()
    assert (highest[np.triu_indices(4, 1)] > 0).all()


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: wasserstein([[0, np.inf]], NONE), "never die"),
        (lambda: wasserstein([[1.0, 0.0]], NONE), "birth"),
        (lambda: wasserstein([1.0, 2.0], NONE), "diagram is"),
        (lambda: wasserstein(NONE, NONE, p=0.5), "at least 1"),
        (lambda: wasserstein(NONE, NONE, p=np.nan), "at least 1"),
        (lambda: wasserstein(NONE, NONE, ground="l1"), "linf"),  # type: ignore[arg-type]
    ],
)
def test_what_cannot_be_used_is_refused(call: object, words: str) -> None:
    with pytest.raises(InputError, match=words):
        call()  # type: ignore[operator]
