"""Tables for the terminal: ledgers, scores, comparisons, sweeps and readiness."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from io import StringIO
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.console import Console, Group
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from fedgeom.data.validation import Finding, Level, Report, SiteSummary
from fedgeom.errors import InputError
from fedgeom.evaluation.benchmark import JUDGED, Contest, Row, Sweep, method_rows, recommendation, rival_rows
from fedgeom.evaluation.evaluation import COLUMNS, LEAST_ROWS, TITLES, Evaluation, score_rows
from fedgeom.federation.ledger import Ledger
from fedgeom.report.naming import Naming

if TYPE_CHECKING:
    from rich.console import Console


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


def site_traffic(ledger: Ledger) -> list[list[str]]:
    """Return for each site: messages, bytes sent, bytes received."""
    rows = []
    for site in ledger.sites:
        mine = [entry for entry in ledger if entry.site == site]
        received = sum(entry.received for entry in mine)
        rows.append([site, str(len(mine)), size(ledger.sent(site)), size(received)])
    return rows


def traffic_table(ledger: Ledger) -> Table:
    """Return how much left each site."""
    shown = new_table("What left each site, in all", ["site", "messages", "sent", "received"], right=(1, 2, 3))
    for row in site_traffic(ledger):
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


MOST_CLASSES = 60
"""How many classes are listed; of more, those that are recalled worst."""


def title(evaluation: Evaluation) -> str:
    """Say what was tested."""
    rows, sites = evaluation.rows, evaluation.sites
    return f"How well it does on {rows:,} rows that {sites} site{'' if sites == 1 else 's'} kept aside"


def class_rows(evaluation: Evaluation) -> tuple[list[str], list[list[str]]]:
    """Return the head and the rows of the table of classes, as the federated models tell them."""
    head = ["class", "learnt from", "tested on", "recall", "precision", "F1"]
    classes = evaluation.by_class
    if len(classes) > MOST_CLASSES:
        worst = sorted(classes, key=lambda one: (one.recall is None, one.recall or 0.0))[:MOST_CLASSES]
        classes = [one for one in classes if one in worst]
    rows = [
        [
            one.name,
            f"{one.trained:,}",
            f"{one.tested:,}",
            *(_share(x) for x in (one.recall, one.precision, one.f1)),
        ]
        for one in classes
    ]
    return head, rows


def site_rows(evaluation: Evaluation) -> tuple[list[str], list[list[str]]]:
    """Return the head and the rows of the table of sites, those with too few rows left out."""
    shown = [one for one in evaluation.by_site if one.accuracy]
    models = [name for name in TITLES if any(name in one.accuracy for one in shown)]
    rows = [[one.site, f"{one.tested:,}", *(_share(one.accuracy.get(name)) for name in models)] for one in shown]
    return ["site", "tested on", *(TITLES[name] for name in models)], rows


def notes(evaluation: Evaluation) -> list[str]:
    """Return what a reader of the tables must know: what is not shown, and how exact it is."""
    found = []
    if evaluation.groups:
        found.append(
            f"intervals take the {evaluation.groups:,} groups of test rows as drawn one by one, not the rows"
        )
    found += [f"{TITLES[name]} not scored: {why}" for name, why in evaluation.unscored.items()]
    if "matched" in evaluation:
        found.append(
            f"{TITLES['matched']}: trained on all rows in one place, words that the run put into one class taken as one"
        )
    few = [one for one in evaluation.by_site if not one.accuracy and one.tested]
    none = [one.site for one in evaluation.by_site if not one.tested]
    if few:
        found.append(
            f"{len(few)} site{'' if len(few) == 1 else 's'} with fewer than {LEAST_ROWS} test rows not shown"
        )
    if none:
        found.append(f"without test rows: {', '.join(none)}")
    untested = [one.name for one in evaluation.by_class if not one.tested]
    if untested:
        found.append(f"classes without test rows: {', '.join(untested[:12])}{' …' if len(untested) > 12 else ''}")
    if len(evaluation.by_class) > MOST_CLASSES:
        found.append(f"of {len(evaluation.by_class)} classes the {MOST_CLASSES} with the lowest recall are shown")
    error = max((one.auc_error for one in evaluation.scores if one.auc is not None), default=0.0)
    if error >= 0.0005:
        found.append(f"AUC is from a histogram: {error:.3f} off at most")
    return found


def evaluation_table(evaluation: Evaluation) -> Group:
    """Return the tables for the terminal."""
    head, rows = score_rows(evaluation)
    scores = new_table(f"{title(evaluation)} [dim](95 % intervals)[/dim]", head, right=range(1, len(head)))
    for row in rows:
        ours = row[0].startswith(TITLES["own"])
        scores.add_row(*(f"[bold]{escape(cell)}[/bold]" if ours else escape(cell) for cell in row))
    parts: list[Table | Text] = [scores]
    for name, (titles, lines) in (
        ("Class by class, federated", class_rows(evaluation)),
        ("Accuracy site by site", site_rows(evaluation)),
    ):
        if lines:
            one = new_table(name, titles, right=range(1, len(titles)))
            for line in lines:
                one.add_row(*map(escape, line))
            parts += [Text(""), one]
    said = notes(evaluation)
    return Group(*parts, *([Text("; ".join(said), style="dim")] if said else []))


def _share(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"


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


WIDTH = 160
"""How many characters wide the page is."""


def sweep_tables(swept: Sweep) -> Group:
    """Return the tables for the terminal: what was tried, where a row had a choice, and the rows beside each other."""
    parts: list[Any] = [tried_table(swept), Text("")] if swept.tried else []
    return Group(*parts, contest_table(swept.contest))


def tried_table(swept: Sweep) -> Table:
    """Return every setting with the figure it was judged by, and with how many seeds it was chosen."""
    seeds = len(swept.contest.seeds)
    head = ["row", "settings", COLUMNS[swept.by], "from", "to", "chosen"]
    table = new_table(
        "What was tried [dim](on rows set aside among those learnt from; mean, least and most over the seeds)[/dim]",
        head,
        right=(2, 3, 4, 5),
    )
    for row, settings in swept.settings.items():
        tried = sorted({one.number for one in swept.tried if one.row == row})
        if tried:
            table.add_section()
        for number in tried:
            found, times = swept.judged(row, number), swept.times_chosen(row, number)
            cells = (
                [f"{value:.3f}" for value in (np.mean(found), min(found), max(found))]
                if found
                else ["failed", "", ""]
            )
            style = "bold" if times else ""
            name = escape(row) if number == tried[0] else ""
            table.add_row(
                name, escape(settings_text(settings[number])), *cells, f"{times} of {seeds}", style=style
            )
    return table


def settings_text(settings: dict[str, Any]) -> str:
    """Return settings as people write them.

    >>> settings_text({"rate": 0.1, "optimizer": {"name": "sgd", "momentum": 0.9}})
    'rate = 0.1, optimizer = sgd (momentum = 0.9)'
    """
    return ", ".join(f"{name} = {_value(value)}" for name, value in settings.items()) or "as they are"


def _value(value: Any) -> str:
    if isinstance(value, dict):
        rest = {name: one for name, one in value.items() if name != "name"}
        return " ".join(
            part for part in (str(value.get("name", "")), f"({settings_text(rest)})" if rest else "") if part
        )
    return str(value)


def sweep_page(swept: Sweep, title: str) -> str:
    """Return the same tables as one HTML page that needs nothing else."""
    screen = Console(record=True, width=WIDTH, file=StringIO(), color_system=None)
    screen.print(Text(title, style="bold"), Text(""), sweep_tables(swept), sep="\n")
    return screen.export_html()


MOST_SITE_CLASSES = 6
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
    count = (
        MOST_SITE_CLASSES if len(most) > MOST_SITE_CLASSES + 1 else len(most)
    )  # "and 1 more" is as long as the one
    shown = ", ".join(f"{_short_readiness(label)} {n:,}" for label, n in most[:count])
    more = f" and {len(most) - count} more" if len(most) > count else ""
    return [name, f"{rows:,}", columns, f"{len(classes)}: {shown}{more}", _number(unlabelled), _number(gaps)]


def _number(count: int) -> str:
    return f"{count:,}" if count else ""


def _short_readiness(text: str, most: int = 24) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"
