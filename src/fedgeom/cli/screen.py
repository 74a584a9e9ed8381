"""What the commands print: findings, progress, question by question and site by site, and complaints."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Any

from fedgeom.errors import printable
from fedgeom.report.palette import TERMINAL
from fedgeom.report.words import WORDS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console
    from rich.progress import Task, TaskID
    from rich.text import Text

    from fedgeom.data.validation import Finding, Level, Report
    from fedgeom.deploy.status import CoordinatorHealth, SiteHealth
    from fedgeom.federation.coordinator import Event
    from fedgeom.report.table import Cell


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


def show_health(found: SiteHealth | CoordinatorHealth, as_json: bool) -> None:
    """Print how a site or a coordinator stands, and end with code 1 where something is wrong."""
    import msgspec
    import typer

    plain = msgspec.to_builtins(found)
    if as_json:
        typer.echo(msgspec.json.encode({"healthy": found.healthy, **plain}).decode())
    else:
        for name, value in plain.items():
            if name != "troubles":
                typer.echo(f"{name.replace('_', ' '):<18} {printable(_in_a_line(value))}")
        for trouble in found.troubles:
            complain(trouble)
    raise typer.Exit(0 if found.healthy else 1)


def _in_a_line(value: Any) -> str:
    """Write a value of a status for people."""
    if value is None:
        return "not known"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, dict):
        return ", ".join(
            f"{key} {_in_a_line(one)}" if not isinstance(one, dict) else key for key, one in value.items()
        )
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "none"
    return f"{value:,}" if isinstance(value, int) else str(value) or "–"


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
