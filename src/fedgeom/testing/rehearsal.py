"""One honest run, written down question by question, to be played again with changes."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fedgeom.data.sites import SiteData
from fedgeom.engines.embedded import EmbeddedEngine, Interfere
from fedgeom.federation.coordinator import Lost, Sites
from fedgeom.federation.messages import Buffer, Frame, Question, Refusal, decode, pack_body, unpack
from fedgeom.federation.method import Method
from fedgeom.federation.policy import Policy
from fedgeom.federation.runner import SiteRunner
from fedgeom.federation.session import Session


@dataclass(frozen=True)
class Exchange:
    """One question to one site: what was asked and answered, and the site's memory before and after."""

    step: int
    site: str
    request: bytes
    reply: bytes
    before: bytes | None
    after: bytes

    @property
    def frame(self) -> Frame:
        """The question's frame."""
        return unpack(self.request)


@dataclass
class Rehearsal:
    """A run over sites in this process, with all that was said."""

    method: Method
    sites: Sequence[SiteData]
    seed: int = 0
    policy: Policy = field(default_factory=Policy)
    interfere: Interfere | None = None
    exchanges: list[Exchange] = field(default_factory=list)
    engine: EmbeddedEngine = field(init=False)
    conversation: Sites = field(init=False)
    model: Any = None
    run: bytes = field(default_factory=lambda: os.urandom(32))

    def __post_init__(self) -> None:
        self.engine = EmbeddedEngine(self.method, self.sites, policy=self.policy, interfere=self.interfere)
        self._step = 0

    def hold(self) -> Rehearsal:
        """Hold the whole conversation."""
        session = Session(self.method, self.run, self.seed, self.engine.roster)
        self.model, self.conversation = session.hold(self)
        return self

    @property
    def names(self) -> tuple[str, ...]:
        """The sites that can be asked."""
        return self.engine.names

    def deliver(self, requests: Mapping[str, bytes]) -> Iterator[tuple[str, Buffer | Lost]]:
        """Carry questions as the embedded engine does, and write all down."""
        self._step += 1
        before = {name: self.engine.memories.get(name) for name in requests}
        for name, reply in self.engine.deliver(requests):
            if isinstance(reply, bytes):
                after = self.engine.memories[name]
                self.exchanges.append(Exchange(self._step, name, requests[name], reply, before[name], after))
            yield name, reply

    @property
    def steps(self) -> int:
        """How many questions there were."""
        return self._step

    def runner(self, site: str) -> SiteRunner:
        """Return what answers for a site."""
        return self.engine.runners[site]

    def strict_runner(self, site: str) -> SiteRunner:
        """Return what answers for a site, and raises what nobody expected: there the site would leave the run."""
        own = self.engine.runners[site]
        return _StrictRunner(own.site, own.method, own.identity, own._data)

    def question(self, exchange: Exchange) -> Question:
        """Return a question as the site read it."""
        frame = exchange.frame
        return decode(frame.body, self.method.site.understands()[frame.kind])

    def request(self, question: Question, body: bytes) -> bytes:
        """Put a question's bytes into the run's frame."""
        return self.request_of(question.kind, body)

    def request_of(self, kind: str, body: bytes) -> bytes:
        """Put bytes that pass for a question of some kind into the run's frame."""
        return pack_body(self.run, self.method.name, kind, body)


class _StrictRunner(SiteRunner):
    def stumble(self, run: bytes, error: Exception) -> tuple[bytes, bytes]:
        raise error


def refused(reply: bytes) -> str:
    """Return the reason of a refusal; nothing for an answer."""
    frame = unpack(reply)
    return decode(frame.body, Refusal).reason if frame.kind == Refusal.kind else ""
