"""A site's runner answers or refuses in words, whatever comes, and tells nothing of the data."""

from __future__ import annotations

import logging
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedgeom.errors import ContractError, DecodeError
from fedgeom.federation.messages import Refusal, decode, encode, pack, pack_body, unpack
from fedgeom.federation.policy import Policy
from fedgeom.federation.results import LEAVES
from fedgeom.federation.runner import describe_failure
from tests.federation.counting import OTHER_RUN, RUN, Count, Counted, CountingSite, Number, make
from tests.tiers import examples


def refusal(reply: bytes) -> str:
    return decode(unpack(reply).body, Refusal).reason


def test_a_refusal_leaves_the_memory_as_it_was() -> None:
    _, engine = make(1)
    runner = engine.runners["s0"]
    _, first = runner.answer(pack(RUN, "counting", Count()), None)
    reply, second = runner.answer(pack(RUN, "counting", Count(add=13)), first)
    assert refusal(reply) == "thirteen is not counted"
    assert second == first


def test_data_are_not_quoted_to_the_coordinator_and_the_site_leaves(caplog: pytest.LogCaptureFixture) -> None:
    _, engine = make(1)
    runner = engine.runners["s0"]
    _, memory = runner.answer(pack(RUN, "counting", Count()), None)
    with caplog.at_level(logging.WARNING):
        reply, memory = runner.answer(pack(RUN, "counting", Count(add=66)), memory)
    assert "12345" not in refusal(reply)
    assert "12345" in caplog.text  # the steward reads it
    reply, after = runner.answer(pack(RUN, "counting", Count()), memory)
    assert "has left this run" in refusal(reply)
    assert after == memory
    assert msgspec.msgpack.decode(memory, type=Counted).total == 0


def test_memory_serves_one_run_only() -> None:
    _, engine = make(1)
    runner = engine.runners["s0"]
    _, memory = runner.answer(pack(RUN, "counting", Count()), None)
    reply, kept = runner.answer(pack(OTHER_RUN, "counting", Count()), memory)
    assert "belongs to another run" in refusal(reply)
    assert kept == memory


def test_unreadable_memory_is_refused_in_words() -> None:
    _, engine = make(1)
    for memory in (b"\xc1", b"\x80\x80", msgspec.msgpack.encode({"total": "x"}), msgspec.msgpack.encode([1])):
        reply, kept = engine.runners["s0"].answer(pack(RUN, "counting", Count()), memory)
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
    reply, kept = engine.runners["s0"].answer(request_bytes, None)
    assert reason in refusal(reply)
    assert kept == b""


def test_a_site_reads_no_more_than_its_policy_allows() -> None:
    _, engine = make(1, policy=Policy(max_message_bytes=100))
    with pytest.raises(DecodeError, match="the limit is 100"):
        engine.runners["s0"].answer(pack(RUN, "counting", Count()) + bytes(100), None)


def test_a_site_answers_only_the_methods_of_its_policy() -> None:
    sites, _ = make(1, policy=Policy(methods=("hulls",)))
    assert "does not take part" in sites.ask(Count(), expect=Number).missing["s0"]


@examples(150)
@given(st.binary(max_size=200), st.booleans())
def test_a_runner_answers_or_refuses_any_bytes(data: bytes, framed: bool) -> None:
    _, engine = make(1)
    request = pack_body(RUN, "counting", "test.count", data) if framed else data
    try:
        reply, _ = engine.runners["s0"].answer(request, None)
    except DecodeError:
        assert not framed
    else:
        assert unpack(reply).kind in ("refusal", "test.number")


def test_a_runner_restores_the_site_as_it_was() -> None:
    _, engine = make(1)
    runner = engine.runners["s0"]
    _, memory = runner.answer(pack(RUN, "counting", Count(add=5)), None)
    site = runner.restore(RUN, memory)
    assert site.memory == Counted(run=RUN, method="counting", total=5)
    assert site.method_type.name == "counting"
    assert (
        runner.restore(RUN, None).memory == runner.restore(RUN, b"").memory == Counted(run=RUN, method="counting")
    )


def test_a_run_of_one_method_is_not_answered_as_anothers() -> None:
    """Or an approved run could go on as a method that shows more, with the keys and terms of the first."""
    _, engine = make(1)
    runner = engine.runners["s0"]
    _, memory = runner.answer(pack(RUN, "counting", Count(add=5)), None)

    class Other(runner.method):  # type: ignore[misc, name-defined]
        name = "recounting"

    runner.method = Other
    reply, kept = runner.answer(pack(RUN, "recounting", Count(add=5)), memory)
    assert "this run is one of 'counting'" in refusal(reply)
    assert kept == memory


def test_data_are_read_when_a_site_is_built_and_not_before() -> None:
    _, engine = make(1)
    runner, read = engine.runners["s0"], []
    data = runner._data
    runner._data = lambda: read.append(1) or data()  # type: ignore[func-returns-value]
    with pytest.raises(DecodeError):
        runner.answer(b"no frame", None)
    assert read == []
    runner.answer(pack(RUN, "counting", Count()), None)
    assert read == [1]


def test_a_long_reason_is_cut_to_what_a_refusal_holds() -> None:
    class Verbose(CountingSite):
        def count(self, ask: Count) -> Number:
            raise DecodeError("x" * 5000)

    _, engine = make(1)
    engine.runners["s0"].site = Verbose
    reply, _ = engine.runners["s0"].answer(pack(RUN, "counting", Count()), None)
    assert refusal(reply) == "x" * 2000


@pytest.mark.parametrize(
    "error", [ValueError("row 3 is 12345"), MemoryError(), RecursionError("deep"), OSError("gone")]
)
def test_what_nobody_expected_makes_the_site_leave_and_stays_in_its_own_log(
    error: Exception, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An exception may depend on the data: asked on, a site that went on would tell them bit by bit."""

    def fail(self: Any, ask: Count) -> Number:
        raise error

    _, engine = make(1)
    monkeypatch.setattr(CountingSite, "count", fail)
    reply, kept = engine.runners["s0"].answer(pack(RUN, "counting", Count()), None)
    assert refusal(reply) == LEAVES
    assert describe_failure(error, Policy()) in caplog.text
    assert "in fail" in caplog.text  # where it was
    monkeypatch.undo()
    again, still = engine.runners["s0"].answer(pack(RUN, "counting", Count()), kept)
    assert "has left this run" in refusal(again)
    assert still == kept


def test_an_answer_that_cannot_be_written_makes_the_site_leave(monkeypatch: pytest.MonkeyPatch) -> None:
    _, engine = make(1)
    monkeypatch.setattr(CountingSite, "count", lambda self, ask: Number(value=2**70))
    assert refusal(engine.runners["s0"].answer(pack(RUN, "counting", Count()), None)[0]) == LEAVES


def test_a_mistake_in_the_methods_code_is_seen_by_who_writes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(self: Any, ask: Count) -> Number:
        raise ContractError("the handler returned an array")

    _, engine = make(1)
    monkeypatch.setattr(CountingSite, "count", wrong)
    with pytest.raises(ContractError, match="returned an array"):
        engine.runners["s0"].answer(pack(RUN, "counting", Count()), None)


def test_scratch_is_kept_while_the_runner_serves_one_run_and_not_for_another() -> None:
    _, engine = make(1)
    runner = engine.runners["s0"]
    runner.restore(RUN, None).scratch["worked out"] = 1
    assert runner.restore(RUN, None).scratch == {"worked out": 1}
    assert runner.restore(OTHER_RUN, None).scratch == {}
    assert runner.restore(RUN, None).scratch == {}
