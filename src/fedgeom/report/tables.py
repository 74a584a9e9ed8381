"""The tables of runs, sweeps, rehearsals and sites, each made once for the terminal and for pages."""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from fedgeom.data.validation import SiteSummary
from fedgeom.errors import InputError
from fedgeom.evaluation.benchmark import (
    JUDGED,
    Row,
    Sweep,
    method_rows,
    recommendation,
    rival_rows,
    uneven_effort,
)
from fedgeom.evaluation.evaluation import COLUMNS, LEAST_ROWS, TITLES, Evaluation, score_rows
from fedgeom.federation.ledger import Ledger
from fedgeom.report.label_names import Naming
from fedgeom.report.markup import document, escape, paragraph, section
from fedgeom.report.table import Cell, Line, ReportTable, Style, size, styled, to_html

if TYPE_CHECKING:
    from fedgeom.deploy.budgets import Charge
    from fedgeom.deploy.preview import Preview

MANY_SITES = 6
"""With more sites than this a table of names with a column for each would break words."""
MOST_CLASSES = 60
"""How many classes are listed; of more, those that are recalled worst."""
MOST_SITE_CLASSES = 6
"""How many classes of a site are shown; the others are counted."""
WITH_INTERVALS = ("accuracy", JUDGED)
"""The figures that are shown with their intervals: more would not fit a terminal. The files have all."""
LONGEST = 300
"""How many characters of the reason why a method failed are shown; the files have all of it."""


def of_site(ledger: Ledger, site: str | None) -> Ledger:
    """Return the part of a ledger that is about one site; all of it for None."""
    if site is None:
        return ledger
    if site not in ledger.sites:
        there = ", ".join(ledger.sites) or "no sites at all"
        raise InputError(f"no message of a site {site!r} is in the ledger; it has {there}")
    return Ledger([entry for entry in ledger if entry.site == site])


def ledger_table(ledger: Ledger, site: str | None = None) -> ReportTable:
    """Return one row for each kind of message, however often it came, in the order in which they first came."""
    head = ["steps", "message", "times", "sites", "each", "what it reveals to the coordinator"]
    rows = [
        [one.when, one.kind, str(len(one.steps)), one.sites, size(round(one.bytes / one.messages)), one.reveals]
        for one in of_site(ledger, site).by_message()
    ]
    return ReportTable(f"What left {site or 'each site'}, message by message", head, rows, right=(0, 2, 3, 4))


def traffic_table(ledger: Ledger) -> ReportTable:
    """Return how much left each site."""
    rows = []
    for site in ledger.sites:
        mine = [entry for entry in ledger if entry.site == site]
        received = sum(entry.received for entry in mine)
        rows.append([site, str(len(mine)), size(ledger.sent(site)), size(received)])
    return ReportTable(
        "What left each site, in all", ["site", "messages", "sent", "received"], rows, right=(1, 2, 3)
    )


def naming_table(naming: Naming) -> ReportTable:
    """Return which local name was taken for which global class: a column for each site, or of many who says what.

    ✗ marks wrong names, where the truth is known, and ? those whose class is in doubt.
    """
    sites = list(naming.by_site)
    head = ["class", "meaning" if naming.known else "called"]
    columns = sites if len(sites) <= MANY_SITES else ["by the sites"]
    rows: list[Line] = []
    for group, name in zip(naming.classes, naming.names, strict=True):
        said = {site: _said_by(naming, site, group) for site in sites}
        if len(sites) > MANY_SITES:
            who: dict[Cell, list[str]] = {}
            for site, cell in said.items():
                if cell.text != "–":
                    who.setdefault(cell, []).append(site)
            most_first = sorted(who.items(), key=lambda one: -len(one[1]))
            texts = [f"{cell.text} ({_few(whose)})" for cell, whose in most_first]
            cells = [Cell("; ".join(texts), _worst(who))]
        else:
            cells = list(said.values())
        rows.append([str(group), Cell(name, "strong"), *cells])
    return ReportTable("Which local name means which global class", [*head, *columns], rows, right=(0,))


def _said_by(naming: Naming, site: str, group: int) -> Cell:
    """Return a site's names for a class, marked."""
    marks: list[tuple[str, Style]] = []
    for word in naming.by_site[site].get(group, []):
        if word in naming.wrong.get(site, []):
            marks.append((f"✗ {word}", "bad"))
        elif (site, word) in naming.doubtful:
            marks.append((f"? {word}", "doubt"))
        else:
            marks.append((word, ""))
    cells = [Cell(text, style) for text, style in marks]
    return Cell(", ".join(one.text for one in cells) or "–", _worst(cells))


