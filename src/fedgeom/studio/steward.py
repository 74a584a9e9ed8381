"""A site's folder on the page: jobs that wait, what was approved, what left, and what was spent of its privacy."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fedgeom.deploy.approvals import ApprovalStore
from fedgeom.deploy.budgets import BudgetStore, unaccounted_runs
from fedgeom.deploy.journal import Journal
from fedgeom.deploy.site import leaves_with, terms_report
from fedgeom.deploy.site_folder import SiteFolder
from fedgeom.errors import FedgeomError, InputError
from fedgeom.evaluation.evaluation import read_evaluation
from fedgeom.federation.policy import JobTerms
from fedgeom.report.at_site import RESULTS, site_results
from fedgeom.report.table import ReportTable, size
from fedgeom.report.tables import budget_table, moment

MOST_CHECKED = 5
"""For so many of the jobs that wait the site's table is looked at; each takes as long as reading it."""
MOST_RESULTS = 50
"""So many of the last results are listed."""
MOST_ENTRIES = 200
"""So many of the last messages are shown; the ledger has all."""


def overview(path: Path) -> dict[str, Any]:
    """Return what the steward's page shows."""
    site = SiteFolder(path)
    config = site.config()
    store = ApprovalStore(path)
    file = store.read()
    now = store.clock()
    return {
        "config": config,
        "waiting": [
            _job(one.hash, one.job, f"since {moment(one.when)}")
            | {"faults": faults(site, one.job, at < MOST_CHECKED)}
            for at, one in enumerate(file.waiting)
        ],
        "dropped": file.dropped_line(),
        "approvals": [
            _job(one.hash, one.job, one.state(now))
            | {
                "used": str(len(one.used)) if one.rule else f"{len(one.used)} of {one.runs}",
                "until": moment(one.expires) if not one.rule else "",
            }
            for one in file.approvals
        ],
        "results": results(path),
        "ledger": ledger(path),
        "budget": budget(path),
    }


def count_waiting(path: Path) -> int:
    """Return how many jobs wait for the steward."""
    return len(ApprovalStore(path).read().waiting)


def _job(hash: str, job: JobTerms | None, state: str) -> dict[str, Any]:
    settings: Mapping[str, Any] = {} if job is None else job.settings
    return {
        "hash": hash,
        "method": "" if job is None else job.method,
        "purpose": "" if job is None else job.purpose,
        "sites": [] if job is None else list(job.participants),
        "table": "" if job is None else job.table,
        "settings": {key: json.dumps(_plain(value), ensure_ascii=False) for key, value in settings.items()},
        "leaves": () if job is None else leaves_with(job),
        "state": state,
    }


def faults(site: SiteFolder, job: JobTerms | None, look: bool = True) -> list[str]:
    """Return why the site would leave a job that its steward approved, as `fedgeom site approve` says it."""
    if job is None or not look:
        return []
    try:
        return [str(one) for one in terms_report(site, job).errors]
    except FedgeomError as error:  # a table that cannot be read, a method that is not installed
        return [str(error)]


def _plain(value: Any) -> Any:
    return dict(value) if isinstance(value, Mapping) else value


def approve(path: Path, hash: str, days: str, runs: str) -> None:
    """Approve a job that waits, or one whose hash was told otherwise."""
    site = SiteFolder(path)
    store = ApprovalStore(path)
    try:
        length = float(days)
        count = int(runs)
    except ValueError:
        raise InputError(f"{days!r} days and {runs!r} runs given; wanted numbers") from None
    if not (0 < length <= 3650 and 1 <= count <= 1_000_000):
        raise InputError(f"{days} days and {runs} runs given; wanted up to 3650 days, and 1 run or more")
    file = store.read()
    jobs = [(one.hash, one.job) for one in file.waiting] + [(one.hash, one.job) for one in file.approvals]
    known = [job for digits, job in jobs if digits == hash and job is not None]
    name = site.config().name
    if known and name not in known[0].participants:
        raise InputError(f"{name!r} is not among those who may take part: {', '.join(known[0].participants)}")
    if hash not in [digits for digits, _ in jobs]:
        raise InputError("this job no longer waits here; look at the list again")
    store.pin(hash, days=length, runs=count, job=known[0] if known else None)


def refuse(path: Path, hash: str) -> None:
    """Refuse a job that waits."""
    ApprovalStore(path).refuse(hash)


def revoke(path: Path, hash: str) -> None:
    """Take an approval back."""
    ApprovalStore(path).revoke(hash)


def results(path: Path) -> list[dict[str, str]]:
    """Return the runs of which the site has a result, the newest first."""
    found = []
    methods = {one.run[:16]: one.method for one in Journal(path).entries()}
    for name in site_results(path)[:MOST_RESULTS]:
        tested = read_evaluation(path / RESULTS / name)
        own = tested["own"].accuracy if tested is not None and "own" in tested else None
        found.append(
            {
                "name": name,
                "method": methods.get(name, ""),
                "accuracy": "" if own is None else str(own),
                "when": moment((path / RESULTS / name).stat().st_mtime),
            }
        )
    return found


def ledger(path: Path) -> ReportTable:
    """Return the last messages that left the site, the newest first."""
    entries = Journal(path).entries()[-MOST_ENTRIES:]
    rows = [
        [moment(one.time), one.run[:8], one.method, one.question, size(one.sent), one.reveals or one.note]
        for one in reversed(entries)
    ]
    head = ["when", "run", "method", "question", "sent", "what it reveals"]
    return ReportTable("What left this site", head, rows, right=(4,))


def budget(path: Path) -> dict[str, Any]:
    """Return what the site's runs have cost of its privacy, as `fedgeom site budget` counts it.

    A file that was changed or lost is said in ``wrong``: the steward then decides on the command line.
    """
    site = SiteFolder(path)
    policy = site.config().policy
    store = BudgetStore(path, site.identity(), policy)
    found: dict[str, Any] = {"table": budget_table([]), "said": "", "wrong": "", "unaccounted": 0}
    try:
        charges = store.read()
        found["unaccounted"] = len(unaccounted_runs(path, charges))
        if charges:
            cap = f" of {policy.max_epsilon:g}" if policy.max_epsilon else ", and the policy has no limit"
            found["said"] = f"In all ε = {store.spent():.3g}{cap}, at δ = {policy.budget_delta:g}."
    except InputError as error:
        return found | {"wrong": str(error)}
    found["table"] = budget_table(charges)
    return found
