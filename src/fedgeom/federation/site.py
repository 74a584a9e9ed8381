"""A site: the side of the conversation that has the data.

A `Site` answers questions. What it can do is made of *parts*, the site's halves of protocols, each with handlers and a
memory of its own, and of the method's own handlers. Between two questions a site may be another process, so all it
remembers is its ``memory``, a struct that survives as bytes. A `SiteRunner` wraps it for an engine: bytes in, bytes
out.
"""

from __future__ import annotations

import logging
from abc import ABC
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

import msgspec

from fedgeom.crypto.keys import Identity, Roster
from fedgeom.data.sites import SiteData
from fedgeom.errors import ContractError, DecodeError, FedgeomError, InputError, ProtocolError
from fedgeom.federation.messages import Message, Question, Refusal, decode, pack, unpack
from fedgeom.federation.policy import Policy
from fedgeom.federation.settings import Settings

log = logging.getLogger(__name__)

LEAVES = "the site's data do not fit this question; its own log says why"
"""All that a coordinator hears of a site that leaves a run, whatever the reason."""


class Memory(msgspec.Struct, kw_only=True):
    """What a site remembers; subclasses add fields with defaults, one for each part."""

    run: bytes = b""
    """The only run this memory serves."""
    left: bool = False
    """Whether the site has left the run: it answers nothing more."""


@dataclass(frozen=True)
class SiteIdentity:
    """Who a site is and whom it trusts: its signing key, the pinned roster, its policy."""

    name: str
    key: Identity
    roster: Roster
    policy: Policy


Q = TypeVar("Q", bound=Question)
H = TypeVar("H", bound=Callable[..., Any])
Mem = TypeVar("Mem", bound=Memory)
PartMem = TypeVar("PartMem", bound=msgspec.Struct)


def answers(question: type[Q]) -> Callable[[H], H]:
    """Mark a method of a `Site` or a `Part` as the one that answers this kind of question."""

    def mark(handler: H) -> H:
        handler._answers = question  # type: ignore[attr-defined]
        return handler

    return mark


class Part(Generic[PartMem]):
    """A site's half of one protocol: its handlers, and a memory of its own inside the site's."""

    name: ClassVar[str]
    """How the part is called at the site; the field of the site's memory that is the part's has the same name."""

    def __init__(self, site: Site[Any]):
        self.site = site

    @property
    def memory(self) -> PartMem:
        """What the part remembers."""
        found: PartMem = getattr(self.site.memory, self.name)
        return found


class Handler(NamedTuple):
    """Where a question is answered: the method's name, and that of the part it belongs to ("" for the site)."""

    question: type[Question]
    part: str
    method: str


def _marked(cls: type[Any]) -> dict[str, type[Question]]:
    """Return a class's handlers by their method's name, those of all bases included."""
    found: dict[str, type[Question]] = {}
    for base in reversed(cls.__mro__):
        for name, value in vars(base).items():
            question = getattr(value, "_answers", None)
            if question is not None:
                found[name] = question
    return found


class Site(ABC, Generic[Mem]):
    """The base of all sites; a subclass names its parts and marks its own handlers with `answers`."""

    memory_type: ClassVar[type[Memory]] = Memory
    parts: ClassVar[tuple[type[Part[Any]], ...]] = ()
    """The parts that a class adds to those of its bases."""
    all_parts: ClassVar[tuple[type[Part[Any]], ...]] = ()
    _handlers: ClassVar[Mapping[str, Handler]] = {}

    def __init__(
        self, data: SiteData, identity: SiteIdentity, run: bytes, memory: Mem, method: type[Settings] = Settings
    ):
        self.data = data
        self.identity = identity
        self.run = run
        self.memory = memory
        self.method_type = method
        """The method that the site serves, as it is installed here; its settings come from the run's terms."""
        for part in self.all_parts:
            setattr(self, part.name, part(self))

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        listed = [part for base in reversed(cls.__mro__) for part in vars(base).get("parts", ())]
        cls.all_parts = tuple(dict.fromkeys(listed))
        handlers: dict[str, Handler] = {}
        for part in cls.all_parts:
            handlers |= {q.kind: Handler(q, part.name, name) for name, q in _marked(part).items()}
        handlers |= {q.kind: Handler(q, "", name) for name, q in _marked(cls).items()}
        cls._handlers = handlers

    @property
    def name(self) -> str:
        """The site's name."""
        return self.identity.name

    @property
    def policy(self) -> Policy:
        """The site's own rules."""
        return self.identity.policy

    @classmethod
    def understands(cls) -> Mapping[str, type[Question]]:
        """Return the closed set of questions this site answers, by kind."""
        return {kind: handler.question for kind, handler in cls._handlers.items()}

    def check(self, settings: Any) -> None:
        """Raise `InputError` when the site's data cannot be used with these settings of the method."""

    def result(self) -> dict[str, Any]:
        """Return what the site itself learnt from the run; it stays at the site."""
        return {}

    def model_file(self) -> bytes:
        """Return the site's own model file, which stays at the site; nothing where the method leaves none."""
        return b""

    def answer(self, question: Question) -> Message:
        """Answer one question."""
        _, part, method = self._handlers[question.kind]
        reply: Message = getattr(getattr(self, part) if part else self, method)(question)
        return reply


