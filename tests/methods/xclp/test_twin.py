"""The secure run against `twin.py`, which was written from the paper and shares no line with fedgeom."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import fedgeom
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
EACH = pytest.mark.parametrize(("case", "variant"), [(c, v) for c in CASES for v in VARIANTS])


def both(drawn, variant: str, **changes: float) -> tuple[fedgeom.Run, dict[str, twin.Found]]:
    """Run sites through the whole protocol, and through the twin; ``changes`` are of k and α."""
    rules = replace(VARIANTS[variant], **changes)
    method = fedgeom.XCLP.published(bits=BITS, hidden_projection=False, hamming="ot", variant=variant)
    if changes:
        method = replace(method, neighbours=rules.k, alpha=rules.alpha)
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


@pytest.mark.parametrize("case", CASES)
def test_the_cases_are_not_too_easy(case: str) -> None:
    """Some row's k-th and next most similar rows are equally similar, and the variants disagree on some row."""
    drawn = cones(*CASES[case])
    V = np.vstack([V for V, _ in drawn.values()])
    H = np.sort(twin.hamming(twin.hash_rows(V, twin.projection(SEED, BITS, V.shape[1]))), axis=1)
    assert (H[:, twin.PAPER.k - 1] == H[:, twin.PAPER.k]).any()
    paper, code = (twin.propagate(drawn, rules, BITS, SEED) for rules in VARIANTS.values())
    assert any(paper[name].labels != code[name].labels for name in drawn)
