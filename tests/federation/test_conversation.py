"""The coordinator's view: questions out, answers in, losses named."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from fedgeom.errors import TooFewSitesError
from fedgeom.federation.coordinator import Answers, Coordinator, Event, Lost
from fedgeom.federation.messages import encode, pack, pack_body
from tests.federation.counting import OTHER_RUN, RUN, Count, Number, make


def values(answers: Answers[Number]) -> dict[str, int]:
    return {name: answer.value for name, answer in answers.items()}


def test_one_question_goes_to_all_and_memory_lasts() -> None:
    sites, engine = make()
    assert values(sites.ask(Count(), expect=Number)) == {"s0": 1, "s1": 1, "s2": 1}
    assert values(sites.ask(Count(add=4), of=["s2", "s0"], expect=Number)) == {"s2": 5, "s0": 5}
    assert all(isinstance(memory, bytes) for memory in engine.memories.values())


def test_a_mapping_gives_each_site_its_own_question() -> None:
    sites, _ = make()
    came = sites.ask({"s1": Count(add=10), "s0": Count(add=20)}, expect=Number)
    assert values(came) == {"s1": 10, "s0": 20}
    assert list(came) == ["s1", "s0"]
    assert values(sites.ask({}, expect=Number)) == {}


def test_equal_and_changing_questions_are_told_apart() -> None:
    sites, _ = make(5)
    asked = {f"s{i}": Count(add=i) for i in range(5)}
    assert values(sites.ask(asked, expect=Number)) == {f"s{i}": i for i in range(5)}


def test_lost_sites_are_recorded_with_the_reason() -> None:
    sites, _ = make(interfere=lambda name, request: "the line is dead" if name == "s1" else None)
    came = sites.ask(Count(), expect=Number)
    assert set(came) == {"s0", "s2"}
    assert came.missing == sites.lost == {"s1": "the line is dead"}
    assert sites.ledger.sites == ["s0", "s2"]


def test_a_site_that_answers_again_is_no_longer_lost_and_what_it_missed_is_said() -> None:
    down = [True, True, False]
    sites, _ = make(interfere=lambda name, request: "the line is dead" if name == "s1" and down[0] else None)
    for _ in (1, 2, 3):
        sites.ask(Count(), expect=Number)
        down.pop(0)
        down.append(False)
    assert sites.lost == {}
    assert sites.returned == {"s1": f"2 questions, the last of them 2 ({Count.kind}): the line is dead"}
    (warning,) = sites.warnings
    assert warning.site == "s1"
    assert "was away for a while, and missed 2 questions" in str(warning)
    sites.leave_out("s1", "sent no number")
    assert sites.lost == {"s1": "sent no number"}
    assert sites.returned == {}


def test_needing_more_than_came_names_the_missing_and_why() -> None:
    reasons = {"s1": "the line is dead", "s2": "on holiday"}
    sites, _ = make(interfere=lambda name, request: reasons.get(name))
    came = sites.ask(Count(), expect=Number)
    came.need(1, "the count")
    with pytest.raises(TooFewSitesError) as caught:
        came.need(2, "the count")
    text = str(caught.value)
    assert "1 sites answered the count, 2 are needed" in text
    assert "s1: the line is dead" in text
    assert "s2: on holiday" in text
    assert "s0" not in text


def test_every_answer_is_in_the_ledger_with_its_real_size() -> None:
    sites, engine = make(2)
    seen: list[int] = []
    deliver = engine.deliver

    def weigh(requests: Mapping[str, bytes]) -> Iterator[tuple[str, bytes | Lost]]:
        for name, reply in deliver(requests):
            seen.append(len(reply))
            yield name, reply

    engine.deliver = weigh  # type: ignore[method-assign]
    sites.ask(Count(), expect=Number)
    sites.ask(Count(add=13), expect=Number)
    assert [entry.bytes for entry in sites.ledger] == seen
    assert [entry.step for entry in sites.ledger] == [1, 1, 2, 2]
    assert [entry.kind for entry in sites.ledger] == ["test.number"] * 2 + ["refusal"] * 2
    assert sites.ledger.entries[0].reveals == "a number"


def test_watchers_see_questions_answers_and_losses() -> None:
    sites, _ = make(2, interfere=lambda name, request: "gone" if name == "s1" else None)
    events: list[Event] = []
    sites.listeners.append(events.append)
    sites.ask(Count(), expect=Number)
    assert [(e.site, e.state, e.detail) for e in events] == [
        ("s0", "asked", ""),
        ("s1", "asked", ""),
        ("s0", "answered", ""),
        ("s1", "lost", "gone"),
    ]


class Faulty:
    """An engine whose only site sends the given bytes."""

    names = ("s0",)

    def __init__(self, reply: bytes):
        self.reply = reply

    def deliver(self, requests: Mapping[str, bytes]) -> Iterator[tuple[str, bytes | Lost]]:
        for name in requests:
            yield name, self.reply


@pytest.mark.parametrize(
    "reply",
    [
        b"",
        b"garbage",
        pack(OTHER_RUN, "counting", Number(value=1)),
        pack(RUN, "other", Number(value=1)),
        pack(RUN, "counting", Count()),
        pack_body(RUN, "counting", "test.number", b"\xc1"),
        pack_body(RUN, "counting", "refusal", encode(Number(value=1))),
    ],
)
def test_a_bad_answer_is_a_missing_answer(reply: bytes) -> None:
    sites = Coordinator(Faulty(reply), run=RUN, method="counting")
    came = sites.ask(Count(), expect=Number)
    assert not came
    assert came.missing["s0"]


def test_a_site_whose_answer_cannot_be_used_is_lost_and_left_out() -> None:
    sites, _ = make(2)
    events: list[Event] = []
    sites.ask(Count(), expect=Number)
    sites.listeners.append(events.append)
    sites.leave_out("s1", "not a number")
    assert sites.lost == {"s1": "not a number"}
    assert sites.left_out == {"s1"}
    assert events == [Event(1, "test.count", "s1", "lost", "not a number")]


def test_a_model_on_the_way_goes_to_all_who_keep_any() -> None:
    sites, _ = make(1)
    sites.keep("rounds/0001", b"nobody listens")
    kept: list[tuple[str, bytes]] = []
    sites.keepers += [lambda *one: kept.append(one), lambda *one: kept.append(one)]
    sites.keep("rounds/0002", b"model")
    assert kept == [("rounds/0002", b"model")] * 2


def test_every_step_is_timed() -> None:
    sites, _ = make(2)
    sites.ask(Count(), expect=Number)
    sites.ask({}, expect=Number)
    assert [kind for kind, _ in sites.seconds] == ["test.count"]
    assert sites.seconds[0][1] > 0


def test_who_may_take_part_are_those_whom_the_engine_reaches_unless_said_otherwise() -> None:
    sites, engine = make()
    assert sites.participants == ("s0", "s1", "s2")
    assert Coordinator(engine, run=RUN, method="counting", participants=["z", "s0"]).participants == ("s0", "z")


def test_those_who_listen_hear_who_waits() -> None:
    sites, _ = make()
    heard: list[Event] = []
    sites.listeners.append(heard.append)
    sites.waits("s1", "away")
    assert heard == [Event(0, "", "s1", "waiting", "away")]


def test_figures_of_a_round_are_told_as_they_come_and_nothing_of_none() -> None:
    sites, _ = make(1)
    told: list[Any] = []
    sites.listeners.append(told.append)
    sites.reporters.append(told.append)
    sites.report({})
    assert told == []
    figures = {"round": 1, "joint_accuracy": 0.875, "joint_loss": 0.5, "personal_accuracy": 1.0}
    sites.report(figures)
    assert told[0] == figures
    assert (told[1].site, told[1].state, told[1].detail) == ("", "figures", "joint 87.5%, personal 100.0%")
