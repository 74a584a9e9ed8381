"""Whether a deployed site answers: what its steward approved, what site.toml lets in, and the notice to the steward."""

from __future__ import annotations

import logging
import os
import shlex
import subprocess
from dataclasses import dataclass

from fedgeom.deploy.approvals import Approval, ApprovalStore
from fedgeom.deploy.budgets import BudgetStore
from fedgeom.deploy.site_folder import SiteFolder
from fedgeom.errors import InputError, ProtocolError, printable
from fedgeom.federation.approval import REVOKED, JobTerms, NotApprovedError, RevokedError, hash_terms
from fedgeom.federation.method import METHODS
from fedgeom.federation.privacy import Spent, spent_by

log = logging.getLogger(__name__)

NOTICE_SECONDS = 20.0
"""How long the steward's notice may take: the answer waits for it."""

MOST_NAMED = 20
"""How many participants are named in the site's log."""


@dataclass(frozen=True)
class FolderApprovals:
    """The approvals of the site in a folder (`fedgeom.federation.approval.Approvals`)."""

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
        digits, number, store = hash_terms(job).hex(), run.hex(), self.store
        with store.exclusive():
            file, now = store.read(), store.clock()
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
