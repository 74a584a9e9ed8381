"""pFedMe: by hand on bowls, against its paper on unlike sites, and its minibatches."""

from __future__ import annotations

import numpy as np
import pytest

from fedgeom import PFedMe, SiteData
from fedgeom.methods.iterative import Tree
from tests.methods.iterative import twin
from tests.methods.iterative.algorithms.against_papers import (
    CLIENTS,
    NEAR,
    PLAIN,
    SITES,
    WORK,
    bowl_task,
    lowest,
    one,
    same,
)
from tests.methods.iterative.making import BOWLS, bowls, own, whole


def test_by_hand():
    # λ = 1, one inner step of 0.5 finds the exact minimum of ½(θ − 10)² + ½(θ − w)²: (10 + w)/2.
    # R = 2, η = 0.5: w = 0 → θ = 5 → w = 2.5 → θ = 6.25 → w = 4.375. Second site (2, 1): 1, 0.5, 1.25, 0.875.
    common = {
        "lam": 1.0,
        "local_rounds": 2,
        "inner_steps": 1,
        "inner_learning_rate": 0.5,
        "outer_learning_rate": 0.5,
        **BOWLS,
    }
    sites = bowls((10, 1), (2, 1))
    assert lowest(PFedMe(n_rounds=1, beta=1.0, **common), sites) == pytest.approx((4.375 + 0.875) / 2)
    assert lowest(PFedMe(n_rounds=1, beta=0.5, **common), sites) == pytest.approx((4.375 + 0.875) / 4)


def test_as_published():
    mine = {
        "local_rounds": 3,
        "inner_steps": 4,
        "lam": 2.0,
        "outer_learning_rate": 0.2,
        "inner_learning_rate": 0.1,
        "beta": 0.7,
    }
    expected, personal = twin.pfedme(CLIENTS, WORK, **mine)
    done = PFedMe(**mine, **PLAIN).plain(SITES)
    assert whole(done.model) == pytest.approx(expected, **NEAR)
    for site, vector in zip(SITES, personal, strict=True):
        assert own(done, site.name) == pytest.approx(vector, **NEAR)


def test_batches_of_the_given_size_have_the_penalty_of_the_whole_site():
    # All rows alike, so whichever are drawn the slope is that of all: but only if the penalty is that of all, too.
    sites = [
        SiteData(site.name, np.tile(site.X[:1], (8, 1)), np.full(8, f"class {at}"))
        for at, site in enumerate(SITES[:2])
    ]
    mine = {
        "local_rounds": 3,
        "inner_steps": 4,
        "lam": 2.0,
        "outer_learning_rate": 0.2,
        "inner_learning_rate": 0.1,
    }
    full, small = (
        PFedMe(**mine, **(PLAIN | {"batch_size": batch, "C": 0.05})).plain(sites).model for batch in (None, 2)
    )
    assert whole(small) == pytest.approx(whole(full), abs=1e-12)


def test_one_minibatch_in_each_local_round():
    row = PFedMe(
        lam=1.0, local_rounds=1, inner_steps=3, inner_learning_rate=0.5, outer_learning_rate=0.5, batch_size=1
    )
    sent = row.local(bowl_task((10, 1), (-6, 1), batch=1), Tree(model=one(0.0)), Tree())["model"]["w"][0]
    # Half way to (a + 0)/2; the mean of both would be 0.5.
    assert sent in (pytest.approx(10 / 4), pytest.approx(-6 / 4))


def test_with_a_great_lambda_it_personalises_little():
    done = PFedMe(n_rounds=2, lam=1e3, outer_learning_rate=1e-3, inner_learning_rate=5e-4).plain(SITES)
    for site in SITES:
        same(own(done, site.name), whole(done.model), abs=2e-3)
