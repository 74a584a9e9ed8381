"""The coordinator's view of the sites: ask a question, get the answers that came."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, Protocol, TypeVar

import numpy.typing as npt

from fedgeom.errors import DecodeError, TooFewSitesError, printable
from fedgeom.federation.ledger import Ledger, LedgerEntry
from fedgeom.federation.messages import Buffer, Message, Question, Refusal, pack, read_answer, unpack
from fedgeom.federation.results import ABSENT, RunWarning, away_for_a_while, lost_sites

A = TypeVar("A", bound=Message)


@dataclass(frozen=True)
class Lost:
    """Why no answer came from a site."""

    reason: str


class Engine(Protocol):
    """Carries questions to sites and answers back; knows nothing else."""

    @property
    def names(self) -> tuple[str, ...]:
        """The sites that can be asked."""

    def deliver(self, requests: Mapping[str, bytes]) -> Iterator[tuple[str, Buffer | Lost]]:
        """Yield each asked site's answer, or why there is none, as they come."""


@dataclass
class Answers(Mapping[str, A], Generic[A]):
    """The answers that came, by site, and for each missing one the reason."""

    came: dict[str, A]
    missing: dict[str, str] = field(default_factory=dict)
    lost_before: dict[str, str] = field(default_factory=dict)
    """Who was not even asked, being lost before; their loss may be why others refuse."""

    def __getitem__(self, site: str) -> A:
        return self.came[site]

    def __iter__(self) -> Iterator[str]:
        return iter(self.came)

    def __len__(self) -> int:
        return len(self.came)

    def need(self, min_sites: int, what: str) -> None:
        """Raise `TooFewSitesError`, naming who is missing and why, when fewer than ``min_sites`` came."""
        if len(self) < min_sites:
            lines = [f"{name}: {reason}" for name, reason in sorted(self.missing.items())]
            lines += [f"{name}, lost before: {reason}" for name, reason in sorted(self.lost_before.items())]
            reasons = "".join(f"\n  {line}" for line in lines)
            raise TooFewSitesError(f"{len(self)} sites answered {what}, {min_sites} are needed; missing:{reasons}")


@dataclass(frozen=True)
class Event:
    """What a progress display may want to know."""

    step: int
    kind: str
    site: str
    state: str
    """joined, asked, answered, waiting (for its steward's approval) or lost; "figures" where a round's are known, which
    are no site's"""
    detail: str = ""


