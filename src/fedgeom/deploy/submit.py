"""Submitting a job to the running coordinator, and following it until it ends."""

from __future__ import annotations

import time
import tomllib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from fedgeom.data.cells import ReadOptions
from fedgeom.deploy.config import as_toml, convert
from fedgeom.deploy.coordinator import is_running
from fedgeom.deploy.coordinator_folder import CoordinatorFolder
from fedgeom.deploy.federation_file import FederationFile, build_method
from fedgeom.deploy.jobs import Job, create_job, load_job
from fedgeom.deploy.nats_coordinator import ask_for, is_asked_for, requesting
from fedgeom.errors import InputError, printable
from fedgeom.federation.coordinator import Event
from fedgeom.federation.method import METHODS
from fedgeom.federation.record import ENDS, Status, read_status, write_status
from fedgeom.methods.catalogue import method_class
from fedgeom.storage import is_locked, to_json

POLL_SECONDS = 0.3
SILENT_SECONDS = 20.0
"""After how long without news it is looked whether anybody conducts the run."""


@dataclass
class SiteLine:
    """How one site of a run stands."""

    state: str = "expected"
    """expected, joined, answering, waiting (for approval), answered or lost."""
    kind: str = ""
    detail: str = ""


@dataclass
class Board:
    """How all sites of a run stand, from the run's events."""

    names: tuple[str, ...]
    step: int = 0
    lines: dict[str, SiteLine] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Forget everything: the run begins anew."""
        self.step = 0
        self.lines = {name: SiteLine() for name in self.names}

    def take(self, event: Event) -> None:
        """Note an event."""
        state = "answering" if event.state == "asked" else event.state
        self.step = max(self.step, event.step)
        if event.state == "figures":  # of all sites, and no site's
            return
        self.lines[event.site] = SiteLine(state, event.kind, event.detail)

    @property
    def waiting(self) -> list[str]:
        """The sites whose stewards have yet to approve the job."""
        return [name for name, line in self.lines.items() if line.state == "waiting"]


class LineReader:
    """Reads a file line by line as it is written; it may be begun anew."""

    def __init__(self, file: Path):
        self._file = file
        self._at = 0

    def new(self) -> tuple[bool, list[bytes]]:
        """Return whether the file began anew, and the complete lines since the last call."""
        if not self._file.is_file():
            return False, []
        anew = self._file.stat().st_size < self._at
        if anew:
            self._at = 0
        with self._file.open("rb") as file:
            file.seek(self._at)
            data = file.read()
        whole = data[: data.rfind(b"\n") + 1]
        self._at += len(whole)
        return anew, whole.splitlines()


class Follower:
    """Reads a run's events as they are written; a resumed run writes them anew."""

    def __init__(self, run_folder: Path):
        self._lines = LineReader(run_folder / "events.jsonl")

    def new(self) -> tuple[bool, list[Event]]:
        """Return whether the events began anew, and the complete ones since the last call."""
        anew, lines = self._lines.new()
        return anew, [msgspec.json.decode(line, type=Event) for line in lines]


def ignored_keys(file: FederationFile) -> list[str]:
    """Return what a federation file says that only `fedgeom run` uses: sites go by their own site.toml."""
    said = {
        "label": bool(file.label),
        "columns": file.columns is not None,
        "file and sites_from": bool(file.file or file.sites_from),
        "drop_unlabelled": file.drop_unlabelled,
        "shared_columns": file.shared_columns,
        "how files are read": any(getattr(file, key) for key in ReadOptions.__struct_fields__),
        "[policy]": bool(file.policy),
        "[compare]": bool(file.compare),
        "everything but the name in [[sites]]": any(
            site.label
            or site.columns is not None
            or site.drop_unlabelled
            or site.group
            or any(getattr(site, key) for key in ReadOptions.__struct_fields__)
            or (site.file and site.name)
            for site in file.sites
        ),
    }
    return [key for key, there in said.items() if there]


