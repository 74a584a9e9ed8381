"""What a site refuses in an update: other features or sums than the terms stand for, and changes that show too much."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

import fedgeom
from fedgeom.engines.run import change_of, update_method
from fedgeom.errors import TooFewSitesError
from fedgeom.federation.policy import Policy
from fedgeom.methods.ridge.statistics import FeatureState, Statistics
from fedgeom.methods.ridge.update import RidgeUpdate
from tests.methods.ridge.making import blobs

RIDGE = fedgeom.Ridge(alpha=2.0, updatable=True)


def lying(method: RidgeUpdate, before: Statistics, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the coordinator use other sums or features than the terms stand for."""
    monkeypatch.setattr(RidgeUpdate, "before", property(lambda _: before))
    with pytest.raises(TooFewSitesError, match="the terms stand for"):
        fedgeom.run(method, change_of(blobs(seed=1), []))


def test_other_features_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    method = update_method(RIDGE, fedgeom.run(RIDGE, blobs()))
    made = msgspec.structs.replace(method.before.made, temperature=9.0)
    assert isinstance(made, FeatureState)
    lying(method, Statistics(made, method.before.parts), monkeypatch)


def test_other_sums_are_refused_although_their_hashes_are_right(monkeypatch: pytest.MonkeyPatch) -> None:
    method = update_method(RIDGE, fedgeom.run(RIDGE, blobs()))
    true = method.before

    class Other(Statistics):
        hashes = property(lambda _: true.hashes)  # type: ignore[assignment]

    lying(method, Other(true.made, tuple(part * 1.5 for part in true.parts)), monkeypatch)


def test_fewer_changed_rows_than_the_policy_wants_for_each_feature_are_not_summed() -> None:
    run, few = fedgeom.run(RIDGE, blobs()), [site.take(np.arange(2)) for site in blobs(seed=1)]
    strict = Policy(min_rows_per_feature=2.0)
    with pytest.raises(TooFewSitesError, match="gather more changes"):
        run.update(added=few, policy=strict)
    assert run.update(added=blobs(seed=1), policy=strict).metrics["rows added"] == 120


def test_a_site_lost_on_the_way_is_in_no_sum() -> None:
    run, new = fedgeom.run(RIDGE, blobs()), blobs(seed=1)
    whole = run.update(added=new[1:])
    lost = run.update(
        added=new,
        interfere=lambda name, request: "gone" if name == "s0" and b"ridge-update.gram" in request else None,
    )
    assert "s0" in lost.lost
    np.testing.assert_allclose(lost.model.weights, whole.model.weights, rtol=1e-6, atol=1e-9)
