"""Tables for the terminal: what left each site, and who calls what how."""

from __future__ import annotations

from collections.abc import Sequence

from rich.markup import escape
from rich.table import Table

from fedgeom.errors import InputError
from fedgeom.federation.ledger import Ledger
from fedgeom.report.naming import Naming

LEDGER = ["steps", "message", "times", "sites", "each", "what it reveals to the coordinator"]
"""The head of the table of `ledger_rows`: of each kind of message."""


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
    """Return one row for each kind of message, however often it came: what `LEDGER` says."""
    return [
        [one.when, one.kind, str(len(one.steps)), one.sites, size(round(one.bytes / one.messages)), one.reveals]
        for one in of_site(ledger, site).by_message()
    ]


def ledger_table(ledger: Ledger, site: str | None = None) -> Table:
    """Return the messages in the order in which they first came, of all sites or of one."""
    whose = "each site" if site is None else site
    shown = new_table(f"What left {escape(whose)}, message by message", LEDGER, right=(0, 2, 3, 4))
    for row in ledger_rows(ledger, site):
        shown.add_row(*(escape(cell) for cell in row))
    return shown


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


MANY_SITES = 6
"""With more sites than this a table with a column for each would break words."""


def names_by_word(naming: Naming) -> tuple[list[str], list[list[str]]]:
    """Return head and rows of the names: a column for each site, or of many sites who says which word."""
    head, rows = ["class", "meaning" if naming.known else "called"], naming_rows(naming)
    if len(naming.by_site) <= MANY_SITES:
        return [*head, *naming.by_site], rows
    sites, found = list(naming.by_site), []
    for group, name, *cells in rows:
        who: dict[str, list[str]] = {}
        for site, cell in zip(sites, cells, strict=True):
            who.setdefault(cell, []).append(site)
        who.pop("–", None)
        said = sorted(who.items(), key=lambda one: -len(one[1]))
        found.append([group, name, "; ".join(f"{word} ({_few(whose)})" for word, whose in said)])
    return [*head, "by the sites"], found


def _few(sites: Sequence[str]) -> str:
    return ", ".join(sites) if len(sites) <= 3 else f"{len(sites)} sites"


def naming_table(naming: Naming) -> Table:
    """Return which local name was taken for which global class."""
    head, rows = names_by_word(naming)
    shown = new_table("Which local name means which global class", head, right=(0,))
    for row in rows:
        marked = [_marked(cell) for cell in row[2:]]
        shown.add_row(row[0], f"[bold]{escape(row[1])}[/bold]", *marked)
    return shown


def _marked(cell: str) -> str:
    """Show wrong names in red, and those in doubt in yellow."""
    colour = "red" if "✗" in cell else "yellow" if cell.startswith("? ") or " ? " in cell else ""
    return f"[{colour}]{escape(cell)}[/{colour}]" if colour else escape(cell)


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
    table = new_table(f"Names whose class is in doubt{more}", EVIDENCE, right=(3, 5))
    for row in doubtful[:most]:
        table.add_row(*(escape(cell) for cell in row))
    return table


def new_table(title: str, head: Sequence[str], right: Sequence[int]) -> Table:
    """Return an empty table with a title and a head; ``right`` are the columns of numbers."""
    made = Table(
        title=title, title_justify="left", title_style="bold", header_style="dim", box=None, pad_edge=False
    )
    for at, name in enumerate(head):
        made.add_column(escape(name), justify="right" if at in right else "left", overflow="fold")
    return made
