"""The plan of training with pseudo-labels: rounds of training, and propagations before some of them."""

from __future__ import annotations

from typing import Any

import pytest

import fedgeom
from fedgeom.protocols.plan import costs_of, leaves, shape_of
from tests.methods.xclp_training.making import ANCHORS, PAIRS, quick, sites
from tests.protocols.planning import held

FAST = PAIRS | {"hamming": "lattice"}


@pytest.mark.parametrize(
    "settings",
    [
        {"labels": ANCHORS, "relabel_every": 2, "n_rounds": 5},
        {"labels": ANCHORS, "holdout": 0.2, "prepare": "table"},
        {"labels": FAST, "validation_fraction": 0.3},
        {"labels": FAST | {"confidence": "entropy"}, "secure": False},
        {"labels": "site"},
        {"labels": "none", "scale": "joint", "algorithm": "scaffold"},
    ],
    ids=str,
)
def test_a_run_is_what_its_plan_says(settings: dict[str, Any]) -> None:
    found = held(quick(epochs=1, **settings), (), sites=sites(3, rows=20, labelled=0.7))
    found.check()
    pairs = settings["labels"]["graph"] == "pairs" if "graph" in settings["labels"] else False
    decided = {one.kind for one in found.told.exchanges if one.bound}
    assert not pairs or decided <= {"xclp.weigh"}


@pytest.mark.parametrize("labels", [ANCHORS, FAST, "network"], ids=str)
def test_where_a_share_of_the_sites_is_drawn_bounds_hold(labels: Any) -> None:
    method = quick(labels=labels, participation=0.5, min_sites=3, n_rounds=3, epochs=1)
    found = held(method, (), sites=sites(8, rows=12, labelled=0.7))
    found.check()
    trained = [one for one in found.told.exchanges if one.kind == "train.masked"]
    assert [(one.times, one.sites) for one in trained] == [(1, 4)] * 3


def test_patience_may_end_it_before() -> None:
    found = held(
        quick(n_rounds=6, patience=1, validation_fraction=0.3, epochs=1), (), sites=sites(3, rows=20, labelled=0.7)
    )
    found.check()
    assert all(one.bound for one in found.told.exchanges if one.kind in ("semi.embed", "train.masked"))


def test_a_network_of_few_features_has_small_sums() -> None:
    pytest.importorskip("torch", reason="torch is not installed")
    data = sites(3)
    kinds = {}
    for features in (4, 40):
        method = quick(network={"name": "mlp", "features": features, "hidden": 8})
        costs = costs_of(method, shape_of(method, data))
        kinds[features] = next(one.up for one in costs.exchanges if one.kind == "xclp.mean")
    assert kinds[40] - kinds[4] == pytest.approx(8 * 36, abs=2)


def test_what_leaves_follows_from_where_labels_come_from() -> None:
    assert not any("xclp." in line for line in leaves(quick(labels="none")))
    assert any("angles between rows" in line for line in leaves(quick(labels=PAIRS)))


def test_hundreds_of_rounds_are_planned_in_no_time() -> None:
    method = fedgeom.XCLPTraining.published()
    assert method.n_sums == 2 + 500 + 4 * 334 + (method.scale == "joint") + bool(method.sums_rows)
    assert method.first_sum(499) == method.n_sums - 5
