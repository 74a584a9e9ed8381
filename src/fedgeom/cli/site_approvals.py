"""``fedgeom site approve``, ``approvals`` and ``revoke``: what the steward lets the site answer."""

from __future__ import annotations

import datetime
import json
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedgeom.cli.site import Folder, app, table

if TYPE_CHECKING:
    from rich.console import Console

    from fedgeom.deploy.site_folder import SiteFolder
    from fedgeom.federation.approval import JobTerms

DIGITS = 64
"""How many hexadecimal digits a hash of terms has."""


@app.command()
def approve(
    job: Annotated[
        str,
        typer.Argument(metavar="FILE|HASH", help="The federation file, or the hash of its terms (64 hex digits)."),
    ],
    folder: Folder = Path(),
    days: Annotated[float, typer.Option(help="For how many days the job may begin.")] = 30,
    runs: Annotated[int, typer.Option(help="How many runs may begin.")] = 1,
    yes: Annotated[bool, typer.Option("--yes", help="Approve without asking: for scripts.")] = False,
) -> None:
    """Show a job's terms, ask, and approve them: only then does the site answer anything about it.

    Ends with code 0 when the job is approved, 1 when the answer was no, 2 when nothing could be asked.
    """
    from rich.markup import escape

    from fedgeom.cli.screen import console
    from fedgeom.deploy.approvals import DAY, ApprovalStore
    from fedgeom.deploy.site_folder import SiteFolder
    from fedgeom.errors import InputError

    if not (0 < days <= 3650 and 1 <= runs <= 1_000_000):
        raise InputError(f"--days {days:g} --runs {runs} given; wanted up to 3650 days, and 1 run or more")
    site, screen = SiteFolder(folder.absolute()), console()
    name, store = site.config().name, ApprovalStore(site.path)
    store.read()  # a damaged file is named before anything is asked
    digits, terms = _find(site, store, job)
    if terms is not None and name not in terms.participants:
        raise InputError(f"{job}: {name!r} is not among those who may take part: {', '.join(terms.participants)}")
    _show(screen, site, job, terms)
    ends = _day(store.clock() + days * DAY)
    screen.print(f"terms    {digits}", soft_wrap=True)
    screen.print(f"until    {ends}, for {runs} run{'s' if runs > 1 else ''}")
    if not yes and not on_terminal():
        raise InputError("nothing was approved: there is no terminal to ask on; in a script, give --yes")
    if not yes and not typer.confirm(f"Shall {name} answer this job?", default=False):
        screen.print("Nothing was approved.")
        raise typer.Exit(1)
    store.pin(digits, days=days, runs=runs, job=terms)
    again = f"fedgeom site revoke {digits[:16]} --folder {folder}"
    screen.print(f"[green]Approved[/green] at {escape(name)}. To take it back: {escape(again)}", soft_wrap=True)


def _find(site: SiteFolder, store: Any, job: str) -> tuple[str, JobTerms | None]:
    """Return the hash of a job given by file or hash, and its terms where they are known."""
    from fedgeom.deploy.preview import proposed_terms
    from fedgeom.errors import InputError
    from fedgeom.federation.approval import hash_terms

    if Path(job).is_file():
        terms = proposed_terms(site, Path(job))
        return hash_terms(terms).hex(), terms
    if re.fullmatch(rf"[0-9a-fA-F]{{{DIGITS}}}", job):
        file = store.read()
        known = [one.job for one in (*file.waiting, *file.approvals) if one.hash == job.lower() and one.job]
        return job.lower(), known[0] if known else None
    if re.fullmatch(r"[0-9a-fA-F]+", job):
        raise InputError(
            f"{job!r} has {len(job)} digits; the hash of terms has {DIGITS}, and all are wanted to approve a job "
            "(fedgeom site preview FILE and fedgeom submit print it)"
        )
    raise InputError(
        f"{job!r} is no file; wanted a federation file or the hash of its terms ({DIGITS} hex digits)"
    )


