"""Waiting for events in tests: a test has no deadline but one that only a hang can miss."""

from __future__ import annotations

import time
from collections.abc import Callable

HANG_SECONDS = 900.0
"""Nothing that these tests wait for takes as long, on however busy a machine."""


def until(condition: Callable[[], object], pause: float = 0.02) -> None:
    """Wait until the condition holds; fail where it never does."""
    end = time.monotonic() + HANG_SECONDS
    while not condition():
        assert time.monotonic() < end, f"nothing happened within {HANG_SECONDS:g} s"
        time.sleep(pause)
