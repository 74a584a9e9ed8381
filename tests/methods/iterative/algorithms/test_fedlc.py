"""FedLC: FedAvg with the calibrated loss."""

from __future__ import annotations

import numpy as np

from fedgeom import FedAvg, FedLC
from fedgeom.methods.iterative import Calibrated
from tests.methods.iterative.making import whole
from tests.methods.iterative.torching import DIGITS, digits, torch


def test_it_is_fedavg_with_the_calibrated_loss():
    assert torch.__version__
    sites = digits()
    one = FedLC(loss=Calibrated(0.5), **DIGITS).plain(sites).model
    other = FedAvg(loss={"name": "calibrated", "tau": 0.5}, **DIGITS).plain(sites).model
    assert np.array_equal(whole(one), whole(other))
    assert FedLC().loss_of_rows == Calibrated(1.0)
