"""FedSAM: steps along the gradient at the steepest point nearby."""

from __future__ import annotations

import numpy as np

from fedgeom import FedAvg, FedSAM
from tests.methods.iterative.algorithms import by_differences as hand
from tests.methods.iterative.making import whole
from tests.methods.iterative.torching import DIGITS, digits, torch


def test_near_by_it_is_fedavg():
    assert torch.__version__
    sites = digits()
    plain = whole(FedAvg(**DIGITS).plain(sites).model)
    np.testing.assert_allclose(whole(FedSAM(rho=1e-5, **DIGITS).plain(sites).model), plain, atol=1e-3)
    assert np.abs(whole(FedSAM(rho=0.5, **DIGITS).plain(sites).model) - plain).max() > 1e-2


def test_by_hand():
    """Two rounds of Qu et al. 2022, Algorithm 1: w ← w − η·∇F(w + ρ·∇F(w)/‖∇F(w)‖)."""
    rule = FedSAM(rho=0.3, n_rounds=2, **hand.SETTINGS)
    w, names = hand.started(rule), (*hand.BODY, *hand.LINEAR)

    def loss_at(site):
        return lambda own: hand.cross_entropy(
            hand.features(own, site.X) @ own["head.weight"].T + own["head.bias"], hand.numbers(site)
        )

    def sharp(w, loss):
        slope = {name: (w[name] - there) / hand.RATE for name, there in hand.step(w, loss, names).items()}
        length = np.sqrt(sum(np.square(slope[name]).sum() for name in names))
        away = w | {name: w[name] + 0.3 * slope[name] / length for name in names}
        there = hand.step(away, loss, names)
        return w | {name: w[name] + there[name] - away[name] for name in names}

    for _ in range(2):
        w = hand.mean([sharp(w, loss_at(site)) for site in hand.sites()])
    found = rule.plain(hand.sites(), hand.SEED).model.parameters
    hand.agrees(found, w, names)
    plain = FedAvg(n_rounds=2, **hand.SETTINGS).plain(hand.sites(), hand.SEED).model.parameters
    assert np.abs(plain.flat() - found.flat()).max() > 1e-3
