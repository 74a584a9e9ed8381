"""Secure runs of XCLPTraining against `twin.py`: Algorithm 2 in one loop, which shares no line with fedgeom."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import fedgeom
from tests.methods.coordinators import hold
from tests.methods.xclp import twin as xclp
from tests.methods.xclp_training import twin

Tables = dict[str, tuple[np.ndarray, np.ndarray]]
SEED = 6
PLAN = twin.Plan(rounds=3, warm=1, rate=0.3, epochs=2, batch=8, seed=SEED)
CLUSTERS = xclp.Clusters(8, 2, 2)
OURS = replace(xclp.OURS, code_confidence=True)
ANCHORS: dict[str, Any] = {"name": "xclp", "n_anchors": 8, "steps": 2, "min_cell": 2}
PAIRS: dict[str, Any] = {
    "name": "xclp",
    "graph": "pairs",
    "hash_bits": 64,
    "hidden_projection": False,
    "hamming": "lattice",
}
NEAR = {"rtol": 0, "atol": 2e-5}
"""Column sums are rounded to 2⁻²⁰, all others to 2⁻²⁸, in every round."""


def tables(classes: int = 3, sites: int = 4, rows: int = 22, seed: int = 0) -> Tables:
    """Draw classes as cones; the first site has most labels, one has a few, the last none."""
    rng = np.random.default_rng(seed)
    axes = rng.normal(size=(classes, 5))
    found = {}
    for at in range(sites):
        truth = rng.integers(classes, size=rows + 3 * at)
        X = axes[truth] * rng.uniform(0.5, 2, (len(truth), 1)) + 0.6 * rng.normal(size=(len(truth), 5))
        known = rng.random(len(truth)) < (0.5, 0.3, 0.2, 0.0)[at % 4]
        found[f"s{at}"] = (X, np.where(known, np.array(list("pqr"))[truth], ""))
    return found


DRAWN = tables()


def secure(plan: twin.Plan, labels: Any, drawn: Tables = DRAWN, **settings: Any) -> fedgeom.Run:
    """Run the same plan through the whole protocol."""
    sites = [fedgeom.SiteData(name, X, y) for name, (X, y) in drawn.items()]
    own = {
        "n_rounds": plan.rounds,
        "warmup_rounds": plan.warm,
        "learning_rate": plan.rate,
        "epochs": plan.epochs,
        "batch_size": plan.batch,
        "relabel_every": plan.every,
        "half_labelled": plan.halves,
        "participation": plan.share,
        "labelled_sites": plan.labelled_sites,
        "weights": "rows" if plan.by_rows else "sites",
        "labels": labels,
    }
    run = fedgeom.run(fedgeom.XCLPTraining(**own | settings), sites, seed=SEED)
    kinds = {entry.kind for entry in run.ledger}
    assert "sum.masked" in kinds
    assert "train.update" not in kinds
    return run


def flat(run: fedgeom.Run) -> np.ndarray:
    """The joint model, intercepts first."""
    return np.concatenate([run.model.parameters["intercept"], run.model.parameters["weights"].ravel()])


def trained(plan: twin.Plan, source: Any, drawn: Tables = DRAWN, classes: int = 3, **engine: Any) -> np.ndarray:
    """The twin's model."""
    return twin.semi_supervised(twin.standardised(drawn), twin.Logistic(5, classes), source, plan, **engine)


SOURCES = {
    "anchors": (ANCHORS, twin.by_anchors(OURS, CLUSTERS, SEED)),
    "anchors, entropy": (
        ANCHORS | {"confidence": "entropy", "variant": "code"},
        twin.by_anchors(xclp.CODE, CLUSTERS, SEED),
    ),
    "pairs": (PAIRS, twin.over_pairs(OURS, 64, SEED)),
    "pairs, paper": (
        PAIRS | {"variant": "paper"},
        twin.over_pairs(replace(xclp.PAPER, code_confidence=True), 64, SEED),
    ),
    "own graph": ("site", twin.own_graph(replace(xclp.OURS, prior="none"))),
    "own graph, code": ({"name": "site", "variant": "code"}, twin.own_graph(xclp.CODE)),
    "network": ("network", None),
}


@pytest.mark.parametrize("source", SOURCES)
def test_the_model_is_that_of_algorithm_2(source: str) -> None:
    labels, find = SOURCES[source]
    np.testing.assert_allclose(flat(secure(PLAN, labels)), trained(PLAN, find), **NEAR)


def test_labelled_rows_only() -> None:
    still = replace(PLAN, warm=PLAN.rounds)
    np.testing.assert_allclose(flat(secure(PLAN, "none")), trained(still, None), **NEAR)


PLANS = {
    "every second round": replace(PLAN, rounds=4, every=2),
    "whole batches": replace(PLAN, halves=False),
    "by rows": replace(PLAN, by_rows=True),
    "no warm start": replace(PLAN, warm=0),
    "drawn sites": replace(PLAN, rounds=5, share=0.6),
    "drawn sites, as many with labels": replace(
        PLAN, rounds=5, share=0.5, labelled_sites=("s0", "s1", "s2", "s5")
    ),
}