def rehearsed_file(run: Path) -> str:
    """Return the federation file that asks for what a finished run rehearsed: method, settings, seed, rows set aside.

    All admitted sites may take part; how the rehearsal's files were read is the sites' own affair.
    """
    file = run / "config.json"
    if not file.is_file():
        raise InputError(f"{run} holds no run; wanted the folder of a finished one, such as runs/study-1")
    config = msgspec.json.decode(file.read_bytes())
    state = read_status(run).state
    if state != "finished" or not isinstance(config, dict) or config.get("method") not in METHODS:
        raise InputError(
            f"the run in {run} is {state or 'none'}; wanted a finished one of a method that is installed"
        )
    cls = method_class(config["method"])
    method = cls.from_terms(config["parameters"])
    usual = msgspec.json.decode(to_json(cls().terms()))
    settings = {
        name: value
        for name, value in msgspec.json.decode(to_json(method.terms())).items()
        if value is not None and value != usual.get(name)
    }
    holdout = settings.pop("holdout", None)
    prepare = settings.pop("prepare", None)
    lines = [
        f"# What {run.name} rehearsed, with {', '.join(map(printable, config['sites']))}.",
        f"method = {as_toml(method.name)}",
        f"seed = {config['seed']}",
        *([f"holdout = {holdout['share']}"] if holdout else []),
        *(['holdout_by = "group"  # each site names its column'] if holdout and holdout["grouped"] else []),
        *([f"prepare = {as_toml(prepare)}"] if prepare else []),
        *(["", "[parameters]"] if settings else []),
        *(f"{name} = {as_toml(value)}" for name, value in settings.items()),
    ]
    text = "\n".join([*lines, ""])
    again = build_method(run, convert(tomllib.loads(text), FederationFile))
    if again.terms() != method.terms():
        raise InputError(
            f"the settings of the run in {run} cannot be written as a federation file; write one by hand"
        )
    return text


def new_job(folder: CoordinatorFolder, federation: Path) -> Job:
    """Make a job of a federation file for the running coordinator."""
    _need_coordinator(folder)
    return create_job(folder, federation)


def job_to_resume(folder: CoordinatorFolder, run: str) -> Job:
    """Find the job of a run that did not end well, by its folder or name."""
    job = load_job(folder, Path(run).name)
    status = read_status(job.run_folder)
    if status.state == "finished":
        raise InputError(f"the run {job.name!r} is finished already; its record is in {job.run_folder}")
    _need_coordinator(folder)
    return job


def start(folder: CoordinatorFolder, job: Job) -> None:
    """Start a job, or join it if it is still being conducted."""
    if is_conducted(job):
        return
    with requesting(folder):
        write_status(job.run_folder, "submitted", "")
        (job.run_folder / "events.jsonl").unlink(missing_ok=True)
        ask_for(folder, job.name, "start")


def is_conducted(job: Job) -> bool:
    """Say whether some process holds the run's conversation now."""
    return is_locked(job.run_folder / "lock")


def follow(
    folder: CoordinatorFolder,
    job: Job,
    watch: Callable[[Event | None], None],
    *,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> Status:
    """Follow a run until it ends; ``watch`` gets each event, and None when they begin anew."""
    follower = Follower(job.run_folder)
    heard = clock()
    while True:
        status = read_status(job.run_folder)  # before the events, so that none is missed at the end
        anew, events = follower.new()
        if anew:
            watch(None)
        for event in events:
            watch(event)
        if events:
            heard = clock()
        if status.state in ENDS:
            return status
        if not is_running(folder):
            return _give_up(job, "the coordinator stopped")
        if clock() - heard > SILENT_SECONDS:
            why = _why_over(folder, job)
            heard = clock()
            if why:
                last = read_status(job.run_folder)
                return last if last.state in ENDS else _give_up(job, why)
        sleep(POLL_SECONDS)


def _why_over(folder: CoordinatorFolder, job: Job) -> str:
    """Say why a run is over that has not said so itself; nothing where it goes on."""
    if is_conducted(job) or is_asked_for(folder, job.name):
        return ""
    return "nobody conducts the run any more; see coordinator.log"


def _give_up(job: Job, why: str) -> Status:
    write_status(job.run_folder, "failed", why)
    return read_status(job.run_folder)


def stop(folder: CoordinatorFolder, job: Job, *, patience: float = 15.0) -> None:
    """Have a run stopped, and leave a folder that says so."""
    ask_for(folder, job.name, "stop")
    until = time.monotonic() + patience
    while is_conducted(job) and time.monotonic() < until:
        time.sleep(0.2)
    if read_status(job.run_folder).state not in ENDS:
        write_status(job.run_folder, "interrupted", "stopped by the user")


def _need_coordinator(folder: CoordinatorFolder) -> None:
    folder.config()
    if not is_running(folder):
        raise InputError(
            f"no coordinator runs in {folder.path}; start it first: "
            f"fedgeom coordinator start --folder {folder.path}"
        )
