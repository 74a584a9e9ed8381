"""What the commands print: findings, progress, question by question and site by site, and complaints."""

from __future__ import annotations

import itertools
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from fedgeom.errors import InputError, ProtocolError, printable
from fedgeom.federation.record import read_warnings
from fedgeom.report.markup import TERMINAL
from fedgeom.report.words import WORDS
from fedgeom.storage import close_to_others, make_private_folder, write_json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console
    from rich.progress import Task, TaskID
    from rich.text import Text

    from fedgeom.data.validation import Finding, Level, Report
    from fedgeom.federation.coordinator import Event
    from fedgeom.federation.results import Run, RunWarning
    from fedgeom.report.table import Cell
    from fedgeom.report.words import Truth


MOST_LINES = 14
"""Methods with hundreds of rounds show the last ones."""
MOST_ALIKE = 8
"""How many findings are shown for which the same has to be done; the others are counted."""
SIGNS: dict[Level, tuple[str, str, str]] = {
    "error": ("✗", "red", "errors: the run would fail, or lose a site"),
    "warning": ("!", "yellow", "warnings: likely mistakes"),
    "note": ("·", "dim", "notes"),
}
"""Sign, colour and heading of each level of findings."""


def console() -> Console:
    """Return the console for results."""
    from rich.console import Console
    from rich.theme import Theme

    class Careful(Console):
        """A console on which no text can do more than be read: rich itself lets escape sequences through."""

        def render_str(self, text: str, **options: Any) -> Text:
            return super().render_str(printable(text, lines=True), **options)

    # A pipe has no width; 80 columns would fold tables that a file has room for.
    return Careful(highlight=False, width=None if sys.stdout.isatty() else 132, theme=Theme(TERMINAL))


def complain(text: str, style: str = "red") -> None:
    """Print one message, red unless said otherwise, to the error stream."""
    from rich.console import Console
    from rich.text import Text

    Console(stderr=True, highlight=False, soft_wrap=True).print(Text(printable(text, lines=True), style=style))


def tell(out: Console, *parts: str | Cell) -> None:
    """Print one line, not broken, so that it can be copied; markup and line ends in it are shown, not obeyed."""
    from rich.text import Text

    from fedgeom.report.table import to_text

    out.print(Text.assemble(*map(to_text, parts)), soft_wrap=True)


def show_report(report: Report, out: Console) -> None:
    """Print what each site has, then what was found, errors first."""
    from fedgeom.report.table import to_terminal
    from fedgeom.report.tables import sites_table

    if report.sites:
        out.print(to_terminal(sites_table(report.sites)))
    show_findings(report.findings, out)


def show_findings(findings: Sequence[Finding], out: Console, *, levels: Sequence[Level] = tuple(SIGNS)) -> None:
    """Print findings by level, each with what to do; the same remedy is said once."""
    for level in levels:
        sign, colour, heading = SIGNS[level]
        alike: dict[tuple[str, str], list[Finding]] = {}
        for at, one in enumerate(findings):
            if one.level == level:
                alike.setdefault((one.topic, one.remedy or str(at)), []).append(one)
        if alike:
            out.print()
            out.print(heading, style=f"bold {colour}")
        for group in alike.values():
            for one in group[:MOST_ALIKE]:
                _hanging(out, sign, colour, str(replace(one, remedy="")), "", 1)
            if len(group) > MOST_ALIKE:
                more = f"and {len(group) - MOST_ALIKE} more of this kind (--json lists all)"
                _hanging(out, " ", "", more, "", 1)
            if group[0].remedy:
                _hanging(out, "→", "dim", group[0].remedy, "dim", 3)


def _hanging(out: Console, sign: str, colour: str, text: str, style: str, indent: int) -> None:
    """Print a text whose lines all begin behind its sign; where they end is for the console to say, not the text."""
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

    grid = Table.grid(padding=(0, 1))
    grid.add_column()
    grid.add_column(overflow="fold")
    grid.add_row(Text(sign, style=colour), Text(printable(text), style=style))
    out.print(Padding(grid, (0, 0, 0, indent), expand=False))