def _worst(cells: Collection[Cell]) -> Style:
    styles = {one.style for one in cells}
    return "bad" if "bad" in styles else "doubt" if "doubt" in styles else ""


def _few(sites: Sequence[str]) -> str:
    return ", ".join(sites) if len(sites) <= 3 else f"{len(sites)} sites"


def naming_verdict(naming: Naming) -> str:
    """Say how many local names were matched rightly, where that is known."""
    doubtful = f" {len(naming.doubtful)} of them are doubtful (marked ?)." if naming.doubtful else ""
    if not naming.known:
        return f"{naming.total} local names were matched to {len(naming.classes)} global classes.{doubtful}"
    missed = naming.total - naming.right
    return f"{naming.right} of {naming.total} local names were matched rightly, {missed} wrongly.{doubtful}"


def evidence_table(naming: Naming) -> ReportTable:
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
    head = ["site", "its name", "class", "distance", "next best", "distance then", "so it is"]
    return ReportTable("How sure names are", head, [row for _, row in sorted(rows)], right=(3, 5))


def doubt_table(naming: Naming, most: int = 12) -> ReportTable:
    """Return the evidence for the names whose class is in doubt."""
    whole = evidence_table(naming)
    rows = [row for row in whole.rows if row[-1] == "doubtful"]
    aside = f"the {most} least sure of {len(rows)}" if len(rows) > most else ""
    return replace(whole, title="Names whose class is in doubt", aside=aside, rows=rows[:most])


def evaluation_tables(evaluation: Evaluation) -> list[ReportTable]:
    """Return how well a model does: beside its rivals, class by class and site by site."""
    made = [score_table(evaluation), class_table(evaluation), site_table(evaluation)]
    shown = [one for one in made if one.rows]
    said = evaluation_notes(evaluation)
    return [*shown[:-1], replace(shown[-1], notes=["; ".join(said)])] if said else shown


def score_table(evaluation: Evaluation) -> ReportTable:
    """Return the figures of all models."""
    rows = evaluation.rows
    sites = evaluation.sites
    head, found = score_rows(evaluation)
    return ReportTable(
        f"How well it does on {rows:,} rows that {sites} site{'' if sites == 1 else 's'} kept aside",
        head,
        [styled(row, "strong") if row[0].startswith(TITLES["own"]) else row for row in found],
        right=range(1, len(head)),
        aside="95 % intervals",
    )


def class_table(evaluation: Evaluation) -> ReportTable:
    """Return the figures of each class, as the federated models tell them."""
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
            *(_share(value) for value in (one.recall, one.precision, one.f1)),
        ]
        for one in classes
    ]
    return ReportTable("Class by class, federated", head, rows, right=range(1, len(head)))


def site_table(evaluation: Evaluation) -> ReportTable:
    """Return the accuracy at each site, those with too few rows left out."""
    shown = [one for one in evaluation.by_site if one.accuracy]
    models = [name for name in TITLES if any(name in one.accuracy for one in shown)]
    head = ["site", "tested on", *(TITLES[name] for name in models)]
    rows = [[one.site, f"{one.tested:,}", *(_share(one.accuracy.get(name)) for name in models)] for one in shown]
    return ReportTable("Accuracy site by site", head, rows, right=range(1, len(head)))


def calibration_table(evaluation: Evaluation) -> ReportTable:
    """Return which probabilities the federated models give, and what came."""
    rows = [[f"{one.rows:,}", f"{one.predicted:.3f}", str(one.observed)] for one in evaluation.calibration]
    head = ["test rows", "mean probability", "share that has the class"]
    return ReportTable("Calibration", head, rows, right=range(3), aside="95 % intervals")


def threshold_table(evaluation: Evaluation) -> ReportTable:
    """Return sensitivity, specificity and predictive values by threshold."""
    head = ["called from", "rows called", "sensitivity", "specificity", "PPV", "NPV"]
    rows = [
        [
            f"{one.threshold:.2f}",
            f"{one.called:.0%}",
            *(
                "–" if found is None else str(found)
                for found in (one.sensitivity, one.specificity, one.ppv, one.npv)
            ),
        ]
        for one in evaluation.thresholds
    ]
    return ReportTable("Thresholds", head, rows, right=range(len(head)), aside="95 % intervals")


