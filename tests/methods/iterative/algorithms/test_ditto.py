"""Ditto: by hand on bowls, against its paper on unlike sites, and at both ends of λ."""

from __future__ import annotations

import pytest

from fedgeom import Ditto, LocalOnly
from tests.methods.iterative import twin
from tests.methods.iterative.algorithms.against_papers import CLIENTS, NEAR, PLAIN, SITES, WORK, same
from tests.methods.iterative.making import BOWLS, bowls, own, whole


def test_by_hand():
    # w: 0 → 0.6 (mean of 1 and 0.2). v of (10, 1), λ = 2, around 0: 0.1·10 = 1; then once more around 0.6:
    # 1 + 0.1·(9 − 2·0.4) = 1.82.
    done = Ditto(n_rounds=1, learning_rate=0.1, lam=2.0, **BOWLS).plain(bowls((10, 1), (2, 1)))
    assert whole(done.model) == pytest.approx([0.6])
    assert own(done, "s0") == pytest.approx([1.82])


def test_as_published():
    expected, personal = twin.ditto(CLIENTS, WORK, lam=0.5)
    done = Ditto(lam=0.5, **PLAIN).plain(SITES)
    assert whole(done.model) == pytest.approx(expected, **NEAR)
    for site, vector in zip(SITES, personal, strict=True):
        assert own(done, site.name) == pytest.approx(vector, **NEAR)


def test_from_local_to_joint():
    exact = {"solver": "exact", "n_rounds": 2, "scale": "none"}
    alone = LocalOnly(**exact).plain(SITES)
    free, bound = Ditto(lam=0.0, **exact).plain(SITES), Ditto(lam=1e7, **exact).plain(SITES)
    for site in SITES:
        same(own(free, site.name), own(alone, site.name), abs=1e-3)
        same(own(bound, site.name), whole(bound.model), abs=1e-4)


def test_without_a_pull_by_steps_it_is_local_training_of_one_more_round():
    free = Ditto(lam=0.0, **PLAIN).plain(SITES)
    alone = LocalOnly(**(PLAIN | {"n_rounds": 4})).plain(SITES)
    for site in SITES:
        same(own(free, site.name), own(alone, site.name))
