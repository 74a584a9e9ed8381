"""What a method says would leave a site with its settings is what the ledger has after a run."""

from __future__ import annotations

import numpy as np
import pytest

import fedgeom

METHODS = {
    "ridge": fedgeom.Ridge(),
    "ridge, personal": fedgeom.Ridge(personal=True),
    "ridge, of images": fedgeom.Ridge(features={"name": "conv", "filters": 6, "rounds": 1}, shape=(4, 4, 1)),
    "moments": fedgeom.Moments(space="euclidean"),
    "hulls": fedgeom.Hulls(embedding="discriminant"),
    "hulls, one scale": fedgeom.Hulls(embedding="discriminant", scale="joint"),
    "hulls, shared names": fedgeom.Hulls(embedding="discriminant", names="shared"),
    "fedavg": fedgeom.FedAvg(rounds=1),
    "fedavg, open": fedgeom.FedAvg(rounds=1, secure=False),
    "fedavg, median": fedgeom.FedAvg(rounds=1, aggregation="median"),
    "fedavg, scaled by nobody": fedgeom.FedAvg(rounds=1, scale="none"),
}


def sites(count: int) -> list[fedgeom.SiteData]:
    rng = np.random.default_rng(0)
    found = []
    for at in range(count):
        y = np.arange(60) % 2
        found.append(fedgeom.SiteData(f"site-{at}", rng.uniform(0, 1, (60, 16)) + y[:, None], y.astype(str)))
    return found


@pytest.mark.parametrize("name", METHODS)
def test_what_would_leave_is_what_has_left(name):
    method = METHODS[name]
    said = {entry.reveals for entry in fedgeom.run(method, sites(4), seed=0).ledger}
    assert set(method.would_leave()) <= said
    others = said & (set(type(method).leaves()) - set(method.would_leave()))
    assert others == set()


def test_what_leaves_in_groups_is_what_has_left():
    few = {"aggregation": {"name": "groups", "groups": 3}}
    for method in (fedgeom.FedAvg(rounds=1, **few), fedgeom.Moments(space="euclidean", **few)):
        said = {entry.reveals for entry in fedgeom.run(method, sites(9), seed=0).ledger}
        assert set(method.would_leave()) <= said
        assert set(method.would_leave()) != set(type(method)().would_leave())


def test_what_is_summed_with_noise_is_said_to_be_so():
    private = fedgeom.Ridge(privacy=fedgeom.DP(epsilon=1.0, delta=1e-5, clip=1.0), classes=("0", "1"))
    assert all("with noise" in line for line in private.would_leave())
