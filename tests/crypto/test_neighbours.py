"""Neighbourhoods: symmetric, regular, connected, the same for all who compute them."""

from __future__ import annotations

import math

import networkx as nx
import numpy as np
import pytest
from scipy.stats import hypergeom

from fedgeom.crypto.neighbours import COMPLETE_UP_TO, degree, neighbours, ring_order, smallest_part
from fedgeom.protocols.join.messages import DRAWS

SIZES = [1, 2, 3, 5, 47, 48, 49, 50, 61, 100, 257]


def names(n: int) -> list[str]:
    return [f"site {i}" for i in range(n)]


@pytest.mark.parametrize("n", SIZES)
def test_the_relation_is_symmetric_regular_and_without_loops(n: int) -> None:
    peers = neighbours(names(n), b"seed")
    assert set(peers) == set(names(n))
    for name, around in peers.items():
        assert name not in around
        assert len(set(around)) == len(around) == degree(n)
        assert all(name in peers[other] for other in around)


@pytest.mark.parametrize("n", SIZES)
def test_everyone_is_connected_to_everyone(n: int) -> None:
    graph = nx.Graph([(a, b) for a, around in neighbours(names(n), b"seed").items() for b in around])
    graph.add_nodes_from(names(n))
    assert nx.is_connected(graph)


@pytest.mark.parametrize("n", [60, 150])
def test_losing_less_than_a_third_of_each_neighbourhood_leaves_the_rest_connected(n: int) -> None:
    peers = neighbours(names(n), b"seed")
    order = ring_order(names(n), b"seed")
    for gap in range(1, degree(n) // 3):  # the worst loss on a ring: two runs of neighbours
        lost = set(order[:gap]) | set(order[n // 2 : n // 2 + gap])
        kept = nx.Graph([(a, b) for a in peers for b in peers[a] if a not in lost and b not in lost])
        assert nx.is_connected(kept)
        assert len(kept) == n - len(lost)


def test_few_sites_are_all_neighbours() -> None:
    assert degree(COMPLETE_UP_TO) == COMPLETE_UP_TO - 1
    assert degree(COMPLETE_UP_TO + 1) < COMPLETE_UP_TO


@pytest.mark.parametrize("n", [49, 64, 100, 1000, 10_000])
def test_many_sites_have_logarithmically_many_neighbours(n: int) -> None:
    k = degree(n)
    assert k % 2 == 0
    assert 0 <= k - 12 * math.log2(n / 4) < 2


def test_the_seed_alone_decides_and_the_order_of_names_does_not() -> None:
    some = names(80)
    assert neighbours(some, b"a") == neighbours(some[::-1], b"a")
    assert neighbours(some, b"a") != neighbours(some, b"b")
    assert sorted(ring_order(some, b"a")) == sorted(some)


def test_the_stated_failure_probabilities_hold() -> None:
    for n in range(49, 1001):
        k = degree(n)
        needed = math.ceil(2 / 3 * (k + 1) - 1e-9)
        both_kinds = 2 * needed - (k + 1)
        assert hypergeom.sf(needed - 1, n - 1, int(0.3 * n), k) < 2**-45
        assert hypergeom.sf(both_kinds - 1, n - 1, int(0.1 * n), k) < 2**-35
        assert hypergeom.sf(both_kinds - 1, n - 1, int(0.2 * n), k) < 2**-9
        assert hypergeom.sf(k + 1 - needed, n, int(0.1 * n), k + 1) < 2**-35


@pytest.mark.parametrize("n", [3, 48, 60, 200])
def test_the_parts_of_the_living_are_those_of_the_graph(n: int) -> None:
    some, rng = tuple(names(n)), np.random.default_rng(n)
    graph = nx.Graph({name: list(peers) for name, peers in neighbours(some, b"a").items()})
    for size in {1, 2, 3, n // 2, n}:
        living = tuple(sorted(rng.choice(some, size, replace=False).tolist()))
        parts = nx.connected_components(graph.subgraph(living))
        assert smallest_part(some, b"a", living) == min(map(len, parts))


def test_a_site_whose_neighbours_are_gone_is_a_part_by_itself() -> None:
    some = tuple(names(60))
    peers = neighbours(some, b"a")
    far = [name for name in some if name != some[0] and name not in peers[some[0]]]
    assert smallest_part(some, b"a", tuple(sorted([some[0], *far]))) == 1


@pytest.mark.parametrize(("n", "part"), [(49, 3), (100, 5), (300, 30), (1000, 100)])
def test_where_parts_are_summed_those_of_a_part_share_masks(n: int, part: int) -> None:
    some, rng = tuple(names(n)), np.random.default_rng(n)
    peers, k = neighbours(some, b"a", part), degree(n, part)
    assert k == min(n - 1, k) >= degree(n)
    assert all(len(around) == k for around in peers.values())
    for _ in range(200):
        drawn = tuple(sorted(rng.choice(some, part, replace=False).tolist()))
        assert min(len(set(peers[name]) & set(drawn)) for name in drawn) >= 2  # as three sites in a sum ask for
        assert smallest_part(some, b"a", drawn, part) == part


def test_a_sum_over_all_needs_no_more_neighbours() -> None:
    assert degree(100, 100) == degree(100)
    assert degree(100, 25) == degree(100, 3) == 99


def odds(n: int, colluding: int) -> float:
    """Bound the chance that, in one of all draws of the ring, a third of some honest site's holders collude."""
    near = degree(n)
    third = -(-(near + 1) // 3)
    return DRAWS * (n - colluding) * float(hypergeom.sf(third - 1, n - 1, colluding, near))


def test_the_odds_of_the_ring_are_those_that_the_pages_state() -> None:
    assert 2**-26 < odds(1000, 100) < 2**-25
    assert 2**-6 < odds(100, 20) < 2**-4
    assert 0.7 < odds(200, 40) < 0.9
    assert all(odds(n, n // 5) > 0.5 for n in (200, 250, 300, 500, 1000))
