"""``fedgeom compare``: several methods over the same rows of a federation file's sites."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from fedgeom.evaluation.benchmark import Entry


def compare(
    federation: Annotated[
        Path, typer.Argument(help="A federation file; docs/federation-file.md says what is in it.")
    ],
    methods: Annotated[str, typer.Option(help="The methods, divided by commas; all: every one there is.")] = "all",
    seeds: Annotated[
        int, typer.Option(help="How many seeds, from the file's on: each keeps other rows aside.")
    ] = 1,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Where to keep the figures: OUT-1, OUT-2, …; runs/<name of the file>-compared if not given."
        ),
    ] = None,
    resume: Annotated[
        Path | None, typer.Option(help="Go on in this folder: what is there on the same terms is not run again.")
    ] = None,
) -> None:
    """Run several methods on the same rows and splits, all in this process: one table, and which to take."""
    from rich.markup import escape

    from fedgeom.cli.outcome import kept, new_folder
    from fedgeom.cli.screen import console
    from fedgeom.deploy.federation_file import build_policy, read_federation, read_sites
    from fedgeom.deploy.study_file import holdout_of, methods_to_compare
    from fedgeom.engines.benchmark import FIGURES, TABLE
    from fedgeom.engines.benchmark import compare as run_all
    from fedgeom.report.tables import contest_table
    from fedgeom.storage import make_private_folder

    _check_options(seeds, out, resume)
    screen, plan = console(), read_federation(federation)
    policy, sites = build_policy(federation, plan, "relaxed"), read_sites(federation, plan)
    wanted = methods_to_compare(federation, plan, methods, sites)
    rows = sum(map(len, sites))
    screen.print(f"{len(wanted.methods)} methods over {len(sites)} sites with {rows:,} rows")

    if resume is None:
        folder = new_folder(out or Path("runs") / f"{federation.stem}-compared")
    else:
        folder = make_private_folder(resume)
    again = f"fedgeom compare {federation} --methods {methods} --seeds {seeds} --resume {folder}"
    with kept(folder, screen, again=again):
        contest = run_all(
            wanted.methods,
            sites,
            seeds=range(plan.seed, plan.seed + seeds),
            holdout=holdout_of(plan),
            policy=policy,
            failed=wanted.failed,
            folder=folder,
            watch=lambda entry: screen.print(_line(entry), markup=False),
        )
    screen.print()
    screen.print(contest_table(contest))
    screen.print()
    for file in (TABLE, FIGURES):
        screen.print(f"kept in  {escape(str(folder / file))}", soft_wrap=True)


def _check_options(seeds: int, out: Path | None, resume: Path | None) -> None:
    from fedgeom.errors import InputError

    if seeds < 1:
        raise InputError(f"--seeds {seeds} given; wanted 1 or more")
    if resume is not None and out is not None:
        raise InputError("--resume goes on in its folder; leave --out away")


def _line(entry: Entry) -> str:
    """Say what came of one method with one seed."""
    accuracy = None if entry.evaluation is None else entry.evaluation["own"].accuracy
    said = "failed" if accuracy is None else f"accuracy {accuracy}"
    return f"  {entry.method:<14} seed {entry.seed:<4} {said}  {entry.seconds:.1f} s"


def sweep(
    study: Annotated[
        Path,
        typer.Argument(help="A federation file with a [sweep]; docs/federation-file.md says what is in it."),
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            help="Where to keep the figures: OUT-1, OUT-2, …; runs/<name of the file>-swept if not given."
        ),
    ] = None,
    resume: Annotated[
        Path | None, typer.Option(help="Go on in this folder: what is there on the same terms is not run again.")
    ] = None,
) -> None:
    """Try the settings of each row over seeds, choose on rows set aside, test what was chosen: one table."""
    from rich.markup import escape

    from fedgeom.cli.outcome import kept, new_folder
    from fedgeom.cli.screen import console
    from fedgeom.deploy.federation_file import build_policy, read_federation, read_sites
    from fedgeom.deploy.study_file import holdout_of, read_study
    from fedgeom.engines.benchmark import SWEEP_FIGURES, SWEEP_TABLE
    from fedgeom.engines.benchmark import sweep as run_all
    from fedgeom.errors import InputError
    from fedgeom.report.tables import sweep_page, sweep_tables
    from fedgeom.storage import make_private_folder, write_text

    if resume is not None and out is not None:
        raise InputError("--resume goes on in its folder; leave --out away")
    screen, plan = console(), read_federation(study)
    policy, sites = build_policy(study, plan, "relaxed"), read_sites(study, plan)
    wanted = read_study(study, plan, sites)
    runs = len(wanted.seeds) * sum(len(one) + 1 if len(one) > 1 else 1 for one in wanted.rows.values())
    screen.print(
        f"{len(wanted.rows)} rows over {len(sites)} sites with {sum(map(len, sites)):,} rows of data, "
        f"{len(wanted.seeds)} seeds: {runs} runs"
    )
    folder = make_private_folder(resume) if resume else new_folder(out or Path("runs") / f"{study.stem}-swept")
    with kept(folder, screen, again=f"fedgeom sweep {study} --resume {folder}"):
        swept = run_all(
            wanted.rows,
            sites,
            seeds=wanted.seeds,
            holdout=holdout_of(plan),
            by=wanted.by,
            policy=policy,
            settings=wanted.settings,
            folder=folder,
            watch=lambda entry: screen.print(_line_sweep(entry), markup=False),
        )
        page = folder / "sweep.html"
        write_text(page, sweep_page(swept, study.stem), private=True)
    screen.print()
    screen.print(sweep_tables(swept))
    screen.print()
    for file in (SWEEP_TABLE, SWEEP_FIGURES, page.name):
        screen.print(f"kept in  {escape(str(folder / file))}", soft_wrap=True)


def _line_sweep(entry: Entry) -> str:
    """Say what came of one run."""
    accuracy = None if entry.evaluation is None else entry.evaluation["own"].accuracy
    said = "failed" if accuracy is None else f"accuracy {accuracy}"
    return f"  {entry.method:<28} seed {entry.seed:<4} {said}  {entry.seconds:.1f} s"
