"""``fedgeom site``: a site's folder, its running, and what the steward sees."""

from __future__ import annotations

import json
import re
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedgeom.errors import printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from fedgeom.deploy.budgets import Charge
    from fedgeom.deploy.preview import Preview
    from fedgeom.deploy.site_folder import SiteFolder
    from fedgeom.federation.policy import JobTerms, Policy


app = typer.Typer(no_args_is_help=True, help="A site: hold data, answer the coordinator's questions.")

Folder = Annotated[
    Path, typer.Option(envvar="FEDGEOM_SITE", help="The site's folder; the current one if not given.")
]


def say(text: str) -> None:
    """Print a line at once, also into a pipe; what others sent in it cannot rule the terminal."""
    typer.echo(printable(text, lines=True))


@app.command()
def init(
    name: Annotated[str, typer.Option(help="The site's name: letters, digits, '.', '_' and '-'.")],
    folder: Annotated[Path | None, typer.Option(help="Where to make the folder; ./NAME if not given.")] = None,
    coordinator: Annotated[
        str,
        typer.Option(
            help="The coordinator's address, HOST:PORT or wss://HOST; of a cluster several, with commas."
        ),
    ] = "coordinator.example:8000",
    file: Annotated[Path | None, typer.Option(help="The site's data; can be set in site.toml later.")] = None,
    label: Annotated[str, typer.Option(help="The column with the class of each row.")] = "label",
    insecure: Annotated[
        bool, typer.Option("--insecure", help="No TLS; works with a coordinator on this machine only.")
    ] = False,
    new_node_key: Annotated[
        bool, typer.Option("--new-node-key", help="Only make a new node key in an existing folder.")
    ] = False,
) -> None:
    """Make a site's folder with its keys, and print the public lines to send to the coordinator."""
    from fedgeom.crypto.keys import describe_identity
    from fedgeom.deploy.site_folder import SiteFolder
    from fedgeom.errors import InputError

    where = folder or Path(name)
    if new_node_key:
        site = SiteFolder(where.absolute())
        if site.config().name != name:
            raise InputError(f"{where} is the folder of {site.config().name!r}, not of {name!r}")
        site.new_node_key(name)
    else:
        data = "data.csv" if file is None else str(file.absolute())
        site = SiteFolder.create(where, name, coordinator, file=data, label=label, insecure=insecure)
    public = site.public_file(name)
    typer.echo(public.read_text(encoding="utf-8"), nl=False)
    typer.secho(f"\nSend these lines ({public}) to the coordinator.", err=True)
    typer.secho(f"The identity to compare by telephone: {describe_identity(site.identity().public)}", err=True)
    typer.secho(
        f"Put its ca.pem and roster.json into {site.path}, look over site.toml there, then:\n"
        f"  fedgeom site preview federation.toml --folder {where}\n"
        f"  fedgeom site approve federation.toml --folder {where}\n  fedgeom site start --folder {where}",
        err=True,
    )


@app.command()
def start(folder: Folder = Path()) -> None:
    """Answer the coordinator's questions until stopped; connects again by itself."""
    from fedgeom.deploy.site import run_site
    from fedgeom.deploy.site_folder import SiteFolder
    from fedgeom.engines.processes import ending_politely

    try:
        with ending_politely():
            run_site(SiteFolder(folder.absolute()), say)
    except KeyboardInterrupt:
        say("stopped")


@app.command()
def status(
    folder: Folder = Path(),
    as_json: Annotated[bool, typer.Option("--json", help="As one JSON object, for programs.")] = False,
) -> None:
    """Show how the site stands; the code is 0 when all is well, 1 when something is wrong."""
    from fedgeom.cli.screen import show_health
    from fedgeom.deploy.site_folder import SiteFolder
    from fedgeom.deploy.status import site_health

    show_health(site_health(SiteFolder(folder.absolute())), as_json)


NAMES = {
    "shared": "Label names: shared. The other sites learn yours, and the coordinator the union of all.\n",
    "own": "Label names: each site's own. They stay here; classes are matched by their shapes.\n",
}
"""What a preview says of label names."""


