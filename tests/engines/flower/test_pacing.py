"""Loops look as often as there is something to look for."""

from __future__ import annotations

import time

import pytest

from fedgeom.engines.flower import pacing
from fedgeom.engines.flower.pacing import Pace


@pytest.fixture
def slept(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    found: list[float] = []
    monkeypatch.setattr(pacing.time, "sleep", found.append)
    return found


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    moment = [1000.0]
    monkeypatch.setattr(pacing.time, "monotonic", lambda: moment[0])
    return moment


def test_a_loop_is_quick_while_a_run_goes_on_and_slow_otherwise(now: list[float], slept: list[float]) -> None:
    node, executor = Pace(quick=0.7, slow=3.0, sign=1.0), Pace(quick=0.7, slow=1.0)
    for pace, usual in ((node, 3.0), (executor, 0.2)):
        now[0] = 1000.0
        pace.wake()
        pace.sleep(usual)
        now[0] += pacing.AWAKE_SECONDS + 1
        pace.sleep(usual)
    assert slept == [0.7, 3.0, 0.2, 1.0]
    node.sleep(0.5)  # an answer is being made
    node.sleep(3.0)
    assert slept[-2:] == [0.5, 0.7]


def test_only_a_short_sleep_is_the_moment_to_look(slept: list[float]) -> None:
    looked: list[int] = []
    pace = Pace(quick=0.5, slow=3.0, sign=1.0, look=lambda: looked.append(len(slept)))
    for seconds in (3.0, 0.5, 1.0, 0.99):
        pace.sleep(seconds)
    assert looked == [1, 3]


def test_everything_else_is_the_time_modules() -> None:
    assert Pace(quick=1, slow=1).perf_counter is time.perf_counter
    with pytest.raises(AttributeError):
        _ = Pace(quick=1, slow=1).nonsense
