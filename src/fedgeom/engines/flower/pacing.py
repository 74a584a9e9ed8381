"""How soon Flower's node asks again when there was no question: at once, if the coordinator held its last poll."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any


class Pace:
    """Stands for the time module in the node's loop, which sleeps 3 s whenever there is no question.

    A coordinator that holds polls has let the node wait already. One that does not, because it is Flower's own or holds
    as many as it can, is asked as rarely as Flower does it.
    """

    def __init__(self, held: Callable[[], bool]):
        self._held = held

    def __getattr__(self, name: str) -> Any:
        return getattr(time, name)

    def sleep(self, seconds: float) -> None:
        """Sleep, unless the coordinator has held the last poll."""
        if not self._held():
            time.sleep(seconds)
