"""Waiting for stewards: a site that waits for its steward's approval is asked again until it comes.

`PatientEngine` stands between the transcript and the engine that carries the questions. So a transcript never holds a
`Waiting`: a run that was killed while it waited, and is resumed, asks these sites again and nobody else. Each pass is a
delivery of its own, so a question's deadline does not run while a steward thinks.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass

from fedgeom.errors import DecodeError
from fedgeom.federation.conversation import Engine, Lost
from fedgeom.federation.envelopes import Buffer
from fedgeom.federation.messages import Waiting, unpack


@dataclass(frozen=True)
class Patience:
    """How long to wait for approvals, and how often to ask."""

    seconds: float = 0.0
    """How long a steward may take; 0: a site that is not approved at once is lost."""
    first_pause: float = 2.0
    longest_pause: float = 30.0
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep


class PatientEngine:
    """An engine that puts an invitation again to the sites that answered that they wait for an approval."""

    def __init__(self, engine: Engine, invitations: Collection[str], patience: Patience | None = None):
        """Wrap an engine; ``invitations`` are the kinds of the questions to which a site may answer that it waits."""
        self._engine, self._kinds, self._patience = engine, frozenset(invitations), patience or Patience()
        self.listener: Callable[[str, str], None] = lambda site, detail: None
        """Told which site waits, and what else is known, whenever that changes."""
        self.waited = 0.0
        """For how many seconds the whole run stood still for its stewards."""

    @property
    def names(self) -> tuple[str, ...]:
        """The sites that can be asked."""
        return self._engine.names

    def deliver(self, requests: Mapping[str, bytes]) -> Iterator[tuple[str, Buffer | Lost]]:
        """Yield answers as they come; those that wait are held back and asked again.

        A site that waits and cannot be reached for a while still waits: its steward may need days, and machines are
        restarted meanwhile.
        """
        clock, pause = self._patience.clock, self._patience.first_pause
        until = clock() + self._patience.seconds
        asked, details, stood_still = dict(requests), dict[str, str](), 0.0
        while True:
            held: dict[str, bytes] = {}
            for name, outcome in self._engine.deliver(asked):
                detail = self._waits(requests[name], outcome, waited=name in details)
                if detail is None:
                    yield name, outcome
                    del outcome  # a large one is not kept while the next is made
                    continue
                held[name] = requests[name]
                if details.get(name) != detail:
                    details[name] = detail
                    self.listener(name, detail)
            self.waited += clock() - stood_still if stood_still else 0.0
            stood_still, left = clock(), until - clock()
            if not held or left <= 0:
                break
            self._patience.sleep(min(pause, left))
            asked, pause = held, min(1.5 * pause, self._patience.longest_pause)
        for name in held:
            yield name, Lost(self._gave_up(details[name]))

    def _waits(self, request: bytes, outcome: Buffer | Lost, *, waited: bool) -> str | None:
        """Return what is known of a site that waits, which may be nothing (""); None when it does not wait.

        Only an invitation may be answered so: a site that has joined could otherwise hold up a run at any question.
        """
        if isinstance(outcome, Lost):
            return outcome.reason if waited else None
        try:
            waits = unpack(outcome).kind == Waiting.kind and unpack(request).kind in self._kinds
        except DecodeError:  # whoever asked says so
            return None
        return "" if waits else None

    def _gave_up(self, detail: str) -> str:
        waited = f" (waited {in_words(self._patience.seconds)})" if self._patience.seconds > 0 else ""
        return f"its steward has not approved the job{waited}" + (f"; last: {detail}" if detail else "")


def in_words(seconds: float) -> str:
    """Write a duration for people, in the largest unit of which it has two or more, or one exactly.

    >>> [in_words(seconds) for seconds in (20, 90, 3600, 7 * 86400)]
    ['20 s', '90 s', '1 h', '7 days']
    """
    for unit, size in (("days", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * size or (seconds == size and unit != "days"):
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds:.3g} s"