@pytest.mark.parametrize("plan", PLANS)
def test_when_labels_spread_and_who_counts(plan: str) -> None:
    drawn = tables(sites=7) if PLANS[plan].share < 1 else DRAWN
    labels, find = SOURCES["anchors"]
    run = secure(PLANS[plan], labels, drawn, min_sites=3)
    np.testing.assert_allclose(flat(run), trained(PLANS[plan], find, drawn), **NEAR)


def test_in_rounds_without_a_labelled_site_rows_have_no_labels() -> None:
    drawn = {
        name: (X, y if name in ("s0", "s4") else np.full(len(y), "")) for name, (X, y) in tables(sites=8).items()
    }
    plan = replace(PLAN, rounds=7, share=0.375)
    known = [bool({"s0", "s4"} & set(plan.drawn(sorted(drawn), t))) for t in range(plan.rounds)]
    assert not all(known[1:-1])
    assert any(known[1:-1])
    labels, find = SOURCES["anchors"]
    run = secure(plan, labels, drawn, min_sites=3)
    np.testing.assert_allclose(flat(run), trained(plan, find, drawn), **NEAR)


def test_a_site_keeps_its_first_predictions_where_it_labels_once() -> None:
    plan = replace(PLAN, rounds=5, share=0.6)
    drawn = tables(sites=7)
    run = secure(plan, {"name": "network", "once": True}, drawn, min_sites=3)
    expected = trained(replace(plan, once=True), None, drawn)
    np.testing.assert_allclose(flat(run), expected, **NEAR)
    assert np.abs(expected - trained(plan, None, drawn)).max() > 1e-3


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("engine", [{"mu": 0.4}, {"scaffold": True}], ids=["fedprox", "scaffold"])
def test_other_engines(engine: dict[str, Any], classes: int) -> None:
    drawn = {name: one for name, one in tables(classes, sites=7).items() if name not in ("s3",)}  # all have labels
    labels, find = SOURCES["anchors"]
    name = "scaffold" if "scaffold" in engine else {"name": "fedprox", "mu": 0.4}
    run = secure(PLAN, labels, drawn, algorithm=name)
    np.testing.assert_allclose(flat(run), trained(PLAN, find, drawn, classes, **engine), **NEAR)


@pytest.mark.parametrize("source", ["anchors", "pairs", "own graph", "network"])
def test_pseudo_labels_and_weights_are_the_twins(source: str) -> None:
    labels, find = SOURCES[source]
    plan = replace(PLAN, rounds=2)
    sites = [fedgeom.SiteData(name, X, y) for name, (X, y) in DRAWN.items()]
    method = fedgeom.XCLPTraining(
        n_rounds=2, warmup_rounds=1, learning_rate=0.3, epochs=2, batch_size=8, labels=labels
    )
    held = hold(method, sites, seed=SEED)
    told: dict[int, dict[str, xclp.Found]] = {}
    twin.semi_supervised(
        twin.standardised(DRAWN), twin.Logistic(5, 3), find, plan, watch=lambda t, one: told.update({t: dict(one)})
    )
    assert set(told) == {1}
    for name, wanted in told[1].items():
        found = held.site(name).pseudo()
        assert np.array(["p", "q", "r", ""])[found.codes].tolist() == wanted.labels
        np.testing.assert_allclose(found.weights, np.minimum(wanted.confidences, twin.MOST), atol=1e-5)


@pytest.mark.parametrize(
    ("source", "every"), [("anchors", 1), ("pairs", 1), ("network", 1), ("anchors", 2)], ids=str
)
def test_labels_spread_over_the_features_of_the_rounds_model(source: str, every: int) -> None:
    """A layer of four units: what is compared changes from round to round."""
    pytest.importorskip("torch", reason="torch is not installed")
    labels, find = SOURCES[source]
    plan = replace(PLAN, rounds=3 + every, every=every)
    rule = fedgeom.FedAvg(network={"name": "mlp", "depth": 0, "features": 4})
    first = rule.build_learner().start(5, 3, np.random.default_rng([SEED, 0]))
    model = twin.OneLayer(5, 4, 3, np.concatenate([np.asarray(one, float).ravel() for one in first.values()]))
    expected = twin.semi_supervised(twin.standardised(DRAWN), model, find, plan)
    run = secure(plan, labels, network={"name": "mlp", "depth": 0, "features": 4})
    assert list(first) == ["body.0.weight", "body.0.bias", "head.weight", "head.bias"]
    found = np.concatenate([np.asarray(one, float).ravel() for one in run.model.parameters.values()])
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-4)  # networks compute in single precision
    assert np.abs(expected - model.start).max() > 0.05


def test_the_cases_are_not_too_easy() -> None:
    """Where labels come from, when they spread, and how batches are made, matter by more than the tolerance."""
    found = [trained(PLAN, find) for _, find in SOURCES.values()]
    found += [trained(plan, SOURCES["anchors"][1]) for plan in PLANS.values() if plan.share == 1]
    found += [
        trained(replace(PLAN, warm=PLAN.rounds), None),
        trained(replace(PLAN, batch=7), SOURCES["anchors"][1]),
    ]
    for at, one in enumerate(found):
        for other in found[:at]:
            assert np.abs(one - other).max() > 1e-3
