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

from rich.markup import escape

from fedgeom.cli.screen import Terminated
from fedgeom.errors import InputError, ProtocolError, printable
from fedgeom.federation.record import read_warnings
from fedgeom.storage import close_to_others, make_private_folder, write_json

if TYPE_CHECKING:
    from rich.console import Console

    from fedgeom.federation.results import Run, RunWarning
    from fedgeom.report.naming import Truth


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
        if (folder / "config.json").exists():
            out.print(f"\nInterrupted. What happened so far is in {escape(str(folder))}", soft_wrap=True)
            if again and (folder / "resume").exists():
                out.print(f"to go on: {escape(again)}", soft_wrap=True)
        else:
            out.print("\nInterrupted before the run began; nothing was written.")
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
    from fedgeom.report.naming import read_naming
    from fedgeom.report.run_folder import keep_rows

    folder = run.folder
    assert folder is not None, "the commands always record their runs"
    out.print(tables.ledger_table(run.ledger))
    out.print()
    out.print(tables.traffic_table(run.ledger))
    out.print()
    matched = any("names" in result for result in run.local.values())
    if matched and not getattr(run.model, "names", ()):  # a joint model that speaks words was not matched by shape
        naming = read_naming(run.local, truth)
        write_json(folder / page.NAMES, naming, private=True)
        out.print(tables.naming_table(naming))
        out.print(tables.naming_verdict(naming))
        if naming.doubtful:
            out.print()
            out.print(tables.evidence_table(naming))
        out.print()
    if run.model.in_disc:
        from fedgeom.report.disc import draw_disc

        with out.status("drawing"):
            seen = as_seen(run)
            keep_rows(seen, folder)
            tests = seen.test if any(len(part) for part in seen.test) else None
            picture = draw_disc(seen, seen.train, folder / page.PICTURE, test_sites=tests, truth=truth)
        close_to_others(picture)
        out.print(f"picture  {escape(str(picture))}", soft_wrap=True)
    elif "ellipse_means" in run.artifacts:
        from fedgeom.report.ellipses import draw_ellipses

        with out.status("drawing"):
            keep_rows(as_seen(run), folder)
            picture = draw_ellipses(run, run.train, folder / page.PICTURE, truth=truth)
        close_to_others(picture)
        out.print(f"picture  {escape(str(picture))}", soft_wrap=True)
    show_record(folder, out)
    show_warnings(run.warnings, out)


def as_seen(run: Run) -> Run:
    """Return a run with its rows as the method saw them: prepared, where they were raw."""
    made = run.model.preparation
    if made is None:
        return run
    train, test = ([made.transform(part) for part in parts] for parts in (run.train, run.test))
    return replace(run, model=run.model.bare(), train=train, test=test)


def show_record(folder: Path, out: Console) -> None:
    """Write the page of a run's folder, and print where it is and, last, how well the model does."""
    from fedgeom.evaluation.evaluation import read_evaluation
    from fedgeom.report import page
    from fedgeom.report.tables import evaluation_table

    out.print(f"page     {escape(str(page.write_page(folder)))}", soft_wrap=True)
    out.print(f"record   {escape(str(folder))}", soft_wrap=True)
    found = read_evaluation(folder)
    if found is not None:
        out.print()
        out.print(evaluation_table(found))


def show_warnings(warnings: Sequence[RunWarning], out: Console) -> None:
    """Print what a reader of a run must know, in yellow; nothing where there is nothing."""
    if warnings:
        out.print()
    for warning in warnings:
        out.print(f"[yellow]warning: {escape(printable(str(warning)))}[/yellow]", soft_wrap=True)
