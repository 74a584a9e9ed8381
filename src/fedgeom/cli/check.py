"""``fedgeom check``: everything that is wrong with a federation file and its tables, before anything is computed."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def check(
    federation: Annotated[
        Path, typer.Argument(help="A federation file; docs/federation-file.md says what is in it.")
    ],
    as_json: Annotated[bool, typer.Option("--json", help="Print the report as JSON, for machines.")] = False,
) -> None:
    """Find all faults of all sites at once, with what to do about each; nothing is computed or sent.

    Ends with code 0 when a run can begin, 1 when it cannot.
    """
    import json

    from rich.markup import escape

    from fedgeom.cli.screen import console
    from fedgeom.deploy.federation_check import check_federation
    from fedgeom.report.readiness import show_report

    screen = console()
    if as_json:
        report = check_federation(federation).report
        typer.echo(json.dumps(report.plain(), indent=2, ensure_ascii=False))
        raise typer.Exit(0 if report.ready else 1)
    with screen.status("reading the sites' files"):
        checked = check_federation(federation)
    report = checked.report
    some = f": {report.method}" if report.method else ""
    over = f" over {len(report.sites)} site{'s' if len(report.sites) != 1 else ''}" if report.sites else ""
    screen.print(f"[bold]{escape(str(federation))}[/bold]{escape(some)}{over}\n", soft_wrap=True)
    if checked.chosen:
        screen.print(f"[dim]{escape(checked.chosen)}[/dim]\n", soft_wrap=True)
    show_report(report, screen)
    if report.ready:
        screen.print(f"\n[green]ready[/green]: fedgeom run {escape(str(federation))}", soft_wrap=True)
        return
    count = len(report.errors)
    screen.print(f"\n[red]not ready[/red]: {count} fault{'s' if count > 1 else ''}")
    raise typer.Exit(1)
