"""A run while it goes on: what was asked, who answered, who was lost; as a page and as a stream of events."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path

from fedgeom.deploy.submit import Follower
from fedgeom.federation.coordinator import Event
from fedgeom.federation.record import Status
from fedgeom.report.words import SUMS, in_words, stage_of

SHOWN = 12
"""So many of the last questions are shown."""
POLL_SECONDS = 0.5


@dataclass
class Asked:
    """One question, and how far it is."""

    step: int
    words: str
    stage: str
    asked: int = 0
    answered: set[str] = field(default_factory=set)
    lost: dict[str, str] = field(default_factory=dict)
    note: str = ""


@dataclass
class Progress:
    """How a run stands, from its events."""

    questions: list[Asked] = field(default_factory=list)
    count: int = 0

    def take(self, event: Event) -> None:
        """Note an event."""
        if event.step > self.count:
            self.count = event.step
            if event.kind not in SUMS or not self.questions:
                self.questions.append(Asked(event.step, in_words(event.kind), stage_of(event.kind)))
        if not self.questions:
            return
        last = self.questions[-1]
        if event.state == "asked":
            last.asked += event.kind not in SUMS
        elif event.state == "answered":
            last.answered.add(event.site)
        elif event.state == "lost":
            last.lost[event.site] = event.detail
        elif event.state == "waiting":
            last.note = f"waiting for approval at {event.site}"
        elif event.state == "figures":
            last.note = event.detail

    @property
    def last(self) -> list[Asked]:
        """The last questions, the newest first."""
        return self.questions[: -SHOWN - 1 : -1]


class Watcher:
    """Reads a run's events as they are written; a run that is resumed writes them anew."""

    def __init__(self, folder: Path):
        self._follower, self.progress = Follower(folder), Progress()

    def look(self) -> Progress:
        """Return how the run stands now."""
        anew, events = self._follower.new()
        if anew:
            self.progress = Progress()
        for event in events:
            self.progress.take(event)
        return self.progress


async def stream(
    folder: Path, status: Callable[[], Status], page: Callable[[Progress, Status], str], ends: tuple[str, ...]
) -> AsyncIterator[str]:
    """Yield server-sent events: the page of how the run stands whenever that changed, and "ended" in the end."""
    watcher, before = Watcher(folder), ""
    while True:
        now = await asyncio.to_thread(status)  # before the events, so that none is missed at the end
        text = page(await asyncio.to_thread(watcher.look), now)
        if text != before:
            before = text
            yield "event: progress\n" + "".join(f"data: {line}\n" for line in text.splitlines()) + "\n"
        if now.state in ends:
            yield f"event: ended\ndata: {now.state}\n\n"
            return
        await asyncio.sleep(POLL_SECONDS)
