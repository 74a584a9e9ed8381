"""``fedgeom report``: the page of a run, in one file that needs nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


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
    from rich.markup import escape

    from fedgeom.cli.screen import console
    from fedgeom.errors import InputError
    from fedgeom.report.page import write_page

    try:
        written = write_page(run, out, rows=rows)
    except OSError as error:
        raise InputError(f"the page of {run} could not be written: {error}") from error
    console().print(f"page     {escape(str(written))}", soft_wrap=True)
