"""How a site or a coordinator stands, for people, cron and probes: read off its folder, without asking any process."""

from __future__ import annotations

import datetime
import shutil
import time
from pathlib import Path

import msgspec

from fedgeom.deploy import certificates
from fedgeom.deploy.approvals import ApprovalStore
from fedgeom.deploy.coordinator import is_running
from fedgeom.deploy.coordinator_folder import CoordinatorFolder
from fedgeom.deploy.jobs import Job, load_job
from fedgeom.deploy.journal import Journal
from fedgeom.deploy.nats_coordinator import Visitor, read_state
from fedgeom.deploy.nats_site import read_link
from fedgeom.deploy.site_folder import SiteFolder
from fedgeom.deploy.submit import is_conducted
from fedgeom.errors import FedgeomError
from fedgeom.federation.record import read_status
from fedgeom.storage import is_locked

STALE_SECONDS = 60.0
"""A coordinator that has written nothing down for so long does not do its work."""
LEAST_DISK = 100 * 2**20
"""With fewer bytes left on the disk an answer may not be kept, and then it does not leave."""
WARN_DAYS = 14
"""How long before its end a certificate is trouble."""


class LastQuestion(msgspec.Struct, frozen=True, kw_only=True):
    """The last line of a site's ledger."""

    time: str
    run: str
    question: str
    answer: str


class SiteHealth(msgspec.Struct, frozen=True, kw_only=True):
    """How a site stands."""

    name: str
    coordinator: str
    running: bool
    connected: bool
    connected_since: str = ""
    waiting: int = 0
    """How many questions are being worked on or wait."""
    last_question: LastQuestion | None = None
    jobs_to_approve: int = 0
    disk_free: int = 0
    certificate_ends: str = ""
    """When the coordinator's authority ends, by ca.pem; nothing without TLS."""
    troubles: list[str] = []

    @property
    def healthy(self) -> bool:
        """Whether nothing is wrong."""
        return not self.troubles


class JobState(msgspec.Struct, frozen=True, kw_only=True):
    """How a job stands."""

    name: str
    state: str
    detail: str
    time: str
    conducted: bool
    """Whether a process holds its conversation now."""


class CoordinatorHealth(msgspec.Struct, frozen=True, kw_only=True):
    """How a coordinator stands."""

    address: str
    running: bool
    admitted: list[str]
    connected: dict[str, Visitor]
    """The sites that are connected, by name."""
    jobs: list[str]
    """The jobs that are being conducted."""
    disk_free: int = 0
    certificate_ends: str = ""
    troubles: list[str] = []

    @property
    def healthy(self) -> bool:
        """Whether nothing is wrong; that a site is away is the site's trouble."""
        return not self.troubles


def site_health(folder: SiteFolder) -> SiteHealth:
    """Look at a site."""
    config = folder.config()
    running = is_locked(folder.path / "site.lock")
    report = read_link(folder) if running else None
    connected = report is not None and report.since > 0
    troubles = [] if running else ["the site does not run: fedgeom site start"]
    if running and not connected:
        why = f": {report.trouble}" if report is not None and report.trouble else ""
        troubles.append(f"not connected to {config.coordinator}{why}")
    entries = Journal(folder.path).entries()
    last = None
    if entries:
        end = entries[-1]
        last = LastQuestion(time=_moment(end.time), run=end.run, question=end.question, answer=end.answer)
    ends = "" if config.insecure else _certificate(folder.path / config.certificate, troubles)
    return SiteHealth(
        name=config.name,
        coordinator=config.coordinator,
        running=running,
        connected=connected,
        connected_since=_moment(report.since) if report is not None and report.since else "",
        waiting=0 if report is None else report.waiting,
        last_question=last,
        jobs_to_approve=_to_approve(folder, troubles),
        disk_free=_disk(folder.path, troubles),
        certificate_ends=ends,
        troubles=troubles,
    )


def coordinator_health(folder: CoordinatorFolder) -> CoordinatorHealth:
    """Look at a coordinator."""
    config = folder.config()
    running = is_running(folder)
    troubles = [] if running else ["the coordinator does not run: fedgeom coordinator start"]
    state = read_state(folder) if running else None
    if state is not None and state.trouble:
        troubles.append(f"not connected to its own server: {state.trouble}")
    if state is not None and time.time() - state.time > STALE_SECONDS:
        troubles.append(f"it has written nothing down since {_moment(state.time)}")
    ends = "" if config.insecure else _certificate(folder.path / "server.pem", troubles)
    return CoordinatorHealth(
        address=folder.address(),
        running=running,
        admitted=list(folder.roster()),
        connected={} if state is None else state.sites,
        jobs=[job.name for job in list_jobs(folder) if job.conducted],
        disk_free=_disk(folder.path, troubles),
        certificate_ends=ends,
        troubles=troubles,
    )


def list_jobs(folder: CoordinatorFolder) -> list[JobState]:
    """Return all jobs, the oldest first."""
    files = sorted((folder.path / "jobs").glob("*/job.json"), key=lambda file: file.stat().st_mtime)
    return [_job_state(load_job(folder, file.parent.name)) for file in files]


def _job_state(job: Job) -> JobState:
    status = read_status(job.run_folder)
    return JobState(
        name=job.name,
        state=status.state,
        detail=status.detail,
        time=status.time,
        conducted=job.run_folder.is_dir() and is_conducted(job),
    )


def remove_job(job: Job) -> None:
    """Delete a job with its record; one that is being conducted has to be stopped first."""
    if job.run_folder.is_dir() and is_conducted(job):
        raise FedgeomError(f"the job {job.name!r} is being conducted; stop it first: --stop {job.name}")
    for place in (job.run_folder, job.folder):
        shutil.rmtree(place, ignore_errors=True)


def _to_approve(folder: SiteFolder, troubles: list[str]) -> int:
    try:
        return len(ApprovalStore(folder.path).read().waiting)
    except FedgeomError as error:
        troubles.append(str(error))
        return 0


def _disk(path: Path, troubles: list[str]) -> int:
    free = shutil.disk_usage(path).free
    if free < LEAST_DISK:
        troubles.append(f"the disk has {free // 2**20} MB left")
    return free


def _certificate(file: Path, troubles: list[str]) -> str:
    if not file.is_file():
        troubles.append(f"{file} is missing")
        return ""
    end = certificates.valid_until(file)
    days = (end - datetime.datetime.now(datetime.UTC)).days
    if days < WARN_DAYS:
        troubles.append(f"the certificate {file.name} ends on {end:%Y-%m-%d}")
    return end.isoformat(timespec="seconds")


def _moment(seconds: float) -> str:
    return datetime.datetime.fromtimestamp(seconds, datetime.UTC).isoformat(timespec="seconds")