@app.command()
def preview(
    federation: Annotated[Path, typer.Argument(help="The federation file that the coordinator wants to run.")],
    folder: Folder = Path(),
    sites: Annotated[int | None, typer.Option(help="How many sites to assume in all.")] = None,
    picture: Annotated[
        bool, typer.Option("--picture", help="Also draw rows and corners to preview.png in the site's folder.")
    ] = False,
) -> None:
    """Show what would leave the site, message by message; nothing is sent."""
    from fedgeom.cli.screen import console, tell
    from fedgeom.deploy.preview import preview as rehearse
    from fedgeom.deploy.site_folder import SiteFolder
    from fedgeom.federation.policy import hash_terms
    from fedgeom.report.disc import draw_preview
    from fedgeom.report.table import Cell, to_terminal
    from fedgeom.report.tables import preview_tables

    screen = console()
    site = SiteFolder(folder.absolute())
    found = rehearse(site, federation, sites=sites)
    tell(
        screen,
        Cell(found.site, "strong"),
        " in ",
        Cell(found.method, "strong"),
        ": a rehearsal. Nothing was sent.",
    )
    screen.print(
        f"Assumed: {found.phantoms} phantom sites with rows like yours, a little shaken. Their number and their\n"
        "rows are made up; in the real run some sizes grow with the number of sites and the largest hulls.\n"
    )
    screen.print(NAMES[found.names])
    _show_refusals(screen, found)
    screen.print(to_terminal(*preview_tables(found)))
    if found.broke_off:
        screen.print()
        tell(screen, Cell(f"The rehearsal ended early: {found.broke_off}", "doubt"))
        tell(screen, "That may be due to the phantoms.")
    if picture and found.corners:
        screen.print()
        tell(screen, f"picture  {draw_preview(found, site.path / 'preview.png')}")
    screen.print()
    if found.terms is None:
        tell(screen, f"The hash of the terms needs {site.config().roster}: it says who may take part.")
        return
    tell(screen, f"terms    {hash_terms(found.terms).hex()}")
    again = shlex.join(["fedgeom", "site", "approve", str(federation), "--folder", str(folder)])
    tell(screen, f"to approve them: {again}")


def _show_refusals(screen: Console, found: Preview) -> None:
    """Print how the site's table stands against the job, and why else the site would refuse."""
    from fedgeom.cli.screen import show_findings, tell
    from fedgeom.report.table import Cell

    show_findings(found.report.findings, screen)
    said = {str(one) for one in found.report.errors}
    for reason in found.refusals:
        if reason not in said:
            tell(screen, Cell(f"The site would refuse: {reason}.", "doubt"))
    if found.report.findings:
        screen.print()


@app.command()
def check(
    federation: Annotated[
        Path | None,
        typer.Argument(help="A federation file to hold the table against; without it, the table alone."),
    ] = None,
    folder: Folder = Path(),
    as_json: Annotated[bool, typer.Option("--json", help="Print the report as JSON, for machines.")] = False,
) -> None:
    """Look at the site's own table, and at how it stands against a job; nothing is sent, and nobody else is told.

    Ends with code 0 when the table is ready, 1 when it is not.
    """
    from fedgeom.cli.screen import console, show_report, tell
    from fedgeom.deploy.site import file_report, table_report
    from fedgeom.deploy.site_folder import SiteFolder
    from fedgeom.report.table import Cell

    site = SiteFolder(folder.absolute())
    report = table_report(site) if federation is None else file_report(site, federation)
    if as_json:
        typer.echo(json.dumps(report.plain(), indent=2, ensure_ascii=False))
        raise typer.Exit(0 if report.ready else 1)
    screen = console()
    count = len(report.errors)
    show_report(report, screen)
    what = "the table" if federation is None else f"the table, for {federation}"
    screen.print()
    if report.ready:
        tell(screen, Cell("ready", "good"), f": {what}")
        return
    said = f": {count} fault{'s' if count > 1 else ''}; the site would leave such a run"
    tell(screen, Cell("not ready", "bad"), said)
    raise typer.Exit(1)


