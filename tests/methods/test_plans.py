"""What a plan foresees is what the ledger of the secure run has: counts, kinds, bytes, or bounds that are said."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import fedgeom
from fedgeom.federation.method import Method
from fedgeom.federation.policy import StrictPolicy
from tests.methods.regression.making import part, rows
from tests.methods.survival import making as survival
from tests.protocols.planning import drawn, held

NAMES = ("a", "b", "c", "long-name")
NOISE = {"epsilon": 1.0, "delta": 1e-5, "clip": 1.0}
WORDS = ("a", "a class of many words", "bb")
GROUPS = {"aggregation": {"name": "groups", "n_groups": 3}}
CLIP = {"name": "scale", "ranges": [-10.0, 10.0]}
FEW: dict[str, Any] = {"n_rounds": 2}
PAIRS: dict[str, Any] = {"graph": "pairs", "hash_bits": 64, "hamming": "lattice"}
ANCHORS: dict[str, Any] = {"graph": "anchors", "n_anchors": 8}

METHODS: dict[str, Method] = {
    "moments": fedgeom.Moments(space="euclidean"),
    "moments, centroids": fedgeom.Moments(space="euclidean", rule="centroid"),
    "ridge": fedgeom.Ridge(features="linear"),
    "ridge, personal": fedgeom.Ridge(personal=True),
    "ridge, folds": fedgeom.Ridge(features="linear", alpha="folds"),
    "hulls": fedgeom.Hulls(embedding="discriminant"),
    "hulls, number given": fedgeom.Hulls(embedding="discriminant", n_classes=3),
    "hulls, one scale": fedgeom.Hulls(embedding="discriminant", scale="joint"),
    "hulls, shared names": fedgeom.Hulls(embedding="discriminant", names="shared"),
    "ellipses": fedgeom.Ellipses(space="euclidean"),
    "ellipses, shared names": fedgeom.Ellipses(space="euclidean", names="shared"),
    "ellipses, mixed": fedgeom.Ellipses(space="euclidean", depth="mixed", n_classes=3),
    "hulls on a map": fedgeom.Hulls(embedding="map", epsilon=0.1),
    "poincare-map": fedgeom.PoincareMap(),
    "shrunk": fedgeom.Shrunk(),
    "fedavg": fedgeom.FedAvg(**FEW),
    "fedavg, open": fedgeom.FedAvg(secure=False, **FEW),
    "fedavg, 64 bits": fedgeom.FedAvg(bits=64, validation_fraction=0.2, scale="joint", **FEW),
    "fedavg, scaled by nobody": fedgeom.FedAvg(scale="none", **FEW),
    "fedavg, median": fedgeom.FedAvg(aggregation="median", **FEW),
    "scaffold": fedgeom.Scaffold(**FEW),
    "ptopofl": fedgeom.PTopoFL(**FEW),
    "xclp, pairs": fedgeom.XCLP(**PAIRS),
    "xclp, anchors": fedgeom.XCLP(**ANCHORS),
    "xclp training, pairs": fedgeom.XCLPTraining(warmup_rounds=1, labels={"name": "xclp", **PAIRS}, **FEW),
    "xclp training, anchors": fedgeom.XCLPTraining(warmup_rounds=1, labels={"name": "xclp", **ANCHORS}, **FEW),
}
WAYS: dict[str, dict[str, Any]] = {
    "": {},
    "tested": {"holdout": 0.25},
    "prepared": {"prepare": "table"},
    "prepared and tested": {"prepare": "table", "holdout": 0.25},
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", METHODS)
def test_a_run_is_what_its_plan_says(name: str, way: str) -> None:
    method = METHODS[name]
    if isinstance(method, fedgeom.PTopoFL):
        pytest.importorskip("gudhi")
    held(replace(method, **WAYS[way]), NAMES).check()


@pytest.mark.parametrize(
    "method",
    [
        fedgeom.Moments(space="euclidean", privacy=fedgeom.DP(**NOISE), classes=WORDS),
        fedgeom.Ridge(privacy=fedgeom.DP(**NOISE), classes=WORDS),
        fedgeom.FedAvg(
            n_rounds=2, privacy=fedgeom.DP(**NOISE), classes=WORDS, scale="none", steps=1, batch_size=None
        ),
        fedgeom.Ellipses(
            space="euclidean", scale="none", names="shared", privacy=fedgeom.DP(**NOISE), classes=WORDS
        ),
    ],
    ids=lambda method: method.name,
)
@pytest.mark.parametrize("way", ["", "tested", "prepared"])
def test_with_noise_it_is_too(method: Method, way: str) -> None:
    pytest.importorskip("dp_accounting")
    ways: dict[str, dict[str, Any]] = {"": {}, "tested": {"holdout": 0.25}, "prepared": {"prepare": [CLIP]}}
    held(replace(method, **ways[way]), NAMES).check()


@pytest.mark.parametrize(
    "method",
    [
        fedgeom.FedAvg(n_rounds=2, **GROUPS),
        fedgeom.Moments(space="euclidean", **GROUPS),
        fedgeom.Moments(space="euclidean", prepare="table", **GROUPS),
        fedgeom.Ridge(prepare="table", personal=True, **GROUPS),
        fedgeom.Ellipses(names="shared", holdout=0.25, **GROUPS),
        fedgeom.Shrunk(n_rounds=2, **GROUPS),
        fedgeom.XCLP(n_groups=3, **PAIRS),
    ],
    ids=lambda method: method.name,
)
def test_in_groups_bounds_hold(method: Method) -> None:
    held(method, tuple(f"s{at}" for at in range(9))).check()


UNEVEN = ("a", "a very long name of a hospital", "bb", "ccc", "dddd", "e", "f", "gg", "h", "i", "zzzzzz")


@pytest.mark.parametrize("by", ["sites", "seed"])
@pytest.mark.parametrize("name", ["fedavg", "moments", "ridge"])
def test_groups_of_different_sizes_and_names_that_are_not_equally_long(name: str, by: str) -> None:
    groups = {"name": "groups", "n_groups": 3, "drawn_by": by}
    method: Method = fedgeom.FedAvg(aggregation=groups, **FEW)
    if name == "moments":
        method = fedgeom.Moments(space="euclidean", aggregation=groups)
    if name == "ridge":
        method = fedgeom.Ridge(aggregation=groups)
    found = held(method, UNEVEN)
    found.check()
    assert any(one.bound for one in found.told.exchanges) == (by == "sites")


@pytest.mark.parametrize("count", [2, 3])
@pytest.mark.parametrize("name", ["ellipses", "ellipses, mixed", "hulls"])
def test_where_sites_have_names_of_their_own(name: str, count: int) -> None:
    method = METHODS[name]
    more = {"n_classes": count} if name == "ellipses, mixed" else {}
    tested = replace(method, holdout=0.25, **more)
    sites = [
        fedgeom.SiteData(
            one.name, one.X[own], np.char.add(f"{one.name}: ", one.y[own].astype(str)), columns=one.columns
        )
        for one in drawn(NAMES)
        for own in [np.isin(one.y, np.unique(one.y)[:count])]
    ]
    found = held(tested, NAMES, sites=sites)
    found.check()
    assert any(one.answer == "sum.masked" and one.bound for one in found.told.exchanges) == ("mixed" in name)


def test_where_a_share_of_the_sites_trains_bounds_hold() -> None:
    found = held(fedgeom.FedAvg(participation=0.5, min_sites=3, **FEW), UNEVEN)
    found.check()
    assert {one.sites for one in found.told.exchanges if one.kind == "train.masked"} == {6}


def test_images_too() -> None:
    rng = np.random.default_rng(0)
    labels = np.arange(60) % 2
    sites = [
        fedgeom.SiteData(name, rng.uniform(0, 1, (60, 16)) + labels[:, None], labels.astype(str)) for name in NAMES
    ]
    method = fedgeom.Ridge(features={"name": "conv", "n_filters": 6, "n_rounds": 1}, shape=(4, 4, 1))
    held(method, NAMES, sites=sites).check()


def test_many_rounds_count_where_their_numbers_take_more_bytes() -> None:
    held(fedgeom.FedAvg(n_rounds=131, epochs=1, secure=False), NAMES[:3]).check()


def test_hyperfed_too() -> None:
    pytest.importorskip("torch")
    pytest.importorskip("seal")
    held(fedgeom.HyperFed(n_rounds=1, epochs=1), NAMES, sites=drawn(NAMES)).check()


@pytest.mark.parametrize("way", ["", "prepared"])
@pytest.mark.parametrize("family", ["binomial", "gaussian", "poisson", "gamma"])
def test_regressions_too(family: str, way: str) -> None:
    """How many steps Newton takes the rows decide: the plan has a bound, which it says."""
    sites, _ = part(*rows(family, 240), n_sites=4)
    held(fedgeom.Regression(family=family, **WAYS[way]), (), sites=sites).check()


@pytest.mark.parametrize(
    "settings",
    [
        {"holdout": 0.25},
        {"holdout": 0.25, "prepare": "table"},
        {"site_effects": "fixed"},
        {"treatment": "arm"},
        {"heterogeneity": False},
    ],
    ids="-".join,
)
def test_regressions_with_other_steps_too(settings: dict[str, Any]) -> None:
    sites, _ = part(*rows("binomial", 240), n_sites=4)
    held(fedgeom.Regression(**settings), (), sites=sites).check()


@pytest.mark.parametrize(
    "settings",
    [{}, {"exact": True}, {"stratify": "site"}, {"prepare": "table"}],
    ids=lambda settings: next(iter(settings), "usual"),
)
def test_proportional_hazards_too(settings: dict[str, Any]) -> None:
    held(fedgeom.Cox(**settings), (), sites=survival.part(*survival.rows(240), n_sites=4)).check()


@pytest.mark.parametrize(
    "settings", [{}, {"exact": True}, {"by": "arm"}], ids=lambda one: next(iter(one), "usual")
)
def test_survival_curves_too(settings: dict[str, Any]) -> None:
    held(fedgeom.KaplanMeier(**settings), (), sites=survival.part(*survival.rows(240), n_sites=4)).check()


@pytest.mark.parametrize(
    "settings",
    [{}, {"by_class": False}, {"per_site": True}, {"quantiles": ()}],
    ids=lambda settings: next(iter(settings), "usual"),
)
def test_descriptions_too(settings: dict[str, Any]) -> None:
    held(fedgeom.Describe(**settings), NAMES).check()


STRICT = (
    "moments",
    "ridge, folds",
    "ellipses",
    "ellipses, mixed",
    "hulls, shared names",
    "poincare-map",
    "shrunk",
    "fedavg",
)


@pytest.mark.parametrize("name", STRICT)
def test_at_strict_sites_too(name: str) -> None:
    """Floors of columns are a sum more, whose length the classes decide that sites have agreed on, if any."""
    sites = drawn(tuple("abcdef"), 240)
    held(METHODS[name], (), policy=StrictPolicy(), sites=sites).check()
