"""FedProx: by hand on bowls, against its paper on unlike sites, and at both ends of μ."""

from __future__ import annotations

import pytest

from fedgeom import FedAvg, FedProx
from tests.methods.iterative import twin
from tests.methods.iterative.algorithms.against_papers import CLIENTS, NEAR, PLAIN, SITES, WORK, ZERO, lowest, same
from tests.methods.iterative.making import BOWLS, bowls, whole


def test_by_hand():
    # Two steps for (10, 1): 0 → 1 → 1 + 0.1·(9 − μ·1), with μ = 2: 1.7.
    row = FedProx(n_rounds=1, learning_rate=0.1, mu=2.0, **(BOWLS | {"epochs": 2}))
    assert lowest(row, bowls((10, 1), (10, 1))) == pytest.approx(1.7)


def test_as_published():
    expected = twin.fedprox(CLIENTS, WORK, mu=0.7)
    assert whole(FedProx(mu=0.7, **PLAIN).plain(SITES).model) == pytest.approx(expected, **NEAR)


def test_without_a_pull_it_is_fedavg():
    same(whole(FedProx(mu=0.0).plain(SITES).model), whole(FedAvg().plain(SITES).model))


def test_with_a_great_pull_it_stays():
    row = FedProx(mu=1e6, solver="exact", n_rounds=1)
    assert whole(row.plain(SITES).model) == pytest.approx(ZERO, abs=1e-5)