@app.command()
def ledger(folder: Folder = Path()) -> None:
    """Show the site's own ledger: each question it was asked and each answer it gave."""
    from fedgeom.deploy.journal import Journal
    from fedgeom.deploy.site import describe
    from fedgeom.deploy.site_folder import SiteFolder

    site = SiteFolder(folder.absolute())
    site.config()
    entries = Journal(site.path).entries()
    for entry in entries:
        typer.echo(describe(entry) + (f"\n    reveals {printable(entry.reveals)}" if entry.reveals else ""))
    typer.echo(f"{len(entries)} questions, {sum(entry.sent for entry in entries):,} bytes left the site")


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
    from fedgeom.cli.screen import console, tell
    from fedgeom.deploy.approvals import DAY, ApprovalStore
    from fedgeom.deploy.site_folder import SiteFolder
    from fedgeom.errors import InputError
    from fedgeom.report.table import Cell
    from fedgeom.report.tables import moment

    if not (0 < days <= 3650 and 1 <= runs <= 1_000_000):
        raise InputError(f"--days {days:g} --runs {runs} given; wanted up to 3650 days, and 1 run or more")
    site = SiteFolder(folder.absolute())
    screen = console()
    name = site.config().name
    store = ApprovalStore(site.path)
    store.read()  # a damaged file is named before anything is asked
    digits, terms = _find(site, store, job)
    if terms is not None and name not in terms.participants:
        raise InputError(f"{job}: {name!r} is not among those who may take part: {', '.join(terms.participants)}")
    _show(screen, site, job, terms)
    ends = moment(store.clock() + days * DAY)
    tell(screen, f"terms    {digits}")
    tell(screen, f"until    {ends}, for {runs} run{'s' if runs > 1 else ''}")
    if not yes and not on_terminal():
        raise InputError("nothing was approved: there is no terminal to ask on; in a script, give --yes")
    if not yes and not typer.confirm(f"Shall {name} answer this job?", default=False):
        screen.print("Nothing was approved.")
        raise typer.Exit(1)
    store.pin(digits, days=days, runs=runs, job=terms)
    again = f"fedgeom site revoke {digits[:16]} --folder {folder}"
    tell(screen, Cell("Approved", "good"), f" at {name}. To take it back: {again}")


def _find(site: SiteFolder, store: Any, job: str) -> tuple[str, JobTerms | None]:
    """Return the hash of a job given by file or hash, and its terms where they are known."""
    from fedgeom.deploy.preview import proposed_terms
    from fedgeom.errors import InputError
    from fedgeom.federation.policy import hash_terms

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
    from fedgeom.cli.screen import show_findings, tell
    from fedgeom.deploy.preview import reasons_to_refuse
    from fedgeom.deploy.site import leaves_with, terms_report
    from fedgeom.report.table import Cell

    if terms is None:
        said = "Only the hash is known here; what it stands for is in the federation file."
        tell(screen, Cell(said, "doubt"))
        return
    tell(screen, "method   ", Cell(terms.method, "strong"), f", fedgeom {terms.release}")
    if terms.purpose:
        tell(screen, f"purpose  {terms.purpose}")
    tell(screen, f"seed     {terms.seed}")
    if terms.table:
        tell(screen, f"table    {terms.table}: {site.config().table(terms.table).file}")
    tell(screen, f"sites    {', '.join(terms.participants)}")
    tell(screen, "settings")
    for name, value in terms.settings.items():
        tell(screen, f"  {name} = {_plain(value)}")
    if leaving := leaves_with(terms):
        tell(screen, "what leaves, with keys and shares of keys that show nothing of the rows")
        for line in leaving:
            tell(screen, f"  {line}")
        asked = job if Path(job).is_file() else "federation.toml"
        tell(screen, f"  message by message: fedgeom site preview {asked}")
    report = terms_report(site, terms)
    if not report.ready:
        tell(screen, Cell("The site's table is not ready for this job: it would leave it.", "doubt"))
        show_findings(report.findings, screen, levels=("error",))
    for reason in reasons_to_refuse(site, Path(job)) if Path(job).is_file() else ():
        tell(screen, Cell(f"The site would refuse all the same: {reason}.", "doubt"))


def _plain(value: Any) -> str:
    return json.dumps(dict(value) if isinstance(value, Mapping) else value, ensure_ascii=False)


def on_terminal() -> bool:
    """Say whether somebody can be asked."""
    return sys.stdin.isatty()


@app.command()
def approvals(folder: Folder = Path()) -> None:
    """List the jobs that were approved, that wait for approval, and that site.toml lets in."""
    from fedgeom.cli.screen import console, tell
    from fedgeom.deploy.approvals import ApprovalStore
    from fedgeom.deploy.site_folder import SiteFolder
    from fedgeom.report.table import Cell, ReportTable, to_terminal
    from fedgeom.report.tables import moment

    site = SiteFolder(folder.absolute())
    screen = console()
    mode = site.config().approve
    store = ApprovalStore(site.path)
    file = store.read()
    now = store.clock()

    def method(job: JobTerms | None) -> str:
        return "(hash only)" if job is None else job.method

    rows = []
    for one in file.approvals:
        runs = str(len(one.used)) if one.rule else f"{len(one.used)}/{one.runs}"
        until = "" if one.rule else moment(one.expires)
        rows.append([one.hash[:16], method(one.job), runs, until, one.state(now)])
    for job in file.waiting:
        rows.append([job.hash[:16], method(job.job), "", "", f"waiting since {moment(job.when)}"])
    if rows:
        screen.print(
            to_terminal(ReportTable("", ["hash", "method", "runs", "may begin until", "state"], rows, right=(2,)))
        )
    else:
        tell(screen, "Nothing was approved yet, and nothing waits.")
    for waiting in file.waiting:
        tell(screen, f"to approve: fedgeom site approve {waiting.hash} --folder {folder}")
        tell(screen, f"to refuse:  fedgeom site refuse {waiting.hash[:16]} --folder {folder}")
    if file.dropped:
        tell(screen, Cell(file.dropped_line(), "doubt"))
    if mode != "ask":
        tell(screen, Cell(f'site.toml says approve = "{mode}": such jobs are not asked about.', "doubt"))


