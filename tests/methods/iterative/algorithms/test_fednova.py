"""FedNova by hand: sites that take more steps count no more than others."""

from __future__ import annotations

import numpy as np
import pytest

from fedgeom import FedAvg, FedNova
from fedgeom.errors import InputError
from tests.methods.iterative.algorithms.against_papers import PLAIN, SITES, lowest
from tests.methods.iterative.making import BOWLS, bowls, whole


def test_by_hand():
    # Batches of one row: the first site takes one step towards 10, the second three towards −10, at a rate of 0.5.
    # Changes 5 and −8.75; per step 5 and −35/12. Weights ¼ and ¾: a_eff = 2.5, the direction 1.25 − 35/16 = −15/16.
    sites = bowls((10, 1), (-10, 1), copies=(1, 3))
    common = {"n_rounds": 1, "learning_rate": 0.5, **BOWLS, "batch_size": 1}
    assert lowest(FedNova(**common), sites) == pytest.approx(2.5 * (0.25 * 5 + 0.75 * -35 / 12))
    assert lowest(FedAvg(**common), sites) == pytest.approx(0.25 * 5 + 0.75 * -8.75)


def test_with_equal_steps_it_is_fedavg():
    one, other = (whole(row.plain(SITES).model) for row in (FedNova(**PLAIN), FedAvg(**PLAIN)))
    assert np.allclose(one, other, atol=1e-7)


def test_momentum_counts_old_gradients_again():
    # Two steps g, then g + ρg: with a constant gradient the change is (2 + ρ)·g.
    assert FedNova().steps_taken(7) == 7
    rho = 0.5
    rule = FedNova(network="mlp", optimizer={"name": "sgd", "momentum": rho})
    assert rule.steps_taken(2) == pytest.approx(2 + rho)
    velocity = change = 0.0
    for _ in range(6):
        velocity = rho * velocity + 1
        change += velocity
    assert rule.steps_taken(6) == pytest.approx(change)
    with pytest.raises(InputError, match='use optimizer="sgd"'):
        FedNova(network="mlp", optimizer="adamw")
