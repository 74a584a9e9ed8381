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
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

import msgspec

from fedgeom.crypto.keys import Identity, Roster
from fedgeom.data.sites import SiteData
from fedgeom.errors import ContractError, DecodeError, FedgeomError, InputError, ProtocolError
from fedgeom.federation.approval import (
    Approvals,
    ApproveAny,
    Invitation,
    NotApprovedError,
    RevokedError,
    hash_terms,
)
from fedgeom.federation.messages import Message, Question, Refusal, Waiting, decode, pack, unpack
from fedgeom.federation.policy import Policy
from fedgeom.federation.settings import Settings

log = logging.getLogger(__name__)

LEAVES = "the site's data do not fit this question; its own log says why"
"""All that a coordinator hears of a site that leaves a run, whatever the reason."""
WORK_SHARE = 16
"""One question may make a site take this part of its memory beside its own table, a sixteenth."""


class Memory(msgspec.Struct, kw_only=True):
    """What a site remembers; subclasses add fields with defaults, one for each part."""

    run: bytes = b""
    """The only run this memory serves."""
    method: str = ""
    """The only method it serves: a run that was approved for one is not another's."""
    left: bool = False
    """Whether the site has left the run: it answers nothing more."""
    approved: bytes = b""
    """A hash of the terms on which the run was admitted (`Approvals.admit`)."""


@dataclass(frozen=True)
class SiteIdentity:
    """Who a site is and whom it trusts: its signing key, the pinned roster, its policy, what its steward approved."""

    name: str
    key: Identity
    roster: Roster
    policy: Policy
    approvals: Approvals = field(default_factory=ApproveAny)


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

    def check_size(self, numbers: int, each: int = 8) -> None:
        """Refuse, before it is computed, an answer of so many numbers that the site's policy forbids to send it.

        A short question must not cost a site much. So its size has to follow from the question, the terms and what all
        sites know of each other: a refusal that depended on the rows would tell of them.
        """
        size, most = numbers * each, self.policy.max_message_bytes
        if size > most:
            raise ProtocolError(
                f"the answer would have {size:,} bytes; the policy of {self.name!r} has max_message_bytes = {most:,}"
            )

    def check_work(self, size: int) -> None:
        """Refuse work on so many bytes beside the site's own table, where the policy limits memory at all."""
        most = self.policy.max_memory_mb * 2**20 // WORK_SHARE
        if most and size > most:
            raise ProtocolError(
                f"the work would take {size:,} bytes; the policy of {self.name!r} has max_memory_mb = "
                f"{self.policy.max_memory_mb}, of which one question may take {most:,} bytes beside the table"
            )

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


