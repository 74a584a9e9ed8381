"""FedDyn: by hand on bowls, against its paper on unlike sites, and where it must end."""

from __future__ import annotations

import numpy as np
import pytest

from fedgeom import FedAvg, FedDyn
from fedgeom.methods.iterative import Round, Tree
from tests.methods.iterative import twin
from tests.methods.iterative.algorithms.against_papers import CLIENTS, PLAIN, SITES, WORK, lowest, one
from tests.methods.iterative.making import BOWLS, bowls, whole


def test_by_hand():
    # α = 1, bowls of h = 1: a step of 0.5 is the exact minimum of ½(θ − a)² + ½(θ − 0)²: a/2, so 5 and 1.
    # g_k = −5, −1; h = −1·(5 + 1)/2 = −3; θ = 3 + 3 = 6, the optimum. Round 2: θ_k = (a + g_k + 6)/2 … = 5.5, 3.5 …
    sites, exact = bowls((10, 1), (2, 1)), BOWLS | {"learning_rate": 0.5}
    assert lowest(FedDyn(n_rounds=1, alpha=1.0, **exact), sites) == pytest.approx(6.0)
    first = (10 + -5 + 6) / 2, (2 + -1 + 6) / 2
    h = -3 - ((first[0] - 6) + (first[1] - 6)) / 2
    assert lowest(FedDyn(n_rounds=2, alpha=1.0, **exact), sites) == pytest.approx(sum(first) / 2 - h)


def test_as_published():
    expected = twin.feddyn(CLIENTS, WORK, alpha=0.4)
    assert whole(FedDyn(alpha=0.4, **PLAIN).plain(SITES).model) == pytest.approx(expected, abs=1e-6)


def test_it_pulls_by_the_share_of_sites():
    """The paper's |P|/m."""
    state, round = Tree(model=one(1.0), pull=one(0.5)), Round(0, 0.25, np.random.default_rng(0))
    new = FedDyn(alpha=0.1).combine(state, Tree(model=one(3.0)), round)
    assert new["pull"]["w"][0] == pytest.approx(0.5 - 0.1 * 0.25 * 2)
    assert new["model"]["w"][0] == pytest.approx(3.0 - new["pull"]["w"][0] / 0.1)


def test_unlike_bowls_end_at_the_joint_optimum():
    row = FedDyn(n_rounds=100, alpha=1.0, steps=40, learning_rate=0.15, **BOWLS)
    assert lowest(row, bowls((0, 1), (6, 5))) == pytest.approx(6 * 5 / 6, abs=1e-4)


def test_logistic_regression_ends_at_the_joint_optimum_and_that_of_fedavg_does_not():
    common = {"scale": "none", "solver": "exact", "weights": "sites"}

    def steepness(algorithm):
        w = whole(algorithm.plain(SITES).model)
        return float(np.linalg.norm(sum(client.slope(w) for client in CLIENTS) / len(CLIENTS)))

    assert steepness(FedDyn(n_rounds=60, alpha=0.1, **common)) < 1e-3
    assert steepness(FedAvg(n_rounds=20, **common)) > 1e-2
