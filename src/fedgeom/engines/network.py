"""A simulated wide network: how long a run would take with these latencies, lines, slow sites and losses.

The bytes are those of the run, the sites' work is measured, and a clock of its own adds up what a network would make of
them. Nothing waits. A question is over when the last answer that counts is in: requests leave the coordinator one
after the other over its own line, travel, are read over the site's line, worked on, and come back the same way.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np

from fedgeom.errors import DecodeError
from fedgeom.federation.coordinator import Lost
from fedgeom.federation.messages import Buffer, unpack
from fedgeom.federation.record import SiteResult
from fedgeom.federation.settings import POSITIVE, SHARE, Between, check_fields, documented

if TYPE_CHECKING:
    from fedgeom.crypto.keys import Roster
    from fedgeom.engines.embedded import EmbeddedEngine


@documented
@dataclass(frozen=True, kw_only=True)
class SimulatedNetwork:
    """What lies between the coordinator and the sites, for `fedgeom.run(…, network=…)`: how long a run would take."""

    latency: Annotated[float, Between(0)] = 0.05
    """Seconds one way."""
    jitter: Annotated[float, Between(0)] = 0.0
    """How much latencies vary: the standard deviation of their logarithm."""
    bandwidth: Annotated[float, POSITIVE] = 20e6
    """Bits a second of a site's line, each way."""
    coordinator: Annotated[float, POSITIVE] = 1e9
    """Bits a second of the coordinator's line, each way; all sites share it."""
    overhead: Annotated[float, Between(0)] = 0.0
    """Seconds that carrying a question takes besides, such as a site's polling."""
    speed: Annotated[float, Between(0, open_low=True)] = 1.0
    """How fast a site's processor is beside this one; infinite: their work counts nothing, and a run is the same every
    time."""
    stragglers: Annotated[float, SHARE] = 0.0
    """The share of the sites that are slow, the same ones all the time."""
    slowdown: Annotated[float, Between(1)] = 10.0
    """How many times slower these are, in work and line."""
    dropouts: Annotated[float, SHARE] = 0.0
    """The chance that a site is lost at a question."""
    patience: Annotated[float, POSITIVE] | None = None
    """After so many seconds the coordinator goes on without those that have not answered; None: it waits."""
    seed: int = 0
    """Who is slow, who is lost, and how latencies vary."""

    def __post_init__(self) -> None:
        speed = self.speed
        if speed == math.inf:  # settings of a run are finite; this is none, and no steward is shown it
            object.__setattr__(self, "speed", 1.0)
        check_fields(self)
        if speed == math.inf:
            object.__setattr__(self, "speed", speed)


@dataclass(frozen=True)
class TimedQuestion:
    """One question and how long it took."""

    kind: str
    sites: int
    lost: int
    down: int
    """Bytes to all sites."""
    up: int
    """Bytes from all sites."""
    seconds: float
    slowest: str
    """The site that was waited for longest."""


@dataclass
class Timing:
    """How long a run would have taken, question by question."""

    asked: list[TimedQuestion] = field(default_factory=list)
    coordinator: float = 0.0
    """Seconds of the coordinator's own work between the questions."""

    @property
    def seconds(self) -> float:
        """How long all took."""
        return self.coordinator + sum(one.seconds for one in self.asked)

    def __repr__(self) -> str:
        sent = sum(one.up + one.down for one in self.asked)
        return f"<Timing: {self.seconds:,.1f} s, {len(self.asked)} questions, {sent:,} bytes>"


