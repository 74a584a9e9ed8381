"""The budget of simulated sites counts nothing; that of their policy caps single runs."""

from __future__ import annotations

import numpy as np
import pytest

import fedgeom
from fedgeom import DP, Moments, Policy, SiteData
from fedgeom.errors import TooFewSitesError
from fedgeom.federation.policy import NoBudget
from fedgeom.federation.privacy import Spent


def test_simulated_sites_count_nothing_but_hold_to_their_cap() -> None:
    NoBudget().charge(b"r" * 32, "moments", Spent.by(DP(epsilon=30, clip=1)))
    rng = np.random.default_rng(0)
    sites = [SiteData(name, rng.normal(size=(40, 2)), ["a", "b"] * 20) for name in "nsw"]
    method = Moments(space="euclidean", classes=("a", "b"), min_sites=3, privacy=DP(epsilon=2, clip=1))
    for _ in range(2):
        fedgeom.run(method, sites, policy=Policy(max_epsilon=2))
    with pytest.raises(TooFewSitesError, match=r"max_epsilon = 1, but this run alone spends 2"):
        fedgeom.run(method, sites, policy=Policy(max_epsilon=1))
