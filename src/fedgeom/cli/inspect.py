"""``fedgeom ledger``, ``methods`` and ``data``: commands that only look."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer


def ledger(
    run: Annotated[Path, typer.Argument(help="The folder of a run.")],
    site: Annotated[str | None, typer.Option(help="Only what left this site.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the entries as JSON.")] = False,
) -> None:
    """Show what left each site in a run, how many bytes, and what it reveals."""
    import msgspec

    from fedgeom.cli.screen import console
    from fedgeom.federation.record import read_folder
    from fedgeom.report import tables

    content = read_folder(run)
    found = content["ledger"]
    shown = tables.of_site(found, site)
    if json:
        typer.echo(msgspec.json.format(msgspec.json.encode(shown.entries)).decode())
        return
    screen = console()
    status = content["status"]
    detail = f" ({status['detail']})" if status["detail"] else ""
    screen.print(f"{content['config']['method']}, {status['state']}{detail}, {status['time']}\n", markup=False)
    screen.print(tables.ledger_table(shown, site))
    screen.print()
    screen.print(tables.sites_table(shown))


def methods() -> None:
    """List the methods: what each does, and what leaves a site."""
    from rich.markup import escape

    from fedgeom.cli.screen import console
    from fedgeom.errors import InputError
    from fedgeom.federation.method import METHODS
    from fedgeom.methods.catalogue import method_class

    screen = console()
    for name in METHODS:
        try:
            cls = method_class(name)
        except InputError as error:  # of another package; the others are there all the same
            screen.print(f"[bold]{escape(name)}[/bold]  {escape(str(error))}")
            continue
        screen.print(f"[bold]{escape(name)}[/bold]  {escape(_sentence(cls))}")
        screen.print("  leaves the site:")
        for line in cls.leaves():
            screen.print(f"  - {escape(line)}")


def _sentence(cls: type[Any]) -> str:
    return (cls.__doc__ or "").strip().partition("\n")[0]


def data() -> None:
    """List the built-in sets: found here, or how to get them."""
    from rich.markup import escape

    from fedgeom.cli.screen import console
    from fedgeom.data.sets import SETS, available, data_folder

    screen = console()
    here = available()
    folder = data_folder()
    screen.print(f"Files are looked for in {folder}." if folder else "FEDGEOM_DATA names no folder.", markup=False)
    for name, info in SETS.items():
        mark = "[green]✓[/green]" if name in here else "[yellow]–[/yellow]"
        screen.print(f"{mark} [bold]{name:<17}[/bold] {escape(info.description)}")
        screen.print(f"  {'':<17} [dim]licence: {escape(info.licence)}; source: {escape(info.source)}[/dim]")
        if name not in here:
            screen.print(f"  {'':<17} [yellow]not found: {escape(info.how_to_get)}[/yellow]")