class NetworkEngine:
    """Wraps an engine and keeps the clock of a simulated network."""

    def __init__(self, inner: EmbeddedEngine, network: SimulatedNetwork):
        self._inner = inner
        self._network = network
        self.timing = Timing()
        self._rng = np.random.default_rng(network.seed)
        names = sorted(inner.names)
        slow = self._rng.permutation(len(names))[: round(network.stragglers * len(names))]
        self._slower = {
            name: network.slowdown if at in set(slow.tolist()) else 1.0 for at, name in enumerate(names)
        }
        self._since = time.process_time()

    @property
    def names(self) -> tuple[str, ...]:
        """The sites that can be asked."""
        return self._inner.names

    @property
    def roster(self) -> Roster:
        """The sites' identities."""
        return self._inner.roster

    def deliver(self, requests: Mapping[str, bytes]) -> Iterator[tuple[str, Buffer | Lost]]:
        """Yield the answers of the inner engine; those that a network would have lost, or brought too late, as lost."""
        network = self._network
        clock = _Clock(self._network, self._rng)
        self.timing.coordinator += max(time.process_time() - self._since, 0.0) if network.speed < math.inf else 0.0
        dropped = {name for name in requests if self._rng.random() < network.dropouts}
        for name in dropped:
            clock.drop(name, len(requests[name]))
        going = {name: request for name, request in requests.items() if name not in dropped}
        began = time.process_time()
        for name, reply in self._inner.deliver(going):
            work = 0.0 if network.speed == math.inf else (time.process_time() - began) / network.speed
            late = clock.answer(
                name, len(requests[name]), 0 if isinstance(reply, Lost) else len(reply), work, self._slower[name]
            )
            yield name, (Lost(f"did not answer within {network.patience:g} s") if late else reply)
            began = time.process_time()
        yield from ((name, Lost("lost on the simulated network")) for name in dropped)
        if requests:
            self.timing.asked.append(clock.asked(_kind(next(iter(requests.values()))), len(requests)))
        self._since = time.process_time()

    def close(self) -> None:
        """Close the inner engine."""
        self._inner.close()

    def results(self, run: bytes, *, models: bool) -> dict[str, SiteResult]:
        """Return what each site itself has in the end."""
        return self._inner.results(run, models=models)


class _Clock:
    """The time that one question takes; requests leave one after the other, and answers are read as they arrive."""

    def __init__(self, network: SimulatedNetwork, rng: np.random.Generator):
        self._network = network
        self._rng = rng
        self._sent = 0.0
        """When the last request has left the coordinator."""
        self._arrivals: list[tuple[float, int, str]] = []
        self._down = self._lost = 0
        self._longest = 0.0

    def _leave(self, down: int) -> float:
        self._sent += 8 * down / self._network.coordinator
        self._down += down
        return self._sent

    def _travel(self) -> float:
        network = self._network
        return (
            network.latency * float(np.exp(network.jitter * self._rng.standard_normal()))
            if network.jitter
            else network.latency
        )

    def drop(self, name: str, down: int) -> None:
        """Take note of a site that never answers: it is waited for where there is a patience."""
        self._leave(down)
        self._lost += 1
        self._longest = max(self._longest, self._network.patience or 0.0)

    def answer(self, name: str, down: int, up: int, work: float, slower: float) -> bool:
        """Take note of an answer that was ``work`` seconds in the making; say whether it comes too late."""
        network = self._network
        line = slower / network.bandwidth
        found = (
            self._leave(down) + self._travel() + 8 * down * line + work * slower + 8 * up * line + self._travel()
        )
        late = network.patience is not None and found > network.patience
        if late:
            self._lost += 1
            self._longest = max(self._longest, network.patience or 0.0)
        else:
            self._arrivals.append((found, up, name))
        return late

    def asked(self, kind: str, sites: int) -> TimedQuestion:
        """Return how long all took: answers are read over the coordinator's line in the order in which they come."""
        end = 0.0
        slowest = ""
        for at, up, name in sorted(self._arrivals):
            end = max(end, at) + 8 * up / self._network.coordinator
            slowest = name
        total = sum(up for _, up, _ in self._arrivals)
        seconds = max(end, self._longest) + self._network.overhead
        return TimedQuestion(kind, sites, self._lost, self._down, total, seconds, slowest)


def _kind(request: Any) -> str:
    try:
        return unpack(request).kind
    except DecodeError:  # a method of another package may send what it likes
        return ""
