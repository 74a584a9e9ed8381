"""The secure run against `twin.py`, which was written from the paper and shares no line with fedgeom.

The same words mean different classes at different sites, as in Figure 2: the labels must not matter.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
import pytest

import fedgeom
from tests.methods.hulls import twin

FRESH = 400
"""How many points no site has seen are classified."""


@dataclass(frozen=True)
class Case:
    """A federation in the disc: classes stand in a circle, and every site calls them as it likes."""

    classes: int
    sites: int
    seed: int
    apart: float
    spread: float
    epsilon: float
    k: float = 1.0
    lacking: bool = False
    """Whether the first site has nobody of the last class."""

    def draw(self):
        """Return each site's points, its words, and which class a word means."""
        rng, found = np.random.default_rng(self.seed), []
        for site in range(self.sites):
            words = rng.permutation(list("abcdef")[: self.classes])
            y = np.repeat(np.arange(self.classes), rng.integers(4, 30, self.classes))
            y = y[y < self.classes - (self.lacking and site == 0)]
            turn = 2 * np.pi * y / self.classes
            v = self.apart * np.column_stack([np.cos(turn), np.sin(turn)])
            v += self.spread * rng.normal(size=v.shape)
            length = np.linalg.norm(v, axis=1, keepdims=True)
            X = np.tanh(length) * v / length / np.sqrt(self.k)
            found.append((X, words[y], {word: j for j, word in enumerate(words.tolist())}))
        return found


CASES = {
    "two classes": Case(2, 3, 1, apart=0.8, spread=0.3, epsilon=0.3),
    "two that overlap": Case(2, 4, 29, apart=0.2, spread=0.4, epsilon=0.2),
    "three that share bins": Case(3, 5, 10, apart=0.4, spread=0.4, epsilon=0.5),
    "four on a fine grid": Case(4, 5, 0, apart=0.5, spread=0.35, epsilon=0.01),
    "a flatter disc, a class missing": Case(3, 4, 2, apart=0.6, spread=0.4, epsilon=0.8, k=0.25, lacking=True),
}

ASTRAY = Case(2, 3, 3, apart=0.2, spread=0.4, epsilon=0.2)
"""Two classes that overlap so much that the least cut of Eq. 14 puts both hulls of a site into one group."""

EACH = pytest.mark.parametrize("name", CASES)


@cache
def both(case: Case) -> tuple[fedgeom.Run, twin.Twin, twin.Grid]:
    """Run a case through the whole protocol, and through the twin."""
    drawn = case.draw()
    radius = float(max(np.linalg.norm(X, axis=1).max() for X, _, _ in drawn)) + 1e-4
    method = fedgeom.Hulls.published(radius=radius, epsilon=case.epsilon, n_classes=case.classes, curvature=case.k)
    sites = [fedgeom.SiteData(f"site {at}", X, y) for at, (X, y, _) in enumerate(drawn)]
    grid = twin.Grid(case.epsilon, radius, case.k)
    return fedgeom.run(method, sites), twin.federate([(X, y) for X, y, _ in drawn], grid, case.classes), grid


def decoded(run: fedgeom.Run) -> list[tuple[int, tuple[int, ...], int]]:
    """Return owner, bins and group of every hull that the coordinator decoded."""
    found = run.artifacts
    bins = [found["hull_bins"][found["hull_of_point"] == h].tolist() for h in range(len(found["owner_of_hull"]))]
    each = zip(found["owner_of_hull"].tolist(), bins, found["group_of_hull"].tolist(), strict=True)
    return [(owner, tuple(sorted(places)), group) for owner, places, group in each]


@EACH
def test_the_coordinator_decodes_the_quantised_hulls_of_every_site_and_no_more(name: str) -> None:
    run, expected, grid = both(CASES[name])
    by_owner: dict[int, list[tuple[int, ...]]] = {}
    for owner, bins, _ in decoded(run):
        by_owner.setdefault(owner, []).append(bins)
    assert sorted(map(sorted, by_owner.values())) == sorted(sorted(site.values()) for site in expected.at_sites)
    assert run.metrics["grid_bins"] == grid.rings * grid.sectors
    np.testing.assert_allclose(run.artifacts["hull_points"], grid.centres(run.artifacts["hull_bins"]), atol=1e-12)


@EACH
def test_hulls_are_grouped_as_the_cut_of_the_graph_has_it(name: str) -> None:
    run, expected, _ = both(CASES[name])
    groups = {bins: group for _, bins, group in decoded(run)}
    for at, (hulls, wanted) in enumerate(zip(expected.at_sites, expected.groups, strict=True)):
        assert {word: groups[bins] for word, bins in hulls.items()} == wanted
        assert run.local[f"site {at}"]["names"] == wanted


def test_two_groups_are_the_least_balanced_cut_even_where_it_joins_hulls_of_one_site() -> None:
    """Appendix I.2 has the tiny weights for spectral clustering, and the published code leaves them off for two."""
    run, expected, _ = both(ASTRAY)
    assert [run.local[f"site {at}"]["names"] for at in range(ASTRAY.sites)] == expected.groups


@EACH
def test_the_hyperplanes_are_the_papers(name: str) -> None:
    run, expected, _ = both(CASES[name])
    planes = expected.planes
    assert len(planes) == len(run.model.reference)
    np.testing.assert_allclose(run.model.reference, [plane.reference for plane in planes], atol=1e-9)
    np.testing.assert_allclose(run.model.normal, [plane.normal for plane in planes], rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(run.model.platt, [(plane.A, plane.B) for plane in planes], rtol=1e-5, atol=1e-6)


@EACH
def test_points_that_nobody_has_seen_are_classified_alike(name: str) -> None:
    run, expected, grid = both(CASES[name])
    rng = np.random.default_rng(0)
    angle, length = rng.uniform(0, 2 * np.pi, FRESH), grid.radius * np.sqrt(rng.uniform(0, 1, FRESH))
    X = np.column_stack([length * np.cos(angle), length * np.sin(angle)])
    wanted = twin.predict(expected.planes, X)
    assert run.model.predict(X).tolist() == wanted.tolist()
    assert len(set(wanted.tolist())) == CASES[name].classes  # or there would be little to tell
    chances = np.column_stack([plane.probabilities(X) for plane in expected.planes])
    if len(expected.planes) == 1:
        chances = np.hstack([1 - chances, chances])
    np.testing.assert_allclose(
        run.model.predict_proba(X), chances / chances.sum(axis=1, keepdims=True), rtol=1e-5, atol=1e-8
    )


def test_the_cases_are_not_too_easy() -> None:
    """Hulls meet in a bin, even hulls of one site, so that labels are told apart; and some groups mix the classes."""
    hulls = decoded(both(CASES["three that share bins"])[0])
    everywhere = [place for _, bins, _ in hulls for place in bins]
    at_a_site = [(owner, place) for owner, bins, _ in hulls for place in bins]
    assert len(everywhere) > len(set(at_a_site)) > len(set(everywhere))
    truth = [words for _, _, words in CASES["two that overlap"].draw()]
    groups = both(CASES["two that overlap"])[1].groups
    assert len({(group, truth[at][word]) for at, site in enumerate(groups) for word, group in site.items()}) > 2