def describe_failure(error: Exception, policy: Policy) -> str:
    """Say, for the site's own ledger and log, why there is no answer."""
    if not isinstance(error, MemoryError):
        return f"failed: {type(error).__name__}: {error}"
    limit = f"max_memory_mb = {policy.max_memory_mb} in site.toml" if policy.max_memory_mb else "this machine has"
    return f"failed: the answer takes more memory than {limit} ({error})"


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

    def answer(
        self, request: bytes, memory: bytes | None, begin: Callable[[], None] = lambda: None
    ) -> tuple[bytes, bytes]:
        """Return the answer and the memory to keep, which must be stored before the answer leaves.

        Before anything about the data is looked at, the steward must have approved the job. A refusal leaves the memory
        as it was, with two exceptions. When the *data* do not fit a question (`InputError`), the reason may quote them:
        it goes to the site's own log, not to the coordinator, and the site leaves the run, or else a coordinator could
        ask on until the refusals told the data. What nobody expected (any other exception) may depend on the data as
        well, so it ends the same way. When the steward has revoked the approval, it leaves, too.

        ``begin`` is called before the work: before the question is even decoded, but for an invitation, which is asked
        again and again while the site waits, not before it is admitted.
        """
        frame = unpack(request, limit=self.identity.policy.max_message_bytes)
        try:
            remembered = self._remembered(frame.run, memory)
            if remembered.left:
                if remembered.approved:  # kept where the approval was revoked, to say so again
                    self.identity.approvals.check(frame.run, self.method.name, remembered.approved)
                raise ProtocolError(f"site {self.identity.name!r} has left this run")
            waits = not remembered.approved and issubclass(
                self.site.understands().get(frame.kind, Question), Invitation
            )
            if not waits:
                begin()
            question = self._read(frame.method, frame.kind, frame.body)
            self._check_approval(question, remembered)
            if waits:
                begin()
            site = self._site(remembered)
            reply = site.answer(question)
            packed = pack(frame.run, self.method.name, reply)
            self._check_sent(packed)
            return packed, msgspec.msgpack.encode(site.memory)
        except NotApprovedError:
            return pack(frame.run, self.method.name, Waiting()), memory or b""
        except RevokedError as error:
            log.warning("site %r leaves run %s: %s", self.identity.name, frame.run.hex()[:8], error)
            return self.leave(frame.run, str(error), remembered.approved)
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
        why = describe_failure(error, self.identity.policy)
        log.warning("site %r leaves run %s: %s", self.identity.name, run.hex()[:8], why, exc_info=error)
        return self.leave(run)

    def leave(self, run: bytes, reason: str = "", approved: bytes = b"") -> tuple[bytes, bytes]:
        """Return the refusal, which tells nothing of the data, and the memory of a site that left a run for good."""
        kept = self.site.memory_type(run=run, method=self.method.name, left=True, approved=approved)
        return pack(run, self.method.name, Refusal(reason=reason or LEAVES)), msgspec.msgpack.encode(kept)

    def _check_sent(self, packed: bytes) -> None:
        """Refuse to send more than the policy allows: the last check, where no handler could tell beforehand.

        How long such an answer is may depend on the data, so the site leaves.
        """
        most = self.identity.policy.max_message_bytes
        if len(packed) > most:
            raise InputError(f"the answer has {len(packed):,} bytes; the policy has max_message_bytes = {most:,}")

    def restore(self, run: bytes, memory: bytes | None) -> Site[Any]:
        """Build the site as it was after its last answer."""
        return self._site(self._remembered(run, memory))

    def _check_approval(self, question: Question, memory: Memory) -> None:
        """Ask what the steward approved: a run is admitted once, on terms that stay, and may be stopped any time."""
        approvals, run = self.identity.approvals, memory.run
        if isinstance(question, Invitation):
            job = question.job(self.method.name)
            if memory.approved and memory.approved != hash_terms(job):
                raise ProtocolError("the run was announced on other terms before")
            if not memory.approved:
                approvals.admit(run, job)
                memory.approved = hash_terms(job)
                return
        approvals.check(run, self.method.name, memory.approved)

    def _remembered(self, run: bytes, memory: bytes | None) -> Memory:
        kind, method = self.site.memory_type, self.method.name
        try:
            remembered = msgspec.msgpack.decode(memory, type=kind) if memory else kind(run=run, method=method)
        except ValueError as error:
            raise ProtocolError(
                f"the stored memory of {self.identity.name!r} cannot be read; start anew"
            ) from error
        if remembered.run != run:
            raise ProtocolError(f"the stored memory of {self.identity.name!r} belongs to another run")
        if remembered.method != method:
            raise ProtocolError(
                f"this run is one of {remembered.method!r} at {self.identity.name!r}, not of {method!r}"
            )
        return remembered

    def _site(self, memory: Memory) -> Site[Any]:
        return self.site(self._data(), self.identity, memory.run, memory, self.method)

    def _read(self, method: str, kind: str, body: bytes) -> Question:
        allowed = self.identity.policy.methods
        if method != self.method.name or (allowed and method not in allowed):
            raise ProtocolError(f"site {self.identity.name!r} does not take part in method {method!r}")
        known = self.site.understands()
        if kind not in known:
            raise DecodeError(f"method {method!r} has no question {kind!r}")
        return decode(body, known[kind])
