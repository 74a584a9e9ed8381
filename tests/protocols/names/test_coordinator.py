"""Rare classes: counted under numbers first, left out of every sum, and named to nobody but their own sites."""

from __future__ import annotations

import dataclasses
from typing import Any

import msgspec
import numpy as np
import pytest

import fedgeom
from fedgeom import FedAvg, Moments, SiteData
from fedgeom.engines.embedded import EmbeddedEngine
from fedgeom.errors import InputError
from fedgeom.federation.coordinator import Coordinator
from fedgeom.federation.messages import Array
from fedgeom.federation.policy import Policy
from fedgeom.methods.moments.site import SumClassMoments
from fedgeom.protocols.names import CountNames, HoldNames, KeepNames, OpenNames
from fedgeom.testing import example_sites
from tests.methods.coordinators import RUN, hold, overhear, refusals, stamped

STRICT = Policy(single_site_classes=False, min_sites=3, min_rows=10)
CLASSES = ("left", "rare", "right")


def with_label(site: SiteData, label: str, rows: int) -> SiteData:
    """Return a site with more rows, all of one label."""
    more = np.random.default_rng(9).uniform(-0.1, 0.1, (rows, 2))
    return SiteData(site.name, np.vstack([site.X, more]), np.append(site.y, [label] * rows))


def spread_over(sites: int, rows: int, label: str = "rare") -> list[SiteData]:
    """Return five sites, of which the first few have rows of a label of their own."""
    five = example_sites(5)
    return [with_label(site, label, rows) if at < sites else site for at, site in enumerate(five)]


@pytest.mark.parametrize(
    ("sites", "rows", "kept"),
    [(1, 40, False), (2, 40, False), (3, 3, False), (3, 4, True), (5, 2, True), (4, 2, False)],
)
def test_a_class_needs_enough_sites_and_enough_rows(sites: int, rows: int, kept: bool) -> None:
    data = spread_over(sites, rows)
    held = hold(Moments(), data, policy=STRICT)
    assert held.model.names == (CLASSES if kept else ("left", "right"))
    wanted = [site.take(site.y != "rare") for site in data] if not kept else data
    np.testing.assert_allclose(held.model.means, Moments().plain(wanted).model.means, atol=1e-6)
    for at, site in enumerate(data):
        left_out = held.local()[site.name].get("left out", [])
        assert left_out == (["rare"] if at < sites and not kept else [])


def test_nobody_but_its_own_site_hears_of_a_rare_class() -> None:
    heard, _ = overhear(Moments(), spread_over(1, 40), policy=STRICT)
    assert not any(b"rare" in one.request or b"rare" in one.reply for one in heard)
    told = {type(one.question) for one in heard}
    assert {HoldNames, CountNames, KeepNames} <= told
    assert OpenNames not in told


def test_without_such_a_policy_nothing_is_counted() -> None:
    heard, _ = overhear(Moments(), spread_over(1, 40))
    told = {type(one.question) for one in heard}
    assert OpenNames in told
    assert not told & {HoldNames, CountNames, KeepNames}


def test_the_strictest_policy_holds_for_all() -> None:
    data = spread_over(1, 40)
    engine = EmbeddedEngine(Moments(), data)
    for name, policy in (
        ("site-5", STRICT),
        ("site-4", Policy(single_site_classes=False, min_sites=1, min_rows=1)),
    ):
        runner = engine.runners[name]
        runner.identity = dataclasses.replace(runner.identity, policy=policy)
    model = Moments().conduct(Coordinator(engine, run=RUN, method="moments", roster=engine.roster))
    assert model.names == ("left", "right")


@pytest.mark.parametrize("classes", [None, CLASSES])
def test_training_leaves_out_the_rows_of_rare_classes(classes: tuple[str, ...] | None) -> None:
    data = spread_over(1, 40)
    method = FedAvg(n_rounds=2, classes=classes)
    found = fedgeom.run(method, data, policy=STRICT)
    wanted = FedAvg(n_rounds=2).plain([site.take(site.y != "rare") for site in data]).model
    assert found.model.to_bytes() == wanted.to_bytes()
    assert not found.lost


def test_label_propagation_takes_rare_labels_for_none() -> None:
    data = spread_over(1, 40)
    method = fedgeom.XCLP(graph="anchors", n_anchors=4, n_rounds=2, min_cell=2)
    found = fedgeom.run(method, data, policy=STRICT)
    assert found.model.classes == ("left", "right")
    assert set(found.local["site-1"]["labels"]) <= {"left", "right", ""}
    assert len(found.local["site-1"]["labels"]) == 64


def test_too_few_classes_are_said() -> None:
    data = [
        SiteData(site.name, site.X, np.where(site.y == "left", site.y, site.name)) for site in example_sites(4)
    ]
    with pytest.raises(InputError, match="4 of 5 classes are left out of every sum"):
        fedgeom.run(Moments(), data, policy=STRICT)
    engine = EmbeddedEngine(Moments(), data, policy=STRICT)  # a coordinator that cannot look at the tables first
    with pytest.raises(InputError, match="1 labels are left: policies ask for at least 3 sites and 10 rows"):
        Moments().conduct(Coordinator(engine, run=RUN, method="moments"))


def false_counts(ask: Any) -> Any:
    total = ask.result.total.numpy()
    total[total > 0] += np.uint64(20)
    return KeepNames(result=msgspec.structs.replace(ask.result, total=Array.of(total)))


@pytest.mark.parametrize(
    ("kind", "lie", "words"),
    [
        (KeepNames, false_counts, "its tag does not fit"),
        (CountNames, lambda ask: stamped(ask, lists=bytes(32)), "not those that this site knows"),
        (CountNames, lambda ask: stamped(ask, slots=512), "not those that this site knows"),
        (HoldNames, lambda ask: OpenNames(sealed=ask.sealed), "counted before they are told"),
    ],
)
def test_lies_about_the_counts_are_refused(kind: Any, lie: Any, words: str) -> None:
    assert all(words in reason for reason in refusals(Moments(), spread_over(1, 40), kind, lie, policy=STRICT))


def test_no_sum_of_a_rare_class_is_answered_whatever_the_question_says() -> None:
    (reason,) = refusals(
        Moments(), spread_over(1, 40), SumClassMoments, lambda ask: stamped(ask, classes=CLASSES), policy=STRICT
    )
    assert reason == "the question is about other classes than the sites agreed on"
