"""Where polls wait until there is something for them: bounded in number, in time, and to one per caller.

All of it happens in the event loop of one process: a poll that waits holds no thread, and nothing needs a lock.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterator, MutableMapping
from contextlib import contextmanager
from typing import Any, Literal

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Ending = Literal["news", "nothing", "gone"]
"""How waiting ended: there is something; time is up, or the caller asks anew; the caller has hung up."""

MOST = 2000
"""How many polls wait at the same time; whoever comes then is answered at once, as without this room."""


class Waiter:
    """One poll that waits."""

    def __init__(self) -> None:
        self._signal = asyncio.Event()
        self._sent_away = False
        self.seats: list[str] = []
        """Under whose names it was let in."""

    def wake(self) -> None:
        """Say that there is news."""
        self._signal.set()

    def send_away(self) -> None:
        """End the waiting without news: the same caller has come again."""
        self._sent_away = True
        self._signal.set()

    async def wait(self, seconds: float, receive: Receive) -> Ending:
        """Wait for news; look at the caller's line meanwhile, or a message would be handed to nobody."""
        news = asyncio.ensure_future(self._signal.wait())
        line = asyncio.ensure_future(_hung_up(receive))
        try:
            await asyncio.wait((news, line), timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            if line.done():
                return "gone"
            if not news.done() or self._sent_away:
                return "nothing"
            self._signal.clear()
            return "news"
        finally:
            for task in (news, line):
                task.cancel()
            await asyncio.gather(news, line, return_exceptions=True)


class WaitingRoom:
    """All polls that wait, by what they wait for."""

    def __init__(self, most: int = MOST):
        self._most = most
        self._callers: dict[str, Waiter] = {}
        self._topics: dict[str, set[Waiter]] = {}

    def __len__(self) -> int:
        return len(self._callers)

    @contextmanager
    def listen(self, topics: Collection[str]) -> Iterator[Waiter]:
        """Hear of news on these topics from now on."""
        waiter = Waiter()
        for topic in topics:
            self._topics.setdefault(topic, set()).add(waiter)
        try:
            yield waiter
        finally:
            for topic in topics:
                self._topics[topic].discard(waiter)
                if not self._topics[topic]:
                    del self._topics[topic]
            for caller in [caller for caller in waiter.seats if self._callers.get(caller) is waiter]:
                del self._callers[caller]

    def admit(self, caller: str, waiter: Waiter) -> bool:
        """Let a caller who has proved who he is wait; say whether there is room for him.

        Who was in already has come again, over another line: the poll from before ends.
        """
        before = self._callers.get(caller)
        if before is waiter:
            return True
        if before is not None:
            before.send_away()
        elif len(self._callers) >= self._most:
            return False
        self._callers[caller] = waiter
        waiter.seats.append(caller)
        return True

    def tell(self, topics: Collection[str]) -> None:
        """Wake whoever waits for one of these topics."""
        for topic in topics:
            for waiter in self._topics.get(topic, ()):
                waiter.wake()


async def _hung_up(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
