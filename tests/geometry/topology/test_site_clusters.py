"""Groups of sites: linkage, silhouettes, and the weights, trust and drift of Eqs. 6, 8 and 9 by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.distance import cdist
from sklearn.cluster import AgglomerativeClustering
from sklearn.metrics import adjusted_rand_score, silhouette_score

from fedgeom.errors import InputError
from fedgeom.geometry.topology.clustering import (
    average_linkage,
    choose_clusters,
    cluster_centres,
    cluster_sites,
    cluster_weights,
    cosine_distances,
    descriptor_distances,
    drift,
    mean_distances,
    silhouette,
    topology_closeness,
    trust,
    unit_rows,
    z_scores,
)
from tests.tiers import examples

seeds = st.integers(0, 9999)


def line(*places: float) -> np.ndarray:
    at = np.array(places)[:, None]
    return np.abs(at - at.T)


@examples(30)
@given(st.integers(2, 20), st.integers(1, 6), seeds)
def test_linkage_agrees_with_scikit_learn(K: int, M: int, seed: int) -> None:
    X = np.random.default_rng(seed).normal(size=(K, 3))
    D = cdist(X, X)
    found = average_linkage(D, M)
    M = min(M, K)
    assert sorted(set(found.tolist())) == list(range(M))
    other = AgglomerativeClustering(M, metric="precomputed", linkage="average").fit_predict(D)
    assert adjusted_rand_score(found, other) == 1.0
    first = [int(np.argmax(found == number)) for number in range(M)]
    assert first == sorted(first)  # numbered in the order of their first sites
    if M >= 2 and M < K:
        assert silhouette(D, found) == pytest.approx(silhouette_score(D, found, metric="precomputed"))


def test_groups_of_a_line_are_found_and_counted() -> None:
    D = line(0, 10, 0.1, 10.1, 20, 0.2, 20.1)
    assert choose_clusters(D) == 3
    np.testing.assert_array_equal(cluster_sites(D), [0, 1, 0, 1, 2, 0, 2])
    np.testing.assert_array_equal(cluster_sites(D, 1), np.zeros(7))
    assert choose_clusters(D, most=2) == 2
    assert choose_clusters(D, most=1) == 1


def test_one_cluster_is_chosen_when_no_number_reaches_the_bound() -> None:
    X = np.random.default_rng(0).normal(size=(12, 40))
    D = cdist(X, X)
    assert choose_clusters(D) == 1
    assert choose_clusters(D, least=-1.0) > 1
    assert choose_clusters(np.zeros((5, 5))) == 1
    groups = line(0, 1, 10, 11)
    score = silhouette(groups, [0, 0, 1, 1])
    assert choose_clusters(groups, least=score) == 2
    assert choose_clusters(groups, least=np.nextafter(score, 1)) == 1
    assert choose_clusters(np.zeros((5, 5)), least=0.0) == 2  # all numbers tie at 0, and the smallest wins


@pytest.mark.parametrize("K", [0, 1, 2])
def test_up_to_two_sites_are_one_cluster(K: int) -> None:
    D = 3.0 * (1 - np.eye(K))
    assert choose_clusters(D) == 1
    np.testing.assert_array_equal(cluster_sites(D), np.zeros(K))
    np.testing.assert_array_equal(average_linkage(D, 5), np.arange(K))


def test_equal_sites_still_make_m_clusters() -> None:
    found = average_linkage(np.zeros((6, 6)), 3)
    assert len(set(found.tolist())) == 3
    assert silhouette(np.zeros((6, 6)), found) == 0.0
    assert silhouette(line(0, 1, 2), [0, 0, 0]) == 0.0


def test_distances_of_normalised_descriptors_and_of_raw_ones() -> None:
    phi = np.array([[2.0, 0.0], [0.0, 5.0], [3.0, 0.0]])
    np.testing.assert_allclose(descriptor_distances(phi)[0], [0, np.sqrt(2), 0], atol=1e-15)
    np.testing.assert_allclose(descriptor_distances(phi, normalise=False)[0], [0, np.sqrt(29), 1])
    np.testing.assert_array_equal(unit_rows([[0.0, 0.0], [1e200, 0.0], [0.0, 1e-200]]), [[0, 0], [1, 0], [0, 1]])


def test_cosines_see_directions_only_and_a_zero_update_has_none() -> None:
    D = cosine_distances([[1.0, 0.0], [9.0, 0.0], [0.0, 2.0], [-4.0, 0.0], [0.0, 0.0]])
    np.testing.assert_allclose(D[0], [0, 0, 1, 2, 1], atol=1e-15)
    np.testing.assert_array_equal(D, D.T)
    np.testing.assert_array_equal(D[4], [1, 1, 1, 1, 0])


def test_weights_of_eq_6_by_hand() -> None:
    phi, labels = np.array([[1.0, 0.0], [0.0, 3.0], [5.0, 5.0]]), [0, 0, 1]
    np.testing.assert_allclose(cluster_centres(phi, labels), [[0.5, 0.5], [np.sqrt(0.5)] * 2])
    near = topology_closeness(phi, labels)
    np.testing.assert_allclose(near, [np.exp(-np.sqrt(0.5))] * 2 + [1.0])
    np.testing.assert_allclose(cluster_weights(labels, [30, 10, 7], closeness=near), [0.75, 0.25, 1])
    np.testing.assert_allclose(cluster_weights(labels, [30, 10, 7], trust=[0.5, 1.0, 0.1]), [0.6, 0.4, 1])
    np.testing.assert_allclose(cluster_weights(labels, [0, 0, 7]), [0.5, 0.5, 1])


@examples(25)
@given(st.integers(1, 15), st.integers(1, 4), seeds)
def test_weights_sum_to_one_in_each_cluster_and_closeness_is_bounded(K: int, M: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    phi, labels = rng.normal(size=(K, 5)), rng.integers(0, M, K)
    near = topology_closeness(phi, labels)
    assert ((near >= np.exp(-2.0)) & (near <= 1.0)).all()
    weights = cluster_weights(labels, rng.integers(1, 99, K), closeness=near, trust=trust(rng.normal(size=K)))
    for number in set(labels.tolist()):
        assert weights[labels == number].sum() == pytest.approx(1.0)


def test_delta_z_and_trust_of_eq_8_by_hand() -> None:
    delta = mean_distances(line(0, 0, 0, 12))
    np.testing.assert_allclose(delta, [4, 4, 4, 12])
    z = z_scores(delta)
    np.testing.assert_allclose(z, [-1 / np.sqrt(3)] * 3 + [np.sqrt(3)])
    np.testing.assert_allclose(trust(z), [1, 1, 1, np.exp(1 - np.sqrt(3))])
    np.testing.assert_allclose(trust([-5.0, 1.0, 3.0]), [1, 1, np.exp(-2)])


def test_one_site_and_equal_sites_are_trusted() -> None:
    for D in (np.zeros((1, 1)), np.zeros((4, 4)), 0.1 * (1 - np.eye(7)), (1 - np.eye(30)) / 3):
        np.testing.assert_array_equal(z_scores(mean_distances(D)), np.zeros(len(D)))
        np.testing.assert_array_equal(trust(z_scores(mean_distances(D))), np.ones(len(D)))
    assert z_scores([]).shape == (0,)
    np.testing.assert_array_equal(z_scores([0.1 + 0.2, 0.3, 0.3]), np.zeros(3))


@examples(25)
@given(st.lists(st.floats(0, 1e6), min_size=2, max_size=12))
def test_no_z_exceeds_the_root_of_the_other_sites(delta: list[float]) -> None:
    assert z_scores(delta).max() <= np.sqrt(len(delta) - 1) + 1e-6


def test_drift_of_eq_9_by_hand() -> None:
    assert drift([[0.0, 0.0], [3.0, 4.0], [0.0, 1.0]]) == pytest.approx(2.0)
    assert drift([[7.0, 7.0]]) == 0.0


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: average_linkage(np.zeros((2, 3)), 1), "square"),
        (lambda: average_linkage(line(0, 1) + np.eye(2), 1), "diagonal"),
        (lambda: average_linkage([[0.0, 1.0], [2.0, 0.0]], 1), "symmetric"),
        (lambda: average_linkage([[0.0, np.nan], [np.nan, 0.0]], 1), "finite"),
        (lambda: average_linkage(line(0, 1), 0), "at least one"),
        (lambda: choose_clusters(line(0, 1), most=0), "at least one"),
        (lambda: cluster_weights([0, 0], [1.0, -1.0]), "not negative"),
        (lambda: cluster_weights([0], [1.0, 1.0]), "one per site"),
        (lambda: topology_closeness([[1.0]], [-1]), "from 0"),
        (lambda: drift(np.empty((0, 3))), "no rows"),
    ],
)
def test_what_cannot_be_used_is_refused(call: object, words: str) -> None:
    with pytest.raises(InputError, match=words):
        call()  # type: ignore[operator]
