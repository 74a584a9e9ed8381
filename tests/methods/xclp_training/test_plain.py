"""The secure run is Algorithm 2 in one loop, whatever the labels come from and whatever trains."""

from __future__ import annotations

import numpy as np
import pytest

import fedgeom
from tests.methods.laws import assert_run_is, assert_run_is_plain
from tests.methods.xclp_training.making import ANCHORS, MLP, PAIRS, quick, sites
from tests.methods.xclp_training.simulation import simulate, spread

CASES = {
    "anchors": quick(),
    "every second round": quick(n_rounds=4, relabel_every=2),
    "entropy": quick(labels=ANCHORS | {"confidence": "entropy", "variant": "code"}),
    "whole batches": quick(half_labelled=False),
    "own graph": quick(labels="site"),
    "network": quick(labels="network"),
    "network once": quick(labels={"name": "network", "once": True}),
    "labelled only": quick(labels="none"),
    "scaffold": quick(algorithm="scaffold"),
    "fedprox by rows": quick(algorithm={"name": "fedprox", "mu": 0.3}, weights="rows"),
    "own scale": quick(scale="site"),
    "median": quick(aggregation="median"),
    "drawn sites": quick(n_rounds=4, participation=0.6, min_sites=3),
    "drawn sites, network once": quick(
        n_rounds=5, participation=0.6, min_sites=3, labels={"name": "network", "once": True}
    ),
    "drawn sites, scaffold by rows": quick(
        n_rounds=4, participation=0.6, min_sites=3, algorithm="scaffold", weights="rows"
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_secure_equals_plain(name):
    assert_run_is(simulate, CASES[name], sites(), seed=2, atol=1e-7)


@pytest.mark.parametrize("variant", ["ours", "paper"])
def test_secure_equals_plain_over_pairs(variant):
    pytest.importorskip("seal", reason="needs seal-python")
    assert_run_is(simulate, quick(labels=PAIRS | {"variant": variant}), sites(3, rows=14), seed=2, atol=1e-6)


@pytest.mark.parametrize("engine", ["fedavg", "fedper", "fedrod"])
def test_secure_equals_plain_with_networks(engine):
    pytest.importorskip("torch", reason="torch is not installed")
    assert_run_is(simulate, quick(network=MLP, algorithm=engine), sites(), seed=2, atol=1e-5)


def test_masks_make_no_difference_where_sites_are_drawn():
    method = quick(n_rounds=4, participation=0.6, min_sites=3, algorithm="scaffold", weights="rows")
    assert_run_is_plain(method, sites(), seed=2)


def test_masks_make_no_difference_where_rows_are_compared():
    pytest.importorskip("seal", reason="needs seal-python")
    assert_run_is_plain(quick(labels=PAIRS), sites(3, rows=14), seed=2)


def test_sources_of_labels_make_different_models():
    data = sites()
    found = [quick(labels=one).plain(data).model.parameters.flat() for one in (ANCHORS, "site", "network", "none")]
    for at, one in enumerate(found):
        for other in found[:at]:
            assert np.abs(one - other).max() > 1e-4


def test_without_any_label_nothing_spreads():
    xclp = quick().xclp
    found = spread(xclp, [np.ones((3, 2))], [np.full(3, -1)], 2, 0)
    assert not found[0].weights.any()
    assert isinstance(quick(), fedgeom.XCLPTraining)
