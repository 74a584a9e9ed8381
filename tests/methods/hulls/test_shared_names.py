"""Hulls with shared names: every word is its class, and nobody learns which corners belong to one site."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pytest

import fedgeom
from fedgeom.data.sites import SiteData
from fedgeom.errors import InputError
from fedgeom.federation.policy import Policy
from fedgeom.methods.hulls.encoding import HullPlan, decode_hulls
from fedgeom.methods.hulls.messages import EncodeCorners, TakeHullModel
from fedgeom.protocols.names import OpenNames, SealNames
from tests.methods.coordinators import hold, kill, overhear, refusals, stamped
from tests.methods.hulls.drawing import blobs
from tests.methods.hulls.pooled import pooled
from tests.methods.hulls.test_numbers import donors
from tests.methods.laws import assert_model_files_are_the_sites_own, assert_run_is

SHARED = fedgeom.Hulls(names="shared", epsilon=0.05)
replace = msgspec.structs.replace


def test_a_run_is_what_all_hulls_in_one_place_give_and_speaks_in_words() -> None:
    sites = donors("abc", "bcd", "ad", "d")
    run = assert_run_is(pooled, SHARED, sites)
    assert run.model.names == ("a", "b", "c", "d")
    assert run.local["s1"]["names"] == {"b": 1, "c": 2, "d": 3}
    assert not run.warnings
    for site in sites:  # also in the words of classes that the site does not have
        assert run.model.for_site(run.local[site.name]).names == run.model.names
        assert np.mean(run.model.predict(site.X) == site.y) == 1.0
    assert_model_files_are_the_sites_own(SHARED, sites)


def test_the_same_words_never_fall_into_different_classes() -> None:
    """Own names are matched by shape: two sites that mean the opposite by their words are told apart, or not."""
    rng = np.random.default_rng(0)
    sites = []
    for at in range(5):
        shift = 0.15 * at  # so that matching goes wrong
        X = np.vstack([rng.normal((x - 0.3 + shift, 0.0), 0.03, size=(20, 2)) for x in (0.0, 0.15, 0.3)])
        sites.append(SiteData(f"s{at}", X, np.repeat(["x", "y", "z"], 20)))
    sites[4] = sites[4].take(sites[4].y == "x")
    own, shared = fedgeom.run(fedgeom.Hulls(n_classes=3), sites), fedgeom.run(SHARED, sites)
    assert len({result["names"]["x"] for result in own.local.values()}) > 1
    assert "'x'" in own.warnings[-1].why
    assert [result["names"]["x"] for result in shared.local.values()] == [0] * 5


def test_the_coordinator_does_not_learn_which_corners_are_of_one_site() -> None:
    sites = blobs(4, 3)
    run = fedgeom.run(SHARED, [site.relabel({k: f"class {k}" for k in range(3)}) for site in sites])
    assert "owner_of_hull" not in run.artifacts
    assert run.artifacts["group_of_hull"].tolist() == [0, 1, 2]
    assert run.metrics["hulls"] == 3
    own = fedgeom.run(fedgeom.Hulls(epsilon=0.05), sites)
    assert own.metrics["hulls"] == 12
    assert sorted(set(own.artifacts["hull_bins"].tolist())) == sorted(set(run.artifacts["hull_bins"].tolist()))


def test_a_corner_of_several_sites_counts_once() -> None:
    plan = HullPlan(epsilon=0.1, radius=0.9, curvature=1.0, classes=2, blocks=3, capacity=4, h=4, shared=True)
    first, second = plan.labels.labels
    assert len(plan.labels.labels) == 2
    word = plan.code.encode([5, 7], [3 * first, first + second])
    hulls, crowded = decode_hulls(plan, word)
    assert [(hull.label, hull.bins) for hull in hulls] == [(0, (5, 7)), (1, (7,))]
    assert crowded == 0


def test_rare_words_stay_out_where_policies_say_so() -> None:
    sites = donors("abc", "abc", "abd")
    policy = Policy(single_site_classes=False, min_sites=2, min_rows=10)
    run = fedgeom.run(SHARED, sites, policy=policy)
    assert run.model.names == ("a", "b", "c")
    assert run.local["s2"]["left out"] == ["d"]
    everybody = fedgeom.run(SHARED, sites)
    assert everybody.model.names == ("a", "b", "c", "d")


def test_a_site_whose_words_are_all_rare_leaves() -> None:
    sites = donors("abc", "abc", "abc", "d")
    policy = Policy(single_site_classes=False, min_sites=2, min_rows=10)
    run = fedgeom.run(SHARED, sites, policy=policy)
    assert set(run.lost) == {"s3"}
    assert run.model.names == ("a", "b", "c")


def test_a_class_whose_sites_are_lost_is_left_out() -> None:
    sites = donors("abc", "abc", "abc", "abd")
    run = fedgeom.run(SHARED, sites, interfere=kill("s3", EncodeCorners.kind))
    assert run.model.names == ("a", "b", "c")
    assert run.local["s0"]["names"] == {"a": 0, "b": 1, "c": 2}


def test_listed_classes_save_the_exchange_of_names() -> None:
    sites = donors("abc", "abc", "ab")
    method = fedgeom.Hulls(names="shared", classes=("c", "b", "a"), epsilon=0.05)
    run = assert_run_is(pooled, method, sites)
    assert run.model.names == ("c", "b", "a")
    assert not any(entry.kind.startswith("names.") for entry in run.ledger)
    with pytest.raises(InputError, match="labels outside the agreed classes: c"):
        fedgeom.run(fedgeom.Hulls(names="shared", classes=("a", "b")), sites)


@pytest.mark.parametrize("kind", [SealNames, OpenNames])
def test_with_own_names_a_site_tells_no_word(kind: Any) -> None:
    """What a site does follows from the terms: a coordinator cannot ask for words where each site has its own."""
    sites = donors("abc", "abc", "abc")
    heard, _ = overhear(SHARED, sites)
    ask = next(one for one in heard if isinstance(one.question, kind))
    held = hold(fedgeom.Hulls(n_classes=3), sites)
    site = held.site(ask.name)
    with pytest.raises(fedgeom.FedgeomError, match="leave every site its own names; none are told"):
        site.answer(ask.question)


def test_no_rows_take_part_before_words_are_agreed_on() -> None:
    sites = donors("abc", "abc", "abc")
    heard, engine = overhear(SHARED, sites)
    encode = next(one for one in heard if isinstance(one.question, EncodeCorners))
    site = engine.runners[encode.name].restore(bytes(range(32)), None)
    with pytest.raises(fedgeom.FedgeomError, match="before"):
        site.answer(encode.question)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda ask: replace(ask, groups=(0, 1, 2)), "matches names came where the terms have shared ones"),
        (
            lambda ask: replace(
                ask,
                model=fedgeom.Hulls(n_classes=3).plain(donors("abc", "abc", "abc")).model.to_bytes(),
            ),
            "other classes than the words that the sites agreed on",
        ),
    ],
)
def test_a_result_in_other_words_is_refused(change: Any, words: str) -> None:
    (reason,) = refusals(SHARED, donors("abc", "abc", "abc"), TakeHullModel, change)
    assert words in reason


def test_a_plan_with_other_words_is_refused() -> None:
    sites = donors("abc", "abc", "abc")
    (reason,) = refusals(
        SHARED, sites, EncodeCorners, lambda ask: stamped(replace(ask, plan=replace(ask.plan, classes=4)))
    )
    assert "the plan has 4 classes; the sites agreed on 3 words" in reason
    (reason,) = refusals(
        SHARED, sites, EncodeCorners, lambda ask: stamped(replace(ask, plan=replace(ask.plan, shared=False)))
    )
    assert "shared names where the terms have own ones" in reason


def test_the_ledger_says_what_shared_names_show() -> None:
    run = fedgeom.run(SHARED, donors("abc", "abc", "abc"))
    said = {entry.kind: entry.reveals for entry in run.ledger}
    assert "hulls.encode" not in {one.kind for one in run.ledger}
    assert any("corners of each class by its name" in text for text in said.values())
    assert any("union of all sites' label names" in text for text in said.values())
