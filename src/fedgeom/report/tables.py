"""Tables for the terminal: what left each site, and who calls what how."""

from __future__ import annotations

from collections.abc import Sequence

from rich.markup import escape
from rich.table import Table

from fedgeom.errors import InputError
from fedgeom.federation.ledger import Ledger
from fedgeom.report.naming import Naming


def size(n: int) -> str:
    """Write a number of bytes for people.

    >>> size(512), size(25_300), size(3_200_000)
    ('512 B', '25.3 kB', '3.2 MB')
    """
    if n < 1000:
        return f"{n} B"
    return f"{n / 1000:.1f} kB" if n < 1_000_000 else f"{n / 1_000_000:.1f} MB"


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
    shown = new_table("What left each site, in all", ["site", "messages", "sent", "received"], right=(1, 2, 3))
    for row in site_rows(ledger):
        shown.add_row(escape(row[0]), *row[1:])
    return shown


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
    shown = new_table(f"What left {escape(whose)}, step by step", head, right=(0, 2, 3))
    for row in ledger_rows(ledger, site):
        shown.add_row(*(escape(cell) for cell in row))
    return shown


def naming_rows(naming: Naming) -> list[list[str]]:
    """Return for each global class: its number, its name, and each site's name for it; ✗ marks wrong ones."""
    rows = []
    for group, name in zip(naming.classes, naming.names, strict=True):
        cells = []
        for site, groups in naming.by_site.items():
            wrong = naming.wrong.get(site, [])
            cells.append(
                ", ".join(f"✗ {word}" if word in wrong else word for word in groups.get(group, [])) or "–"
            )
        rows.append([str(group), name, *cells])
    return rows


def naming_table(naming: Naming) -> Table:
    """Return which local name was taken for which global class."""
    head = ["class", "meaning" if naming.known else "called", *naming.by_site]
    shown = new_table("Which local name means which global class", head, right=(0,))
    for row in naming_rows(naming):
        marked = [f"[red]{escape(cell)}[/red]" if "✗" in cell else escape(cell) for cell in row[2:]]
        shown.add_row(row[0], f"[bold]{escape(row[1])}[/bold]", *marked)
    return shown


def naming_verdict(naming: Naming) -> str:
    """Say how many local names were matched rightly, where that is known."""
    if not naming.known:
        return f"{naming.total} local names were matched to {len(naming.classes)} global classes."
    missed = naming.total - naming.right
    return f"{naming.right} of {naming.total} local names were matched rightly, {missed} wrongly."


def new_table(title: str, head: Sequence[str], right: Sequence[int]) -> Table:
    """Return an empty table with a title and a head; ``right`` are the columns of numbers."""
    made = Table(
        title=title, title_justify="left", title_style="bold", header_style="dim", box=None, pad_edge=False
    )
    for at, name in enumerate(head):
        made.add_column(escape(name), justify="right" if at in right else "left", overflow="fold")
    return made
