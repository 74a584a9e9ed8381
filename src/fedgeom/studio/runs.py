"""Runs that the studio starts: each in a process of its own, stopped, and watched while it goes on."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import msgspec

from fedgeom.deploy.coordinator_folder import CoordinatorFolder
from fedgeom.deploy.submit import Follower, LineReader, new_job
from fedgeom.errors import FedgeomError, InputError, printable
from fedgeom.federation.coordinator import Event
from fedgeom.federation.ledger import LedgerEntry
from fedgeom.federation.plan import ANY_SHAPE
from fedgeom.federation.record import Status, read_status, write_status
from fedgeom.memo import memoize
from fedgeom.methods.catalogue import method_class
from fedgeom.protocols.plan import costs_of
from fedgeom.report.words import LEARNING, SUMS, in_words, stage_of
from fedgeom.storage import is_locked, write_json
from fedgeom.studio.places import Place

COMMAND = (sys.executable, "-c", "from fedgeom.cli import app; app()")
ENDS = ("finished", "failed", "interrupted")
MOST_LOG = 4000
"""So many characters of a log's end are shown."""
SHOWN = 12
"""So many of the last questions are shown."""
POLL_SECONDS = 0.5
FEWEST_ROUNDS = 3
"""A question that is put as often as this comes in rounds."""

_ours: dict[int, subprocess.Popen[bytes]] = {}


class Launch(msgspec.Struct, frozen=True):
    """A process that the studio started."""

    pid: int
    run: str
    """The name of the run's folder."""
    words: list[str]
    started: str = ""
    """When the system started the process (`process_start`): a number alone may be another's by now."""


