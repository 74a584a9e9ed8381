"""FedAvg: by hand on bowls, and against its paper on unlike sites."""

from __future__ import annotations

import pytest

from fedgeom import FedAvg, FedProx, Scaffold
from tests.methods.iterative import twin
from tests.methods.iterative.algorithms.against_papers import CLIENTS, NEAR, PLAIN, SITES, WORK, lowest
from tests.methods.iterative.making import BOWLS, bowls, whole


def test_by_hand():
    # One step of 0.1: 0.1·1·10 = 1 at the first site, 0.1·2·(−5) = −1 at the second; rows count 3 : 1.
    sites = bowls((10, 1), (-5, 2), copies=(3, 1))
    assert lowest(FedAvg(n_rounds=1, learning_rate=0.1, **BOWLS), sites) == pytest.approx((3 * 1 - 1) / 4)
    assert lowest(FedAvg(n_rounds=1, learning_rate=0.1, weights="sites", **BOWLS), sites) == 0


def test_as_published():
    found = FedAvg(**PLAIN).plain(SITES).model
    assert whole(found) == pytest.approx(twin.fedavg(CLIENTS, WORK), **NEAR)
    assert found.names == ("class 0", "class 1")


def test_unlike_bowls_end_at_the_mean_of_the_sites_optima():
    """Not at the joint optimum, 5: see SCAFFOLD and FedDyn."""
    row = FedAvg(n_rounds=30, steps=40, learning_rate=0.15, **BOWLS)
    assert lowest(row, bowls((0, 1), (6, 5))) == pytest.approx(3.0, abs=0.02)


@pytest.mark.parametrize("algorithm", [FedAvg(**PLAIN), FedProx(mu=0.0, **PLAIN), Scaffold(**PLAIN)])
def test_sites_alike_train_as_one_place_does(algorithm):
    """The same rows at all sites, full batches: averaging changes nothing (FedProx: with a pull of 0)."""
    first = SITES[0]
    alike = [type(first)(name, first.X, first.y) for name in ("a", "b", "c")]
    expected = whole(FedAvg(**PLAIN).plain([first]).model)
    assert whole(algorithm.plain(alike).model) == pytest.approx(expected, abs=1e-6)
