"""FedDC: by hand on bowls, against its paper on unlike sites, and where it must end."""

from __future__ import annotations

import pytest

from fedgeom import FedDC
from fedgeom.methods.iterative import Tree
from tests.methods.iterative import twin
from tests.methods.iterative.algorithms.against_papers import CLIENTS, PLAIN, SITES, WORK, bowl_task, lowest, one
from tests.methods.iterative.making import BOWLS, bowls, whole


def test_by_hand():
    # Round 1, one step of 0.1 at (10, 1) and (2, 1): θ = 1 and 0.2, which are the drifts, too: w = mean(2, 0.4) = 1.2.
    # Round 2, α = 0.5: slopes 1.2 − 10 = −8.8 and −0.8; 0.5·h = 0.5 and 0.1; (g_k − g)/0.1 = 4 and −4: −4.3 and −4.7.
    # θ = 1.63 and 1.67; drifts 1 + 0.43 and 0.2 + 0.47; w = mean(3.06, 2.34).
    sites, usual = bowls((10, 1), (2, 1)), {"learning_rate": 0.1, "alpha": 0.5, **BOWLS}
    assert lowest(FedDC(n_rounds=1, **usual), sites) == pytest.approx(1.2)
    assert lowest(FedDC(n_rounds=2, **usual), sites) == pytest.approx(2.7)


def test_what_a_site_keeps_and_sends():
    """Two steps of 0.1 on (10, 1) with h = 2, g_k = 0.3, g = 0.1 and α = 0.5, from w = 1."""
    own = Tree(drift=one(2.0), change=one(0.3))
    sent = FedDC(alpha=0.5).local(bowl_task((10, 1)), Tree(model=one(1.0), change=one(0.1)), own)
    theta = 1.0
    for _ in range(2):
        theta -= 0.1 * ((theta - 10) + 0.5 * (theta + 2 - 1) + (0.3 - 0.1) / (2 * 0.1))
    assert own["drift"]["w"] == pytest.approx([2 + theta - 1])
    assert own["change"]["w"] == pytest.approx([theta - 1])
    assert sent["change"]["w"] == pytest.approx([theta - 1])
    assert sent["model"]["w"] == pytest.approx([theta + 2 + theta - 1 - 1])  # θ + h⁺, less w


def test_as_published():
    expected = twin.feddc(CLIENTS, WORK, alpha=0.3)
    assert whole(FedDC(alpha=0.3, **PLAIN).plain(SITES).model) == pytest.approx(expected, rel=0, abs=1e-6)


def test_unlike_bowls_end_at_the_joint_optimum():
    row = FedDC(n_rounds=100, steps=5, alpha=1.0, learning_rate=0.15, weights="sites", **BOWLS)
    assert lowest(row, bowls((0, 1), (6, 5))) == pytest.approx(6 * 5 / 6, abs=1e-6)
