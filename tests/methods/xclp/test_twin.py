"""The secure run against `twin.py`, which was written from the paper and shares no line with fedgeom."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import fedgeom
from fedgeom.methods.xclp import method as xclp_method
from tests.methods.moments.twin import groups
from tests.methods.xclp import twin

BITS, SEED = 128, 7
LONER = "s1"
"""The site whose last row points away from everybody's."""


def cones(classes: int, rows: tuple[int, ...], seed: int) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Draw cones around random axes; the first site knows most labels, the last none, one row is like no other."""
    rng = np.random.default_rng(seed)
    axes = np.abs(rng.normal(size=(classes, 5))) + 0.2
    found = {}
    for at, n in enumerate(rows):
        truth = rng.integers(classes, size=n)
        V = axes[truth] * rng.uniform(0.5, 3, (n, 1)) + 0.35 * rng.normal(size=(n, 5))
        known = rng.random(n) < (0.7, *[0.3] * (len(rows) - 2), 0.0)[at]
        y = np.where(known, np.array(["north", "east", "south", "west"])[truth], "")
        if f"s{at}" == LONER:
            V[-1], y[-1] = -axes.sum(axis=0), ""
        found[f"s{at}"] = (V, y)
    return found


CASES = {
    "two classes": (2, (14, 9, 12), 7),
    "three classes": (3, (16, 11, 17), 2),
    "four classes": (4, (18, 15, 12), 3),
}
FOUR_SITES = (3, (16, 11, 8, 9), 2)
VARIANTS = {"paper": twin.PAPER, "code": twin.CODE}
ALL = VARIANTS | {"ours": twin.OURS}
EACH = pytest.mark.parametrize(("case", "variant"), [(c, v) for c in CASES for v in VARIANTS])


def both(drawn, variant: str, **changes: float) -> tuple[fedgeom.Run, dict[str, twin.Found]]:
    """Run sites through the whole protocol, and through the twin; ``changes`` are of k and α."""
    rules = replace(VARIANTS[variant], **changes)
    method = fedgeom.XCLP.published(hash_bits=BITS, hidden_projection=False, hamming="lattice", variant=variant)
    if changes:
        method = replace(method, n_neighbors=rules.k, alpha=rules.alpha)
    sites = [fedgeom.SiteData(name, V, y) for name, (V, y) in drawn.items()]
    return fedgeom.run(method, sites, seed=SEED), twin.propagate(drawn, rules, BITS, SEED)


def assert_same(run: fedgeom.Run, expected: dict[str, twin.Found]) -> None:
    """Labels are equal; numbers are, but for the 32-bit numbers in which influence is sent."""
    assert set(run.local) == set(expected)
    for name, wanted in expected.items():
        got = run.local[name]
        assert got["labels"] == wanted.labels
        np.testing.assert_allclose(got["scores"], wanted.scores, rtol=1e-6, atol=1e-8)
        np.testing.assert_allclose(got["confidences"], wanted.confidences, atol=1e-6)


@EACH
def test_every_site_gets_the_papers_labels_confidences_and_scores(case: str, variant: str) -> None:
    run, expected = both(cones(*CASES[case]), variant)
    assert_same(run, expected)
    assert (expected[LONER].labels[-1], expected[LONER].confidences[-1]) == ("", 0.0)
    assert len(set(expected[max(expected)].labels)) > 1  # a site without labels is told some


def test_neighbours_and_reach_are_k_and_alpha() -> None:
    assert_same(*both(cones(*FOUR_SITES), "paper", k=3, alpha=0.6))


def sites_of(drawn: Any) -> list[fedgeom.SiteData]:
    return [fedgeom.SiteData(name, V, y) for name, (V, y) in drawn.items()]


def skewed(seed: int = 4, sites: int = 4, rows: int = 26) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Draw four sites of unlike class shares, of which the last has no label."""
    rng = np.random.default_rng(seed)
    axes = np.abs(rng.normal(size=(3, 6))) + 0.2
    found = {}
    for at in range(sites):
        truth = rng.choice(3, rows + 3 * at, p=rng.dirichlet([0.5] * 3))
        V = axes[truth] * rng.uniform(0.5, 3, (len(truth), 1)) + 0.3 * rng.normal(size=(len(truth), 6))
        known = rng.random(len(truth)) < (0.5, 0.4, 0.3, 0.0)[at % 4]
        found[f"s{at}"] = (V, np.where(known, np.array(["ant", "bee", "cow"])[truth], ""))
    return found


@pytest.mark.parametrize("confidence", ["entropy", "code"])
@pytest.mark.parametrize("variant", ALL)
def test_all_variants_over_pairs(variant: str, confidence: str) -> None:
    drawn = skewed()
    method = fedgeom.XCLP(
        hash_bits=BITS, hidden_projection=False, hamming="lattice", variant=variant, confidence=confidence
    )
    rules = replace(ALL[variant], code_confidence=confidence == "code")
    assert_same(fedgeom.run(method, sites_of(drawn), seed=SEED), twin.propagate(drawn, rules, BITS, SEED))


@pytest.mark.parametrize("prior", ["em", "em-unchecked", "own", "none"])
def test_class_shares_that_a_site_finds_by_itself(prior: str) -> None:
    drawn = skewed()
    method = fedgeom.XCLP(hash_bits=BITS, hidden_projection=False, hamming="lattice", prior=prior)
    expected = twin.propagate(drawn, replace(twin.OURS, prior=prior), BITS, SEED)
    assert_same(fedgeom.run(method, sites_of(drawn), seed=SEED), expected)


