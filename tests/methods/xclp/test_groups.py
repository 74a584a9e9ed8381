"""Labels that spread within groups of sites (Appendix B.1), through the secure path."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import numpy as np
import pytest

import fedgeom
from fedgeom.data.sites import SiteData
from fedgeom.errors import InputError
from fedgeom.federation.messages import unpack
from fedgeom.methods.xclp.messages import BeginComparison, CountClasses
from fedgeom.methods.xclp.site import XclpSite
from fedgeom.protocols.secure_sum.rules import GroupDraw
from tests.methods.coordinators import overhear, refusals, stamped
from tests.methods.xclp.making import cones

pytestmark = pytest.mark.full

METHOD = fedgeom.XCLP(hash_bits=64, hamming="ot", hidden_projection=False, n_groups=2)
SITES = cones(6, rows=9)
SEED = 4


def drawn(seed: int = SEED) -> list[set[str]]:
    return [set(group) for group in GroupDraw(2, "seed").groups([site.name for site in SITES], seed, b"")]


@pytest.mark.parametrize("confidence", ["entropy", "code"])
def test_each_group_is_a_run_of_its_own(confidence: str) -> None:
    method = replace(METHOD, confidence=confidence)
    run = fedgeom.run(method, SITES, seed=SEED)
    assert not run.lost
    assert [len(group) for group in drawn()] == [3, 3]
    alone = replace(method, n_groups=None, classes=("0", "1", "2"))
    for group in drawn():
        some = [site for site in SITES if site.name in group]
        wanted = alone.plain(some, SEED).local
        for site in some:
            assert run.labels[site.name].tolist() == wanted[site.name]["labels"]
            assert np.allclose(run.confidences[site.name], wanted[site.name]["confidences"], atol=1e-4)
            assert method.plain(SITES, SEED).local[site.name]["labels"] == wanted[site.name]["labels"]


def test_nobody_is_compared_or_summed_with_another_group() -> None:
    heard, _ = overhear(METHOD, SITES, seed=SEED)
    begun = [(one.name, set(one.question.partners)) for one in heard if isinstance(one.question, BeginComparison)]
    counted = [one for one in heard if isinstance(one.question, CountClasses)]
    begun += [(one.name, set(one.question.ticket.participants)) for one in counted]
    assert len(begun) == 12
    for name, others in begun:
        assert any({name, *others} == group for group in drawn())


def test_a_lost_site_costs_its_own_group_only() -> None:
    victim = sorted(drawn()[0])[0]

    def gone(name, request):
        return "killed" if name == victim and unpack(request).kind == BeginComparison.kind else None

    run = fedgeom.run(replace(METHOD, min_sites=3), SITES, seed=SEED, interfere=gone)
    assert set(run.labels) == drawn()[1]
    assert any("group 1" in str(warning) and victim in str(warning) for warning in run.warnings)


def test_a_group_without_labels_is_said() -> None:
    blind = [
        SiteData(site.name, site.X, np.full(len(site), -1)) if site.name in drawn()[1] else site for site in SITES
    ]
    run = fedgeom.run(METHOD, blind, seed=SEED)
    assert set(run.labels) == drawn()[0]
    assert any("group 2" in str(warning) and "nothing to spread" in str(warning) for warning in run.warnings)


def strangers(ask: BeginComparison) -> BeginComparison:
    mine, other = sorted(drawn(0), key=lambda group: not set(ask.partners) < group)
    assert set(ask.partners) < mine
    return msgspec.structs.replace(ask, partners=dict.fromkeys(sorted(other), 9))


@pytest.mark.parametrize(
    ("kind", "change", "words"),
    [
        (BeginComparison, strangers, "not of the group that this site is drawn into"),
        (CountClasses, lambda ask: stamped(ask, group=1 - ask.group), "this site is in group"),
    ],
)
def test_a_coordinator_cannot_mix_groups(kind: Any, change: Any, words: str) -> None:
    """Sites draw for themselves, from the terms and the seed."""
    assert all(words in said for said in refusals(METHOD, SITES, kind, change, to=SITES[0].name))


def test_sums_are_planned_for_every_group() -> None:
    kinds = [question.kind for question in XclpSite.all_sums(METHOD)]
    assert kinds.count(CountClasses.kind) == 2


def test_groups_are_for_pairs_and_not_too_small() -> None:
    with pytest.raises(InputError, match='n_groups=2 with graph="anchors"'):
        fedgeom.XCLP(graph="anchors", n_groups=2)
    with pytest.raises(InputError, match="6 sites in 4 groups"):
        fedgeom.run(replace(METHOD, n_groups=4), SITES, seed=SEED)
