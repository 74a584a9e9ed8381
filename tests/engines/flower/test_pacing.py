"""The node asks again at once when its poll was held, and as rarely as Flower does it otherwise."""

from __future__ import annotations

import time

import pytest

from fedgeom.engines.flower import patches
from fedgeom.engines.flower.patches import Pace


def test_only_a_poll_that_was_held_is_followed_by_another_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr(patches.time, "sleep", slept.append)
    held = iter([True, False, True, False])
    pace = Pace(lambda: next(held))
    for seconds in (3.0, 3.0, 3.0, 0.5):
        pace.sleep(seconds)
    assert slept == [3.0, 0.5]


def test_everything_else_is_the_time_modules() -> None:
    assert Pace(lambda: True).perf_counter is time.perf_counter
    with pytest.raises(AttributeError):
        _ = Pace(lambda: True).nonsense