def _share(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"


def evaluation_notes(evaluation: Evaluation) -> list[str]:
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
    if evaluation.neighbours > 1 and any(one.auc is not None for one in evaluation.scores):
        found.append(
            f"AUC is the mean over sites with {evaluation.neighbours} test rows of each class, each over its own rows"
        )
    error = max((one.auc_error for one in evaluation.scores if one.auc is not None), default=0.0)
    if error >= 0.0005:
        found.append(f"AUC is from a histogram: {error:.3f} off at most")
    return found


def sweep_tables(swept: Sweep) -> list[ReportTable]:
    """Return what was tried, where a row had a choice, and the rows beside each other."""
    return [*([tried_table(swept)] if swept.tried else []), comparison_table(swept)]


def comparison_table(swept: Sweep) -> ReportTable:
    """Return what methods are measured against, the methods, those that failed, and which to take."""
    rivals = rival_rows(swept)
    found = method_rows(swept)
    methods = [*(row for row in found if row.alone and row.figures), *(row for row in found if not row.alone)]
    methods += [row for row in found if row.alone and not row.figures]
    shown = [name for name in COLUMNS if any(name in row.figures for row in [*rivals, *methods])]
    paired = any(row.difference is not None for row in methods)
    gap = ["from the best"] if paired else []
    head = ["", *(COLUMNS[name] for name in shown), *gap, "left each site", "time"]
    rows: list[Line] = []
    for row in rivals:
        cells = [TITLES[row.name], *(_figure(row, name) for name in shown)]
        rows.append(styled([*cells, *[""] * (len(head) - len(cells))], "dim"))
    for row in methods:
        if row.figures:
            difference = "" if row.difference is None else str(row.difference)
            rows.append(
                [
                    Cell(row.name, "dim" if row.alone else "strong"),
                    *(_figure(row, name) for name in shown),
                    *([difference] if paired else []),
                    size(row.sent) if row.sent else "–",
                    f"{row.seconds:.1f} s",
                ]
            )
    notes: list[str | Cell] = [
        Cell(f"{row.name}: {_short(row.failure)}", "doubt") for row in methods if row.failure
    ]
    if notes:
        notes.insert(0, "")
    if paired:
        notes.append("from the best: in balanced accuracy, seed by seed (Student's t, corrected for splits)")
    efforts = uneven_effort(swept)
    if efforts:
        notes.append(Cell(efforts, "doubt"))
    seeds = len(swept.seeds)
    made = [f"seeds {', '.join(map(str, swept.seeds))}; {swept.command}"] if swept.command else []
    return ReportTable(
        f"The same rows, {swept.share:.0%} kept aside, {seeds} seed{'' if seeds == 1 else 's'}",
        head,
        rows,
        right=range(1, len(head)),
        aside="95 % intervals of one split",
        notes=[*notes, "", Cell(recommendation(swept), "strong"), *made],
    )


def _figure(row: Row, name: str) -> str:
    if name not in row.figures:
        return "–"
    found = row.figures[name]
    return str(found) if name in WITH_INTERVALS else f"{found.value:.3f}"


def _short(text: str, most: int = LONGEST) -> str:
    line = " ".join(text.split())
    return line if len(line) <= most else f"{line[: most - 1]}…"


def tried_table(swept: Sweep) -> ReportTable:
    """Return every setting with the figure it was judged by, and with how many seeds it was chosen."""
    seeds = len(swept.seeds)
    rows = []
    for name, settings in swept.settings.items():
        for at, setting in enumerate(settings):
            tried = swept.with_setting(name, at)
            if not tried:
                continue
            times = sum(one.chosen for one in tried)
            found = [value for one in tried if (value := one.figure(swept.by)) is not None]
            cells = ["failed", "", ""]
            if found:
                cells = [f"{value:.3f}" for value in (np.mean(found), min(found), max(found))]
            line = [name if at == 0 else "", settings_text(setting), *cells, f"{times} of {seeds}"]
            rows.append(styled(line, "strong" if times else ""))
    return ReportTable(
        "What was tried",
        ["row", "settings", COLUMNS[swept.by], "from", "to", "chosen"],
        rows,
        right=(2, 3, 4, 5),
        aside="on rows set aside among those learnt from; mean, least and most over the seeds",
    )


def settings_text(settings: dict[str, Any]) -> str:
    """Return settings as people write them.

    >>> settings_text({"rate": 0.1, "optimizer": {"name": "sgd", "momentum": 0.9}})
    'learning_rate = 0.1, optimizer = sgd (momentum = 0.9)'
    """
    return ", ".join(f"{name} = {_value(value)}" for name, value in settings.items()) or "as they are"


def _value(value: Any) -> str:
    if not isinstance(value, dict):
        return str(value)
    rest = {name: one for name, one in value.items() if name != "name"}
    parts = [str(value.get("name", "")), f"({settings_text(rest)})" if rest else ""]
    return " ".join(part for part in parts if part)


def sweep_page(swept: Sweep, title: str) -> str:
    """Return the tables of a sweep or a comparison as one page that needs nothing else."""
    parts = [
        section(f"table-{at}", one.title, paragraph(one.aside, "dim"), to_html(one))
        for at, one in enumerate(sweep_tables(swept))
    ]
    return document(title, f"<h1>{escape(title)}</h1>{''.join(parts)}")


def sites_table(sites: Sequence[SiteSummary]) -> ReportTable:
    """Return what each site has; with several sites, the last line is all of them together."""
    rows = [
        _summary(one.name, one.rows, f"{one.columns:,}", one.classes, one.unlabelled, one.gaps) for one in sites
    ]
    if len(sites) > 1:
        counts: Counter[str] = Counter()
        for one in sites:
            counts.update(one.classes)
        columns = {one.columns for one in sites}
        same = f"{columns.pop():,}" if len(columns) == 1 else "differ"
        total, unlabelled, gaps = (
            sum(getattr(one, name) for one in sites) for name in ("rows", "unlabelled", "gaps")
        )
        rows.append(_summary("all", total, same, dict(counts), unlabelled, gaps))
    head = ["site", "rows", "columns", "no label", "gaps", "classes"]
    shown = [
        at for at, name in enumerate(head) if name not in ("no label", "gaps") or any(row[at] for row in rows)
    ]
    return ReportTable(
        "",
        [head[at] for at in shown],
        [[row[at] for at in shown] for row in rows],
        right=range(1, len(shown) - 1),
    )


def _summary(name: str, rows: int, columns: str, classes: dict[str, int], unlabelled: int, gaps: int) -> list[str]:
    most = sorted(classes.items(), key=lambda one: (-one[1], one[0]))
    # "and 1 more" is as long as the one
    count = MOST_SITE_CLASSES if len(most) > MOST_SITE_CLASSES + 1 else len(most)
    shown = ", ".join(f"{_short(label, 24)} {n:,}" for label, n in most[:count])
    more = f" and {len(most) - count} more" if len(most) > count else ""
    return [name, f"{rows:,}", columns, _number(unlabelled), _number(gaps), f"{len(classes)}: {shown}{more}"]


def _number(count: int) -> str:
    return f"{count:,}" if count else ""


def preview_tables(found: Preview) -> list[ReportTable]:
    """Return what would leave a site, message by message, and the rows that others would learn, if any."""
    rows = [
        [f"{'≤ ' if one.bound else ''}{one.times}", one.question, one.answer, size(one.bytes), one.reveals]
        for one in found.messages
    ]
    count = sum(one.times for one in found.messages)
    total = sum(one.times * one.bytes for one in found.messages)
    decides = dict.fromkeys(f"{one.question}: {one.bound}" for one in found.messages if one.bound)
    whole = f"In all {'at most ' if decides else ''}{count:,} messages, {size(total)}."
    notes = [f"≤  {line}" for line in decides if not line.startswith("sum.")]
    made = [
        ReportTable(
            "",
            ["times", "asked", "would leave", "size", "what it reveals to the coordinator"],
            rows,
            right=(0, 3),
            notes=["", Cell(whole), *map(Cell, notes)],
        )
    ]
    if found.corners:
        corners = [[one.label, f"{one.rows:,}", f"{one.corners:,}", f"{one.share:.0%}"] for one in found.corners]
        title = "Corners of hulls: rows that others learn, rounded and not under your name"
        made.append(ReportTable(title, ["class", "rows", "corners", "share"], corners, right=(1, 2, 3)))
    return made


def budget_table(charges: Sequence[Charge]) -> ReportTable:
    """Return what each run of a site cost of its privacy."""
    rows = []
    for one in charges:
        delta = f"{one.delta:g}" + (f" ({one.note} alone)" if one.note else "") if one.run else one.note
        epsilon = f"{one.epsilon:g}" if one.run else ""
        rows.append([moment(one.when), one.run[:8], one.method, one.unit, epsilon, delta])
    return ReportTable("", ["charged", "run", "method", "per", "epsilon", "delta"], rows, right=(4,))


def moment(when: float) -> str:
    """Return a time in seconds as people here write it."""
    return datetime.datetime.fromtimestamp(when).strftime("%Y-%m-%d %H:%M")
