"""The coordinator's view: questions out, answers in, losses named; hosts that refuse instead of failing."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from typing import Annotated, ClassVar

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedgeom.data.sites import SiteData
from fedgeom.engines.embedded import EmbeddedEngine
from fedgeom.errors import DecodeError, InputError, ProtocolError, TooFewSitesError
from fedgeom.federation.conversation import Answers, Event, Lost, Sites
from fedgeom.federation.messages import Message, Question, Refusal, decode, encode, pack, pack_body, unpack
from fedgeom.federation.method import Method
from fedgeom.federation.policy import Policy
from fedgeom.federation.site import Memory, Site, answers

RUN, OTHER_RUN = bytes(32), bytes(31) + b"\x01"


class Number(Message, frozen=True, kw_only=True):
    kind: ClassVar[str] = "test.number"
    reveals: ClassVar[str] = "a number"
    value: int


class Count(Question, frozen=True, kw_only=True):
    kind: ClassVar[str] = "test.count"
    answer: ClassVar[type[Message]] = Number
    add: Annotated[int, msgspec.Meta(ge=0)] = 1


class Counted(Memory, kw_only=True):
    total: int = 0


class CountingSite(Site[Counted]):
    memory_type: ClassVar[type[Memory]] = Counted

    @answers(Count)
    def count(self, ask: Count) -> Number:
        self.memory.total += ask.add
        if ask.add == 13:
            raise ProtocolError("thirteen is not counted")
        if ask.add == 66:
            raise InputError(f"the first row is {self.data.X[0].tolist()}")
        return Number(value=self.memory.total)


class Counting(Method):
    name = "counting"
    site = CountingSite


def make(n: int = 3, **options: object) -> tuple[Sites, EmbeddedEngine]:
    data = [SiteData(f"s{i}", np.full((2, 1), 12345.0 + i), np.zeros(2)) for i in range(n)]
    engine = EmbeddedEngine(Counting(), data, **options)  # type: ignore[arg-type]
    return Sites(engine, run=RUN, method="counting"), engine


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
    sites = Sites(Faulty(reply), run=RUN, method="counting")
    came = sites.ask(Count(), expect=Number)
    assert not came
    assert came.missing["s0"]


def refusal(reply: bytes) -> str:
    return decode(unpack(reply).body, Refusal).reason


def test_a_refusal_leaves_the_memory_as_it_was() -> None:
    _, engine = make(1)
    host = engine.hosts["s0"]
    _, first = host.answer(pack(RUN, "counting", Count()), None)
    reply, second = host.answer(pack(RUN, "counting", Count(add=13)), first)
    assert refusal(reply) == "thirteen is not counted"
    assert second == first


def test_data_are_not_quoted_to_the_coordinator_and_the_site_leaves(caplog: pytest.LogCaptureFixture) -> None:
    _, engine = make(1)
    host = engine.hosts["s0"]
    _, memory = host.answer(pack(RUN, "counting", Count()), None)
    with caplog.at_level(logging.WARNING):
        reply, memory = host.answer(pack(RUN, "counting", Count(add=66)), memory)
    assert "12345" not in refusal(reply)
    assert "12345" in caplog.text  # the steward reads it
    reply, after = host.answer(pack(RUN, "counting", Count()), memory)
    assert "has left this run" in refusal(reply)
    assert after == memory
    assert msgspec.msgpack.decode(memory, type=Counted).total == 0


def test_memory_serves_one_run_only() -> None:
    _, engine = make(1)
    host = engine.hosts["s0"]
    _, memory = host.answer(pack(RUN, "counting", Count()), None)
    reply, kept = host.answer(pack(OTHER_RUN, "counting", Count()), memory)
    assert "belongs to another run" in refusal(reply)
    assert kept == memory


def test_unreadable_memory_is_refused_in_words() -> None:
    _, engine = make(1)
    for memory in (b"\xc1", b"\x80\x80", msgspec.msgpack.encode({"total": "x"}), msgspec.msgpack.encode([1])):
        reply, kept = engine.hosts["s0"].answer(pack(RUN, "counting", Count()), memory)
        assert "'s0'" in refusal(reply)
        assert kept == memory


@pytest.mark.parametrize(
    ("request_bytes", "reason"),
    [
        (pack(RUN, "another", Count()), "does not take part in method 'another'"),
        (pack_body(RUN, "counting", "test.unknown", b"\x80"), "has no question 'test.unknown'"),
        (pack_body(RUN, "counting", "test.number", encode(Number(value=1))), "has no question 'test.number'"),
        (pack_body(RUN, "counting", "test.count", msgspec.msgpack.encode({"add": 1, "x": 2})), "unknown field"),
        (pack_body(RUN, "counting", "test.count", msgspec.msgpack.encode({"add": -1})), "not a valid"),
        (pack_body(RUN, "counting", "test.count", b""), "not a valid"),
    ],
)
def test_questions_that_make_no_sense_are_refused_in_words(request_bytes: bytes, reason: str) -> None:
    _, engine = make(1)
    reply, kept = engine.hosts["s0"].answer(request_bytes, None)
    assert reason in refusal(reply)
    assert kept == b""


def test_a_site_reads_no_more_than_its_policy_allows() -> None:
    _, engine = make(1, policy=Policy(largest_message=100))
    with pytest.raises(DecodeError, match="the limit is 100"):
        engine.hosts["s0"].answer(pack(RUN, "counting", Count()) + bytes(100), None)


def test_a_site_answers_only_the_methods_of_its_policy() -> None:
    sites, _ = make(1, policy=Policy(methods=("hulls",)))
    assert "does not take part" in sites.ask(Count(), expect=Number).missing["s0"]


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=200), st.booleans())
def test_a_host_answers_or_refuses_any_bytes(data: bytes, framed: bool) -> None:
    _, engine = make(1)
    request = pack_body(RUN, "counting", "test.count", data) if framed else data
    try:
        reply, _ = engine.hosts["s0"].answer(request, None)
    except DecodeError:
        assert not framed
    else:
        assert unpack(reply).kind in ("refusal", "test.number")


def test_an_oversized_or_broken_question_is_a_loss_to_the_engine() -> None:
    _, engine = make(1)
    ((name, reply),) = engine.deliver({"s0": b"garbage"})
    assert name == "s0"
    assert isinstance(reply, Lost)


def test_site_names_must_differ() -> None:
    data = [SiteData("same", np.zeros((1, 1)), np.zeros(1))] * 2
    with pytest.raises(InputError, match="more than once: same"):
        EmbeddedEngine(Counting(), data)


@pytest.mark.parametrize("change", [{"smallest_cohort": 1}, {"threshold": 0.5}, {"threshold": 1.01}])
def test_policies_that_protect_nobody_are_refused(change: dict[str, float]) -> None:
    with pytest.raises(InputError):
        Policy(**change)  # type: ignore[arg-type]
