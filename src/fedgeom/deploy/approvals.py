"""What a site's steward has approved: the file approvals.json in the site's folder.

An approval pins the hash of a job's terms, until a day, for a number of runs. A run is used up when it begins; the same
run asked again is the same run, also after the approval has expired. A revoked approval stops its runs at the next
question, for good. What runs by a rule of site.toml (``approve``) is noted here too, so that it is listed and can be
revoked.
"""

from __future__ import annotations

import logging
import os
import shlex
import subprocess
import time
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import msgspec

from fedgeom.deploy.budgets import BudgetStore
from fedgeom.deploy.site_folder import SiteFolder
from fedgeom.errors import InputError, ProtocolError, printable
from fedgeom.federation.method import METHODS
from fedgeom.federation.policy import REFUSED, REVOKED, JobTerms, NotApprovedError, RevokedError, hash_terms
from fedgeom.federation.privacy import Spent, spent_by
from fedgeom.storage import locked, write_file

FORMAT = "fedgeom-approvals/1"
DAY = 24 * 3600.0

MOST_WAITING = 50
"""How many jobs that wait are remembered; beyond that, one of those that are most alike gives way to a new one."""

QUIET_SECONDS = 600.0
"""While the list is full, the steward is told of a new job only after so long without any."""

FORGET_WAITING = 30 * DAY
FORGET_NOTED = 90 * DAY
"""After how long a job that still waits, or that ran by a rule, is forgotten."""

LARGEST_JOB = 64 * 2**10
"""Terms of more bytes are not kept: a coordinator could fill the disk with them."""

Hash = Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")]
Clock = Callable[[], float]


