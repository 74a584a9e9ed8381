"""``fedgeom run``, ``compare`` and ``sweep``: methods over the sites that a federation file names."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedgeom.cli.check import Coerce

if TYPE_CHECKING:
    from rich.console import Console

    from fedgeom.data.sites import SiteData
    from fedgeom.data.validation import Finding
    from fedgeom.deploy.federation_file import FederationFile
    from fedgeom.deploy.study_file import Study
    from fedgeom.evaluation.benchmark import MethodResult


SHOWN = 3
"""So many warnings on tables are printed before a run; `fedgeom check` has all."""
READ = ("decimals", "encoding")
"""What is said of how files were read, though nothing is odd about it."""
Out = Annotated[
    Path | None,
    typer.Option(help="Where to keep the figures: OUT-1, OUT-2, …; in runs, after the file's name, if not given."),
]
Resume = Annotated[
    Path | None, typer.Option(help="Go on in this folder: what is there on the same terms is not run again.")
]


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
    coerce: Coerce = False,
) -> None:
    """Run a method over the sites of a federation file, all in this process, through the full protocol."""
    from fedgeom.cli.outcome import kept, new_folder, show, this_folder
    from fedgeom.cli.screen import Questions, console, tell
    from fedgeom.deploy.federation_check import check_federation, stop_if_unready
    from fedgeom.deploy.federation_file import READING, kept_reading, policy_line, read_federation
    from fedgeom.engines.run import run as conduct
    from fedgeom.errors import InputError
    from fedgeom.federation.record import read_folder
    from fedgeom.report.page import PAGE
    from fedgeom.report.table import Cell
    from fedgeom.storage import write_json

    screen = console()
    plan = read_federation(federation)
    if resume is not None and (out is not None or seed is not None):
        raise InputError(
            "--resume goes on in the folder and with the seed of the run; leave --out and --seed away"
        )
    if seed is None:
        seed = plan.seed if resume is None else read_folder(resume)["config"]["seed"]
    checked = check_federation(federation, seed=seed, policy=policy, coerce=coerce)
    plan, method, looked = stop_if_unready(checked)
    if checked.chosen:
        tell(screen, Cell(checked.chosen, "dim"))
        screen.print()
    tell(screen, Cell(policy_line(plan, policy), "dim"))
    screen.print()
    for note in checked.report.at("note"):
        if note.topic in READ:
            tell(screen, Cell(str(note), "dim"))
    _tell_odd(checked.report.warnings, federation, screen)
    folder = resume or (this_folder(into) if into else new_folder(out or Path("runs") / federation.stem))
    with kept(folder, screen, again=f"fedgeom run {federation} --resume {folder}{' --coerce' if coerce else ''}"):
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
        kept_how = kept_reading(plan)
        if kept_how["all"] or kept_how["sites"]:
            write_json(folder / READING, kept_how, private=True)
        screen.print()
        show(finished, screen)
        rows = f"; new rows: fedgeom predict {folder} FILE" if getattr(finished.model, "predicts", True) else ""
        said = f"open {folder / PAGE} in a browser{rows}"
        screen.print()
        tell(screen, Cell(f"Next: {said}", "dim"))


def describe(
    federation: Annotated[
        Path, typer.Argument(help="A federation file, or the folder of a description, which is then shown again.")
    ],
    classes: Annotated[
        bool, typer.Option("--classes/--no-classes", help="Describe each class by itself, too.")
    ] = True,
    quantiles: Annotated[
        str, typer.Option(help="Which quantiles, from 0 to 1, divided by commas.")
    ] = "0.25,0.5,0.75",
    categories: Annotated[
        str, typer.Option(help="Columns of numbers that are categories, such as codes, divided by commas.")
    ] = "",
    per_site: Annotated[
        bool, typer.Option("--per-site", help="Have each site tell its gaps; strict policies refuse that.")
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option(help="Where to keep it: OUT-1, OUT-2, …; runs/<name of the file>-described if not given."),
    ] = None,
    into: Annotated[
        Path | None, typer.Option(help="The folder itself, a new one, instead of OUT-1, OUT-2, …", hidden=True)
    ] = None,
    policy: Annotated[
        str, typer.Option(help='What the sites allow where the file has no [policy]: "strict" or "relaxed".')
    ] = "strict",
    coerce: Coerce = False,
) -> None:
    """Describe all sites' rows together, by secure sums: counts, gaps, means, quantiles and shares ("table one").

    For the sites of a deployment, submit a file with method = "describe".
    """
    from fedgeom.cli.outcome import kept, new_folder, show, show_warnings, this_folder
    from fedgeom.cli.screen import Questions, console, tell
    from fedgeom.deploy.federation_check import check_federation, stop_if_unready
    from fedgeom.deploy.federation_file import policy_line
    from fedgeom.engines.run import run as conduct
    from fedgeom.errors import InputError
    from fedgeom.methods.describe.method import Describe
    from fedgeom.report.table import Cell

    screen = console()
    if federation.is_dir():
        from fedgeom.federation.record import read_warnings

        _show_description(federation, screen)
        show_warnings(read_warnings(federation), screen)
        return
    try:
        shares = tuple(float(one) for one in quantiles.split(",") if one.strip())
    except ValueError:
        raise InputError(
            f"--quantiles {quantiles} given; wanted numbers from 0 to 1, such as 0.25,0.5,0.75"
        ) from None
    settings: dict[str, Any] = {"quantiles": shares, "per_site": per_site}
    settings |= {} if classes else {"by_class": False}
    if categories:
        settings["categories"] = tuple(one.strip() for one in categories.split(",") if one.strip())
    checked = check_federation(federation, policy=policy, coerce=coerce, describing=settings)
    plan, method, looked = stop_if_unready(checked)
    if isinstance(method, Describe):
        method.check_categories(looked.sites)
    tell(screen, Cell(policy_line(plan, policy), "dim"))
    screen.print()
    _tell_odd(checked.report.warnings, federation, screen)
    folder = this_folder(into) if into else new_folder(out or Path("runs") / f"{federation.stem}-described")
    with kept(folder, screen):
        with Questions(screen) as watch:
            finished = conduct(
                method,
                looked.sites,
                seed=plan.seed,
                policy=checked.policy,
                record=folder,
                watch=watch,
                checked=looked,
            )
        screen.print()
        show(finished, screen)


def _show_description(folder: Path, screen: Console) -> None:
    """Print the description that a folder holds."""
    from fedgeom.errors import InputError
    from fedgeom.methods.catalogue import load_model
    from fedgeom.methods.describe.model import Description
    from fedgeom.report.description import description_tables
    from fedgeom.report.table import to_terminal

    found = load_model(folder)
    if not isinstance(found, Description):
        raise InputError(f"{folder} holds a model of {found.method!r}; wanted the folder of a description")
    screen.print(to_terminal(*description_tables(found)))


def _tell_odd(found: Sequence[Finding], federation: Path, screen: Console) -> None:
    """Print what is odd about the tables, before anything is computed."""
    from fedgeom.cli.screen import tell
    from fedgeom.report.table import Cell

    for one in found[:SHOWN]:
        tell(screen, Cell(f"warning: {one}", "doubt"))
    if len(found) > SHOWN:
        tell(screen, Cell(f"{len(found) - SHOWN} more: fedgeom check {federation}", "doubt"))


def compare(
    federation: Annotated[
        Path, typer.Argument(help="A federation file; docs/federation-file.md says what is in it.")
    ],
    methods: Annotated[str, typer.Option(help="The methods, divided by commas; all: every one there is.")] = "all",
    seeds: Annotated[
        int, typer.Option(help="How many seeds, from the file's on: each keeps other rows aside.")
    ] = 1,
    out: Out = None,
    resume: Resume = None,
    coerce: Coerce = False,
) -> None:
    """Run several methods on the same rows and splits, all in this process: one table, and which to take."""
    from fedgeom.deploy.study_file import read_comparison
    from fedgeom.errors import InputError

    if seeds < 1:
        raise InputError(f"--seeds {seeds} given; wanted 1 or more")
    again = f"fedgeom compare {federation} --methods {methods} --seeds {seeds}{' --coerce' if coerce else ''}"
    run_study(
        federation,
        lambda path, plan, sites: read_comparison(path, plan, sites, methods, seeds),
        "comparison",
        out,
        resume,
        again,
        coerce=coerce,
    )


def sweep(
    study: Annotated[
        Path,
        typer.Argument(help="A federation file with a [sweep]; docs/federation-file.md says what is in it."),
    ],
    out: Out = None,
    resume: Resume = None,
    coerce: Coerce = False,
) -> None:
    """Try the settings of each row over seeds, choose on rows set aside, test what was chosen: one table."""
    from fedgeom.deploy.study_file import read_sweep

    again = f"fedgeom sweep {study}{' --coerce' if coerce else ''}"
    run_study(study, read_sweep, "sweep", out, resume, again, coerce=coerce)


def run_study(
    path: Path,
    read: Callable[[Path, FederationFile, Sequence[SiteData]], Study],
    name: str,
    out: Path | None,
    resume: Path | None,
    again: str,
    *,
    coerce: bool = False,
) -> None:
    """Run what a file wants compared or swept, print its tables, and keep them in files of the given name."""
    from fedgeom.cli.outcome import kept, new_folder
    from fedgeom.cli.screen import console, tell
    from fedgeom.deploy.federation_file import build_policy, read_federation, read_sites
    from fedgeom.deploy.study_file import holdout_of
    from fedgeom.engines.benchmark import sweep as run_all
    from fedgeom.engines.benchmark import write_sweep
    from fedgeom.errors import InputError
    from fedgeom.report.table import to_terminal
    from fedgeom.report.tables import sweep_page, sweep_tables
    from fedgeom.storage import make_private_folder, write_text

    if resume is not None and out is not None:
        raise InputError("--resume goes on in its folder; leave --out away")
    screen = console()
    plan = read_federation(path, coerce=coerce)
    policy = build_policy(path, plan, "relaxed")
    sites = read_sites(path, plan)
    study = read(path, plan, sites)
    tell(
        screen,
        f"{len(study.rows)} {'methods' if name == 'comparison' else 'rows'} over {len(sites)} sites with "
        f"{sum(map(len, sites)):,} rows of data, {len(study.seeds)} seed{'s' if len(study.seeds) > 1 else ''}: "
        f"{study.runs} runs",
    )
    ending = "compared" if name == "comparison" else "swept"
    folder = make_private_folder(resume) if resume else new_folder(out or Path("runs") / f"{path.stem}-{ending}")
    with kept(folder, screen, again=f"{again} --resume {folder}"):
        swept = run_all(
            study.rows,
            sites,
            seeds=study.seeds,
            holdout=holdout_of(plan),
            by=study.by,
            policy=policy,
            settings=study.settings,
            failed=study.failed,
            folder=folder,
            watch=lambda entry: tell(screen, _line(entry)),
            command=again,
        )
        files = write_sweep(folder, name, swept)
        files.append(write_text(folder / f"{name}.html", sweep_page(swept, path.stem), private=True))
    screen.print()
    screen.print(to_terminal(*sweep_tables(swept)))
    screen.print()
    for file in files:
        tell(screen, f"kept in  {file}")


def _line(entry: MethodResult) -> str:
    """Say what came of one run."""
    accuracy = None if entry.evaluation is None else entry.evaluation["own"].accuracy
    said = "failed" if accuracy is None else f"accuracy {accuracy}"
    return f"  {entry.title:<28} seed {entry.seed:<4} {said}  {entry.seconds:.1f} s"
