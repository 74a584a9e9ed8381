"""Tables of how well a model does: all models, class by class, site by site."""

from __future__ import annotations

from rich.console import Group
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from fedgeom.evaluation.figures import LEAST_ROWS, TITLES, Evaluation, score_rows
from fedgeom.report.tables import new_table

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
