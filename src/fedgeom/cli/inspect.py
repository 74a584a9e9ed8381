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
    screen.print(tables.traffic_table(shown))


def methods(
    name: Annotated[str | None, typer.Argument(help="One method: its settings, and what leaves a site.")] = None,
) -> None:
    """List the methods; with a NAME, show what one does, its settings, and what leaves a site."""
    from rich.markup import escape

    from fedgeom.cli.screen import console
    from fedgeom.errors import InputError
    from fedgeom.federation.method import METHODS
    from fedgeom.methods import SUMMARIES
    from fedgeom.methods.catalogue import method_class

    screen = console()
    if name is not None:
        _show_method(screen, method_class(name))
        return
    for one in METHODS:
        try:  # of ours none is loaded for its first line: all together take a second
            said = SUMMARIES.get(one) or _said(method_class(one)).partition("\n")[0]
        except InputError as error:  # of another package; the others are there all the same
            said = str(error)
        screen.print(f"[bold]{escape(one):<13}[/bold] {escape(said)}")
    screen.print("\nSettings, and what leaves a site: fedgeom methods NAME", markup=False)


def _show_method(screen: Any, cls: type[Any]) -> None:
    """Print what a method does, its settings with defaults and meanings, and what leaves a site."""
    from rich.markup import escape
    from rich.padding import Padding

    from fedgeom.federation.settings import parameters
    from fedgeom.protocols.plan import leaves

    screen.print(f"[bold]{escape(cls.name)}[/bold]  {escape(_said(cls))}")
    ours = cls.__module__.startswith("fedgeom.")
    python = f"; in Python: fedgeom.{cls.__name__}(…)" if ours else ""
    screen.print(f'\nIn a federation file: method = "{cls.name}"{python}', markup=False)
    screen.print("\n[bold]settings[/bold] (in a federation file under [bold]\\[parameters][/bold])")
    for one in parameters(cls):
        default = f" = {one.default}" if one.default else ""
        screen.print(f"  [bold]{escape(one.name)}[/bold]{escape(default)}  [dim]{escape(one.wanted)}[/dim]")
        if one.meaning:
            screen.print(Padding(escape(" ".join(one.meaning.split())), (0, 0, 0, 6), expand=False))
    screen.print("\n[bold]leaves the site[/bold] with these defaults")
    for line in leaves(cls()):
        screen.print(f"  - {escape(line)}")


def _said(cls: type[Any]) -> str:
    """Return a method's docstring without the parameters."""
    import inspect

    return (inspect.getdoc(cls) or "").partition("\n\nParameters\n")[0]


def data() -> None:
    """List the built-in sets: found here, or how to get them."""
    from rich.markup import escape

    from fedgeom.cli.screen import console
    from fedgeom.data.datasets import SETS, available, data_folder

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
