"""One run from its first question to its last: what embedded runs, deployed coordinators and previews all go through.

A session lets a method hold its conversation over an engine and writes down what comes of it: events, ledger, metrics
and model as they come, and how it ended, however it ended. With a transcript, a run that broke off can be resumed.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from fedgeom.data.kinds import Kind
from fedgeom.data.labels import LabelType
from fedgeom.errors import DecodeError, InputError, TooFewSitesError
from fedgeom.federation.coordinator import Coordinator, Engine, Event, Lost
from fedgeom.federation.messages import Buffer, Waiting, unpack
from fedgeom.federation.method import Method
from fedgeom.federation.model import finish_file
from fedgeom.federation.policy import Invitation
from fedgeom.federation.preparation import Preparation
from fedgeom.federation.record import RunRecord
from fedgeom.federation.results import written
from fedgeom.storage import open_to_append, write_file


@dataclass(frozen=True)
class ApprovalTimeout:
    """How long to wait for approvals, and how often to ask."""

    seconds: float = 0.0
    """How long a steward may take; 0: a site that is not approved at once is lost."""
    first_pause: float = 2.0
    longest_pause: float = 30.0
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep


class ApprovalRetryEngine:
    """An engine that puts an invitation again to the sites that answered that they wait for an approval."""

    def __init__(self, engine: Engine, invitations: Collection[str], patience: ApprovalTimeout | None = None):
        """Wrap an engine; ``invitations`` are the kinds of the questions to which a site may answer that it waits."""
        self._engine = engine
        self._kinds = frozenset(invitations)
        self._patience = patience or ApprovalTimeout()
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
        clock = self._patience.clock
        pause = self._patience.first_pause
        until = clock() + self._patience.seconds
        asked = dict(requests)
        details = dict[str, str]()
        stood_still = 0.0
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
            stood_still = clock()
            left = until - clock()
            if not held or left <= 0:
                break
            self._patience.sleep(min(pause, left))
            asked = held
            pause = min(1.5 * pause, self._patience.longest_pause)
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


class TranscriptLine(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One outcome: the answer, or the reason why there is none; or, with no site, that a step is over."""

    step: int
    site: str = ""
    request: bytes = b""
    """A hash of the question, which must be the same when it is replayed."""
    answer: bytes = b""
    lost: str = ""


class Transcript:
    """An engine that writes every outcome down, and first answers from what was written before."""

    def __init__(self, engine: Engine, path: str | Path):
        self._engine = engine
        self._path = Path(path)
        self._known: dict[tuple[int, str], TranscriptLine] = {}
        self._over: set[int] = set()
        for line in _read(self._path):
            if line.site:
                self._known[line.step, line.site] = line
            else:
                self._over.add(line.step)
        self._file = open_to_append(self._path)
        self._step = 0

    @property
    def names(self) -> tuple[str, ...]:
        """The sites that can be asked; once the first question is over, those that were asked it."""
        first = {site for step, site in self._known if step == 1}
        return tuple(sorted(first if 1 in self._over else {*self._engine.names, *first}))

    def deliver(self, requests: Mapping[str, bytes]) -> Iterator[tuple[str, Buffer | Lost]]:
        """Yield known outcomes, then new ones, each written down before it is used."""
        self._step += 1
        step = self._step
        new = {}
        for name, request in requests.items():
            line = self._known.get((step, name))
            if line is None:
                if step in self._over:
                    raise InputError(
                        f"the transcript {self._path} does not fit this run: {name!r} was not asked then"
                    )
                new[name] = request
            elif line.request != hashlib.sha256(request).digest():
                raise InputError(f"the transcript {self._path} belongs to a run with other settings")
            else:
                yield name, Lost(line.lost) if line.lost else line.answer
        for name, outcome in self._engine.deliver(new) if new else ():
            lost = outcome.reason or "lost" if isinstance(outcome, Lost) else ""
            self._write(
                TranscriptLine(
                    step=step,
                    site=name,
                    request=hashlib.sha256(requests[name]).digest(),
                    answer=b"" if isinstance(outcome, Lost) else bytes(outcome),
                    lost=lost,
                )
            )
            yield name, outcome
        if step not in self._over:
            self._write(TranscriptLine(step=step))

    def reopen_last_step(self, left_out: Collection[str] = ()) -> None:
        """Forget the last step in which sites were lost, and all that followed.

        For a run that ended because too few sites were left: when it is resumed, the lost ones are asked
        again, and the others' answers of that step still hold. The same goes for the sites ``left_out``, whose last
        answer came but could not be used: a wrong key can be set right. What the sites agreed to meanwhile
        they hold on to themselves, so nothing can be asked of them that a living run could not ask.
        """
        lines = list(_read(self._path))
        useless = {name: max((n.step for n in lines if n.site == name), default=0) for name in left_out}
        lost = [bool(line.lost) or useless.get(line.site) == line.step for line in lines]
        last = max((line.step for line, gone in zip(lines, lost, strict=True) if gone), default=0)
        kept = [
            line
            for line, gone in zip(lines, lost, strict=True)
            if line.step < last or (line.step == last and line.site and not gone)
        ]
        if not last:
            return
        self._file.close()
        write_file(self._path, b"".join(_framed(line) for line in kept), private=True, durable=True)

    def _write(self, line: TranscriptLine) -> None:
        self._file.write(_framed(line))


