"""Waiting for stewards: asked again until they approve, on nobody's deadline, and resumable at any moment."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

import fedgeom
from fedgeom.engines.embedded import EmbeddedEngine
from fedgeom.errors import TooFewSitesError
from fedgeom.federation.coordinator import Event, Lost
from fedgeom.federation.messages import Refusal, Waiting, pack
from fedgeom.federation.policy import JobTerms, NotApprovedError
from fedgeom.federation.session import ApprovalRetryEngine, ApprovalTimeout, Session, in_words
from fedgeom.testing.rehearsal import example_sites

RUN = bytes(32)
HELLO, OTHER = pack(RUN, "m", Refusal(reason="stands for an invitation")), pack(RUN, "m", Waiting())
WAITS, YES = pack(RUN, "m", Waiting()), pack(RUN, "m", Refusal(reason="stands for an answer"))


class Time:
    """A clock that moves only when somebody sleeps."""

    def __init__(self) -> None:
        self.now, self.pauses = 1000.0, list[float]()

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.pauses.append(seconds)

    def patience(self, seconds: float) -> ApprovalTimeout:
        return ApprovalTimeout(seconds, clock=lambda: self.now, sleep=self.sleep)


class Scripted:
    """An engine whose sites answer one thing after the other, the last one for ever."""

    def __init__(self, **answers: list[bytes | Lost]):
        self.answers, self.asked = answers, list[list[str]]()

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.answers)

    def deliver(self, requests: Mapping[str, bytes]) -> Iterator[tuple[str, bytes | Lost]]:
        self.asked.append(list(requests))
        for name in requests:
            script = self.answers[name]
            yield name, script.pop(0) if len(script) > 1 else script[0]


def patient(
    engine: Scripted, time: Time, seconds: float = 100.0
) -> tuple[ApprovalRetryEngine, list[tuple[str, str]]]:
    made, told = ApprovalRetryEngine(engine, ["refusal"], time.patience(seconds)), list[tuple[str, str]]()
    made.listener = lambda site, detail: told.append((site, detail))
    return made, told


def test_only_those_who_wait_are_asked_again_and_the_others_are_heard_at_once() -> None:
    engine, time = Scripted(a=[YES], b=[WAITS, WAITS, YES], c=[WAITS, YES]), Time()
    made, told = patient(engine, time)
    assert made.names == ("a", "b", "c")
    answers = made.deliver(dict.fromkeys("abc", HELLO))
    assert next(answers) == ("a", YES)
    assert time.pauses == []
    assert list(answers) == [("c", YES), ("b", YES)]
    assert engine.asked == [["a", "b", "c"], ["b", "c"], ["b"]]
    assert told == [("b", ""), ("c", "")]  # once each
    assert made.waited == sum(time.pauses)


def test_after_the_time_given_a_site_is_lost_in_words() -> None:
    engine, time = Scripted(a=[WAITS], b=[YES]), Time()
    made, _ = patient(engine, time, 7 * 86400.0)
    found = dict(made.deliver(dict.fromkeys("ab", HELLO)))
    assert found == {"a": Lost("its steward has not approved the job (waited 7 days)"), "b": YES}
    assert time.now == pytest.approx(1000.0 + 7 * 86400.0)
    assert time.pauses[0] == 2.0
    assert max(time.pauses) == 30.0


def test_without_patience_nobody_sleeps() -> None:
    time = Time()
    made, told = patient(Scripted(a=[WAITS]), time, 0.0)
    assert dict(made.deliver({"a": HELLO})) == {"a": Lost("its steward has not approved the job")}
    assert (time.pauses, told) == ([], [("a", "")])


def test_a_site_that_is_away_while_it_waits_still_waits() -> None:
    engine, time = Scripted(a=[WAITS, Lost("not connected"), Lost("not connected"), WAITS, YES]), Time()
    made, told = patient(engine, time)
    assert dict(made.deliver({"a": HELLO})) == {"a": YES}
    assert told == [("a", ""), ("a", "not connected"), ("a", "")]
    gone, _ = patient(Scripted(a=[WAITS, Lost("not connected")]), Time(), 20.0)
    words = "its steward has not approved the job (waited 20 s); last: not connected"
    assert dict(gone.deliver({"a": HELLO})) == {"a": Lost(words)}


def test_a_site_that_never_said_that_it_waits_is_lost_at_once() -> None:
    made, told = patient(Scripted(a=[Lost("gone")], b=[b"nonsense"]), time := Time())
    assert dict(made.deliver(dict.fromkeys("ab", HELLO))) == {"a": Lost("gone"), "b": b"nonsense"}
    assert (told, time.pauses) == ([], [])


def test_only_an_invitation_may_be_answered_so() -> None:
    """A site that has joined could otherwise hold up a run at any question."""
    made, told = patient(Scripted(a=[WAITS]), time := Time())
    assert dict(made.deliver({"a": OTHER})) == {"a": WAITS}
    assert (told, time.pauses) == ([], [])


def test_durations_in_words() -> None:
    assert [in_words(seconds) for seconds in (0.5, 120, 7200, 86400, 172800)] == [
        "0.5 s", "2 min", "2 h", "24 h", "2 days",
    ]  # fmt: skip


# --- a run ---


class Slow:
    """A steward who approves at the n-th question."""

    def __init__(self, questions: int):
        self.left = questions

    def admit(self, run: bytes, job: JobTerms) -> None:
        self.left -= 1
        if self.left > 0:
            raise NotApprovedError

    def check(self, run: bytes, method: str, approved: bytes) -> None:
        assert approved or self.left <= 0


METHOD, SITES = fedgeom.Moments(), example_sites()


def hold(questions: int, time: Time, **options: Any) -> tuple[Any, list[Event]]:
    events: list[Event] = []
    engine = options.pop("engine", None) or EmbeddedEngine(METHOD, SITES, approvals={"site-2": Slow(questions)})
    session = Session(METHOD, RUN, 3, engine.roster, watch=events.append, patience=time.patience(60.0), **options)
    return session.conduct(engine), events


def test_a_run_goes_on_when_the_last_steward_has_approved() -> None:
    (model, sites), events = hold(4, Time())
    assert model.to_bytes() == fedgeom.run(METHOD, SITES, seed=3).model.to_bytes()
    waited = [event for event in events if event.state == "waiting"]
    assert [(event.step, event.kind, event.site) for event in waited] == [(1, "join.hello", "site-2")]
    assert not any(entry.kind == Waiting.kind for entry in sites.ledger)
    assert sites.metrics["seconds_waited"] == 2.0 + 3.0 + 4.5
    assert "seconds_waited" not in fedgeom.run(METHOD, SITES, seed=3).metrics


def test_a_run_goes_on_without_a_steward_who_does_not_approve() -> None:
    (_, sites), _ = hold(10**6, Time())
    assert sites.lost == {"site-2": "its steward has not approved the job (waited 1 min)"}


def test_killed_while_waiting_and_resumed_it_yields_the_same_model(tmp_path: Path) -> None:
    class Killed(BaseException):
        pass

    class Deadly(Time):
        def sleep(self, seconds: float) -> None:
            super().sleep(seconds)
            if len(self.pauses) == 2:
                raise Killed

    engine = EmbeddedEngine(METHOD, SITES, approvals={"site-2": Slow(5)})
    transcript = tmp_path / "transcript.bin"
    with pytest.raises(Killed):
        hold(0, Deadly(), engine=engine, transcript=transcript)
    (model, _), events = hold(0, Time(), engine=engine, transcript=transcript)
    assert model.to_bytes() == fedgeom.run(METHOD, SITES, seed=3).model.to_bytes()
    assert [event.site for event in events if event.state == "waiting"] == ["site-2"]


def test_given_up_and_resumed_the_late_steward_is_asked_again(tmp_path: Path) -> None:
    """Too few sites were left; when the run is resumed the lost ones have another chance."""
    sites = SITES[:2]
    steward = Slow(10**6)
    engine = EmbeddedEngine(METHOD, sites, approvals={"site-2": steward}, policy=fedgeom.Policy(min_cohort=2))
    transcript = tmp_path / "transcript.bin"
    with pytest.raises(TooFewSitesError, match="its steward has not approved the job"):
        hold(0, Time(), engine=engine, transcript=transcript)
    steward.left = 0
    (_, found), _ = hold(0, Time(), engine=engine, transcript=transcript)
    assert not found.lost
