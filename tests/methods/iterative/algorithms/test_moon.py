"""MOON: FedAvg with the contrastive loss, which begins in the second round."""

from __future__ import annotations

import numpy as np

from fedgeom import FedAvg, Moon
from fedgeom.methods.iterative import Contrastive
from tests.methods.iterative.algorithms import by_differences as hand
from tests.methods.iterative.making import whole
from tests.methods.iterative.torching import DIGITS, digits, torch


def test_it_is_fedavg_in_the_first_round_and_where_mu_is_zero():
    assert torch.__version__
    sites = digits()
    once, twice = DIGITS | {"n_rounds": 1}, DIGITS | {"n_rounds": 2}
    assert np.array_equal(whole(Moon(**once).plain(sites).model), whole(FedAvg(**once).plain(sites).model))
    still = Moon(loss=Contrastive(mu=0.0), **twice)
    assert np.array_equal(whole(still.plain(sites).model), whole(FedAvg(**twice).plain(sites).model))
    assert not np.array_equal(whole(Moon(**twice).plain(sites).model), whole(FedAvg(**twice).plain(sites).model))


def test_each_site_is_compared_with_its_own_model_before():
    """A second round by hand: the objective has the site's own model after the first."""
    sites, seen = digits(), []

    class Watched(Moon):
        """Writes down which models the sites keep."""

        name = "watched-moon"

        def local(self, task, given, own):
            before = own["previous"].flat() if "previous" in own else None
            sent = super().local(task, given, own)
            seen.append((before, sent["model"].flat()))
            return sent

    Watched(**DIGITS).plain(sites)
    first, second = seen[: len(sites)], seen[len(sites) :]
    for (nothing, sent), (before, _) in zip(first, second, strict=True):
        assert nothing is None
        assert np.array_equal(before, sent)


def test_by_hand():
    """Two rounds of Li, He and Song 2021, Eq. 3 and Algorithm 1, with cosines of features and τ = 0.5."""
    rule = Moon(loss=Contrastive(mu=2.0, temperature=0.5), n_rounds=2, **hand.SETTINGS)
    w, names, before = hand.started(rule), (*hand.BODY, *hand.LINEAR), [None, None]

    def cosine(a, b):
        return (a * b).sum(axis=1) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1)

    def loss_at(site, joint, previous):
        def loss(own):
            z = hand.features(own, site.X)
            found = hand.cross_entropy(z @ own["head.weight"].T + own["head.bias"], hand.numbers(site))
            if previous is None:
                return found
            near = np.exp(cosine(z, hand.features(joint, site.X)) / 0.5)
            far = np.exp(cosine(z, hand.features(previous, site.X)) / 0.5)
            return found + 2.0 * float(-np.log(near / (near + far)).mean())

        return loss

    for _ in range(2):
        before = [hand.step(w, loss_at(s, w, one), names) for s, one in zip(hand.sites(), before, strict=True)]
        w = hand.mean(before)
    found = rule.plain(hand.sites(), hand.SEED).model.parameters
    hand.agrees(found, w, names)
    plain = FedAvg(n_rounds=2, **hand.SETTINGS).plain(hand.sites(), hand.SEED).model.parameters
    assert np.abs(plain.flat() - found.flat()).max() > 1e-3
