"""Runs against `twin.py`, which was written from the paper and shares no line with fedgeom."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

import fedgeom
from fedgeom.geometry.topology.descriptors import descriptor
from tests.methods.iterative.making import whole
from tests.methods.iterative.twin import Work, clients_of, generator, standardised
from tests.methods.ptopofl import twin

pytest.importorskip("gudhi", reason="gudhi is not installed (fedgeom[topology])")

SEED = 3
CASES = {
    "clusters of four": ("rbrbrbrb", 2, 10),
    "one stands out": ("bbbbobbb", 2, 4),
    "three classes": ("rbrbrb", 3, 28),
}
"""The shapes of the sites' rows, the number of classes, and a seed."""
STEPS = {"n_rounds": 4, "learning_rate": 0.2, "epochs": 2, "batch_size": 32}

EACH = pytest.mark.parametrize("case", CASES)
WITH_COLUMNS = pytest.mark.parametrize("augment", [False, True])


@cache
def hospitals(case: str) -> tuple[fedgeom.SiteData, ...]:
    """Draw a site for each letter: a ring, a blob, or an odd one of three heaps; some have more than 80 rows."""
    shapes, classes, seed = CASES[case]
    rng = np.random.default_rng(seed)
    rule, found = rng.normal(size=(4, classes)), []
    for at, shape in enumerate(shapes):
        n = int(rng.integers(60, 130))
        X = rng.normal(size=(n, 4))
        if shape == "r":
            turn = rng.uniform(0, 2 * np.pi, n)
            X = 0.1 * X
            X[:, :2] += np.column_stack([np.cos(turn), np.sin(turn)])
        if shape == "o":
            X = 0.05 * X + 3 * rng.normal(size=(3, 4))[rng.integers(3, size=n)]
        scores = X @ rule + rng.normal(size=(n, classes))
        found.append(fedgeom.SiteData(f"h{at}", X, np.array(["a", "b", "c"])[scores.argmax(axis=1)]))
    return tuple(found)


@cache
def expected(case: str, **how: bool) -> twin.Twin:
    """Let the twin do it: two rounds to the optimum, or some rounds of steps."""
    raw = clients_of(hospitals(case))
    work = Work(**STEPS, seed=SEED) if how.get("exact") is False else Work(n_rounds=2, learning_rate=0, seed=SEED)
    return twin.federate(standardised(raw), work, raw=raw, **how)


def partition(cluster) -> set[frozenset[int]]:
    """Say who is together with whom, whatever the clusters are called."""
    return {frozenset(np.flatnonzero(np.asarray(cluster) == own).tolist()) for own in cluster}


def assert_same(run: fedgeom.Run, wanted: twin.Twin, near: float) -> None:
    names = [site.name for site in run.sites]
    assert partition([run.metrics["clusters"][name] for name in names]) == partition(wanted.cluster)
    assert [run.metrics["trust"][name] for name in names] == pytest.approx(wanted.trust, abs=1e-4)  # as it is told
    assert run.metrics["flagged"] == wanted.flagged
    assert whole(run.model) == pytest.approx(wanted.consensus, abs=near)
    for name, model in zip(names, wanted.models, strict=True):
        assert run.local[name]["model"] == pytest.approx(model, abs=near)


@EACH
def test_all_48_numbers_are_those_of_appendix_b(case: str) -> None:
    """One by one: beside counts of pairs, amplitudes and entropies hardly matter to a distance."""
    for site, client in zip(hospitals(case), clients_of(hospitals(case)), strict=True):
        found = descriptor(site.X, points=twin.POINTS, rng=generator(SEED, 0, site.name, purpose=2))
        assert found == pytest.approx(twin.describe(client, SEED), rel=1e-6, abs=1e-9)


@WITH_COLUMNS
@pytest.mark.parametrize("case", ["clusters of four", "one stands out"])
def test_the_published_setting_is_algorithm_1(case: str, augment: bool) -> None:
    run = fedgeom.run(fedgeom.PTopoFL.published(n_rounds=2, augment=augment), hospitals(case), seed=SEED)
    assert_same(run, expected(case, augment=augment), near=2e-5)  # two solvers stop near the same optimum


@WITH_COLUMNS
@EACH
def test_local_training_by_steps_is_algorithm_1(case: str, augment: bool) -> None:
    method = fedgeom.PTopoFL.published(**STEPS, solver="sgd", augment=augment)
    run = fedgeom.run(method, hospitals(case), seed=SEED)
    assert_same(run, expected(case, exact=False, augment=augment), near=1e-6)


@pytest.mark.parametrize("case", ["clusters of four", "three classes"])
def test_sums_of_clusters_are_enough_for_algorithm_1(case: str) -> None:
    method = fedgeom.PTopoFL.published(**STEPS, solver="sgd", secure=True)
    run = fedgeom.run(method, hospitals(case), seed=SEED)
    assert "train.update" not in {entry.kind for entry in run.ledger}  # nobody's own model was seen
    assert_same(run, expected(case, exact=False), near=1e-6)


def test_the_cases_are_not_too_easy() -> None:
    """Clusters have several sites and are several, somebody is flagged, and trust and closeness are not all one."""
    assert sorted(map(len, partition(expected("clusters of four").cluster))) == [4, 4]
    assert expected("one stands out").flagged == ["h4"]
    for case in CASES:
        found = expected(case, exact=False)
        phi = np.array([twin.describe(client, SEED) for client in clients_of(hospitals(case))])
        assert min(found.trust) < 0.9
        assert np.ptp(twin.closeness(phi, found.cluster)) > 0.01
        assert sum(len(site) > twin.POINTS for site in hospitals(case)) > 1
