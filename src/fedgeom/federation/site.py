"""A site: the side of the conversation that has the data.

A `Site` answers questions. What it can do is made of *parts*, the site's halves of protocols, each with handlers and a
memory of its own, and of the method's own handlers. Between two questions a site may be another process, so all it
remembers is its ``memory``, a struct that survives as bytes. A `SiteRunner` wraps it for an engine: bytes in, bytes
out.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

import msgspec
import numpy as np

from fedgeom.arrays import Floats
from fedgeom.crypto.keys import Identity, Roster
from fedgeom.data.labels import LabelType, as_given, label_type, type_of_words
from fedgeom.data.sites import SiteData
from fedgeom.errors import ProtocolError
from fedgeom.federation.messages import Message, Question
from fedgeom.federation.model import LABELS
from fedgeom.federation.policy import Approvals, ApproveAny, Budget, NoBudget, Policy
from fedgeom.federation.preparation import Preparation
from fedgeom.federation.settings import Settings

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
    table: str = ""
    """Which of the site's tables it is about, by these terms."""


@dataclass(frozen=True)
class SiteIdentity:
    """Who a site is and whom it trusts: its signing key, the pinned roster, its policy, what its steward approved,
    and what its runs may cost of its privacy."""

    name: str
    key: Identity
    roster: Roster
    policy: Policy
    approvals: Approvals = field(default_factory=ApproveAny)
    budget: Budget = field(default_factory=NoBudget)


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

    @classmethod
    def unmasked(cls) -> type[Part[Any]]:
        """Return the part that takes this one's place in a plain run (`Site.unmasked`); the same where none hides."""
        return cls


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
    """The parts that a class adds to those of its bases; one of the same name takes the place of a base's."""
    all_parts: ClassVar[tuple[type[Part[Any]], ...]] = ()
    masked: ClassVar[bool] = True
    """Whether what leaves the site is hidden; False in plain runs alone (`unmasked`)."""
    _handlers: ClassVar[Mapping[str, Handler]] = {}
    _understood: ClassVar[Mapping[str, type[Question]]] = MappingProxyType({})
    _unmasked: ClassVar[type[Site[Any]]]

    def __init__(
        self, data: SiteData, identity: SiteIdentity, run: bytes, memory: Mem, method: type[Settings] = Settings
    ):
        self.whole = data
        self.identity = identity
        self.run = run
        self.memory = memory
        self.method_type = method
        """The method that the site serves, as it is installed here; its settings come from the run's terms."""
        self.scratch: dict[Any, Any] = {}
        """What the site may work out again at any time, from its data and memory; a runner keeps it while it lives."""
        for part in self.all_parts:
            setattr(self, part.name, part(self))

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        listed = [part for base in reversed(cls.__mro__) for part in vars(base).get("parts", ())]
        cls.all_parts = tuple({part.name: part for part in listed}.values())
        handlers: dict[str, Handler] = {}
        for part in cls.all_parts:
            handlers |= {q.kind: Handler(q, part.name, name) for name, q in _marked(part).items()}
        handlers |= {q.kind: Handler(q, "", name) for name, q in _marked(cls).items()}
        cls._handlers = handlers
        cls._understood = MappingProxyType({kind: handler.question for kind, handler in handlers.items()})

    @classmethod
    def unmasked(cls) -> type[Site[Any]]:
        """Return the class of the same sites that hide nothing, for `Method.plain`: no runner takes it."""
        if "_unmasked" not in cls.__dict__:
            parts = tuple(part.unmasked() for part in cls.all_parts)
            cls._unmasked = type(f"Unmasked{cls.__name__}", (cls,), {"parts": parts, "masked": False})
        return cls._unmasked

    @property
    def name(self) -> str:
        """The site's name."""
        return self.identity.name

    @property
    def data(self) -> SiteData:
        """The rows that the method works on: all of the site's, unless some are kept aside for testing."""
        return self.whole

    @property
    def aside(self) -> SiteData:
        """The rows that are kept aside for testing: here none."""
        return self.whole.take(np.zeros(len(self.whole), bool))

    @property
    def policy(self) -> Policy:
        """The site's own rules."""
        return self.identity.policy

    @classmethod
    def understands(cls) -> Mapping[str, type[Question]]:
        """Return the closed set of questions this site answers, by kind."""
        return cls._understood

    def check_size(self, numbers: int, each: int = 8) -> None:
        """Refuse, before it is computed, an answer of so many numbers that the site's policy forbids to send it.

        A short question must not cost a site much. So its size has to follow from the question, the terms and what all
        sites know of each other: a refusal that depended on the rows would tell of them.
        """
        size = numbers * each
        most = self.policy.max_message_bytes
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

    def examine(self, settings: Any, seed: int = 0) -> None:
        """Look at the data as a site does before it joins, and raise `InputError` when they cannot be used."""
        self.check(settings)

    def result(self) -> dict[str, Any]:
        """Return what the site itself learnt from the run; it stays at the site."""
        return {}

    def outcome(self) -> dict[str, Any]:
        """Return all that the site has in the end: what it learnt, and what came of protocols around the method."""
        return self.result()

    def model_file(self) -> bytes:
        """Return the site's own model file, which stays at the site; nothing where the method leaves none."""
        return b""

    def preparation(self) -> Preparation | None:
        """Return what took the site's raw rows to those that the method saw; None: they were taken as they are."""
        return None

    def known_scores(self) -> Floats | None:
        """Return how well the site's rows fit a model that did not learn from them (`Model.density_scores`), (rows,).

        None where the site cannot tell.
        """
        return None

    def handler(self, question: Question) -> Callable[[Any], Any]:
        """Return the method, of the site or of one of its parts, that answers a question."""
        _, part, method = self._handlers[question.kind]
        found: Callable[[Any], Any] = getattr(getattr(self, part) if part else self, method)
        return found

    def answer(self, question: Question) -> Message:
        """Answer one question."""
        reply: Message = self.handler(question)(question)
        return reply


def own_label_type(site: Site[Any]) -> LabelType:
    """Return the type of a site's labels; where it has none, what the agreed words look like."""
    if site.data.has_label.any():
        return label_type(site.data.y)
    names = getattr(site.memory, "names", None)
    terms = getattr(getattr(site.memory, "joining", None), "terms", {})
    return type_of_words(getattr(names, "agreed", ()) or terms.get("classes") or ())


def own_outcome(site: Site[Any]) -> dict[str, Any]:
    """Return what a site has in the end, its labels of the type that it gave them, and which that is unless text."""
    found = site.outcome()
    named = own_label_type(site)
    if named == "text" or not found:
        return found
    typed = {"labels": as_given(found["labels"], named).tolist()} if "labels" in found else {}
    return found | typed | {LABELS: named}
