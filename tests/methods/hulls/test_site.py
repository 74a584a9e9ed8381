"""The hulls' site: it looks at its data first, keeps to the terms, hides its names, and keeps its own model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np
import pytest

import fedgeom
from fedgeom import memo
from fedgeom.data.sites import SiteData
from fedgeom.engines.check import check_aligned
from fedgeom.errors import InputError, TooFewSitesError
from fedgeom.federation.messages import Array
from fedgeom.federation.policy import Policy
from fedgeom.federation.runner import LEAVES
from fedgeom.methods.catalogue import read_model
from fedgeom.methods.hulls import core
from fedgeom.methods.hulls.core import radius_of_level
from fedgeom.methods.hulls.messages import EncodeHulls, HullExtent, TakeHullModel
from fedgeom.methods.hulls.site import HullMemory, JointMap, check_disc
from fedgeom.methods.moments.model import MomentsModel
from fedgeom.protocols.join.messages import Hello
from tests.methods.coordinators import fresh, hold, lie, overhear, refusals, stamped
from tests.methods.hulls.drawing import blobs
from tests.methods.laws import assert_model_files_are_the_sites_own

replace = msgspec.structs.replace


def test_rows_must_be_points_of_the_disc() -> None:
    def disc(*rows: tuple[float, ...]) -> SiteData:
        return SiteData("s", rows, ["a"] * len(rows))

    check_disc(disc((0.5, 0.0)), 1.0, 0.5)
    check_disc(disc((1.5, 0.0)), 0.25, None)
    with pytest.raises(InputError, match=r'3 columns; the disc has 2.*Hulls\(embedding="discriminant"\)'):
        check_disc(disc((0.0, 0.0, 0.0)), 1.0, None)
    with pytest.raises(InputError, match=r"norm 1\.5"):
        check_disc(disc((1.5, 0.0)), 1.0, None)
    with pytest.raises(InputError, match=r"row 1 has norm 0\.6, outside the agreed radius 0\.5"):
        check_disc(disc((0.1, 0.0), (0.6, 0.0)), 1.0, 0.5)


@pytest.mark.parametrize("embedding", ["none", "discriminant"])
def test_each_site_has_the_model_in_its_own_words(embedding: Any) -> None:
    sites = [site.relabel({k: f"{site.name} {k}" for k in range(3)}) for site in blobs(3, 3)]
    method = fedgeom.Hulls(embedding=embedding)
    assert_model_files_are_the_sites_own(method, sites)
    held = hold(method, sites)
    for site in sites:
        own = read_model(held.site(site.name).model_file())
        assert set(own.names) == {f"{site.name} {k}" for k in range(3)}


def test_before_it_has_the_model_a_site_has_nothing() -> None:
    site = fresh(fedgeom.Hulls(), blobs(3, 2)[0])
    assert (site.result(), site.model_file()) == ({}, b"")


def test_what_a_site_learns_is_how_well_the_model_fits_its_rows() -> None:
    sites = blobs(3, 2)
    held = hold(fedgeom.Hulls(), sites)
    for site in sites:
        found = held.local()[site.name]
        own = held.model.for_site(found)
        assert found["fits"] == np.mean(own.predict(site.X) == site.y)
        assert (found["rows"], found["unknown"]) == (len(site), [])


def test_a_name_whose_hull_was_lost_is_unknown() -> None:
    sites = blobs(3, 2)
    held = hold(fedgeom.Hulls(), sites)
    site = held.site("site-1")
    site.memory.groups["0"] = -1
    assert site.result()["unknown"] == ["0"]
    assert list(site.result()["names"]) == ["1"]


def test_the_slots_of_a_sites_classes_are_shuffled_anew_in_every_run() -> None:
    seen = set()
    for _ in range(12):
        held = hold(fedgeom.Hulls(n_classes=3), blobs(3, 3, rows=5))
        memory: HullMemory = held.site("site-1").memory
        assert sorted(memory.slots.values()) == [0, 1, 2]
        seen.add(tuple(memory.slots.items()))
    assert len(seen) > 1  # equal by chance: 6^-11


@pytest.mark.parametrize("block", range(3))
def test_a_result_that_leaves_one_block_out_is_not_refused_by_its_owner(block: int) -> None:
    """A refusal that only the owner of a block gives would tell the coordinator whose it is."""

    def without(learn: TakeHullModel) -> TakeHullModel:
        return replace(learn, groups=tuple(-1 if at // 2 == block else g for at, g in enumerate(learn.groups)))

    said = lie(fedgeom.Hulls(), blobs(3, 2), TakeHullModel, without)
    assert [reason for _, reason in said] == [None] * 3


NEITHER = MomentsModel(("a",), "centroid", *(np.zeros(1),) * 4, None).to_bytes()  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda ask: replace(ask, groups=ask.groups[:-1]), "must give each of 6 slots a class or none"),
        (lambda ask: replace(ask, groups=(2, *ask.groups[1:])), "must give each of 6 slots a class or none"),
        (lambda ask: replace(ask, groups=(-2, *ask.groups[1:])), "must give each of 6 slots a class or none"),
        (lambda ask: replace(ask, model=b"\0" * 64), "the model that came cannot be used"),
        (lambda ask: replace(ask, model=NEITHER), "the model that came cannot be used"),
    ],
)
def test_a_result_that_makes_no_sense_is_refused_by_all_alike(change: Callable[[Any], Any], words: str) -> None:
    (reason,) = refusals(fedgeom.Hulls(), blobs(3, 2), TakeHullModel, change)
    assert words in reason


def test_a_coordinator_cannot_ask_for_more_sums_than_the_terms_need() -> None:
    (reason,) = refusals(
        fedgeom.Hulls(), blobs(3, 2), Hello, lambda hello: replace(hello, rounds=hello.rounds + 1)
    )
    assert "need 2 sums, not 3" in reason


FIXED = fedgeom.Hulls(epsilon=0.1, radius=0.97, capacity=60, n_classes=2, h=3)


@pytest.mark.parametrize(
    ("plan", "words"),
    [
        ({"epsilon": 0.001}, "epsilon=0.001 is asked for; the site joined on epsilon=0.1"),
        ({"radius": 0.99}, "radius=0.99"),
        ({"curvature": 2.0, "radius": 0.5}, "radius=0.5"),
        ({"curvature": 0.5}, "curvature=0.5"),
        ({"classes": 3}, "n_classes=3"),
        ({"capacity": 61}, "capacity=61"),
        ({"h": 2}, "h=2"),
        ({"blocks": 4}, "does not fit the sites that joined"),
    ],
)
def test_a_plan_that_departs_from_the_terms_is_refused(plan: dict[str, Any], words: str) -> None:
    def finer(ask: EncodeHulls) -> EncodeHulls:
        changed: EncodeHulls = stamped(ask, plan=replace(ask.plan, **plan))
        return changed

    (reason,) = refusals(FIXED, blobs(3, 2), EncodeHulls, finer)
    assert words in reason


def test_a_sum_in_another_field_than_the_plans_is_refused() -> None:
    def smaller(ask: EncodeHulls) -> EncodeHulls:
        changed: EncodeHulls = stamped(ask, ticket=replace(ask.ticket, modulus="257"))
        return changed

    (reason,) = refusals(FIXED, blobs(3, 2), EncodeHulls, smaller)
    assert "does not fit the sites that joined" in reason


def test_a_word_larger_than_the_policy_allows_is_not_made() -> None:
    method, sites = fedgeom.Hulls(radius=0.97, capacity=20_000, n_classes=2), blobs(3, 2)
    unforeseen = check_aligned(method, sites)  # where nobody looked at the policy before
    with pytest.raises(
        fedgeom.TooFewSitesError, match=r"the answer would have 960,016 bytes; .* max_message_bytes = 40,000"
    ):
        fedgeom.run(method, sites, policy=fedgeom.Policy(max_message_bytes=40_000), checked=unforeseen)


@pytest.mark.parametrize(
    "matrix",
    [
        np.zeros((3, 2)),
        np.zeros((2, 3)),
        np.zeros((2, 2), np.float32),
        np.array([[1.0, 0.0], [0.0, np.nan]]),
        np.array([[1.0, 0.0], [0.0, 1e7]]),
    ],
)
@pytest.mark.parametrize("kind", [HullExtent, EncodeHulls])
def test_a_joint_map_that_fits_no_table_is_refused(kind: type[Any], matrix: np.ndarray) -> None:
    method = fedgeom.Hulls(embedding="discriminant")
    (reason,) = refusals(method, blobs(3, 2), kind, lambda ask: stamped(ask, embedding=Array.of(matrix)))
    assert "a joint map of shape" in reason


def test_data_that_do_not_fit_the_question_are_not_quoted_to_the_coordinator() -> None:
    """One class more than the plan has: the site leaves, and only its own log has the reason."""
    sites = blobs(3, 2)
    extra = SiteData("site-1", sites[0].X, np.where(np.arange(len(sites[0])) % 5 == 0, 7, sites[0].y))

    def fewer(ask: EncodeHulls) -> EncodeHulls:
        plan = replace(ask.plan, classes=2)
        ticket = replace(ask.ticket, modulus=str(plan.code.modulus))
        changed: EncodeHulls = stamped(ask, plan=plan, ticket=ticket)
        return changed

    (reason,) = refusals(fedgeom.Hulls(), [extra, *sites[1:]], EncodeHulls, fewer, to="site-1")
    assert reason == LEAVES


def test_asked_the_same_again_a_site_sends_the_very_same_word() -> None:
    """Another mask, or other slots, under the same question would tell the difference."""
    heard, engine = overhear(FIXED, blobs(3, 2))
    words = [one for one in heard if isinstance(one.question, EncodeHulls)]
    assert len(words) == 3
    for one in words:
        again, _ = engine.runners[one.name].answer(one.request, engine.memories[one.name])
        assert again == one.reply


def test_a_joint_map_that_the_terms_do_not_have_is_refused() -> None:
    identity = Array.of(np.eye(2))
    method = fedgeom.Hulls(epsilon=0.2)
    (reason,) = refusals(method, blobs(3, 2), HullExtent, lambda ask: stamped(ask, embedding=identity))
    assert "where the terms have none" in reason


def zoomed(factor: float) -> Any:
    """Return a change of a question that enlarges its map."""
    return lambda ask: stamped(ask, embedding=Array.of(factor * ask.embedding.numpy()))


@pytest.mark.parametrize("factor", [0.99, 1.01, 3.0])
@pytest.mark.parametrize("kind", [HullExtent, EncodeHulls])
def test_a_joint_map_that_does_not_follow_from_the_sums_is_refused(kind: type[Any], factor: float) -> None:
    """Where nothing is left to agree on, the first question that has the map is the one for hulls."""
    settled = {"radius": 0.999, "capacity": 200, "n_classes": 2} if kind is EncodeHulls else {}
    method = fedgeom.Hulls(embedding="discriminant", epsilon=0.1, **settled)  # type: ignore[arg-type]
    assert refusals(method, blobs(3, 2), kind, zoomed(factor)) == {
        "the joint map that came does not follow from the sites' sums"
    }


def test_a_joint_map_comes_with_the_sums_that_it_follows_from() -> None:
    method = fedgeom.Hulls(embedding="discriminant", epsilon=0.1)
    assert refusals(method, blobs(3, 2), HullExtent, lambda ask: stamped(ask, scatter=None)) == {
        "a joint map came without the sums that it follows from"
    }


def test_a_map_that_is_near_enough_is_taken_for_another_machines() -> None:
    method = fedgeom.Hulls(embedding="discriminant", epsilon=0.1)
    assert {reason for _, reason in lie(method, blobs(3, 2), HullExtent, zoomed(1 + 1e-6))} == {None}


@pytest.mark.parametrize("factor", [3.0, 4.0])
def test_a_zoom_that_would_make_every_row_a_corner_makes_the_site_leave(
    factor: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the sums were such: they are the sites' own, but one site's rows may be unlike all others'."""
    monkeypatch.setattr(JointMap, "_check_map", lambda self, P, scatter: None)
    (reason,) = refusals(fedgeom.Hulls(embedding="discriminant"), blobs(3, 2), HullExtent, zoomed(factor))
    assert reason == LEAVES