def _show(screen: Console, site: SiteFolder, job: str, terms: JobTerms | None) -> None:
    """Print what a steward decides about: method, settings, who takes part, what leaves."""
    from rich.markup import escape

    from fedgeom.deploy.preview import reasons_to_refuse
    from fedgeom.deploy.site_readiness import leaves_with, terms_report
    from fedgeom.errors import printable
    from fedgeom.report.readiness import show_findings

    if terms is None:
        screen.print("[yellow]Only the hash is known here; what it stands for is in the federation file.[/yellow]")
        return
    screen.print(f"method   [bold]{escape(printable(terms.method))}[/bold], fedgeom {escape(terms.release)}")
    screen.print(f"seed     {terms.seed}")
    screen.print(escape(printable(f"sites    {', '.join(terms.participants)}")), soft_wrap=True)
    screen.print("settings")
    for name, value in terms.settings.items():
        screen.print(escape(printable(f"  {name} = {_plain(value)}")), soft_wrap=True)
    if leaving := leaves_with(terms):
        screen.print("what leaves, with keys and shares of keys that show nothing of the rows")
        for line in leaving:
            screen.print(escape(f"  {line}"), soft_wrap=True)
        asked = job if Path(job).is_file() else "federation.toml"
        screen.print(f"  message by message: fedgeom site preview {escape(asked)}", soft_wrap=True)
    report = terms_report(site, terms)
    if not report.ready:
        screen.print("[yellow]The site's table is not ready for this job: it would leave it.[/yellow]")
        show_findings(report.findings, screen, levels=("error",))
    for reason in reasons_to_refuse(site, Path(job)) if Path(job).is_file() else ():
        screen.print(f"[yellow]The site would refuse all the same: {escape(reason)}.[/yellow]", soft_wrap=True)


def _plain(value: Any) -> str:
    return json.dumps(dict(value) if isinstance(value, Mapping) else value, ensure_ascii=False)


def on_terminal() -> bool:
    """Say whether somebody can be asked."""
    return sys.stdin.isatty()


def _day(when: float) -> str:
    return datetime.datetime.fromtimestamp(when).strftime("%Y-%m-%d %H:%M")


@app.command()
def approvals(folder: Folder = Path()) -> None:
    """List the jobs that were approved, that wait for approval, and that site.toml lets in."""
    from rich.markup import escape

    from fedgeom.cli.screen import console
    from fedgeom.deploy.approvals import ApprovalStore
    from fedgeom.deploy.site_folder import SiteFolder
    from fedgeom.errors import printable

    site, screen = SiteFolder(folder.absolute()), console()
    mode, store = site.config().approve, ApprovalStore(site.path)
    file, now = store.read(), store.clock()

    def method(job: JobTerms | None) -> str:
        return "(hash only)" if job is None else escape(printable(job.method))

    rows = [
        [
            one.hash[:16],
            method(one.job),
            f"{len(one.used)}/{one.runs}" if not one.rule else str(len(one.used)),
            _day(one.expires) if not one.rule else "",
            escape(one.state(now)),
        ]
        for one in file.approvals
    ]
    rows += [[one.hash[:16], method(one.job), "", "", f"waiting since {_day(one.when)}"] for one in file.waiting]
    if rows:
        screen.print(table(["hash", "method", "runs", "may begin until", "state"], rows, (2,)))
    else:
        screen.print("Nothing was approved yet, and nothing waits.")
    for waiting in file.waiting:
        screen.print(
            f"to approve: fedgeom site approve {waiting.hash} --folder {escape(str(folder))}", soft_wrap=True
        )
    if mode != "ask":
        screen.print(f'[yellow]site.toml says approve = "{mode}": such jobs are not asked about.[/yellow]')


@app.command()
def revoke(
    hash: Annotated[str, typer.Argument(help="The hash of the job's terms, or its first digits.")],
    folder: Folder = Path(),
) -> None:
    """Take an approval back: the site answers nothing more of this job, also in runs that have begun."""
    from fedgeom.cli.screen import console
    from fedgeom.deploy.approvals import ApprovalStore
    from fedgeom.deploy.site_folder import SiteFolder

    site = SiteFolder(folder.absolute())
    site.config()
    found, count = ApprovalStore(site.path).revoke(hash.lower())
    screen = console()
    if count:
        screen.print(f"Revoked {found}: the site answers nothing more of this job.", soft_wrap=True)
    else:
        screen.print(f"{found} was revoked already.", soft_wrap=True)