def _framed(line: TranscriptLine) -> bytes:
    body = msgspec.msgpack.encode(line)
    return len(body).to_bytes(8, "big") + body


def _read(path: Path) -> Iterator[TranscriptLine]:
    """Read what is complete; the entry that was being written when the process died is cut off."""
    if not path.exists():
        return
    data = path.read_bytes()
    at = 0
    while at + 8 <= len(data):
        size = int.from_bytes(data[at : at + 8], "big")
        if at + 8 + size > len(data):
            break
        try:
            yield msgspec.msgpack.decode(data[at + 8 : at + 8 + size], type=TranscriptLine)
        except msgspec.DecodeError as error:
            raise InputError(f"{path} is damaged at byte {at}: {error}") from error
        at += 8 + size
    if at < len(data):
        write_file(path, data[:at], private=True, durable=True)


@dataclass(frozen=True)
class Session:
    """A run that is about to be held."""

    method: Method
    run: bytes
    """The run's number, 32 bytes: it is in every message."""
    seed: int = 0
    roster: Mapping[str, bytes] | None = None
    """The identities of the sites, where the coordinator knows them."""
    record: RunRecord | None = None
    transcript: Path | None = None
    """Where answers are kept, so that a coordinator that died can go on."""
    watch: Callable[[Event], None] | None = None
    participants: tuple[str, ...] = ()
    """Everyone who may take part, which is part of the terms; if not given, all whom the engine reaches."""
    purpose: str = ""
    """What the run is for, which is part of the terms, too."""
    columns: tuple[str, ...] = ()
    """The names of the sites' columns, where whoever holds the session knows them: the model keeps them."""
    kinds: tuple[Kind, ...] = ()
    """The kinds of their numbers, likewise."""
    labels: LabelType | None = None
    """Of what type the model answers; None: nobody knows the sites' tables here, so the agreed words tell it."""
    start: Any = None
    """The model that training begins with; None: the method's own."""
    patience: ApprovalTimeout = field(default_factory=ApprovalTimeout)
    """How long to wait for the approval of the sites' stewards."""
    table: str = ""
    """Which of the sites' tables the run is about, which is part of the terms."""

    def conduct(self, engine: Engine) -> tuple[Any, Coordinator]:
        """Hold the conversation; return the model and the coordinator's view of the sites.

        The record is not closed when the run went well: what the sites themselves have may be added (`close`).
        """
        known = self.method.site.understands().values()
        invitations = [question.kind for question in known if issubclass(question, Invitation)]
        patient = ApprovalRetryEngine(engine, invitations, self.patience)
        carrier = patient if self.transcript is None else Transcript(patient, self.transcript)
        sites = Coordinator(
            carrier,
            run=self.run,
            method=self.method.name,
            seed=self.seed,
            roster=self.roster,
            participants=self.participants,
            purpose=self.purpose,
        )
        sites.columns = self.columns
        sites.start = self.start
        sites.table = self.table
        patient.listener = sites.waits
        if self.record is not None:
            sites.ledger.listeners.append(self.record.enter)
            sites.listeners.append(self.record.event)
            sites.keepers.append(lambda name, data: self._keep(name, data, sites.preparation))
            sites.reporters.append(self.record.round)
        if self.watch is not None:
            sites.listeners.append(self.watch)
        began = time.perf_counter()
        try:
            model = self.method.conduct(sites).with_columns(self.columns, self.kinds)
            model = model.with_preparation(sites.preparation).with_labels(self.labels)
            if sites.last_step is not None:
                if self.record is not None:
                    self.record.model(model.to_bytes())  # whatever becomes of the test
                sites.last_step(model)
            sites.metrics["seconds"] = round(time.perf_counter() - began, 3)
            if patient.waited:
                sites.metrics["seconds_waited"] = round(patient.waited, 3)  # they are among the seconds
            self._write_down(model, sites)
        except BaseException as error:
            if self.record is not None:
                self.record.warnings(sites.warnings)
            if sites.warnings and isinstance(error, Exception):
                error.add_note(written(sites.warnings))
            self.break_off(error)
            if isinstance(error, TooFewSitesError) and isinstance(carrier, Transcript):
                # Whoever resumes the run does so because the lost sites are back.
                carrier.reopen_last_step(sites.left_out)
            raise
        return model, sites

    def _keep(self, name: str, data: bytes, preparation: Preparation | None) -> None:
        """Keep a model on the way to the last one, with the names of its columns and what prepares raw rows."""
        if self.record is None:
            return
        file = finish_file(
            data,
            self.method.model_type,
            columns=self.columns,
            kinds=self.kinds,
            preparation=preparation,
            labels=self.labels,
        )
        self.record.keep(name, file)

    def _write_down(self, model: Any, sites: Coordinator) -> None:
        if self.record is not None:
            self.record.model(model.to_bytes())
            for name, value in sites.metrics.items():
                self.record.metric(name, value)
            self.record.artifacts(sites.artifacts)
            self.record.warnings(sites.warnings)

    def break_off(self, error: BaseException) -> None:
        """Write down that the run ended badly, and why."""
        if self.record is None:
            return
        if isinstance(error, Exception):
            self.record.finish("failed", str(error))
        else:  # Ctrl-C, or a service manager's SIGTERM
            self.record.finish("interrupted", "stopped by the user")

    def close(self) -> None:
        """Write down that the run is finished."""
        if self.record is not None:
            self.record.finish()
