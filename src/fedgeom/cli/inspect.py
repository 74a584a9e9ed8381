"""``fedgeom ledger``, ``report``, ``studio``, ``methods`` and ``data``: commands that only look."""

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

    from fedgeom.cli.screen import console, tell
    from fedgeom.federation.record import read_folder
    from fedgeom.report import tables
    from fedgeom.report.table import to_terminal

    content = read_folder(run)
    shown = tables.of_site(content["ledger"], site)
    if json:
        typer.echo(msgspec.json.format(msgspec.json.encode(shown.entries)).decode())
        return
    screen = console()
    status = content["status"]
    detail = f" ({status['detail']})" if status["detail"] else ""
    tell(screen, f"{content['config']['method']}, {status['state']}{detail}, {status['time']}")
    screen.print()
    screen.print(to_terminal(tables.ledger_table(shown, site), tables.traffic_table(shown)))


def methods(
    name: Annotated[str | None, typer.Argument(help="One method: its settings, and what leaves a site.")] = None,
) -> None:
    """List the methods; with a NAME, show what one does, its settings, and what leaves a site."""
    from fedgeom.cli.screen import console
    from fedgeom.errors import InputError
    from fedgeom.federation.method import METHODS
    from fedgeom.methods import SUMMARIES, UNLISTED
    from fedgeom.methods.catalogue import method_class
    from fedgeom.report.table import Cell, Line, ReportTable, to_terminal

    screen = console()
    if name is not None:
        _show_method(screen, method_class(name))
        return
    rows: list[Line] = []
    for one in METHODS:
        try:  # of ours none is loaded for its first line: all together take a second
            said = SUMMARIES.get(one) or _said(method_class(one)).partition("\n")[0]
        except InputError as error:  # of another package; the others are there all the same
            said = str(error)
        rows.append([Cell(one, "strong"), said])
    rows += [[Cell(one, "strong"), said] for one, (_, said) in UNLISTED.items()]
    screen.print(to_terminal(ReportTable("", ["", ""], rows)))
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
    from fedgeom.cli.screen import console
    from fedgeom.data.datasets import SETS, available, data_folder
    from fedgeom.report.table import Cell, ReportTable, to_terminal

    screen = console()
    here = available()
    folder = data_folder()
    screen.print(f"Files are looked for in {folder}." if folder else "FEDGEOM_DATA names no folder.", markup=False)
    rows = []
    for name, info in SETS.items():
        mark = Cell("✓", "good") if name in here else Cell("–", "doubt")
        rows.append([mark, Cell(name, "strong"), Cell(info.description)])
        rows.append([Cell(""), Cell(""), Cell(f"licence: {info.licence}; source: {info.source}", "dim")])
        if name not in here:
            rows.append([Cell(""), Cell(""), Cell(f"not found: {info.how_to_get}", "doubt")])
    screen.print(to_terminal(ReportTable("", ["", "", ""], rows)))


def report(
    run: Annotated[Path, typer.Argument(help="The folder of a run, such as runs/demo-1.")],
    out: Annotated[
        Path | None, typer.Option(help="Where to write the page; report.html in the run's folder if not given.")
    ] = None,
    rows: Annotated[
        bool,
        typer.Option("--rows/--no-rows", help="Whether to draw rows, where they are at hand (simulated runs)."),
    ] = True,
) -> None:
    """Write one page about a run: question, result, picture, conversation, what left, privacy, how to repeat it.

    The page is one file: no network, no other files. Only its owner can read it.
    """
    from fedgeom.cli.screen import console, tell
    from fedgeom.errors import InputError
    from fedgeom.report.page import write_page

    try:
        written = write_page(run, out, rows=rows)
    except OSError as error:
        raise InputError(f"the page of {run} could not be written: {error}") from error
    tell(console(), f"page     {written}")


def studio(
    folder: Annotated[
        Path, typer.Argument(help="Where to work: a folder with runs, a site's or a coordinator's.")
    ] = Path(),
    port: Annotated[int, typer.Option(help="The port on this machine; 0: one that is free.")] = 0,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Whether to open a browser.")] = True,
) -> None:
    """Open a page to drop tables on, run studies, watch them, compare runs, and approve jobs; on this machine only.

    The address has a random token: who does not know it gets nothing. Stop it with Ctrl-C; runs go on.
    """
    import contextlib
    import socket
    import webbrowser

    from fedgeom.errors import InputError

    try:
        import uvicorn

        from fedgeom.studio.app import link_file, make_app, new_token
    except ImportError as error:
        raise InputError(
            f"the studio needs the extra `studio`: pip install 'fedgeom[studio]' ({error})"
        ) from error

    token = new_token()
    app = make_app(folder, token)
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind(("127.0.0.1", port))
        listening.listen(64)  # who opens the address at once waits, and is not refused
    except (OSError, OverflowError) as error:
        raise InputError(
            f"port {port} cannot be used: {error}; leave --port away, and a free one is found"
        ) from error
    address = f"http://127.0.0.1:{listening.getsockname()[1]}/{token}/"
    typer.echo(f"the studio is at {address}\nIt answers this machine only. Stop it with Ctrl-C; runs go on.")
    config = uvicorn.Config(app, log_level="warning", access_log=False, timeout_graceful_shutdown=1)
    with contextlib.ExitStack() as meanwhile:
        if browser:
            try:
                link = meanwhile.enter_context(link_file(address))
                webbrowser.open(link.as_uri())
            except OSError as error:
                typer.echo(f"the browser was not opened: {error}; open the address yourself")
        uvicorn.Server(config).run(sockets=[listening])
