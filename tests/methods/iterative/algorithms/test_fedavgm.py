"""FedAvgM by hand."""

from __future__ import annotations

import numpy as np
import pytest

from fedgeom import FedAvg, FedAvgM
from tests.methods.iterative.algorithms.against_papers import PLAIN, SITES, lowest
from tests.methods.iterative.making import BOWLS, bowls, whole


def test_by_hand():
    # Sites step 0.1 of the way to 10. w₁ = m₁ = 1; then the mean change is 0.9, m₂ = 0.5 + 0.9 and w₂ = 1 + 1.4.
    sites, common = bowls((10, 1), (10, 1)), {"n_rounds": 2, "learning_rate": 0.1, "server_momentum": 0.5, **BOWLS}
    assert lowest(FedAvgM(**common), sites) == pytest.approx(2.4)
    # With η = 2: w₁ = 2; the change is 0.8, m₂ = 0.5 + 0.8 = 1.3 and w₂ = 2 + 2.6.
    assert lowest(FedAvgM(server_learning_rate=2.0, **common), sites) == pytest.approx(4.6)


def test_without_momentum_it_is_fedavg():
    one, other = (
        whole(row.plain(SITES).model) for row in (FedAvgM(server_momentum=0.0, **PLAIN), FedAvg(**PLAIN))
    )
    assert np.allclose(one, other, atol=1e-12)
