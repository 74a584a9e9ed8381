"""Tables for the terminal: accuracy, what left each site, and who calls what how."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.markup import escape
from rich.table import Table

from fedgeom.errors import InputError
from fedgeom.federation.ledger import Ledger
from fedgeom.report.naming import Naming

if TYPE_CHECKING:
    from fedgeom.evaluation.comparison import Comparison

COLUMNS = {
    "federated": "federated",
    "centralised": "pooled rows",
    "local": "own rows only",
    "elsewhere": "own model elsewhere",
}


def size(n: int) -> str:
    """Write a number of bytes for people.

    >>> size(512), size(25_300), size(3_200_000)
    ('512 B', '25.3 kB', '3.2 MB')
    """
    if n < 1000:
        return f"{n} B"
    return f"{n / 1000:.1f} kB" if n < 1_000_000 else f"{n / 1_000_000:.1f} MB"


def comparison_rows(comparison: Comparison) -> tuple[list[str], list[list[str]]]:
    """Return the head and the rows of the accuracy table; the last row is the mean."""
    shown = [name for name in COLUMNS if getattr(comparison, name)]
    means = comparison.means()
    rows = [
        [site, *(f"{getattr(comparison, name)[i]:.3f}" for name in shown)]
        for i, site in enumerate(comparison.sites)
    ]
    return ["site", *(COLUMNS[name] for name in shown)], [
        *rows,
        ["mean", *(f"{means[name]:.3f}" for name in shown)],
    ]


def comparison_table(comparison: Comparison) -> Table:
    """Return accuracy on each site's test rows: federated, pooled, alone."""
    head, rows = comparison_rows(comparison)
    table = _table("Accuracy on each site's test rows", head, right=range(1, len(head)))
    for row in rows[:-1]:
        table.add_row(escape(row[0]), f"[bold]{row[1]}[/bold]", *row[2:])
    table.add_section()
    table.add_row(rows[-1][0], f"[bold]{rows[-1][1]}[/bold]", *rows[-1][2:])
    return table


def site_rows(ledger: Ledger) -> list[list[str]]:
    """Return for each site: messages, bytes sent, bytes received."""
    rows = []
    for site in ledger.sites:
        mine = [entry for entry in ledger if entry.site == site]
        received = sum(entry.received for entry in mine)
        rows.append([site, str(len(mine)), size(ledger.sent(site)), size(received)])
    return rows


def sites_table(ledger: Ledger) -> Table:
    """Return how much left each site."""
    table = _table("What left each site, in all", ["site", "messages", "sent", "received"], right=(1, 2, 3))
    for row in site_rows(ledger):
        table.add_row(escape(row[0]), *row[1:])
    return table


def of_site(ledger: Ledger, site: str | None) -> Ledger:
    """Return the part of a ledger that is about one site; all of it for None."""
    if site is None:
        return ledger
    if site not in ledger.sites:
        there = ", ".join(ledger.sites) or "no sites at all"
        raise InputError(f"no message of a site {site!r} is in the ledger; it has {there}")
    return Ledger([entry for entry in ledger if entry.site == site])


def ledger_rows(ledger: Ledger, site: str | None = None) -> list[list[str]]:
    """Return one row per step: step, kind, sites, bytes per site, what it reveals."""
    return [
        [str(step), kind, str(n), size(round(total / n)), reveals]
        for step, kind, n, total, reveals in of_site(ledger, site).summary()
    ]


def ledger_table(ledger: Ledger, site: str | None = None) -> Table:
    """Return the messages step by step, of all sites or of one."""
    whose = "each site" if site is None else site
    head = ["step", "message", "sites", "each", "what it reveals to the coordinator"]
    table = _table(f"What left {escape(whose)}, step by step", head, right=(0, 2, 3))
    for row in ledger_rows(ledger, site):
        table.add_row(*(escape(cell) for cell in row))
    return table


def naming_rows(naming: Naming) -> list[list[str]]:
    """Return for each global class: its number, its name, and each site's name for it.

    ✗ marks wrong names, where the truth is known, and ? those whose class is in doubt.
    """
    rows, doubtful = [], set(naming.doubtful)
    for group, name in zip(naming.classes, naming.names, strict=True):
        cells = []
        for site, groups in naming.by_site.items():
            wrong = naming.wrong.get(site, [])
            marks = {
                word: "✗ " if word in wrong else "? " if (site, word) in doubtful else ""
                for word in groups.get(group, [])
            }
            cells.append(", ".join(mark + word for word, mark in marks.items()) or "–")
        rows.append([str(group), name, *cells])
    return rows


def naming_table(naming: Naming) -> Table:
    """Return which local name was taken for which global class."""
    head = ["class", "meaning" if naming.known else "called", *naming.by_site]
    table = _table("Which local name means which global class", head, right=(0,))
    for row in naming_rows(naming):
        marked = [
            f"[red]{escape(cell)}[/red]"
            if "✗" in cell
            else f"[yellow]{escape(cell)}[/yellow]"
            if cell.startswith("? ") or ", ? " in cell
            else escape(cell)
            for cell in row[2:]
        ]
        table.add_row(row[0], f"[bold]{escape(row[1])}[/bold]", *marked)
    return table


def naming_verdict(naming: Naming) -> str:
    """Say how many local names were matched rightly, where that is known."""
    doubtful = f" {len(naming.doubtful)} of them are doubtful (marked ?)." if naming.doubtful else ""
    if not naming.known:
        return f"{naming.total} local names were matched to {len(naming.classes)} global classes.{doubtful}"
    missed = naming.total - naming.right
    return f"{naming.right} of {naming.total} local names were matched rightly, {missed} wrongly.{doubtful}"


EVIDENCE = ["site", "its name", "class", "distance", "next best", "distance then", "so it is"]
"""The head of the table of `evidence_rows`."""


def evidence_rows(naming: Naming) -> list[list[str]]:
    """Return for each local name how near its class is and how near the next best one, the least sure first."""
    called = dict(zip(naming.classes, naming.names, strict=True))
    rows = []
    for site, groups in naming.by_site.items():
        for group, words in groups.items():
            for word in words:
                one = naming.evidence.get(site, {}).get(word)
                if one is not None:
                    near, then = ("–" if d is None else f"{d:.2f}" for d in (one.own, one.other))
                    rival = called.get(one.rival, f"class {one.rival}") if one.rival >= 0 else "–"
                    rows.append((-one.ratio, [site, word, called[group], near, rival, then, one.verdict]))
    return [row for _, row in sorted(rows)]


def evidence_table(naming: Naming, most: int = 12) -> Table:
    """Return the evidence for the names whose class is in doubt."""
    doubtful = [row for row in evidence_rows(naming) if row[-1] == "doubtful"]
    more = f" (the {most} least sure of {len(doubtful)})" if len(doubtful) > most else ""
    table = _table(f"Names whose class is in doubt{more}", EVIDENCE, right=(3, 5))
    for row in doubtful[:most]:
        table.add_row(*(escape(cell) for cell in row))
    return table


def _table(title: str, head: Sequence[str], right: Sequence[int]) -> Table:
    table = Table(
        title=title, title_justify="left", title_style="bold", header_style="dim", box=None, pad_edge=False
    )
    for at, name in enumerate(head):
        table.add_column(escape(name), justify="right" if at in right else "left", overflow="fold")
    return table