class SiteRunner:
    """Answers an engine's bytes with bytes, using one method's site class and the site's stored memory."""

    def __init__(
        self,
        site: type[Site[Any]],
        method: type[Any],
        identity: SiteIdentity,
        data: Callable[[], SiteData],
    ):
        self.site, self.method, self.identity, self._data = site, method, identity, data

    def answer(self, request: bytes, memory: bytes | None) -> tuple[bytes, bytes]:
        """Return the answer and the memory to keep, which must be stored before the answer leaves.

        A refusal leaves the memory as it was, with one exception. When the *data* do not fit a question
        (`InputError`), the reason may quote them: it goes to the site's own log, not to the coordinator,
        and the site leaves the run, or else a coordinator could ask on until the refusals told the data. What nobody
        expected (any other exception) may depend on the data as well, so it ends the same way.
        """
        frame = unpack(request, limit=self.identity.policy.max_message_bytes)
        try:
            site = self.restore(frame.run, memory)
            if site.memory.left:
                raise ProtocolError(f"site {self.identity.name!r} has left this run")
            question = self._read(frame.method, frame.kind, frame.body)
            reply = site.answer(question)
            return pack(frame.run, self.method.name, reply), msgspec.msgpack.encode(site.memory)
        except InputError as error:
            log.warning("site %r leaves run %s: %s", self.identity.name, frame.run.hex()[:8], error)
        except FedgeomError as error:
            return pack(frame.run, self.method.name, Refusal(reason=str(error)[:2000])), memory or b""
        except ContractError:
            raise
        except Exception as error:
            return self.stumble(frame.run, error)
        return self.leave(frame.run)

    def stumble(self, run: bytes, error: Exception) -> tuple[bytes, bytes]:
        """Leave a run over an exception that nobody expected; where it came from stands in the site's own log."""
        log.warning("site %r leaves run %s: %s", self.identity.name, run.hex()[:8], repr(error), exc_info=error)
        return self.leave(run)

    def leave(self, run: bytes) -> tuple[bytes, bytes]:
        """Return the refusal that tells nothing, and the memory of a site that has left a run for good."""
        kept = msgspec.msgpack.encode(self.site.memory_type(run=run, left=True))
        return pack(run, self.method.name, Refusal(reason=LEAVES)), kept

    def restore(self, run: bytes, memory: bytes | None) -> Site[Any]:
        """Build the site as it was after its last answer."""
        kind = self.site.memory_type
        try:
            remembered = msgspec.msgpack.decode(memory, type=kind) if memory else kind(run=run)
        except ValueError as error:
            raise ProtocolError(
                f"the stored memory of {self.identity.name!r} cannot be read; start anew"
            ) from error
        if remembered.run != run:
            raise ProtocolError(f"the stored memory of {self.identity.name!r} belongs to another run")
        return self.site(self._data(), self.identity, run, remembered, self.method)

    def _read(self, method: str, kind: str, body: bytes) -> Question:
        allowed = self.identity.policy.methods
        if method != self.method.name or (allowed and method not in allowed):
            raise ProtocolError(f"site {self.identity.name!r} does not take part in method {method!r}")
        known = self.site.understands()
        if kind not in known:
            raise DecodeError(f"method {method!r} has no question {kind!r}")
        return decode(body, known[kind])