@app.command()
def refuse(
    hash: Annotated[str, typer.Argument(help="The hash of the job's terms, or its first digits.")],
    folder: Folder = Path(),
) -> None:
    """Refuse a job that waits: the site leaves its runs, and the coordinator is told so. An approval undoes it."""
    from fedgeom.cli.screen import console, tell
    from fedgeom.deploy.approvals import ApprovalStore
    from fedgeom.deploy.site_folder import SiteFolder

    site = SiteFolder(folder.absolute())
    site.config()
    tell(
        console(), f"Refused {ApprovalStore(site.path).refuse(hash.lower())}: the site takes no part in this job."
    )


@app.command()
def revoke(
    hash: Annotated[str, typer.Argument(help="The hash of the job's terms, or its first digits.")],
    folder: Folder = Path(),
) -> None:
    """Take an approval back: the site answers nothing more of this job, also in runs that have begun."""
    from fedgeom.cli.screen import console, tell
    from fedgeom.deploy.approvals import ApprovalStore
    from fedgeom.deploy.site_folder import SiteFolder

    site = SiteFolder(folder.absolute())
    site.config()
    found, count = ApprovalStore(site.path).revoke(hash.lower())
    done = f"Revoked {found}: the site answers nothing more of this job."
    tell(console(), done if count else f"{found} was revoked already.")


@app.command()
def budget(
    folder: Folder = Path(),
    restart: Annotated[
        bool,
        typer.Option("--restart", help="Begin the count anew, after a loss; what was spent is then not counted."),
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask: for scripts.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the budget as JSON, for machines.")] = False,
) -> None:
    """Show what each run cost, what all cost together, what is left, and which runs nobody can account for."""
    from fedgeom.cli.screen import console, tell
    from fedgeom.deploy.budgets import BudgetStore, unaccounted_runs
    from fedgeom.deploy.site_folder import SiteFolder

    site = SiteFolder(folder.absolute())
    screen = console()
    policy = site.config().policy
    store = BudgetStore(site.path, site.identity(), policy)
    if restart:
        if not yes and not typer.confirm("Begin anew? What was spent before is then not counted.", default=False):
            raise typer.Exit(1)
        kept = store.restart()
        tell(screen, "The count begins anew.", f" The old file is {kept}." if kept else "")
        return
    charges = store.read()
    spent = store.spent()
    unknown = unaccounted_runs(site.path, charges)
    cap = policy.max_epsilon
    if as_json:
        runs = [
            {"run": c.run, "method": c.method, "epsilon": c.epsilon, "delta": c.delta, "part": c.note}
            for c in charges
            if c.run
        ]
        found = {"runs": runs, "epsilon": spent, "delta": policy.budget_delta, "cap": cap, "unaccounted": unknown}
        typer.echo(json.dumps(found, indent=2))
        return
    _show_site_budget(screen, charges, spent, unknown, policy)


def _show_site_budget(
    screen: Console, charges: Sequence[Charge], spent: float, unknown: Sequence[str], policy: Policy
) -> None:
    """Print what each run cost, what all cost together, and which runs are in no budget."""
    from fedgeom.cli.screen import tell
    from fedgeom.report.table import Cell, to_terminal
    from fedgeom.report.tables import budget_table

    if charges:
        screen.print(to_terminal(budget_table(charges)))
    else:
        tell(screen, "No run was charged yet.")
    left = f"of max_epsilon = {policy.max_epsilon:g}" if policy.max_epsilon else "(no limit: max_epsilon = 0)"
    screen.print()
    tell(screen, f"spent    epsilon = {spent:.3g} {left}, at delta = {policy.budget_delta:g}")
    if unknown:
        many = len(unknown) > 1
        forbid = "" if policy.require_privacy else "; to take part in no more of these: require_privacy = true"
        said = (
            f"unaccounted: {len(unknown)} run{'s' if many else ''} without privacy "
            f"({', '.join(run[:8] for run in unknown[:8])}{', …' if len(unknown) > 8 else ''}). What "
            f"{'they' if many else 'it'} showed is in no budget{forbid}"
        )
        tell(screen, Cell(said, "doubt"))
