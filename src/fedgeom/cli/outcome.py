"""What happens around a run on the command line: a folder of its own, and what is shown and kept after it."""

from __future__ import annotations

import itertools
import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from fedgeom.cli.screen import Terminated, tell
from fedgeom.errors import InputError, ProtocolError
from fedgeom.federation.record import read_warnings
from fedgeom.storage import close_to_others, make_private_folder, write_json

if TYPE_CHECKING:
    from rich.console import Console

    from fedgeom.federation.results import Run, RunWarning
    from fedgeom.report.label_names import Truth


RESUMABLE = ("resume", "outcomes")
"""In the folder of a run or a sweep: what lets it go on after it was interrupted."""


def new_folder(base: str | Path) -> Path:
    """Make the first folder of base-1, base-2, … that does not exist; nothing is ever overwritten."""
    stem = Path(base)
    for number in itertools.count(1):
        folder = stem.with_name(f"{stem.name}-{number}")
        try:
            folder.mkdir(parents=True)
        except FileExistsError:
            continue
        except OSError as error:
            raise InputError(f"no folder can be made at {folder}: {error}") from error
        return make_private_folder(folder)
    raise AssertionError("numbers do not end")


def this_folder(folder: Path) -> Path:
    """Make one folder, for who must know its name beforehand; one that exists is never written to."""
    try:
        folder.mkdir(parents=True)
    except OSError as error:
        raise InputError(f"no folder can be made at {folder}: {error}") from error
    return make_private_folder(folder)


@contextmanager
def terminated() -> Iterator[None]:
    """Let SIGTERM interrupt what runs here as Ctrl-C does, so that its record says how it ended."""

    def leave(*_: object) -> None:
        raise Terminated

    if threading.current_thread() is not threading.main_thread():  # only there can a signal be heeded
        yield
        return
    before = signal.signal(signal.SIGTERM, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def kept(folder: Path, out: Console, *, again: str = "") -> Iterator[None]:
    """Say where an interrupted command left its folder and how to go on; a folder that stayed empty is removed."""
    try:
        with terminated():
            yield
    except KeyboardInterrupt:
        out.print()
        if any(folder.iterdir()):
            tell(out, f"Interrupted. What happened so far is in {folder}")
            if again and any((folder / name).exists() for name in RESUMABLE):
                tell(out, f"to go on: {again}")
        else:
            tell(out, "Interrupted before the run began; nothing was written.")
        raise
    except ProtocolError:
        show_warnings(read_warnings(folder), out)  # the sites that were lost are often why
        raise
    finally:
        if not any(folder.iterdir()):
            folder.rmdir()  # refused before anything was written


def show(run: Run, out: Console, *, truth: Truth | None = None) -> None:
    """Print ledger, names and figures of a run with a folder, and add picture and page to the folder."""
    from fedgeom.report import page, tables
    from fedgeom.report.label_names import read_naming
    from fedgeom.report.table import to_terminal

    folder = run.folder
    assert folder is not None, "the commands always record their runs"
    out.print(to_terminal(tables.ledger_table(run.ledger), tables.traffic_table(run.ledger)))
    out.print()
    matched = any("names" in result for result in run.local.values())
    if matched and not getattr(run.model, "names", ()):  # a joint model that speaks words was not matched by shape
        naming = read_naming(run.local, truth)
        write_json(folder / page.NAMES, naming, private=True)
        out.print(to_terminal(tables.naming_table(naming)))
        out.print(tables.naming_verdict(naming))
        if naming.doubtful:
            out.print()
            out.print(to_terminal(tables.doubt_table(naming)))
        out.print()
    with out.status("drawing"):
        picture = _draw(run, folder / page.PICTURE, truth)
    if picture is not None:
        close_to_others(picture)
        tell(out, f"picture  {picture}")
    show_record(folder, out)
    show_warnings(run.warnings, out)


def _draw(run: Run, file: Path, truth: Truth | None) -> Path | None:
    """Draw the shapes of a run, and keep some rows for its page; None where the method has no shapes."""
    from fedgeom.report.disc import draw_disc
    from fedgeom.report.ellipses import draw_ellipses
    from fedgeom.report.run_folder import is_map, keep_rows

    if is_map(run.model):
        keep_rows(as_seen(run), file.parent)
        return None
    if run.model.in_disc:
        seen = as_seen(run)
        keep_rows(seen, file.parent)
        tests = seen.test if any(len(part) for part in seen.test) else None
        return draw_disc(seen, seen.train, file, test_sites=tests, truth=truth)
    if "ellipse_means" in run.artifacts:
        keep_rows(as_seen(run), file.parent)
        return draw_ellipses(run, run.train, file, truth=truth)
    return None


def as_seen(run: Run) -> Run:
    """Return a run with its rows as the method saw them: prepared, where they were raw."""
    made = run.model.preparation
    if made is None:
        return run
    train, test = ([made.transform(part) for part in parts] for parts in (run.train, run.test))
    return replace(run, model=run.model.bare(), train=train, test=test)


def show_record(folder: Path, out: Console) -> None:
    """Write the page of a run's folder, and print where it is and, last, how well the model does and the verdict."""
    from fedgeom.evaluation.evaluation import read_evaluation
    from fedgeom.methods.describe.model import Description
    from fedgeom.report import page
    from fedgeom.report.coefficients import coefficient_tables
    from fedgeom.report.description import description_tables, write_description
    from fedgeom.report.run_folder import read_run
    from fedgeom.report.survival import survival_tables
    from fedgeom.report.table import Cell, to_terminal
    from fedgeom.report.tables import evaluation_tables

    tell(out, f"page     {page.write_page(folder)}")
    tell(out, f"record   {folder}")
    found = read_evaluation(folder)
    read = read_run(folder, rows=False)
    said = read.verdict
    if not read.predicts:
        if isinstance(read.model, Description):
            out.print()
            out.print(to_terminal(*description_tables(read.model)))
            out.print()
            for file in write_description(read.model, folder):
                tell(out, f"kept in  {file}")
        if curves := survival_tables(read.model):
            out.print()
            out.print(to_terminal(*curves))
            out.print()
            tell(out, Cell(f"Verdict: {said}", "strong"))
        return
    coefficients = coefficient_tables(read.model)
    if found is not None:
        out.print()
        out.print(to_terminal(*evaluation_tables(found)))
    if coefficients:
        out.print()
        out.print(to_terminal(*coefficients))
    out.print()
    sure = found.beats_majority if found is not None else bool(getattr(read.model, "conclusion", ""))
    tell(out, Cell(f"Verdict: {said}", "strong" if sure else "doubt"))


def show_warnings(warnings: Sequence[RunWarning], out: Console) -> None:
    """Print what a reader of a run must know, in yellow; nothing where there is nothing."""
    from fedgeom.report.table import Cell

    if warnings:
        out.print()
    for warning in warnings:
        tell(out, Cell(f"warning: {warning}", "doubt"))
