"""FedAdam and FedYogi: by hand on bowls, and against their paper on unlike sites."""

from __future__ import annotations

import numpy as np
import pytest

from fedgeom import FedAdam, FedYogi
from fedgeom.methods.iterative import Tree
from tests.methods.iterative import twin
from tests.methods.iterative.algorithms.against_papers import CLIENTS, PLAIN, SITES, WORK, lowest
from tests.methods.iterative.making import BOWLS, bowls, whole


def test_by_hand():
    # Both sites move by 1. m = 0.1; Adam: v = 0.99·τ² + 0.01; Yogi: v = τ² − 0.01·sign(τ² − 1) = τ² + 0.01.
    sites, common = (
        bowls((10, 1), (10, 1)),
        {"n_rounds": 1, "learning_rate": 0.1, "tau": 0.1, "server_learning_rate": 0.5, **BOWLS},
    )
    assert lowest(FedAdam(**common), sites) == pytest.approx(0.5 * 0.1 / (np.sqrt(0.0099 + 0.01) + 0.1))
    assert lowest(FedYogi(**common), sites) == pytest.approx(0.5 * 0.1 / (np.sqrt(0.01 + 0.01) + 0.1))


@pytest.mark.parametrize(("cls", "yogi"), [(FedAdam, False), (FedYogi, True)])
def test_as_published(cls, yogi):
    own = {"server_learning_rate": 0.2, "beta1": 0.8, "beta2": 0.95, "tau": 0.01}
    expected = twin.fedopt(CLIENTS, WORK, yogi=yogi, **own)
    assert whole(cls(**own, **PLAIN).plain(SITES).model) == pytest.approx(expected, abs=1e-6)


def test_a_large_moment_falls_more_slowly_with_yogi():
    """Where v is far larger than Δ², Adam forgets a part of v, Yogi a part of Δ² only."""
    old, square = Tree(w=np.array([4.0, 0.25])), Tree(w=np.array([1.0, 1.0]))
    assert FedYogi(beta2=0.9).second_moment(old, square)["w"] == pytest.approx([4 - 0.1, 0.25 + 0.1])
    assert FedAdam(beta2=0.9).second_moment(old, square)["w"] == pytest.approx([3.6 + 0.1, 0.225 + 0.1])
