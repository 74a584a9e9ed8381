"""Evidence of the grouping: a hull near its class is certain, one between two is in doubt, one of a kind is alone."""

from __future__ import annotations

import math

import numpy as np
import pytest

import fedgeom
from fedgeom.data.sites import SiteData
from fedgeom.methods.hulls.matching import MatchEvidence, _site_evidence, doubts, group_evidence


def spot(x: float, y: float = 0.0) -> np.ndarray:
    """Return a hull of one corner."""
    return np.array([[x, y]])


def test_the_next_best_grouping_of_one_hull_each() -> None:
    hulls = [spot(0.0), spot(0.0), spot(0.5), spot(0.1)]
    found = group_evidence(hulls, [0, 1, 1, 2], np.array([0, 0, 1, 0]), c=1.0)
    near, far = 2 * math.atanh(0.1), 2 * math.atanh((0.5 - 0.1) / (1 - 0.05))
    assert found[3] == MatchEvidence(own=round(near, 4), rival=1, other=round(far, 4))
    assert found[3].verdict == "certain"
    assert found[2].verdict == "alone"
    assert found[2] == MatchEvidence()


def test_hulls_of_a_site_keep_each_other_out() -> None:
    costs = np.array([[1.0, 4.0], [1.0, 9.0]])  # both are nearest to the first group
    first, second = _site_evidence(costs, np.array([1, 0]))
    assert first == second.__class__(own=first.own, rival=0, other=first.other)
    assert first.own == pytest.approx(math.sqrt(2.5), abs=1e-4)  # the other way round it would be (1 + 9) / 2
    assert first.other == pytest.approx(math.sqrt(5), abs=1e-4)
    assert first.verdict == second.verdict == "certain"


def test_two_that_could_be_swapped_are_in_doubt() -> None:
    costs = np.array([[1.0, 1.1], [1.1, 1.0]])
    for one in _site_evidence(costs, np.array([0, 1])):
        assert one.verdict == "doubtful"
        assert one.ratio == pytest.approx(math.sqrt(1 / 1.1), abs=1e-3)


def test_what_no_other_site_has_stays_where_it_is() -> None:
    costs = np.array([[1.0, 2.0, np.inf], [9.0, 9.0, np.inf]])
    first, alone = _site_evidence(costs, np.array([0, 2]))
    assert (first.rival, first.other) == (1, round(math.sqrt(2), 4))
    assert alone.verdict == "alone"


def test_without_another_group_there_is_no_next_best() -> None:
    (one,) = _site_evidence(np.array([[4.0, np.inf]]), np.array([0]))
    assert one == MatchEvidence(own=2.0)
    assert (one.ratio, one.verdict) == (None, "certain")


@pytest.mark.parametrize("bad", [math.nan, math.inf, -1.0])
def test_numbers_that_are_no_distances_are_noticed(bad: float) -> None:
    assert not MatchEvidence(own=bad).sound
    assert not MatchEvidence(own=0.1, rival=0, other=bad).sound
    assert MatchEvidence(own=0.1, rival=0, other=0.2).sound


def test_doubts_are_told_the_greatest_first() -> None:
    sure, less, least = (MatchEvidence(own=own, rival=1, other=1.0) for own in (0.1, 0.9, 0.95))
    (found,) = doubts([0, 2, 3], [sure, less, least])
    assert found.what == "2 of 3 hulls might as well be of another class"
    assert found.why.startswith(
        "one in class 3 (doubtful: 0.95 away, with class 1 it would be 1.00); one in class 2"
    )
    assert doubts([0], [sure]) == []


def test_a_site_learns_the_evidence_for_its_own_names() -> None:
    """A class between two others at one site only: its name is in doubt, and the run says so."""
    rng, sites = np.random.default_rng(0), []
    for at in range(4):
        centres = {"left": (-0.4, 0.0), "right": (0.4, 0.0)}
        if at == 3:
            centres = {"middle": (0.02, 0.0)}
        X = np.vstack([rng.normal(centre, 0.05, size=(30, 2)) for centre in centres.values()])
        sites.append(SiteData(f"s{at}", X, np.repeat(list(centres), 30)))
    run = fedgeom.run(fedgeom.Hulls(n_classes=2), sites)
    assert {one["verdict"] for one in run.local["s0"]["evidence"].values()} == {"certain"}
    assert run.local["s3"]["evidence"]["middle"]["verdict"] == "doubtful"
    assert run.metrics["doubtful_hulls"] == 1
    assert [warning.what for warning in run.warnings] == ["1 of 7 hulls might as well be of another class"]
