"""FedNTD: FedAvg with a loss that keeps what the joint model says of other classes."""

from __future__ import annotations

import numpy as np
import pytest

from fedgeom import FedAvg, FedNTD
from fedgeom.data.sites import SiteData
from fedgeom.methods.iterative import NotTrue
from tests.methods.iterative.algorithms import by_differences as hand
from tests.methods.iterative.making import whole
from tests.methods.iterative.torching import DIGITS, Given, batch_of, digits, torch


def test_the_loss_of_one_row_by_hand():
    # Scores (0, ln 3) of the two classes that the row is not of: ¼ and ¾; the joint model's (0, 0): ½ and ½.
    # KL = ½·ln(½ ÷ ¼) + ½·ln(½ ÷ ¾) = ½·ln(4/3). The row's own score is in the cross-entropy alone.
    ours, joint = np.array([[2.0, 0.0, np.log(3)]]), Given(torch.zeros(3, 3))
    plain = np.log(np.exp(ours).sum()) - 2.0
    for own, beta in ((7.0, 2.0), (-7.0, 0.5)):
        joint.matrix = torch.tensor([[own, 0.0, 0.0]] * 3)  # the joint model's score of the row's own class
        found = NotTrue(beta=beta)(batch_of(ours, [0], counts=(1.0,) * 3, joint=joint))
        assert float(found) == pytest.approx(plain + beta * 0.5 * np.log(4 / 3), abs=1e-6)


def test_it_is_fedavg_without_the_part_that_is_kept():
    sites = digits()
    free = FedNTD(loss=NotTrue(beta=0.0), **DIGITS).plain(sites).model
    assert np.array_equal(whole(free), whole(FedAvg(**DIGITS).plain(sites).model))
    assert not np.array_equal(whole(FedNTD(**DIGITS).plain(sites).model), whole(free))


def test_by_hand():
    """Two rounds of Lee et al. 2022, Eq. 5, τ = 2 and β = 1.5, of two steps each: in the first, ours is the joint."""
    rng = np.random.default_rng(3)
    sites = [
        SiteData(f"s{k}", rng.normal(size=(5, 2)), np.array(list(one))) for k, one in enumerate(("aabbc", "bcccc"))
    ]
    rule = FedNTD(loss=NotTrue(beta=1.5, tau=2.0), n_rounds=2, **(hand.SETTINGS | {"steps": 2}))
    w, names = hand.started(rule, classes=3), (*hand.BODY, *hand.LINEAR)

    def scores(own, site):
        return hand.features(own, site.X) @ own["head.weight"].T + own["head.bias"]

    def others(rows, y):
        return hand.log_softmax(np.array([np.delete(row, own) for row, own in zip(rows / 2, y, strict=True)]))

    def loss_at(site, joint):
        y = np.array(["abc".index(label) for label in site.y])
        told = others(scores(joint, site), y)

        def loss(own):
            kept = (np.exp(told) * (told - others(scores(own, site), y))).sum(axis=1).mean()
            return hand.cross_entropy(scores(own, site), y) + 1.5 * 4 * kept

        return loss

    for _ in range(2):
        found = []
        for site in sites:
            loss = loss_at(site, w)
            found.append(hand.step(hand.step(w, loss, names), loss, names))
        w = hand.mean(found)
    hand.agrees(rule.plain(sites, hand.SEED).model.parameters, w, names)
