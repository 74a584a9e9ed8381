"""FedLC: FedAvg with the calibrated loss."""

from __future__ import annotations

import numpy as np

from fedgeom import FedAvg, FedLC
from fedgeom.methods.iterative import Calibrated
from tests.methods.iterative.algorithms import by_differences as hand
from tests.methods.iterative.making import whole
from tests.methods.iterative.torching import DIGITS, digits, torch


def test_it_is_fedavg_with_the_calibrated_loss():
    assert torch.__version__
    sites = digits()
    one = FedLC(loss=Calibrated(0.5), **DIGITS).plain(sites).model
    other = FedAvg(loss={"name": "calibrated", "tau": 0.5}, **DIGITS).plain(sites).model
    assert np.array_equal(whole(one), whole(other))
    assert FedLC().loss_of_rows == Calibrated(1.0)


def test_by_hand():
    """Two rounds of Zhang et al. 2022: −log softmax of f_c − τ·n_c^(−1/4), here with the own class in the sum."""
    rule = FedLC(loss=Calibrated(0.7), n_rounds=2, **hand.SETTINGS)
    w, names = hand.started(rule), (*hand.BODY, *hand.LINEAR)

    def loss_at(site):
        y = hand.numbers(site)
        margins = 0.7 * np.bincount(y, minlength=2) ** -0.25
        return lambda own: hand.cross_entropy(
            hand.features(own, site.X) @ own["head.weight"].T + own["head.bias"] - margins, y
        )

    for _ in range(2):
        w = hand.mean([hand.step(w, loss_at(site), names) for site in hand.sites()])
    hand.agrees(rule.plain(hand.sites(), hand.SEED).model.parameters, w, names)
