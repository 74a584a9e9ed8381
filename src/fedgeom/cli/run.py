"""``fedgeom run``: a method over the sites that a federation file names."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rich.console import Console

    from fedgeom.data.validation import Finding

SHOWN = 3
"""So many warnings on tables are printed before a run; `fedgeom check` has all."""


def run(
    federation: Annotated[
        Path, typer.Argument(help="A federation file; docs/federation-file.md says what is in it.")
    ],
    out: Annotated[
        Path | None,
        typer.Option(help="Where to keep the run: OUT-1, OUT-2, …; runs/<name of the file> if not given."),
    ] = None,
    into: Annotated[
        Path | None, typer.Option(help="The folder itself, a new one, instead of OUT-1, OUT-2, …", hidden=True)
    ] = None,
    seed: Annotated[int | None, typer.Option(help="The seed, instead of the file's.")] = None,
    policy: Annotated[
        str,
        typer.Option(
            help='What the sites allow where the file has no [policy]: "strict", as fedgeom site init writes it, or '
            '"relaxed".'
        ),
    ] = "strict",
    resume: Annotated[
        Path | None,
        typer.Option(help="Finish the run in this folder, which was interrupted, instead of beginning a new one."),
    ] = None,
) -> None:
    """Run a method over the sites of a federation file, all in this process, through the full protocol."""
    from rich.markup import escape

    from fedgeom.cli.outcome import kept, new_folder, show, this_folder
    from fedgeom.cli.screen import Questions, console
    from fedgeom.deploy.federation_check import check_federation, stop_if_unready
    from fedgeom.deploy.federation_file import policy_line, read_federation
    from fedgeom.engines.run import run as conduct
    from fedgeom.errors import InputError
    from fedgeom.federation.record import read_folder

    screen, plan = console(), read_federation(federation)
    if resume is not None and (out is not None or seed is not None):
        raise InputError(
            "--resume goes on in the folder and with the seed of the run; leave --out and --seed away"
        )
    if seed is None:
        seed = plan.seed if resume is None else read_folder(resume)["config"]["seed"]
    checked = check_federation(federation, seed=seed, policy=policy)
    plan, method, looked = stop_if_unready(checked)
    if checked.chosen:
        screen.print(f"[dim]{escape(checked.chosen)}[/dim]\n", soft_wrap=True)
    screen.print(f"[dim]{escape(policy_line(plan, policy))}[/dim]\n", soft_wrap=True)
    _tell_odd(checked.report.warnings, federation, screen)
    folder = resume or (this_folder(into) if into else new_folder(out or Path("runs") / federation.stem))
    with kept(folder, screen, again=f"fedgeom run {federation} --resume {folder}"):
        with Questions(screen) as watch:
            finished = conduct(
                method,
                looked.sites,
                seed=seed,
                policy=checked.policy,
                record=folder,
                resumable=True,
                resume=resume is not None,
                watch=watch,
                writers=plan.writers,
                chosen=checked.chosen,
                checked=looked,
            )
        screen.print()
        show(finished, screen)
        for said in [_untested(federation)] * (not finished.evaluation) + [_next_steps(folder)]:
            screen.print(f"\n{said}", style="dim", soft_wrap=True)


def _tell_odd(found: Sequence[Finding], federation: Path, screen: Console) -> None:
    """Print what is odd about the tables, before anything is computed."""
    from rich.markup import escape

    from fedgeom.errors import printable

    for one in found[:SHOWN]:
        screen.print(f"[yellow]warning: {escape(printable(str(one)))}[/yellow]", soft_wrap=True)
    if len(found) > SHOWN:
        screen.print(f"[yellow]{len(found) - SHOWN} more: {escape(f'fedgeom check {federation}')}[/yellow]")


def _next_steps(folder: Path) -> str:
    from rich.markup import escape

    from fedgeom.report.page import PAGE

    return f"Next: open {escape(str(folder / PAGE))} in a browser; new rows: fedgeom predict {escape(str(folder))} FILE"


def _untested(federation: Path) -> str:
    from rich.markup import escape

    return (
        f"How well the model does was not tested: holdout = 0.25 in {escape(str(federation))} keeps a quarter of each "
        "site's rows aside for that."
    )
