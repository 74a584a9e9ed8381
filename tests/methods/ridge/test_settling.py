"""Personal ridges in runs: better where sites differ, the joint model where they do not, nothing unasked."""

from __future__ import annotations

import numpy as np
import pytest

import fedgeom
from fedgeom.data.sites import SiteData
from fedgeom.errors import InputError
from fedgeom.testing import Check, parametrize_with_checks
from tests.methods.ridge.making import blobs


def differing(rows: int = 120, seed: int = 0) -> list[SiteData]:
    """Return four sites where one column means the opposite at every other site."""
    rng, found = np.random.default_rng(seed), []
    for at in range(4):
        X = rng.standard_normal((rows, 4))
        score = X[:, 0] + (2 if at % 2 else -2) * X[:, 1] + 0.3 * rng.standard_normal(rows)
        found.append(SiteData(f"s{at}", X, np.where(score > 0, "yes", "no")))
    return found


@pytest.mark.full
@parametrize_with_checks([fedgeom.Ridge(personal=True)])
def test_it_keeps_the_contract(check: Check) -> None:
    check()


def test_personal_models_beat_the_joint_one_where_sites_differ() -> None:
    run = fedgeom.run(fedgeom.Ridge(personal=True), differing(), holdout=0.3)
    fresh = differing(seed=1)
    joint = np.mean([run.model.score(site.X, site.y) for site in fresh])
    own = np.mean([run.model.for_site(run.local[site.name]).score(site.X, site.y) for site in fresh])
    assert own > joint + 0.15


def test_sites_that_are_alike_keep_near_the_joint_model() -> None:
    rng = np.random.default_rng(3)
    X = rng.standard_normal((4000, 4))
    y = np.where(X[:, 0] + rng.standard_normal(4000) > 0, "yes", "no")
    sites = [SiteData(f"s{at}", X[at::20], y[at::20]) for at in range(20)]
    run = fedgeom.run(fedgeom.Ridge(personal=True), sites)
    fresh = rng.standard_normal((4000, 4))
    joint = run.model.predict(fresh)
    same = [np.mean(run.model.for_site(found).predict(fresh) == joint) for found in run.local.values()]
    assert np.mean(same) > 0.97


def test_without_personal_there_is_one_model_and_no_evidence() -> None:
    run = fedgeom.run(fedgeom.Ridge(features="linear"), blobs())
    assert run.model.for_site(run.local["s0"]) is run.model
    assert "right when left out, by strength" not in run.metrics
    with pytest.raises(InputError, match="wanted"):
        run.model.for_site({"weights": np.zeros((2, 2))})
