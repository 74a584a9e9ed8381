"""Sums in groups at the coordinator: lost sites cost a group at most, and the run says which."""

from __future__ import annotations

from typing import Any

import pytest

import fedgeom
from fedgeom.errors import TooFewSitesError
from fedgeom.federation.messages import unpack
from fedgeom.federation.policy import Policy
from fedgeom.methods.iterative import GroupMedian
from fedgeom.protocols.secure_sum.rules import GroupDraw
from fedgeom.testing import example_sites
from fedgeom.testing.rehearsal import Rehearsal

SITES = example_sites(12, rows=12)
MOMENTS = fedgeom.Moments(aggregation=GroupMedian(n_groups=4, drawn_by="seed"))
TRAINING = fedgeom.FedAvg(n_rounds=3, epochs=1, aggregation=GroupMedian(n_groups=4, drawn_by="seed"))
GROUPS = GroupDraw(4, "seed").groups([site.name for site in SITES], 0, b"")


def held(method: Any, lost: dict[str, str], policy: Policy | None = None, sites: Any = SITES) -> Rehearsal:
    """Hold a run in which sites answer nothing from the first question of a kind on."""
    gone: set[str] = set()

    def interfere(name: str, request: bytes) -> str | None:
        if unpack(request).kind == lost.get(name):
            gone.add(name)
        return "killed" if name in gone else None

    return Rehearsal(method, sites, policy=policy or Policy(), interfere=interfere).conduct()


def test_a_group_below_the_smallest_cohort_is_dropped_and_the_run_says_so() -> None:
    for method, kind in ((MOMENTS, "moments.group"), (TRAINING, "train.group-columns"), (TRAINING, "train.group")):
        found = held(method, {GROUPS[1][0]: kind}).conversation
        assert found.metrics["groups"] == 4
        assert found.metrics["groups dropped"] == [1]
        said = [str(one) for one in found.notices]
        assert len(said) == 1
        assert f"group 2 of 4 ({', '.join(GROUPS[1])}) is in no further sum" in said[0]


def test_a_group_with_enough_left_goes_on_without_the_lost() -> None:
    sites = example_sites(16, rows=12)
    name = GroupDraw(4, "seed").groups([site.name for site in sites], 0, b"")[2][1]
    for method, kind in ((MOMENTS, "moments.group"), (TRAINING, "train.group")):
        found = held(method, {name: kind}, sites=sites).conversation
        assert "groups dropped" not in found.metrics
        assert name in found.lost


def test_a_strict_group_that_lost_a_site_is_summed_no_more_and_the_others_are() -> None:
    sites = example_sites(16, rows=12)
    name = GroupDraw(4, "seed").groups([site.name for site in sites], 0, b"")[2][1]
    strict = Policy(sums_after_losses=False)
    for kind in ("train.group", "sum.unmask"):
        found = held(TRAINING, {name: kind}, strict, sites).conversation
        assert found.metrics["groups dropped"] == [2]
        assert any("group 3 of 4" in str(one) for one in found.notices)


def test_fewer_than_three_groups_are_no_median() -> None:
    lost = {GROUPS[0][0]: "moments.group", GROUPS[1][0]: "moments.group"}
    with pytest.raises(
        TooFewSitesError, match=r"(?s)2 groups are left; a median over groups needs 3.*group 1:.*group 2:"
    ):
        held(MOMENTS, lost)


def test_sites_of_a_dropped_group_still_get_the_model() -> None:
    found = held(TRAINING, {GROUPS[1][0]: "train.group"})
    results = found.engine.results(found.run, models=True)
    assert all(results[name].model for name in (*GROUPS[0], GROUPS[1][1], GROUPS[1][2]))
