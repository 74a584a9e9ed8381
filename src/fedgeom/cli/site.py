"""``fedgeom site``: a site's folder, its running, and what the steward sees."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedgeom.errors import printable

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from fedgeom.deploy.preview import Preview

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
        str, typer.Option(help="The coordinator's address, HOST:PORT.")
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
    typer.secho(
        f"Put its ca.pem and roster.json into {site.path}, look over site.toml there, then:\n"
        f"  fedgeom site preview federation.toml --folder {where}\n"
        f"  fedgeom site approve federation.toml --folder {where}\n  fedgeom site start --folder {where}",
        err=True,
    )


@app.command()
def start(folder: Folder = Path()) -> None:
    """Answer the coordinator's questions until stopped; connects again by itself."""
    from fedgeom.deploy.site_folder import SiteFolder
    from fedgeom.deploy.site_process import run_site
    from fedgeom.engines.flower.processes import ending_politely

    try:
        with ending_politely():
            run_site(SiteFolder(folder.absolute()), say)
    except KeyboardInterrupt:
        say("stopped")


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
    from rich.markup import escape

    from fedgeom.cli.screen import console
    from fedgeom.deploy.preview import preview as rehearse
    from fedgeom.deploy.site_folder import SiteFolder
    from fedgeom.federation.approval import hash_terms
    from fedgeom.report.preview import draw
    from fedgeom.report.tables import size

    screen = console()
    site = SiteFolder(folder.absolute())
    found = rehearse(site, federation, sites=sites)
    screen.print(
        f"[bold]{escape(found.site)}[/bold] in [bold]{found.method}[/bold]: a rehearsal. Nothing was sent."
    )
    screen.print(
        f"Assumed: {found.phantoms} phantom sites with rows like yours, a little shaken. Their number and their\n"
        "rows are made up; in the real run some sizes grow with the number of sites and the largest hulls.\n"
    )
    screen.print(NAMES[found.names])
    _show_refusals(screen, found)
    rows = [
        [str(at), one.question, one.answer, size(one.bytes), one.reveals]
        for at, one in enumerate(found.messages, start=1)
    ]
    screen.print(table(["", "asked", "would leave", "size", "what it reveals to the coordinator"], rows, (0, 3)))
    total = sum(one.bytes for one in found.messages)
    screen.print(f"\nIn all {len(found.messages)} messages, {size(total)}.")
    if found.corners:
        screen.print("\nCorners of hulls: rows that others learn, rounded and not under your name.")
        body = [[escape(c.label), str(c.rows), str(c.corners), f"{c.share:.0%}"] for c in found.corners]
        screen.print(table(["class", "rows", "corners", "share"], body, (1, 2, 3)))
    if found.broke_off:
        screen.print(
            f"\n[yellow]The rehearsal ended early: {escape(found.broke_off)}[/yellow]\n"
            "That may be due to the phantoms."
        )
    if picture and found.corners:
        screen.print(f"\npicture  {escape(str(draw(found, site.path / 'preview.png')))}", soft_wrap=True)
    if found.terms is None:
        screen.print(
            f"\nThe hash of the terms needs {site.config().roster}: it says who may take part.", soft_wrap=True
        )
        return
    screen.print(f"\nterms    {hash_terms(found.terms).hex()}", soft_wrap=True)
    again = shlex.join(["fedgeom", "site", "approve", str(federation), "--folder", str(folder)])
    screen.print(f"to approve them: {escape(again)}", soft_wrap=True)


def _show_refusals(screen: Console, found: Preview) -> None:
    """Print how the site's table stands against the job, and why else the site would refuse."""
    from rich.markup import escape

    from fedgeom.report.readiness import show_findings

    show_findings(found.report.findings, screen)
    said = {str(one) for one in found.report.errors}
    for reason in found.refusals:
        if reason not in said:
            screen.print(f"[yellow]The site would refuse: {escape(reason)}.[/yellow]")
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
    import json

    from rich.markup import escape

    from fedgeom.cli.screen import console
    from fedgeom.deploy.site_folder import SiteFolder
    from fedgeom.deploy.site_readiness import file_report, table_report
    from fedgeom.report.readiness import show_report

    site = SiteFolder(folder.absolute())
    report = table_report(site) if federation is None else file_report(site, federation)
    if as_json:
        typer.echo(json.dumps(report.plain(), indent=2, ensure_ascii=False))
        raise typer.Exit(0 if report.ready else 1)
    screen, count = console(), len(report.errors)
    show_report(report, screen)
    what = "the table" if federation is None else f"the table, for {federation}"
    if report.ready:
        screen.print(f"\n[green]ready[/green]: {escape(what)}", soft_wrap=True)
        return
    screen.print(
        f"\n[red]not ready[/red]: {count} fault{'s' if count > 1 else ''}; the site would leave such a run"
    )
    raise typer.Exit(1)


@app.command()
def ledger(folder: Folder = Path()) -> None:
    """Show the site's own ledger: each question it was asked and each answer it gave."""
    from fedgeom.deploy.journal import Journal
    from fedgeom.deploy.log_hints import describe
    from fedgeom.deploy.site_folder import SiteFolder

    site = SiteFolder(folder.absolute())
    site.config()
    entries = Journal(site.path).entries()
    for entry in entries:
        typer.echo(describe(entry) + (f"\n    reveals {printable(entry.reveals)}" if entry.reveals else ""))
    typer.echo(f"{len(entries)} questions, {sum(entry.sent for entry in entries):,} bytes left the site")


def table(head: list[str], rows: list[list[str]], right: tuple[int, ...] = ()) -> Table:
    """Return a table without lines; the columns ``right`` stand to the right."""
    from rich.table import Table

    made = Table(header_style="dim", box=None, pad_edge=False)
    for at, name in enumerate(head):
        made.add_column(name, justify="right" if at in right else "left", overflow="fold")
    for row in rows:
        made.add_row(*row)
    return made