LYING_PLANS: dict[str, tuple[dict[str, Any], str]] = {
    "a larger h": ({"h": 7}, "does not fit the sites"),
    "a smaller h": ({"h": 1}, "does not fit the sites"),
    "a radius between levels": ({"radius": 0.9}, "none of the levels"),
    "a capacity between levels": ({"capacity": 10**6 + 1}, "none of the levels"),
    "more sites": ({"blocks": 4}, "does not fit the sites"),
    "more classes than sites agree on": ({"classes": 4096}, "sites agree on 256 at most"),
    "more bins than was agreed on": ({"radius": radius_of_level(640, c=1.0)}, "does not fit the sites"),
}


@pytest.mark.parametrize("case", LYING_PLANS)
def test_a_plan_that_does_not_follow_from_the_terms_and_the_agreed_levels_is_refused(case: str) -> None:
    changes, words = LYING_PLANS[case]

    def change(ask: EncodeHulls) -> EncodeHulls:
        return stamped(ask, plan=replace(ask.plan, **changes))

    assert all(words in why for why in refusals(fedgeom.Hulls(epsilon=0.1), blobs(3, 2), EncodeHulls, change))


def test_one_run_has_one_joint_map() -> None:
    """The map of the hulls is the one by which the radius was agreed on."""

    def turned(ask: EncodeHulls) -> EncodeHulls:
        return stamped(ask, embedding=Array.of(ask.embedding.numpy()[:, ::-1].copy()))

    method = fedgeom.Hulls(epsilon=0.1, embedding="discriminant")
    assert refusals(method, blobs(3, 2), EncodeHulls, turned) == {
        "another joint map came before; one run has one map"
    }


