"""An honest run, written down."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest

import fedgeom
from fedgeom.federation.messages import encode
from fedgeom.testing.rehearsal import CheckContext, Rehearsal, example_sites, refused


def test_every_exchange_can_be_played_again_and_gives_the_same_answer() -> None:
    held = Rehearsal(fedgeom.Moments(), example_sites()).conduct()
    assert held.steps == 12
    assert len(held.exchanges) == 4 * 12
    for one in held.exchanges:
        reply, memory = held.runner(one.site).answer(one.request, one.after)
        assert refused(reply) == ""
        assert memory == one.after
        assert reply == one.reply


def test_a_question_put_into_the_runs_frame_is_the_request() -> None:
    held = Rehearsal(fedgeom.Moments(), example_sites()).conduct()
    one = held.exchanges[0]
    question = held.question(one)
    assert held.request(question, encode(question)) == one.request


def test_a_refusal_has_a_reason() -> None:
    held = Rehearsal(fedgeom.Moments(), example_sites()).conduct()
    last = held.exchanges[-1]
    reply, memory = held.runner(last.site).answer(last.request, None)
    assert "before it joined" in refused(reply)
    assert memory == b""


def test_a_run_with_a_site_lost_shares_the_steps_before_and_asks_the_sites_after() -> None:
    held = Rehearsal(fedgeom.Moments(), example_sites()).conduct()
    other = held.with_site_lost("site-2", 5).conduct()
    shared = [one for one in held.exchanges if one.step < 5]
    assert other.exchanges[: len(shared)] == shared
    assert {one.site for one in other.exchanges if one.step >= 5} == {"site-1", "site-3", "site-4"}
    assert set(other.conversation.lost) == {"site-2"}
    alone = Rehearsal(fedgeom.Moments(), example_sites(), interfere=lambda name, _: lost(name)).conduct
    found: list[str] = []

    def lost(name: str) -> str | None:
        found.append(name)
        return "killed" if name == "site-2" and len(found) > 4 * 4 else None

    assert alone().model.to_bytes() == other.model.to_bytes()


def test_nothing_is_asked_again_where_nobody_is_lost() -> None:
    held = Rehearsal(fedgeom.Moments(), example_sites()).conduct()
    again = held.with_site_lost("site-1", held.steps + 1).conduct()
    assert again.exchanges == held.exchanges
    assert again.model.to_bytes() == held.model.to_bytes()


class Moody(fedgeom.Moments):
    """Asks something else each time."""

    name: ClassVar[str] = "test moody"
    seeds: ClassVar[list[int]] = []

    def conduct(self, sites: Any) -> Any:
        self.seeds.append(0)
        sites.seed = len(self.seeds)
        return super().conduct(sites)


def test_a_coordinator_that_asks_something_else_is_found() -> None:
    held = Rehearsal(Moody(), example_sites()).conduct()
    with pytest.raises(AssertionError, match=r"puts another 'join\.hello' in step 1 than before"):
        held.with_site_lost("site-1", 4).conduct()


def test_a_context_makes_its_runs_once_and_when_they_are_used() -> None:
    made: list[str] = []

    def method() -> fedgeom.Moments:
        made.append("method")
        return fedgeom.Moments()

    def sites() -> list[fedgeom.SiteData]:
        made.append("sites")
        return example_sites()

    context = CheckContext(method, sites)
    assert made == []
    assert context.run is context.run
    assert context.rehearsal is context.rehearsal
    assert context.run_with_holdout.evaluation is not None
    assert context.rehearsal_with_holdout is not context.rehearsal
    assert made == ["method", "sites"]