def launch_run(place: Place, study: str, *, describe: bool = False) -> str:
    """Run a study here, or describe its rows, in a process of its own; return the name of its run."""
    file = place.study(study)
    launches = place.make(place.launches)
    for number in itertools.count(1):
        name = f"{study}{'-described' if describe else ''}-{number}"
        if (place.runs / name).exists():
            continue
        try:
            log = os.open(launches / f"{name}.log", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            break
        except FileExistsError:
            continue
    command = "describe" if describe else "run"
    _start(place, [command, str(file), "--into", str(place.runs / name)], log, name)
    return name


def _start(place: Place, words: Sequence[str], log: int, run: str) -> None:
    with os.fdopen(log, "wb") as out:
        process = subprocess.Popen(
            [*COMMAND, *words], stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, start_new_session=True,
            cwd=place.path, env={**os.environ, "PYTHONIOENCODING": "utf-8", "NO_COLOR": "1"},
        )  # fmt: skip
    _ours[process.pid] = process
    launch = Launch(process.pid, run, list(words), process_start(process.pid))
    write_json(place.launches / f"{run}.json", launch, private=True)


def process_start(pid: int) -> str:
    """Say when the process with a number was started; nothing where there is none, or the system does not tell.

    The system gives the number of a process that has ended to another one; the two together are never the same again.
    """
    try:
        if Path("/proc/self/stat").is_file():
            boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
            rest = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
            return "" if rest[0] in "ZX" else f"{boot} {rest[19]}"  # a zombie has ended; field 22 of proc(5)
        told = subprocess.run(
            ["ps", "-o", "lstart=", "-p", str(pid)],
            capture_output=True,
            text=True,
            env={**os.environ, "LC_ALL": "C"},
        )
        return told.stdout.strip()
    except (OSError, IndexError):
        return ""


def _launch(place: Place, run: str) -> Launch | None:
    file = place.launches / f"{run}.json"
    return msgspec.json.decode(file.read_bytes(), type=Launch) if file.is_file() else None


def is_alive(place: Place, run: str) -> bool | None:
    """Say whether the process of a run that the studio started is there; None: the studio did not start it."""
    launch = _launch(place, run)
    if launch is None:
        return None
    if launch.pid in _ours:
        _ours[launch.pid].poll()  # or one that has ended would stay as a zombie
    return bool(launch.started) and process_start(launch.pid) == launch.started


def check_ended(place: Place, run: str) -> None:
    """Refuse to move the folder of a run that goes on."""
    if run_status(place, run).state not in ENDS and (is_alive(place, run) or is_locked(place.runs / run / "lock")):
        raise InputError(f"the run {run!r} goes on; stop it first")


def run_status(place: Place, run: str) -> Status:
    """Say how a run stands; one whose process died without a word is written down as interrupted."""
    folder = place.runs / run
    status = read_status(folder)
    alive = is_alive(place, run)
    if (
        status.state in ENDS or alive is None or alive or is_locked(folder / "lock")
    ):  # conducted by another process
        return status if status.time or alive is None else Status("starting", "", "")
    status = read_status(folder)  # it may have ended meanwhile
    if status.state in ENDS:
        return status
    if not (folder / "config.json").is_file():
        return Status("failed", log_end(place, run) or "its process ended at once, without a word", "")
    said = "its process ended without a word; its log says more"
    try:
        write_status(folder, "interrupted", said)
    except OSError as error:  # such as a full disk: the page says it all the same
        return Status("interrupted", f"{said}; its record could not be written: {error.strerror}", "")
    return read_status(folder)


def log_end(place: Place, run: str) -> str:
    """Return the end of what a run's process said."""
    file = place.launches / f"{run}.log"
    if not file.is_file():
        return ""
    text = file.read_bytes()[-4 * MOST_LOG :].decode("utf-8", "replace")[-MOST_LOG:]
    return printable(text, lines=True).strip()


def stop(place: Place, run: str) -> None:
    """Ask the process of a run to end, as Ctrl-C would; its folder stays, and says so."""
    launch = _launch(place, run)
    if launch is None or not launch.started:
        return
    with contextlib.suppress(ProcessLookupError):  # it has ended meanwhile
        if sys.platform != "linux":
            if is_alive(place, run):
                os.kill(launch.pid, signal.SIGTERM)
            return
        process = os.pidfd_open(
            launch.pid
        )  # stays with the process that is looked at, whoever gets its number then
        try:
            if is_alive(place, run):
                signal.pidfd_send_signal(process, signal.SIGTERM)
        finally:
            os.close(process)


def launch_submit(place: Place, study: str) -> str:
    """Submit a study to the coordinator whose folder this is; return the name of its run."""
    job = new_job(CoordinatorFolder(place.path), place.study(study))
    log = os.open(place.make(place.launches) / f"{job.name}.log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    _start(place, ["submit", "--resume", job.name, "--folder", str(place.path)], log, job.name)
    return job.name


@dataclass
class QuestionProgress:
    """One question, and how far it is."""

    step: int
    words: str
    stage: str
    asked: int = 0
    answered: set[str] = field(default_factory=set)
    lost: dict[str, str] = field(default_factory=dict)
    note: str = ""


@dataclass
class SiteProgress:
    """How one site of a run stands."""

    state: str = "expected"
    """expected, joined, asked, answered, waiting (for approval) or lost."""
    detail: str = ""
    sent: int = 0
    """Bytes that left it."""


@dataclass(frozen=True)
class RunOutline:
    """What a run is going to ask: its kinds of questions, and how often each is put."""

    times: Mapping[str, int]

    @property
    def questions(self) -> int:
        """How many questions the plan has; a run may need fewer, or repeat some."""
        return sum(self.times.values())

    @property
    def round_kind(self) -> str:
        """The question that comes once in each round; nothing where there are no rounds."""
        own = {
            kind: times for kind, times in self.times.items() if stage_of(kind) == LEARNING and kind not in SUMS
        }
        most = max(own.values(), default=0)
        return next((kind for kind, times in own.items() if times == most >= FEWEST_ROUNDS), "")


@memoize(8)
def outline_of(file: Path, changed: float) -> RunOutline | None:
    """Return what a run is going to ask, from its configuration; None where the method is not installed here."""
    try:
        config = msgspec.json.decode(file.read_bytes())
        method = method_class(config["method"]).from_terms(config["parameters"])
        shape = replace(ANY_SHAPE, sites=tuple(sorted(config["sites"])))
        times: dict[str, int] = {}
        for one in costs_of(method, shape).exchanges:
            times[one.kind] = times.get(one.kind, 0) + one.times
        return RunOutline(times)
    except (FedgeomError, OSError, ValueError, KeyError):
        return None


@dataclass
class Progress:
    """How a run stands, from its events and its ledger."""

    outline: RunOutline | None = None
    questions: list[QuestionProgress] = field(default_factory=list)
    count: int = 0
    sites: dict[str, SiteProgress] = field(default_factory=dict)
    rounds: int = 0
    """How many rounds were begun."""
    began: float | None = None
    """When the run began, in seconds since 1970."""

    def take(self, event: Event) -> None:
        """Note an event."""
        site = self.sites.setdefault(event.site, SiteProgress()) if event.site else SiteProgress()
        if event.state != "figures":
            site.state = event.state
            site.detail = event.detail
        if event.step > self.count:
            self.count = event.step
            if event.kind not in SUMS or not self.questions:
                self.questions.append(QuestionProgress(event.step, in_words(event.kind), stage_of(event.kind)))
            if self.outline is not None and event.kind == self.outline.round_kind:
                self.rounds += 1
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
    def last(self) -> list[QuestionProgress]:
        """The last questions, the newest first."""
        return self.questions[: -SHOWN - 1 : -1]

    @property
    def stage(self) -> str:
        """What the run is doing."""
        return self.questions[-1].stage if self.questions else "Reading the tables"

    @property
    def of_rounds(self) -> int:
        """How many rounds there are at most; 0 where a run has none."""
        return self.outline.times[self.outline.round_kind] if self.outline and self.outline.round_kind else 0

    @property
    def share(self) -> float:
        """How much of the run is done, from 0 to 1, by its number of questions."""
        if self.outline is None or not self.outline.questions:
            return 0.0
        return min(self.count / self.outline.questions, 1.0)

    def elapsed(self, now: float) -> float | None:
        """Return for how many seconds the run has gone on."""
        return None if self.began is None else max(now - self.began, 0.0)

    def remaining(self, now: float) -> float | None:
        """Return about how many seconds are left; None where that cannot be said yet."""
        elapsed = self.elapsed(now)
        if elapsed is None or not 0.1 < self.share < 1.0:
            return None
        return elapsed * (1 - self.share) / self.share


class Watcher:
    """Reads a run's events, its ledger and its rounds as they are written; a run that is resumed writes them anew."""

    def __init__(self, folder: Path):
        self._folder = folder
        self._events = Follower(folder)
        self._ledger = LineReader(folder / "ledger.jsonl")
        self._rounds = LineReader(folder / "rounds.jsonl")
        self.progress = Progress()
        self.figures: list[dict[str, float]] = []
        """The figures of each round, where they are followed."""

    def look(self) -> Progress:
        """Return how the run stands now."""
        anew, events = self._events.new()
        if anew:
            self.progress = Progress()
        config = self._folder / "config.json"
        if self.progress.began is None and config.is_file():
            changed = config.stat().st_mtime
            self.progress.began = changed
            self.progress.outline = outline_of(config, changed)
        for event in events:
            self.progress.take(event)
        anew, lines = self._ledger.new()
        if anew:
            for site in self.progress.sites.values():
                site.sent = 0
        for line in lines:
            entry = msgspec.json.decode(line, type=LedgerEntry)
            self.progress.sites.setdefault(entry.site, SiteProgress()).sent += entry.bytes
        anew, lines = self._rounds.new()
        if anew:
            self.figures = []
        self.figures += [msgspec.json.decode(line, type=dict[str, float]) for line in lines]
        return self.progress


async def stream(
    folder: Path, status: Callable[[], Status], page: Callable[[Watcher, Status], str], ends: tuple[str, ...]
) -> AsyncIterator[str]:
    """Yield server-sent events: the page of how the run stands whenever that changed, and "ended" in the end."""
    watcher = Watcher(folder)
    before = ""
    while True:
        now = await asyncio.to_thread(status)  # before the events, so that none is missed at the end
        await asyncio.to_thread(watcher.look)
        text = page(watcher, now)
        if text != before:
            before = text
            yield "event: progress\n" + "".join(f"data: {line}\n" for line in text.splitlines()) + "\n"
        if now.state in ends:
            yield f"event: ended\ndata: {now.state}\n\n"
            return
        await asyncio.sleep(POLL_SECONDS)