class Coordinator:
    """All sites of a run. Every answer is entered into the ledger before a method sees it."""

    masked: ClassVar[bool] = True
    """Whether sites hide what they add to sums; False in plain runs alone (`fedgeom.federation.plain`)."""

    def __init__(
        self,
        engine: Engine,
        *,
        run: bytes,
        method: str,
        seed: int = 0,
        ledger: Ledger | None = None,
        roster: Mapping[str, bytes] | None = None,
        participants: Iterable[str] = (),
        purpose: str = "",
    ):
        self.roster = roster
        """The identities of the sites, where the coordinator knows them."""
        self._participants = tuple(sorted(participants))
        self._engine = engine
        self.purpose = purpose
        """What the run is for, in its author's words: sites are told it with the terms."""
        self.run = run
        self.method = method
        self.seed = seed
        self.ledger = ledger if ledger is not None else Ledger()
        self.listeners: list[Callable[[Event], None]] = []
        self.lost: dict[str, str] = {}
        """The sites that dropped out and did not come back, and why."""
        self.left_out: set[str] = set()
        """Those of the lost that did answer, but not as was asked."""
        self._missed: dict[str, list[Event]] = {}
        self._owed: dict[str, set[str]] = {}
        self.seconds: list[tuple[str, float]] = []
        self.metrics: dict[str, Any] = {}
        """What a method wants to report about the run."""
        self.notices: list[RunWarning] = []
        """What a method wants to warn of."""
        self.columns: tuple[str, ...] = ()
        """The names of the sites' columns, where whoever holds the run knows them: warnings name them."""
        self.artifacts: dict[str, npt.NDArray[Any]] = {}
        """What a method wants to keep for pictures."""
        self.last_step: Callable[[Any], None] | None = None
        """What is still to be done with the model when the method is done."""
        self.preparation: Any = None
        """How the sites prepared their rows; None where they are taken as they are."""
        self.evaluation: Any = None
        """What the sites counted on rows kept aside, summed; None where nothing was tested."""
        self.start: Any = None
        """The model that training begins with; None: the method's own."""
        self.table = ""
        """Which of the sites' tables the run is about, a part of the terms; "": the one of sites that have one."""
        self.keepers: list[Callable[[str, bytes], None]] = []
        self.reporters: list[Callable[[Mapping[str, float]], None]] = []
        self.history: list[tuple[int, str | None, str, float]] = []
        """What is known of each round: round, site (None: all together), metric, value."""
        self._entered = 0
        self._step = 0
        self._kind = ""

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all sites, including those that were lost."""
        return self._engine.names

    @property
    def participants(self) -> tuple[str, ...]:
        """Everyone who may take part, in alphabetical order: a part of the terms, also where not all of them came."""
        return self._participants or tuple(sorted(self.names))

    @property
    def warnings(self) -> list[RunWarning]:
        """What a reader of the run must know: who was lost, and what the method warns of."""
        absent = dict.fromkeys(set(self.participants) - set(self.names), ABSENT)
        away = [away_for_a_while(name, why) for name, why in sorted(self.returned.items())]
        return [*lost_sites(absent | self.lost), *away, *self.notices]

    @property
    def returned(self) -> dict[str, str]:
        """The sites that were lost and came back, answering such questions again: what they missed, and why."""
        return {name: _in_words(missed) for name, missed in self._missed.items() if name not in self.lost}

    def waits(self, name: str, detail: str = "") -> None:
        """Tell those who listen that a site's steward has yet to approve the job."""
        self._tell(self._kind, name, "waiting", detail)

    def leave_out(self, name: str, reason: str) -> None:
        """Count a site as lost whose answer came but cannot be used, and tell those who listen."""
        self.left_out.add(name)
        self._lose(self._kind, name, reason)

    def keep(self, name: str, model: bytes) -> None:
        """Keep a model on the way, such as "rounds/0003", where the run keeps anything."""
        for keeper in self.keepers:
            keeper(name, model)

    def report(self, figures: Mapping[str, float]) -> None:
        """Tell those who watch the figures of a round over all sites, as soon as they are known; of none, nothing.

        Accuracies, whose names end so, are shown on the way; all are written down.
        """
        if figures:
            for reporter in self.reporters:
                reporter(figures)
            shown = {key: value for key, value in figures.items() if key.endswith("_accuracy")}
            detail = ", ".join(f"{key.removesuffix('_accuracy')} {value:.1%}" for key, value in shown.items())
            self._tell(self._kind, "", "figures", detail)

    def begin_rounds(self) -> None:
        """Count what leaves sites from here on as that of rounds."""
        self._entered = len(self.ledger)

    def end_round(self, number: int, sites: int, figures: Mapping[str, float]) -> None:
        """Write down what is known of a round, counted from 1: its figures, who trained, and what left each site."""
        self.report(figures)
        known = {name: value for name, value in figures.items() if name != "round"}
        sent = Counter[str]()
        for entry in self.ledger.entries[self._entered :]:
            sent[entry.site] += entry.bytes
        self._entered = len(self.ledger)
        self.history += [(number, None, name, float(value)) for name, value in known.items()]
        self.history.append((number, None, "sites", float(sites)))
        self.history += [(number, site, "bytes sent", float(count)) for site, count in sorted(sent.items())]

    def ask(
        self,
        question: Question | Mapping[str, Question],
        *,
        of: Iterable[str] | None = None,
        expect: type[A],
        take: Callable[[str, A], A] = lambda _, answer: answer,
    ) -> Answers[A]:
        """Ask the sites and wait for their answers.

        One question goes to all (or those in ``of``); a mapping gives each site its own. A site that
        fails to answer is missing from the answers, with the reason. ``take`` gets each answer as it comes and says
        what to keep of it, so that not all large ones are there at once.
        """
        asked = (
            dict.fromkeys(self.names if of is None else of, question)
            if isinstance(question, Question)
            else dict(question)
        )
        self._step += 1
        self._kind = next((one.kind for one in asked.values()), "")
        for name, one in asked.items():
            self._tell(one.kind, name, "asked")
        before = {name: reason for name, reason in self.lost.items() if name not in asked}
        answers: Answers[A] = Answers({}, lost_before=before)
        began = time.perf_counter()
        for name, outcome in self._exchange(asked, expect):
            kind = asked[name].kind
            if isinstance(outcome, Lost):
                answers.missing[name] = outcome.reason
                self._lose(kind, name, outcome.reason)
            else:
                self._welcome(kind, name)
                answers.came[name] = take(name, outcome)
                self._tell(kind, name, "answered")
            del outcome  # large ones are not kept while the next is made
        if asked:
            self.seconds.append((self._kind, time.perf_counter() - began))
        answers.came = {name: answers.came[name] for name in asked if name in answers.came}
        return answers

    def _exchange(self, asked: Mapping[str, Question], expect: type[A]) -> Iterator[tuple[str, A | Lost]]:
        """Yield what each site answers, or why it does not, as answers come."""
        packed: dict[int, bytes] = {}  # one question to a thousand sites is encoded once
        requests = {}
        for name, one in asked.items():
            if id(one) not in packed:
                packed[id(one)] = pack(self.run, self.method, one)
            requests[name] = packed[id(one)]
        for name, reply in self._engine.deliver(requests):
            size = len(requests[name])
            yield name, reply if isinstance(reply, Lost) else self._read(name, reply, size, asked[name], expect)
            del reply

    def _read(self, name: str, reply: Buffer, received: int, question: Question, expect: type[A]) -> A | Lost:
        try:
            frame = unpack(reply)
            if frame.run != self.run or frame.method != self.method:
                raise DecodeError("the answer belongs to another run")
            answer = read_answer(frame, expect)
        except DecodeError as error:
            return Lost(printable(str(error)))
        shown = answer.reveals if isinstance(answer, Refusal) else question.answer_reveals or answer.reveals
        self.ledger.add(
            LedgerEntry(
                step=self._step,
                site=name,
                kind=answer.kind,
                bytes=len(reply),
                received=received,
                reveals=shown,
            )
        )
        return Lost(printable(answer.reason)) if isinstance(answer, Refusal) else answer

    def _lose(self, kind: str, name: str, reason: str) -> None:
        self.lost[name] = reason
        self._missed.setdefault(name, []).append(Event(self._step, kind, name, "lost", reason))
        self._owed.setdefault(name, set()).add(kind)
        self._tell(kind, name, "lost", reason)

    def _welcome(self, kind: str, name: str) -> None:
        """Mark a site as returned when it answers the kinds that it missed; taking the model alone does not count."""
        owed = self._owed.get(name, set())
        owed.discard(kind)
        if not owed and name in self.lost:
            del self.lost[name]
            self.left_out.discard(name)

    def _tell(self, kind: str, site: str, state: str, detail: str = "") -> None:
        for listener in self.listeners:
            listener(Event(self._step, kind, site, state, detail))


def _in_words(missed: list[Event]) -> str:
    last = missed[-1]
    which = (
        f"{len(missed)} questions, the last of them {last.step}" if len(missed) > 1 else f"question {last.step}"
    )
    return f"{which} ({last.kind}): {last.detail}"
