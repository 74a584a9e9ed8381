"""Consistent aggregation by hand, its bound, and who may use it."""

from __future__ import annotations

import numpy as np
import pytest

import fedgeom
from fedgeom.errors import InputError
from fedgeom.methods.iterative import Consistent
from fedgeom.protocols.pairwise import cosines

CHANGES = np.array([[2.0, 0.0], [0.0, 1.0]])


def test_two_changes_by_hand():
    # Raw: the foot of the perpendicular on the line from (2, 0) to (0, 1) is at one fifth.
    raw = Consistent(deviations="raw", min_effective_sites=1.0)
    np.testing.assert_allclose(raw(CHANGES, np.ones(2)), [0.4, 0.8], atol=1e-6)
    # Scaled to norm 1 they count alike; what is combined are the changes as they are.
    np.testing.assert_allclose(Consistent(min_effective_sites=1.0)(CHANGES, np.ones(2)), [1.0, 0.5], atol=1e-6)


def test_the_sites_own_weights_play_no_part():
    np.testing.assert_array_equal(Consistent()(CHANGES, np.ones(2)), Consistent()(CHANGES, np.array([1.0, 99.0])))


@pytest.mark.parametrize("solver", ["exact", "line search", "printed"])
@pytest.mark.parametrize("deviations", ["unit", "raw"])
@pytest.mark.parametrize("mixed", [1.0, 3.0, 5.0])
def test_the_weights_mix_as_many_sites_as_asked_for(solver, deviations, mixed):
    rng = np.random.default_rng(0)
    changes = rng.normal(size=(6, 40)) * rng.lognormal(sigma=2, size=(6, 1))
    rule = Consistent(deviations=deviations, min_effective_sites=mixed, solver=solver)
    lengths = np.linalg.norm(changes, axis=1) if deviations == "raw" else None
    p = rule.weigh(cosines(changes), lengths)
    assert p.sum() == pytest.approx(1)
    assert (p >= 0).all()
    assert 1 / (p @ p) >= mixed - 1e-9
    stricter = rule.weigh(cosines(changes), lengths, mixed=5.5)
    assert 1 / (stricter @ stricter) >= 5.5 - 1e-9


def test_fewer_sites_than_the_bound_count_alike():
    np.testing.assert_allclose(Consistent(min_effective_sites=3.0).weigh(np.eye(2), None), [0.5, 0.5])


def test_raw_deviations_give_the_weight_to_whoever_moved_least():
    changes = np.array([[10.0, 0.0, 0.0], [0.0, 10.0, 0.0], [0.0, 0.0, 0.1]])
    p = Consistent(deviations="raw", min_effective_sites=1.0).weigh(
        cosines(changes), np.linalg.norm(changes, axis=1)
    )
    assert p[2] > 0.99


def test_algorithms_that_compare_nothing_refuse_it():
    with pytest.raises(InputError, match="HyperFed"):
        fedgeom.FedAvg(aggregation="consistent")
