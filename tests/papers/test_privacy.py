"""The privacy tables: settings as they say, the strongest attack as strong as theory has it, pages from figures."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm

from fedgeom import SiteData
from fedgeom.federation.privacy import privacy_of
from fedgeom.privacy.accounting import membership_bound, rho_for
from papers.privacy import accuracy, membership
from papers.privacy.sets import Case

pytestmark = pytest.mark.full

FIGURE = {"mean": 90.0, "ci95": 1.0, "n": 5, "paper": None}


@pytest.fixture
def case() -> Case:
    rng = np.random.default_rng(0)
    sites = []
    for name in ("north", "south", "west"):
        y = rng.integers(0, 2, 200)
        sites.append(SiteData(name, rng.normal(size=(200, 3)) + 2 * y[:, None], np.array(["died", "lived"])[y]))
    test = np.vstack([site.X for site in sites]), np.concatenate([site.y for site in sites])
    fedavg = {"clip": 1.0, "learning_rate": 1.0, "n_rounds": 3}
    return Case("a case", sites, test, {"clip": 1.0, "rule": "centroid"}, fedavg, metric="AUC")


def test_methods_have_what_the_case_says(case: Case) -> None:
    for name in accuracy.METHODS:
        with_noise, without = (accuracy.method_of(case, name, epsilon) for epsilon in (2.0, float("inf")))
        privacy = privacy_of(with_noise)
        assert privacy is not None
        assert (privacy.epsilon, privacy.delta, privacy.clip) == (2.0, 1e-5, 1.0)
        assert privacy_of(without) is None


def test_the_strongest_attack_is_as_strong_as_it_should_be_and_below_the_bound(case: Case) -> None:
    # The row is nearly as long as is reckoned with, and two honest sites' noise is all that there is.
    wanted = 2 * norm.cdf(np.sqrt(2 * rho_for(2.0, 1e-5)) / 2) - 1
    found = membership.one_row(case, 2.0, 3000)
    assert found == pytest.approx(wanted, abs=0.06)
    assert found < membership_bound(2.0, 1e-5)
    assert membership.one_row(case, float("inf"), 2) == 1.0


def test_a_model_of_many_rows_says_little_of_one(case: Case) -> None:
    assert abs(membership.by_loss(case, "Moments", 1.0, 0)) < 0.2  # both sides are the same rows here


def test_pages_follow_from_figures() -> None:
    by = {"1.0": FIGURE, "inf": FIGURE}
    entry = {
        "title": "cells",
        "metric": "accuracy",
        "rows": 10,
        "sites": 2,
        "figures": {"Moments": by, "FedAvg": by},
    }
    assert "| Moments | 90.0 ± 1.0 | 90.0 ± 1.0 |" in accuracy.page({"cells": entry})
    one = {"bound": 46.2, "figures": dict.fromkeys(membership.ATTACKS, FIGURE)}
    assert "| the most that any attack could | 46.2 |" in membership.page({"1.0": one})
