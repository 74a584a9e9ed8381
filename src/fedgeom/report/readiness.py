"""A report on whether tables are ready for a run, as people read it in a terminal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.markup import escape
from rich.padding import Padding
from rich.table import Table

from fedgeom.data.findings import Finding, Level
from fedgeom.data.readiness import Report, SiteSummary

if TYPE_CHECKING:
    from rich.console import Console

MOST_CLASSES = 6
"""How many classes of a site are shown; the others are counted."""
MOST_ALIKE = 8
"""How many findings are shown for which the same has to be done; the others are counted."""
SIGNS: dict[Level, tuple[str, str, str]] = {
    "error": ("✗", "red", "errors: the run would fail, or lose a site"),
    "warning": ("!", "yellow", "warnings: likely mistakes"),
    "note": ("·", "dim", "notes"),
}
"""Sign, colour and heading of each level."""


def show_report(report: Report, out: Console) -> None:
    """Print what each site has, then what was found, errors first."""
    if report.sites:
        out.print(sites_table(report.sites))
    show_findings(report.findings, out)


def show_findings(findings: Sequence[Finding], out: Console, *, levels: Sequence[Level] = tuple(SIGNS)) -> None:
    """Print findings by level, each with what to do."""
    for level in levels:
        sign, colour, heading = SIGNS[level]
        mine = [one for one in findings if one.level == level]
        if mine:
            out.print(f"\n[bold {colour}]{heading}[/bold {colour}]")
        for alike in _by_remedy(mine):
            for one in alike[:MOST_ALIKE]:
                bare = Finding(level=one.level, what=one.what, sites=one.sites)
                out.print(_hanging(f"[{colour}]{sign}[/{colour}]", escape(str(bare)), 1))
            if len(alike) > MOST_ALIKE:
                out.print(_hanging(" ", f"and {len(alike) - MOST_ALIKE} more of this kind (--json lists all)", 1))
            if alike[0].remedy:
                out.print(_hanging("[dim]→[/dim]", f"[dim]{escape(alike[0].remedy)}[/dim]", 3))


def _by_remedy(findings: Sequence[Finding]) -> list[list[Finding]]:
    """Put findings together for which the same has to be done: it is said once."""
    groups: dict[tuple[str, str], list[Finding]] = {}
    for at, one in enumerate(findings):
        groups.setdefault((one.topic, one.remedy or str(at)), []).append(one)
    return list(groups.values())


def _hanging(sign: str, text: str, indent: int) -> Padding:
    """Return a text whose lines all begin behind its sign."""
    grid = Table.grid(padding=(0, 1))
    grid.add_column()
    grid.add_column(overflow="fold")
    grid.add_row(sign, text)
    return Padding(grid, (0, 0, 0, indent), expand=False)


def sites_table(sites: Sequence[SiteSummary]) -> Table:
    """Return a table of what each site has; with several sites, the last line is all of them together."""
    made = Table(header_style="dim", box=None, pad_edge=False)
    head = ["site", "rows", "columns", "classes", "no label", "gaps"]
    shown = [True] * 4 + [any(one.unlabelled for one in sites), any(one.gaps for one in sites)]
    for at, name in enumerate(head):
        if shown[at]:
            made.add_column(name, justify="left" if at in (0, 3) else "right", overflow="fold")
    rows = [_cells(one.name, one.rows, f"{one.columns:,}", one.classes, one.unlabelled, one.gaps) for one in sites]
    if len(sites) > 1:
        counts: Counter[str] = Counter()
        for one in sites:
            counts.update(one.classes)
        columns = {one.columns for one in sites}
        same = f"{columns.pop():,}" if len(columns) == 1 else "differ"
        sums = [sum(getattr(one, name) for one in sites) for name in ("rows", "unlabelled", "gaps")]
        rows.append(_cells("all", sums[0], same, dict(counts), sums[1], sums[2]))
    for row in rows:
        made.add_row(*(escape(cell) for cell, mark in zip(row, shown, strict=True) if mark))
    return made


def _cells(name: str, rows: int, columns: str, classes: dict[str, int], unlabelled: int, gaps: int) -> list[str]:
    most = sorted(classes.items(), key=lambda one: (-one[1], one[0]))
    count = MOST_CLASSES if len(most) > MOST_CLASSES + 1 else len(most)  # "and 1 more" is as long as the one
    shown = ", ".join(f"{_short(label)} {n:,}" for label, n in most[:count])
    more = f" and {len(most) - count} more" if len(most) > count else ""
    return [name, f"{rows:,}", columns, f"{len(classes)}: {shown}{more}", _number(unlabelled), _number(gaps)]


def _number(count: int) -> str:
    return f"{count:,}" if count else ""


def _short(text: str, most: int = 24) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"