SHORT = 60
"""How many characters of the reason for a loss are shown on the way; the whole is said at the end."""


class Terminated(KeyboardInterrupt):
    """A service manager, a queue or ``kill`` ended the command, not the person at the keyboard."""


class Questions:
    """A progress display: one line per question, filled as the sites answer."""

    def __init__(self, out: Console):
        from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
        from rich.text import Text

        class Sign(SpinnerColumn):
            """A hook for a step that all sites answered; another sign as soon as one was lost."""

            def render(self, task: Task) -> Any:
                return Text("✗", style="yellow") if task.fields["lost"] else super().render(task)

        class Note(TextColumn):
            """Who was lost, or who answered last."""

            def render(self, task: Task) -> Text:
                lost = [f"{site} is lost: {why}" for site, why in task.fields["lost"].items()]
                return Text("; ".join(lost), style="yellow") if lost else Text(task.fields["last"], style="dim")

        self._step = 0
        self._lines: list[TaskID] = []
        self._progress = Progress(
            Sign(finished_text="[green]✓[/green]"),
            TextColumn("{task.fields[step]:>3}"),
            TextColumn("{task.description}"),
            BarColumn(bar_width=20),
            TextColumn("{task.fields[came]}/{task.total:.0f}"),
            Note(""),
            TimeElapsedColumn(),
            console=out,
        )

    def __enter__(self) -> Questions:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()

    def __call__(self, event: Event) -> None:
        """Take note of a question or an answer; this is what `fedgeom.run` calls as ``watch``."""
        if event.step != self._step:
            self._step = event.step
            words = WORDS.get(event.kind, printable(event.kind))
            self._lines.append(
                self._progress.add_task(words, total=0, step=event.step, last="", came=0, lost={}, answered=set())
            )
            if len(self._lines) > MOST_LINES:
                old = self._task(self._lines[-MOST_LINES - 1])
                self._progress.update(old.id, visible=bool(old.fields["lost"]))
        line = self._lines[-1]
        task = self._task(line)
        if event.state == "asked":
            self._progress.update(line, total=(task.total or 0) + 1)
            return
        if event.state == "figures":
            self._progress.update(line, last=printable(event.detail))
            return
        site = printable(event.site)
        if event.state == "waiting":
            self._progress.update(line, last=f"waiting for approval at {site}")
            return
        lost = task.fields["lost"]
        answered = task.fields["answered"]
        new = site not in lost and site not in answered  # one that answered may be left out afterwards
        if event.state == "lost":
            lost[site] = _shortened(printable(event.detail)) or "no reason was given"
            answered.discard(site)
        else:
            answered.add(site)
        self._progress.update(line, advance=int(new), last=site, came=len(answered))
        if task.completed >= (task.total or 0):
            self._progress.update(line, last="")

    def _task(self, line: TaskID) -> Task:
        return next(task for task in self._progress.tasks if task.id == line)


def _shortened(text: str) -> str:
    return text if len(text) <= SHORT else f"{text[: SHORT - 1]}…"


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
    from fedgeom.report.table import to_terminal
    from fedgeom.report.words import read_naming

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
    from fedgeom.report.run_folder import keep_rows

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
    """Write the page of a run's folder, and print where it is and, last, how well the model does."""
    from fedgeom.evaluation.evaluation import read_evaluation
    from fedgeom.report import page
    from fedgeom.report.table import to_terminal
    from fedgeom.report.tables import evaluation_tables

    tell(out, f"page     {page.write_page(folder)}")
    tell(out, f"record   {folder}")
    found = read_evaluation(folder)
    if found is not None:
        out.print()
        out.print(to_terminal(*evaluation_tables(found)))


def show_warnings(warnings: Sequence[RunWarning], out: Console) -> None:
    """Print what a reader of a run must know, in yellow; nothing where there is nothing."""
    from fedgeom.report.table import Cell

    if warnings:
        out.print()
    for warning in warnings:
        tell(out, Cell(f"warning: {warning}", "doubt"))
