"""SCAFFOLD: by hand on bowls, against its paper on unlike sites, and where it must end."""

from __future__ import annotations

import numpy as np
import pytest

from fedgeom import Scaffold
from fedgeom.methods.iterative import SGD, Round, Task, Tree
from tests.methods.iterative import twin
from tests.methods.iterative.algorithms.against_papers import (
    CLIENTS,
    PLAIN,
    SITES,
    WORK,
    bowl_task,
    downhill,
    lowest,
    one,
)
from tests.methods.iterative.making import BOWLS, bowls, whole


def test_by_hand():
    # Round 1, one step of 0.1 at (10, 1) and (−5, 2): y = 1 and −1, so x = 0; c_k = (0 − y)/0.1 = −10 and 10; c = 0.
    # Round 2: y = −0.1·(−10 + 10 + 0) = 0 and 0: the variates hold both sites at the optimum of the mean, 0.
    sites = bowls((10, 1), (-5, 2))
    assert lowest(Scaffold(n_rounds=1, learning_rate=0.1, **BOWLS), sites) == pytest.approx(0.0, abs=1e-8)
    assert lowest(Scaffold(n_rounds=2, learning_rate=0.1, **BOWLS), sites) == pytest.approx(0.0, abs=1e-8)
    # (10, 1) and (2, 1), half the server rate: y = 1, 0.2; x = 0.3; c_k = −10, −2; c = −6.
    # Round 2: slopes −9.7, −1.7, corrected by c − c_k = 4, −4: both −5.7, y − x = 0.57; x = 0.3 + 0.285.
    sites = bowls((10, 1), (2, 1))
    assert lowest(
        Scaffold(n_rounds=2, learning_rate=0.1, server_learning_rate=0.5, **BOWLS), sites
    ) == pytest.approx(0.585)


@pytest.mark.parametrize("server_rate", [1.0, 0.6])
def test_as_published(server_rate):
    expected = twin.scaffold(CLIENTS, WORK, server_learning_rate=server_rate)
    found = Scaffold(server_learning_rate=server_rate, **PLAIN).plain(SITES).model
    assert whole(found) == pytest.approx(expected, abs=1e-6)


def test_the_variate_of_a_site_that_missed_rounds():
    """Option II as it stands: with all sites in all rounds a variate without − c would go unnoticed."""
    own = Tree(variate=one(3.0))
    sent = Scaffold().local(bowl_task((10, 1)), Tree(model=one(1.0), variate=one(2.0)), own)
    y = 1.0
    for _ in range(2):
        y -= 0.1 * ((y - 10) - 3 + 2)
    assert own["variate"]["w"] == pytest.approx([3 - 2 + (1 - y) / (2 * 0.1)])
    assert sent["model"]["w"] == pytest.approx([y - 1])
    assert sent["variate"]["w"] == pytest.approx(own["variate"]["w"] - 3)


def test_the_variate_moves_by_the_share_of_sites():
    """The paper's |S|/N."""
    state, mean = Tree(model=one(1.0), variate=one(2.0)), Tree(model=one(0.4), variate=one(10.0))
    new = Scaffold(server_learning_rate=0.5).combine(state, mean, Round(0, 0.2, np.random.default_rng(0)))
    assert (new["model"]["w"][0], new["variate"]["w"][0]) == pytest.approx((1.2, 4.0))


def test_with_one_site_it_is_plain_descent():
    assert whole(Scaffold(**PLAIN).plain(SITES[:1]).model) == pytest.approx(downhill(SITES[0]), abs=1e-6)


def test_unlike_bowls_end_at_the_joint_optimum():
    row = Scaffold(n_rounds=100, steps=5, learning_rate=0.15, **BOWLS)
    assert lowest(row, bowls((0, 1), (6, 5))) == pytest.approx(6 * 5 / 6, abs=1e-4)


def test_with_momentum_the_variate_is_a_gradient():
    """Short steps all have the same gradient, and that is what the variate must say, however long a step goes on."""
    pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(40, 3)).astype(np.float32), rng.integers(0, 2, 40)
    found = {}
    for momentum in (0.0, 0.9):
        rule = Scaffold(
            network="mlp", batch_size=None, steps=6, learning_rate=1e-3, optimizer=SGD(momentum=momentum)
        )
        learner = rule.build_learner()
        first = Tree(learner.start(3, 2, np.random.default_rng(0)))
        task, own = Task(learner, X, y, rule.effort(), rng, 2, first), Tree()
        rule.local(task, Tree(model=first, variate=first.zeros()), own)
        found[momentum] = own["variate"].flat()
    assert np.abs(found[0.0]).max() > 0.02
    np.testing.assert_allclose(found[0.9], found[0.0], atol=2e-3)