def test_a_result_before_the_hulls_is_refused() -> None:
    method, sites = fedgeom.Hulls(epsilon=0.1), blobs(3, 2)
    model = hold(method, sites).model.to_bytes()
    said = refusals(method, sites, HullExtent, lambda ask: TakeHullModel(groups=(), model=model))
    assert said == {"a result came before the site sent its hulls"}


@pytest.mark.parametrize("settled", [False, True])
def test_too_many_corners_make_a_site_leave_before_anything_of_them_is_sent(
    settled: bool, caplog: pytest.LogCaptureFixture
) -> None:
    options: dict[str, Any] = {"radius": 0.95, "capacity": 200, "n_classes": 2} if settled else {}
    sites = blobs(3, 2)
    hold(fedgeom.Hulls(epsilon=0.1, **options), sites, policy=Policy(max_corner_share=0.9))
    with pytest.raises(TooFewSitesError, match=LEAVES):
        hold(fedgeom.Hulls(epsilon=0.1, **options), sites, policy=Policy(max_corner_share=0.02))
    assert "the policy says max_corner_share = 0.02" in caplog.text


def test_a_table_too_wide_for_a_joint_map_is_refused_before_anything_is_sent() -> None:
    sites = [
        SiteData(f"s{at}", np.random.default_rng(at).normal(size=(8, 4000)), ["a", "b"] * 4) for at in range(3)
    ]
    asked: list[Any] = []
    with pytest.raises(InputError, match=r"^a joint map of 4,000 columns needs .*take fewer columns"):
        fedgeom.run(fedgeom.Hulls(embedding="discriminant"), sites, interfere=lambda *one: asked.append(one))
    assert not asked


def test_a_site_looks_for_its_hulls_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """How far they reach, whether they show too much, and what is sent follow from the same corners."""
    looked: list[int] = []
    honest = core.trimmed_hull

    def counted(points: Any, **options: Any) -> Any:
        looked.append(len(points))
        return honest(points, **options)

    monkeypatch.setattr(core, "trimmed_hull", counted)
    memo.clear(core.class_hulls)
    sites = blobs(3, 3)
    fedgeom.run(fedgeom.Hulls(), sites, policy=Policy(max_corner_share=0.99))
    assert len(looked) == sum(len(site.classes) for site in sites)
