"""The table of several methods on the same rows."""

from __future__ import annotations

from rich.console import Group
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from fedgeom.evaluation.contest import JUDGED, Contest, Row, method_rows, recommendation, rival_rows
from fedgeom.evaluation.figures import COLUMNS, TITLES
from fedgeom.report.tables import new_table, size

WITH_INTERVALS = ("accuracy", JUDGED)
"""The figures that are shown with their intervals: more would not fit a terminal. The files have all."""
LONGEST = 300
"""How many characters of the reason why a method failed are shown; the files have all of it."""


def contest_table(contest: Contest) -> Group:
    """Return the table for the terminal: what methods are measured against, the methods, those that failed, a word."""
    rivals, methods = rival_rows(contest), method_rows(contest)
    shown = [name for name in COLUMNS if any(name in row.figures for row in [*rivals, *methods])]
    paired = any(row.difference is not None for row in methods)
    head = [
        "",
        *(COLUMNS[name] for name in shown),
        *(["from the best"] if paired else []),
        "left each site",
        "time",
    ]
    seeds = len(contest.seeds)
    table = new_table(
        f"The same rows, {contest.share:.0%} kept aside, {seeds} seed{'' if seeds == 1 else 's'} "
        "[dim](95 % intervals of one split)[/dim]",
        head,
        right=range(1, len(head)),
    )
    for row in rivals:
        cells = [_cell(row, name) for name in shown]
        table.add_row(TITLES[row.name], *cells, *([""] if paired else []), "", "", style="dim")
    table.add_section()
    for row in methods:
        if row.figures:
            cells = [_cell(row, name) for name in shown]
            gap = [str(row.difference) if row.difference is not None else ""] if paired else []
            table.add_row(f"[bold]{escape(row.name)}[/bold]", *cells, *gap, size(row.sent), f"{row.seconds:.1f} s")
    parts: list[Table | Text] = [table]
    failed = [row for row in methods if row.failure]
    if failed:
        parts.append(Text(""))
        parts += [Text(f"{row.name}: {_short(row.failure)}", style="yellow") for row in failed]
    if paired:
        parts.append(
            Text(
                "from the best: in balanced accuracy, seed by seed (Student's t, corrected for splits)",
                style="dim",
            )
        )
    return Group(*parts, Text(""), Text(recommendation(contest), style="bold"))


def _cell(row: Row, name: str) -> str:
    if name not in row.figures:
        return "–"
    found = row.figures[name]
    return str(found) if name in WITH_INTERVALS else f"{found.value:.3f}"


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= LONGEST else f"{line[: LONGEST - 1]}…"