@pytest.mark.parametrize("flip", [1 / 16, 3 / 16])  # rates are rounded to multiples of 2⁻¹⁶
def test_bits_that_sites_turn(flip: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Which bits are turned is a site's secret, so the twin begins where the coordinator does: with the distances."""
    drawn = skewed()
    size = sum(len(V) for V, _ in drawn.values())
    H = np.zeros((size, size))
    build = xclp_method.neighbour_graph

    def look(method: fedgeom.XCLP, distances: Any, places: Any) -> Any:
        for (one, other), block in distances.items():
            H[slice(*places[one]), slice(*places[other])] = block
            H[slice(*places[other]), slice(*places[one])] = block.T
        return build(method, distances, places)

    monkeypatch.setattr(xclp_method, "neighbour_graph", look)
    method = fedgeom.XCLP(hash_bits=512, hidden_projection=False, hamming="lattice", flip_probability=flip)
    run = fedgeom.run(method, sites_of(drawn), seed=SEED)
    found = twin.unturned(H, 512, flip)
    assert_same(run, twin.propagate(drawn, twin.OURS, 512, SEED, distances=found))
    V = np.vstack([V for V, _ in drawn.values()])
    true = twin.hamming(twin.hash_rows(V, twin.projection(SEED, 512, V.shape[1])))
    apart = ~np.eye(size, dtype=bool) & (true > 100)  # none of these is cut off at 0
    assert (found - true)[apart].mean() == pytest.approx(0, abs=8)
    assert (found - true)[apart].std() > 5


CLUSTERS = {
    "few": twin.Clusters(6, 3, 2),
    "many, small ones left out": twin.Clusters(40, 5, 3),
    "written on one": twin.Clusters(12, 4, 2, nearest=1),
}


@pytest.mark.parametrize("confidence", ["entropy", "code"])
@pytest.mark.parametrize("variant", ALL)
@pytest.mark.parametrize("clusters", CLUSTERS)
def test_through_anchors(clusters: str, variant: str, confidence: str) -> None:
    drawn = skewed()
    how = CLUSTERS[clusters]
    method = fedgeom.XCLP(
        graph="anchors",
        n_anchors=how.count,
        n_rounds=how.steps,
        min_cell=how.least,
        n_nearest=how.nearest,
        variant=variant,
        confidence=confidence,
    )
    rules = replace(ALL[variant], code_confidence=confidence == "code")
    run = fedgeom.run(method, sites_of(drawn), seed=SEED)
    expected, score = twin.propagate_by_anchors(drawn, rules, how, SEED)
    assert_same(run, expected)
    new = np.vstack([V for V, _ in skewed(seed=8).values()])
    np.testing.assert_allclose(run.model.scores(new), score(new), rtol=1e-5, atol=1e-7)


def test_policies_leave_out_clusters_of_few_rows_or_sites() -> None:
    drawn = skewed(seed=102, sites=6)
    policy = fedgeom.Policy(single_site_classes=False, min_sites=3, min_rows=1)  # more rows would stand in groups
    how = twin.Clusters(12, 4, least=8, min_sites=3)
    method = fedgeom.XCLP(graph="anchors", n_anchors=12, n_rounds=4, min_cell=8)
    run = fedgeom.run(method, sites_of(drawn), seed=SEED, policy=policy)
    assert_same(run, twin.propagate_by_anchors(drawn, twin.OURS, how, SEED)[0])
    assert len(twin.find_anchors(drawn, how, SEED)) < len(
        twin.find_anchors(drawn, replace(how, min_sites=1), SEED)
    )


@pytest.mark.parametrize("confidence", ["entropy", "code"])
def test_within_groups_labels_spread_as_if_there_were_no_others(confidence: str) -> None:
    drawn = skewed(sites=6, rows=12)
    method = fedgeom.XCLP(
        hash_bits=BITS, hidden_projection=False, hamming="lattice", n_groups=2, confidence=confidence
    )
    run = fedgeom.run(method, sites_of(drawn), seed=SEED)
    rules = replace(twin.OURS, code_confidence=confidence == "code")
    expected = {}
    for group in groups(list(drawn), 2, SEED):
        part = {name: drawn[name] for name in group}
        expected |= twin.propagate(part, rules, BITS, SEED, ["ant", "bee", "cow"])
    assert_same(run, expected)


def test_priors_and_anchors_matter_in_these_cases() -> None:
    drawn = skewed()
    by_prior = [twin.propagate(drawn, replace(twin.OURS, prior=one), BITS, SEED) for one in ("em", "own", "none")]
    by_prior.append(twin.propagate(drawn, replace(twin.OURS, prior="em-unchecked"), BITS, SEED))
    for at, one in enumerate(by_prior):
        for other in by_prior[:at]:
            assert max(np.abs(one[name].scores - other[name].scores).max() for name in drawn) > 0.01
    found = [len(twin.find_anchors(drawn, how, SEED)) for how in CLUSTERS.values()]
    assert 6 <= found[0] < found[1] < 40
    assert len(twin.find_anchors(drawn, replace(CLUSTERS["many, small ones left out"], least=1), SEED)) > found[1]


@pytest.mark.parametrize("case", CASES)
def test_the_cases_are_not_too_easy(case: str) -> None:
    """Some row's k-th and next most similar rows are equally similar, and the variants disagree on some row."""
    drawn = cones(*CASES[case])
    V = np.vstack([V for V, _ in drawn.values()])
    H = np.sort(twin.hamming(twin.hash_rows(V, twin.projection(SEED, BITS, V.shape[1]))), axis=1)
    assert (H[:, twin.PAPER.k - 1] == H[:, twin.PAPER.k]).any()
    paper, code = (twin.propagate(drawn, rules, BITS, SEED) for rules in VARIANTS.values())
    assert any(paper[name].labels != code[name].labels for name in drawn)