class Approval(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One approval."""

    hash: Hash
    """The hash of the terms, as 64 hexadecimal digits."""
    when: float
    expires: float
    runs: Annotated[int, msgspec.Meta(ge=0)]
    """How many runs may begin; those that did are in ``used``."""
    used: tuple[str, ...] = ()
    revoked: float = 0.0
    """When the approval was taken back; 0: it was not."""
    job: JobTerms | None = None
    """What was approved, where more than the hash was known."""
    rule: str = ""
    """What in site.toml let the job in without the steward, if anything did; such a note admits nothing itself."""

    @property
    def refused(self) -> bool:
        """Whether it is the steward's no to a job that waited."""
        return bool(self.revoked) and not self.runs and not self.rule

    def state(self, now: float) -> str:
        """Say how the approval stands."""
        if self.refused:
            return "refused"
        if self.revoked:
            return "revoked"
        if self.rule:
            return f"by rule: {self.rule}"
        if len(self.used) >= self.runs:
            return "used up"
        return "expired" if now >= self.expires else "approved"


class WaitingJob(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A job that came and was not approved."""

    hash: Hash
    when: float
    run: str
    job: JobTerms | None = None
    """Its terms, unless they are too long to keep; then the steward needs the federation file."""


class ApprovalsFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The whole file."""

    format: str = FORMAT
    approvals: tuple[Approval, ...] = ()
    waiting: tuple[WaitingJob, ...] = ()
    dropped: Annotated[int, msgspec.Meta(ge=0)] = 0
    """How many times a job that waited gave way to a new one, because the list was full."""
    dropped_since: float = 0.0
    """When that happened first; it is forgotten as jobs that wait are."""

    def dropped_line(self) -> str:
        """Say that jobs are missing from the list of those that wait; nothing where none is."""
        if not self.dropped:
            return ""
        since = time.strftime("%Y-%m-%d %H:%M", time.localtime(self.dropped_since))
        return (
            f"more than {MOST_WAITING} jobs came: {self.dropped} gave way to newer ones since {since}; one that is not "
            "listed is approved by its federation file or its hash"
        )


class ApprovalStore:
    """Reads and changes a site's approvals; every change is made under a lock and is on the disk when it returns."""

    def __init__(self, folder: Path, *, clock: Clock = time.time):
        self.path = folder / "approvals.json"
        self._lock = folder / "approvals.lock"
        self.clock = clock

    def read(self) -> ApprovalsFile:
        """Read the file; one that is damaged is named: nothing is approved by guessing."""
        if not self.path.is_file():
            return ApprovalsFile()
        try:
            found = msgspec.json.decode(self.path.read_bytes(), type=ApprovalsFile)
        except ValueError as error:  # broken JSON or UTF-8, or something else than approvals
            raise InputError(
                f"{self.path} is damaged: {error}; the site answers nothing until it is mended, or removed and "
                "the jobs approved again"
            ) from error
        if found.format != FORMAT:
            raise InputError(f"{self.path} has the format {found.format!r}; this fedgeom reads {FORMAT!r}")
        return found

    def _write(self, file: ApprovalsFile) -> None:
        write_file(self.path, msgspec.json.format(msgspec.json.encode(file)), private=True, durable=True)

    def exclusive(self) -> AbstractContextManager[None]:
        """Keep other processes from changing the file meanwhile."""
        return locked(self._lock)

    def pin(self, hash: str, *, days: float, runs: int, job: JobTerms | None = None) -> Approval:
        """Approve the job with this hash for some days and runs."""
        now = self.clock()
        new = Approval(hash=hash, when=now, expires=now + days * DAY, runs=runs, job=job)
        with self.exclusive():
            file = self.read()
            waiting = tuple(one for one in file.waiting if one.hash != hash)
            self._write(msgspec.structs.replace(file, approvals=(*file.approvals, new), waiting=waiting))
        return new

    def refuse(self, prefix: str) -> str:
        """Refuse the one job that waits and whose hash begins so; return its hash. An approval undoes it later."""
        with self.exclusive():
            file = self.read()
            found = [one for one in file.waiting if prefix and one.hash.startswith(prefix)]
            if len(found) != 1:
                listed = "".join(f"\n  {one.hash}" for one in (found or file.waiting)) or " none"
                count = f"{len(found)} jobs that wait have" if found else "no job that waits has"
                raise InputError(f"{count} a hash that begins with {prefix!r}; wanted one of:{listed}")
            now = self.clock()
            job = found[0]
            no = Approval(hash=job.hash, when=now, expires=now, runs=0, revoked=now, job=job.job)
            waiting = tuple(one for one in file.waiting if one is not job)
            self._write(msgspec.structs.replace(file, approvals=(*file.approvals, no), waiting=waiting))
            return job.hash

    def revoke(self, prefix: str) -> tuple[str, int]:
        """Revoke all approvals of the one job whose hash begins so; return its hash and how many there were."""
        with self.exclusive():
            file = self.read()
            now = self.clock()
            known = sorted({one.hash for one in file.approvals})
            found = [hash for hash in known if prefix and hash.startswith(prefix)]
            if len(found) != 1:
                listed = "".join(f"\n  {hash}" for hash in (found or known)) or " none"
                count = f"{len(found)} approved jobs have" if found else "no approved job has"
                raise InputError(f"{count} a hash that begins with {prefix!r}; wanted one of:{listed}")
            standing = [one for one in file.approvals if one.hash == found[0] and not one.revoked]
            gone = [
                msgspec.structs.replace(one, revoked=now) if one in standing else one for one in file.approvals
            ]
            if standing:
                self._write(msgspec.structs.replace(file, approvals=tuple(gone)))
            return found[0], len(standing)

    # --- while a question is answered; the caller holds the lock ---

    def use(self, file: ApprovalsFile, approval: Approval, run: str) -> None:
        """Note that a run has begun under an approval."""
        used = msgspec.structs.replace(approval, used=(*approval.used, run))
        others = [used if one is approval else one for one in file.approvals]
        self._write(msgspec.structs.replace(file, approvals=tuple(others)))

    def note(self, file: ApprovalsFile, hash: str, run: str, job: JobTerms, rule: str) -> None:
        """Note that a run has begun by a rule of site.toml."""
        now = self.clock()
        known = [one for one in file.approvals if not one.rule or one.revoked or one.when > now - FORGET_NOTED]
        mine = next((one for one in known if one.rule == rule and one.hash == hash and not one.revoked), None)
        runs = (run,) if mine is None else (*mine.used, run)
        new = Approval(hash=hash, when=now, expires=now, runs=0, used=runs, job=_short(job), rule=rule)
        kept = tuple(one for one in known if one is not mine)
        self._write(msgspec.structs.replace(file, approvals=(*kept, new)))

    def wait(self, file: ApprovalsFile, hash: str, run: str, job: JobTerms) -> bool:
        """Note that a job waits for approval; say whether it is new and should be told.

        Where the list is full, a job gives way: whoever sends many that are alike displaces his own.
        """
        now = self.clock()
        waiting = tuple(one for one in file.waiting if one.when > now - FORGET_WAITING)
        if any(one.hash == hash for one in waiting):
            return False
        tell = len(waiting) < MOST_WAITING or now - max(one.when for one in waiting) > QUIET_SECONDS
        waiting = (*waiting, WaitingJob(hash=hash, when=now, run=run, job=_short(job)))
        recent = file.dropped_since > now - FORGET_WAITING
        dropped = file.dropped if recent else 0
        since = file.dropped_since if dropped else now
        while len(waiting) > MOST_WAITING:
            gone = _to_drop(waiting)
            waiting = tuple(one for one in waiting if one is not gone)
            dropped += 1
        self._write(
            msgspec.structs.replace(
                file, waiting=waiting, dropped=dropped, dropped_since=since if dropped else 0.0
            )
        )
        return tell


def _to_drop(waiting: tuple[WaitingJob, ...]) -> WaitingJob:
    """Return the job that gives way: the oldest among those of which most have the same method and sites."""

    def kind(one: WaitingJob) -> tuple[str, tuple[str, ...]]:
        return ("", ()) if one.job is None else (one.job.method, one.job.participants)

    counts = Counter(map(kind, waiting))
    most = max(counts.values())
    return next(one for one in waiting if counts[kind(one)] == most)


def _short(job: JobTerms) -> JobTerms | None:
    return job if len(msgspec.json.encode(job)) <= LARGEST_JOB else None


log = logging.getLogger(__name__)

NOTICE_SECONDS = 20.0
"""How long the steward's notice may take: the answer waits for it."""

MOST_NAMED = 20
"""How many participants are named in the site's log."""


@dataclass(frozen=True)
class FolderApprovals:
    """The approvals of the site in a folder (`fedgeom.federation.policy.Approvals`)."""

    folder: SiteFolder
    store: ApprovalStore
    budget: BudgetStore | None = None
    """Where given, no approval is used up for a run that would exceed it."""

    @classmethod
    def of(cls, folder: SiteFolder, budget: BudgetStore | None = None) -> FolderApprovals:
        """Return the approvals of a site; a file that cannot be read is named."""
        store = ApprovalStore(folder.path)
        store.read()
        return cls(folder, store, budget)

    def admit(self, run: bytes, job: JobTerms) -> None:
        """Use an approval for a run, or say that there is none yet; the same run uses it once."""
        digits = hash_terms(job).hex()
        number = run.hex()
        store = self.store
        with store.exclusive():
            file = store.read()
            now = store.clock()
            mine = [one for one in file.approvals if one.hash == digits]
            if _uses(mine, number):
                self._check(mine, number)
                return
            if self.budget is not None:
                self.budget.check(run, spent_in(job))
            rule = self.folder.config().lets_in(job.method)
            free = next((one for one in mine if one.state(now) == "approved"), None)
            if free is not None:
                store.use(file, free, number)
                return
            if mine and mine[-1].refused:  # the steward's latest word
                raise RevokedError(REFUSED)
            if rule:
                if any(one.revoked for one in mine):  # a rule is for jobs to which the steward has not said no
                    raise RevokedError(REVOKED)
                store.note(file, digits, number, job, rule)
                return
            new = store.wait(file, digits, number, job)
        if new:
            self._tell(digits, number, job)
        raise NotApprovedError(digits)

    def check(self, run: bytes, method: str, approved: bytes) -> None:
        """See that a run's approval still stands; that it has expired meanwhile does not stop the run."""
        if not approved:
            if self.folder.config().approve == "any":
                return
            raise ProtocolError(
                f"site {self.folder.config().name!r} was asked before it was invited, and answers only jobs whose "
                'terms are approved (a method whose sites never join can run only where site.toml says approve = "any")'
            )
        mine = [one for one in self.store.read().approvals if one.hash == approved.hex()]
        self._check(mine, run.hex())

    def _check(self, mine: list[Approval], run: str) -> None:
        using = _uses(mine, run)
        if not using:
            raise RevokedError("the approval of this job is no longer known at the site")
        if any(one.revoked for one in using):
            raise RevokedError(REVOKED)

    def _tell(self, digits: str, run: str, job: JobTerms) -> None:
        """Tell the steward, once per job: in the log and the ledger, and by the command in site.toml."""
        others = printable(", ".join(job.participants[:MOST_NAMED]))
        log.warning(
            "a job waits for your approval: %s with %s%s; to see and approve it: fedgeom site approve %s --folder %s",
            job.method,
            others,
            ", …" if len(job.participants) > MOST_NAMED else "",
            digits,
            shlex.quote(str(self.folder.path)),
        )
        config = self.folder.config()
        if not config.notice:
            return
        told = {"FEDGEOM_TERMS": digits, "FEDGEOM_METHOD": job.method, "FEDGEOM_RUN": run}
        try:
            subprocess.run(
                shlex.split(config.notice),
                env={**os.environ, **told, "FEDGEOM_SITE": str(self.folder.path)},
                cwd=self.folder.path,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                timeout=NOTICE_SECONDS,
                check=True,
            )
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            log.warning("the notice to the steward failed (notice in site.toml): %s", error)


def spent_in(job: JobTerms) -> Spent | None:
    """Return what a job would cost; None where it cannot be counted, or its terms cannot be read (joining says so)."""
    try:
        return spent_by(METHODS.find(job.method).from_terms(job.settings))
    except (InputError, TypeError, ValueError):
        return None


def _uses(mine: list[Approval], run: str) -> list[Approval]:
    return [one for one in mine if run in one.used]
