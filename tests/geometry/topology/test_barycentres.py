"""Wasserstein barycentres of diagrams: by hand, as a minimum, and what closeness follows from them."""

from __future__ import annotations

import numpy as np
import pytest

from fedgeom.errors import InputError
from fedgeom.geometry.topology.distances import (
    barycentre,
    barycentre_cost,
    diagram_closeness,
    site_barycentre,
    site_distances,
)
from fedgeom.geometry.topology.persistence import Diagrams

EMPTY = np.empty((0, 2))


def drawn(seed: int, points: int = 6, many: int = 4) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    births = rng.random((many, points))
    return list(np.stack([births, births + rng.exponential(0.5, births.shape)], axis=2))


def test_points_meet_in_the_middle_or_on_their_way_to_the_diagonal() -> None:
    np.testing.assert_allclose(barycentre([[[0.0, 2.0]], [[0.0, 4.0]]]), [[0.0, 3.0]])
    np.testing.assert_allclose(barycentre([[[0.0, 2.0]], [[0.0, 4.0]]], [1, 3]), [[0.0, 3.5]])
    # Half of the weight pulls to (0, 2), half to its nearest point of the diagonal, (1, 1).
    np.testing.assert_allclose(barycentre([[[0.0, 2.0]], EMPTY]), [[0.5, 1.5]])
    assert barycentre([EMPTY, EMPTY]).shape == (0, 2)


def test_a_barycentre_of_one_or_of_equal_diagrams_is_that() -> None:
    (one, *_) = drawn(0)
    for given in ([one], [one, one, one]):
        found = barycentre(given)
        assert barycentre_cost(found, given) == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("seed", range(5))
def test_it_is_a_minimum_and_no_diagram_that_was_given_is_better(seed: int) -> None:
    given, rng = drawn(seed), np.random.default_rng(seed)
    weights = rng.dirichlet(np.ones(len(given)))
    found = barycentre(given, weights)
    least = barycentre_cost(found, given, weights)
    assert least <= min(barycentre_cost(one, given, weights) for one in given)
    for size in (0.01, 0.1):
        moved = found + size * rng.normal(size=found.shape)
        moved = np.stack([moved.min(axis=1), moved.max(axis=1)], axis=1)
        assert barycentre_cost(moved, given, weights) > least


def test_closeness_follows_the_diagrams_by_hand() -> None:
    """Deaths at 2 and 4 have their barycentre at 3, both at distance 1; the third site is a cluster of its own."""
    sites = [Diagrams(np.array([[0.0, death]]), EMPTY, 2) for death in (2.0, 4.0, 9.0)]
    assert site_barycentre(sites[:2]).h0.tolist() == [[0.0, 3.0]]
    assert site_distances(sites[0], sites[1]) == 2.0
    np.testing.assert_allclose(diagram_closeness(sites, [0, 0, 1], 1.0), [np.exp(-1), np.exp(-1), 1])
    np.testing.assert_allclose(diagram_closeness(sites, [0, 0, 1]), [np.exp(-1.5), np.exp(-1.5), 1])
    assert diagram_closeness(sites, [0, 1, 2]).tolist() == [1, 1, 1]


def test_weights_that_are_none_are_refused() -> None:
    with pytest.raises(InputError, match="none negative"):
        barycentre(drawn(0), [1, 1, 1, -1])
    with pytest.raises(InputError, match="no diagrams"):
        barycentre([])
