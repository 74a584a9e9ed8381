"""How often Flower's loops look for something to do: often while a run goes on, rarely when nothing happens."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

AWAKE_SECONDS = 60.0
"""How long after a question a site's node asks often; then it asks as rarely as Flower does by itself."""
IDLE_SECONDS = 3.0
"""Flower's own interval."""


class Pace:
    """Stands for the time module in one of Flower's loops: quick while a run goes on, slow when nothing happens.

    Fifty sites that ask twice a second keep a coordinator busy for nothing. A sleep shorter than ``sign`` is a sign of
    a run: Flower's node sleeps half a second while an answer is being made, and three when there is no question.
    Such a sleep is also the moment to ``look`` whether anybody still makes the answer.
    """

    def __init__(self, *, quick: float, slow: float, sign: float = 0.0, look: Callable[[], None] = lambda: None):
        self._quick, self._slow, self._sign, self._look = quick, slow, sign, look
        self.wake()

    def __getattr__(self, name: str) -> Any:
        return getattr(time, name)

    def wake(self) -> None:
        """Be quick for a while."""
        self._awake = time.monotonic() + AWAKE_SECONDS

    def sleep(self, seconds: float) -> None:
        """Sleep, but not longer than our own interval while a run goes on."""
        if seconds < self._sign:
            self.wake()
            self._look()
        awake = time.monotonic() < self._awake
        usual = self._quick if seconds >= IDLE_SECONDS else min(seconds, self._quick)
        time.sleep(usual if awake else max(seconds, self._slow))
