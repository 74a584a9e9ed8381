"""FedExP: by hand on bowls, against its paper on unlike sites, and where it is FedAvg."""

from __future__ import annotations

import pytest

from fedgeom import FedAvg, FedExP
from tests.methods.iterative import twin
from tests.methods.iterative.algorithms.against_papers import CLIENTS, PLAIN, SITES, WORK, lowest
from tests.methods.iterative.making import BOWLS, bowls, whole


def test_by_hand():
    # One step of 0.1 at (10, 1) and (−5, 1): changes 1 and −0.5, together 0.25. Squares (1 + 0.25)/2 = 0.625 over
    # 2·(0.0625 + 0.0375) = 0.2: η = 3.125, w = 0.78125.
    sites, once = bowls((10, 1), (-5, 1)), {"n_rounds": 1, "learning_rate": 0.1, **BOWLS}
    assert lowest(FedExP(epsilon=0.0375, **once), sites) == pytest.approx(3.125 * 0.25, abs=1e-7)


def test_sites_that_agree_take_the_steps_of_fedavg():
    """Then the squares' mean is that of the mean, and η = 1."""
    sites, twice = bowls((10, 1), (9, 1)), {"n_rounds": 2, "learning_rate": 0.1, **BOWLS}
    assert lowest(FedExP(**twice), sites) == lowest(FedAvg(**twice), sites)


def test_as_published():
    expected = twin.fedexp(CLIENTS, WORK, epsilon=1e-4)
    assert whole(FedExP(epsilon=1e-4, bits=64, **PLAIN).plain(SITES).model) == pytest.approx(expected, abs=1e-6)
    assert expected != pytest.approx(twin.fedavg(CLIENTS, WORK), rel=0, abs=1e-2)
