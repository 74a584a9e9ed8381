"""MOON: FedAvg with the contrastive loss, which begins in the second round."""

from __future__ import annotations

import numpy as np

from fedgeom import FedAvg, Moon
from fedgeom.methods.iterative import Contrastive
from tests.methods.iterative.making import whole
from tests.methods.iterative.torching import DIGITS, digits, torch


def test_it_is_fedavg_in_the_first_round_and_where_mu_is_zero():
    assert torch.__version__
    sites = digits()
    once, twice = DIGITS | {"rounds": 1}, DIGITS | {"rounds": 2}
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
