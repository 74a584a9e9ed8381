"""A site: the side of the conversation that has the data.

A `Site` answers questions. Between two questions it may be another process, so all it remembers is
its ``memory``, a struct that survives as bytes. A `Host` wraps it for an engine: bytes in, bytes out.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeVar

import msgspec

from fedgeom.crypto.keys import Identity, Roster
from fedgeom.data.sites import SiteData
from fedgeom.errors import DecodeError, FedgeomError, InputError, ProtocolError
from fedgeom.federation.messages import Message, Question, Refusal, decode, pack, unpack
from fedgeom.federation.policy import Policy

log = logging.getLogger(__name__)


class Memory(msgspec.Struct, kw_only=True):
    """What a site remembers; subclasses add fields with defaults."""

    run: bytes = b""
    """The only run this memory serves."""
    left: bool = False
    """Whether the site has left the run: it answers nothing more."""


@dataclass(frozen=True)
class Badge:
    """Who a site is and whom it trusts: its identity, the pinned roster, its policy."""

    name: str
    identity: Identity
    roster: Roster
    policy: Policy


Q = TypeVar("Q", bound=Question)
S = TypeVar("S", bound="Site[Any]")
Handler = Callable[[S, Q], Message]
Mem = TypeVar("Mem", bound=Memory)


def answers(question: type[Q]) -> Callable[[Handler[S, Q]], Handler[S, Q]]:
    """Mark a method of a `Site` as the one that answers this kind of question."""

    def mark(handler: Handler[S, Q]) -> Handler[S, Q]:
        handler._answers = question  # type: ignore[attr-defined]
        return handler

    return mark


class Site(Generic[Mem]):
    """The base of all sites; a subclass marks its handlers with `answers`."""

    memory_type: ClassVar[type[Memory]] = Memory
    _handlers: ClassVar[Mapping[str, tuple[type[Question], Callable[..., Message]]]] = {}

    def __init__(self, data: SiteData, badge: Badge, run: bytes, memory: Mem):
        self.data = data
        self.badge = badge
        self.run = run
        self.memory = memory

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        handlers = dict(cls._handlers)
        for value in vars(cls).values():
            question = getattr(value, "_answers", None)
            if question is not None:
                handlers[question.kind] = (question, value)
        cls._handlers = handlers

    @classmethod
    def understands(cls) -> Mapping[str, type[Question]]:
        """Return the closed set of questions this site answers, by kind."""
        return {kind: question for kind, (question, _) in cls._handlers.items()}

    def check(self, terms: Mapping[str, Any]) -> None:
        """Raise `InputError` when the site's data cannot be used on these terms (a method's parameters)."""

    def result(self) -> dict[str, Any]:
        """Return what the site itself learnt from the run; it stays at the site."""
        return {}

    def answer(self, question: Question) -> Message:
        """Answer one question."""
        _, handler = self._handlers[question.kind]
        return handler(self, question)


class Host:
    """Answers an engine's bytes with bytes, using one site class and the site's stored memory."""

    def __init__(self, site: type[Site[Any]], method: str, badge: Badge, data: Callable[[], SiteData]):
        self.site, self.method, self.badge, self._data = site, method, badge, data

    def answer(self, request: bytes, memory: bytes | None) -> tuple[bytes, bytes]:
        """Return the answer and the memory to keep, which must be stored before the answer leaves.

        A refusal leaves the memory as it was, with one exception. When the *data* do not fit a question
        (`InputError`), the reason may quote them: it goes to the site's own log, not to the coordinator,
        and the site leaves the run, or else a coordinator could ask on until the refusals told the data.
        """
        frame = unpack(request, limit=self.badge.policy.largest_message)
        reply: Message
        try:
            site = self.wake(frame.run, memory)
            if site.memory.left:
                raise ProtocolError(f"site {self.badge.name!r} has left this run")
            question = self._read(frame.method, frame.kind, frame.body)
            reply = site.answer(question)
            kept = msgspec.msgpack.encode(site.memory)
        except InputError as error:
            log.warning("site %r leaves run %s: %s", self.badge.name, frame.run.hex()[:8], error)
            reply = Refusal(reason="the site's data do not fit this question; its own log says why")
            kept = msgspec.msgpack.encode(self.site.memory_type(run=frame.run, left=True))
        except FedgeomError as error:
            reply, kept = Refusal(reason=str(error)[:2000]), memory or b""
        return pack(frame.run, self.method, reply), kept

    def wake(self, run: bytes, memory: bytes | None) -> Site[Any]:
        """Build the site as it was after its last answer."""
        kind = self.site.memory_type
        try:
            remembered = msgspec.msgpack.decode(memory, type=kind) if memory else kind(run=run)
        except ValueError as error:
            raise ProtocolError(f"the stored memory of {self.badge.name!r} cannot be read; start anew") from error
        if remembered.run != run:
            raise ProtocolError(f"the stored memory of {self.badge.name!r} belongs to another run")
        return self.site(self._data(), self.badge, run, remembered)

    def _read(self, method: str, kind: str, body: bytes) -> Question:
        allowed = self.badge.policy.methods
        if method != self.method or (allowed and method not in allowed):
            raise ProtocolError(f"site {self.badge.name!r} does not take part in method {method!r}")
        known = self.site.understands()
        if kind not in known:
            raise DecodeError(f"method {method!r} has no question {kind!r}")
        return decode(body, known[kind])
