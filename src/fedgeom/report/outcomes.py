"""How well the model does: beside simple rivals, class by class, site by site, what it confuses, and its curves."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fedgeom.errors import FedgeomError
from fedgeom.evaluation.evaluation import COLUMNS, TITLES, Evaluation
from fedgeom.federation.results import UNTESTED
from fedgeom.methods.catalogue import method_class
from fedgeom.report import markup, tables
from fedgeom.report.markup import Interval, escape, interval_chart
from fedgeom.report.run_folder import RunFiles
from fedgeom.report.table import ReportTable, to_html

MANY_SITES = 12
"""With more sites than this the chart shows how they spread, and the table comes on demand."""
FEW = 5
"""So many names fit across a confusion matrix; of more classes the numbers stand there."""
MOST_CONFUSED = 40
"""With more classes than this the confusion matrix is too wide for any page; the worst pairs are listed."""


TALL = 100.0
WIDE = 300.0
"""The size of a chart, in its own units."""
KINDS = {"accuracy": "Accuracy on rows set aside", "loss": "Loss on rows set aside"}
"""The figures of rounds that are drawn."""


def outcomes(evaluation: Evaluation | None, untested: str = UNTESTED) -> str:
    """Return the section on how well the model does; where nothing was tested, what is said instead."""
    if evaluation is None:
        return markup.section("result", "How well it does", markup.paragraph(untested))
    return (
        markup.section("result", "How well it does", _beside_rivals(evaluation))
        + markup.section("confusion", "What is taken for what", _confusion(evaluation))
        + markup.section("classes", "Class by class", _classes(evaluation))
        + markup.section("probabilities", "Probabilities and thresholds", _probabilities(evaluation))
        + markup.section("by-site", "Site by site", _sites(evaluation))
    )


def _beside_rivals(evaluation: Evaluation) -> str:
    charts = []
    for name, title in COLUMNS.items():
        found = [(one.model, figure) for one in evaluation.scores if (figure := getattr(one, name)) is not None]
        if not found:
            continue
        lines = [
            Interval(TITLES[model], figure.value, figure.low, figure.high, str(figure), model == "own")
            for model, figure in found
        ]
        heading = title.capitalize() if title.islower() else title
        charts.append(f"<h3>{escape(heading)}</h3>{interval_chart(lines)}")
    first = charts[:2]
    rest = charts[2:]
    return (
        markup.paragraph(
            f"Tested on {evaluation.rows:,} rows that "
            + (f"{evaluation.sites} sites" if evaluation.sites != 1 else "the site")
            + " kept aside."
        )
        + markup.paragraph(
            "A dot is the figure, the bar its 95 % interval. The majority class is the floor: the commonest class, "
            "always. Each site alone is a logistic regression on the site's own rows; pooled rows are one on "
            "everybody's rows in one place, which a deployment cannot have.",
            "dim",
        )
        + "".join(first)
        + (markup.details("More figures", "".join(rest)) if rest else "")
        + markup.details("The same as a table", to_html(tables.score_table(evaluation)), twin=True)
        + markup.paragraph("; ".join(tables.evaluation_notes(evaluation)), "dim")
    )


def _confusion(evaluation: Evaluation) -> str:
    counts = np.array(evaluation.confusion, dtype=np.int64)
    names = [*evaluation.classes, "none of these"][: len(counts)]
    kept = [
        at for at in range(len(names)) if at < len(evaluation.classes) or counts[at].any() or counts[:, at].any()
    ]
    counts = counts[np.ix_(kept, kept)]
    names = [names[at] for at in kept]
    wrong = [
        (int(counts[i, j]), names[i], names[j])
        for i in range(len(names))
        for j in range(len(names))
        if i != j and counts[i, j]
    ]
    said = "No test row was taken for another class."
    if wrong:
        worst = sorted(wrong, key=lambda one: (-one[0], one[1:]))
        count, true, taken = worst[0]
        said = f"Most often, {count:,} times, {true} was taken for {taken}."
        if count == 1:
            said = f"{true} was taken for {taken} once, and nothing was confused more often."
    if len(names) > MOST_CONFUSED:
        rows = [[true, taken, f"{count:,}"] for count, true, taken in sorted(wrong, key=lambda one: -one[0])[:30]]
        return markup.paragraph(said) + to_html(
            ReportTable("Confused most", ["class", "taken for", "rows"], rows, right=(2,))
        )
    total = counts.sum(axis=1, keepdims=True)
    shares = counts / np.maximum(total, 1)
    wide = len(names) > FEW  # numbers across, which the names down explain
    head = "".join(
        f'<th scope="col" title="{escape(name)}">{at if wide else escape(_short(name))}</th>'
        for at, name in enumerate(names)
    )
    body = "".join(
        f'<tr><th scope="row">{escape(_short(name if name.startswith(str(i)) or not wide else f"{i} {name}", 28))}</th>'
        + "".join(
            f'<td class="n{" right" if i == j else ""}" style="--v:{shares[i, j]:.2f}" title="{escape(name)} taken for '
            f'{escape(names[j])}: {counts[i, j]:,} of {int(total[i, 0]):,}">{counts[i, j] or "·"}</td>'
            for j in range(len(names))
        )
        + "</tr>"
        for i, name in enumerate(names)
    )
    key = (
        "Rows by the class they have (down) and the class they are given (across); the darker, the larger the share of "
        "the class. On the diagonal, framed, is what is right."
    )
    table = f'<table class="confusion"><thead><tr><td></td>{head}</tr></thead><tbody>{body}</tbody></table>'
    return markup.paragraph(said) + markup.paragraph(key, "dim") + markup.scroll(table, "The confusion matrix")


def _short(name: str, most: int = 12) -> str:
    return name if len(name) <= most else f"{name[: most - 1]}…"


def _classes(evaluation: Evaluation) -> str:
    table = tables.class_table(evaluation)
    if not table.rows:
        return ""
    lines = [
        Interval(one.name, one.recall, 0.0, one.recall, f"{one.recall:.3f} of {one.tested:,}")
        for one in evaluation.by_class
        if one.recall is not None
    ]
    if len(evaluation.by_class) > tables.MOST_CLASSES:
        return to_html(table)
    said = "The share of a class's test rows that the federated models call by its name (recall)."
    return (
        markup.paragraph(said, "dim")
        + interval_chart(lines, whole=True)
        + markup.details("Precision, F1 and counts", to_html(table))
    )


def _probabilities(evaluation: Evaluation) -> str:
    """Return the calibration curve, and what follows from each threshold; nothing where the test does not tell."""
    if not evaluation.calibration or len(evaluation.classes) != 2:
        return ""
    first, second = evaluation.classes
    rows = sum(one.rows for one in evaluation.calibration)
    said = sum(one.rows * one.predicted for one in evaluation.calibration) / rows
    came = sum(one.rows * one.observed.value for one in evaluation.calibration) / rows
    blurred = (
        f" Rows are counted at the mean of {evaluation.neighbours} neighbours or more, so thresholds are not exact."
        if evaluation.neighbours > 1
        else ""
    )
    return (
        markup.paragraph(
            f"The federated models give {second} a probability of {said:.3f} on average; {came:.3f} of the rows have "
            "it. On the diagonal, probabilities are what comes."
        )
        + _calibration_chart(evaluation)
        + markup.details("The curve as a table", to_html(tables.calibration_table(evaluation)), twin=True)
        + markup.paragraph(
            f"What follows if rows are called {second} from a probability on: sensitivity is the share of {second} "
            f"that is called so, specificity that of {first} that is not; PPV is the share of the rows called {second} "
            f"that are, NPV that of the others that are {first}.{blurred}",
            "dim",
        )
        + to_html(tables.threshold_table(evaluation))
    )


def _calibration_chart(evaluation: Evaluation) -> str:
    """Return the observed share over the mean probability, with intervals and the diagonal."""
    points = evaluation.calibration

    def at(predicted: float, share: float) -> str:
        return f"{TALL * predicted:.1f} {TALL * (1 - share):.1f}"

    grid = "".join(f'<path class="grid" d="M0 {TALL * part:.0f}H{TALL:.0f}"/>' for part in (0, 0.25, 0.5, 0.75, 1))
    bars = "".join(
        f'<path class="line k0" d="M{at(one.predicted, one.observed.low)}L{at(one.predicted, one.observed.high)}"/>'
        f'<path class="best k0" d="M{at(one.predicted, one.observed.value)}h0"/>'
        for one in points
    )
    curve = " ".join(at(one.predicted, one.observed.value).replace(" ", ",") for one in points)
    values = "".join(f'<i style="top:{1 - part:.0%}">{part:g}</i>' for part in (0, 0.25, 0.5, 0.75, 1))
    across = "".join(f'<i style="left:{part:.0%}">{part:g}</i>' for part in (0, 0.25, 0.5, 0.75, 1))
    return (
        '<div class="charts"><figure class="curve"><figcaption>Share of rows over mean probability</figcaption>'
        f'<div class="axes"><div class="values" aria-hidden="true">{values}</div>'
        f'<svg viewBox="0 0 {TALL:.0f} {TALL:.0f}" preserveAspectRatio="none" role="img" '
        f'aria-label="Calibration curve of {len(points)} bins">{grid}<path class="grid" d="M{at(0, 0)}L{at(1, 1)}"/>'
        f'<polyline class="line k0" points="{curve}"/>{bars}</svg>'
        f'<div class="across" aria-hidden="true">{across}</div>'
        '<div class="unit dim" aria-hidden="true">probability</div></div></figure></div>'
    )


def _sites(evaluation: Evaluation) -> str:
    found = tables.site_table(evaluation)
    if not found.rows:
        return ""
    shown = [one for one in evaluation.by_site if "own" in one.accuracy]
    table = to_html(found)
    if len(shown) > MANY_SITES:
        own = np.sort([one.accuracy["own"] for one in shown])
        better = sum(one.accuracy["own"] >= one.accuracy["local"] for one in shown if "local" in one.accuracy)
        counted = sum("local" in one.accuracy for one in shown)
        said = (
            f"Over {len(shown)} sites the accuracy of what they end with goes from {own[0]:.3f} to {own[-1]:.3f}, half "
            f"of them between {np.quantile(own, 0.25):.3f} and {np.quantile(own, 0.75):.3f}. "
            + (f"{better} of {counted} do at least as well as alone." if counted else "")
        )
        dots = "".join(f'<b style="left:{100 * value:.1f}%"></b>' for value in own.tolist())
        strip = f'<div class="span many"><span></span><span class="track" aria-hidden="true">{dots}</span></div>'
        return markup.paragraph(said) + strip + markup.details(f"All {len(shown)} sites", table)
    lines = [
        Interval(
            one.site,
            one.accuracy["own"],
            min(one.accuracy["own"], one.accuracy.get("local", one.accuracy["own"])),
            max(one.accuracy["own"], one.accuracy.get("local", one.accuracy["own"])),
            f"{one.accuracy['own']:.3f}"
            + (f" (alone {one.accuracy['local']:.3f})" if "local" in one.accuracy else ""),
        )
        for one in shown
    ]
    said = "The dot is the accuracy at the site, the bar reaches to what its own model, trained alone, has there."
    return markup.paragraph(said, "dim") + interval_chart(lines) + markup.details("As a table", table, twin=True)


def curves(run: RunFiles) -> str:
    """Return what changed from round to round; nothing for methods without rounds."""
    charts = [round_charts(run.rounds)]
    for name, value in run.metrics.items():
        twice = bool(run.rounds) and name in {title.lower() for title in KINDS.values()}
        if _is_curve(value) and not twice:
            charts.append(curve_chart(name.capitalize(), {"": value}))
    drawn = [one for one in charts if one]
    if not drawn:
        return _none(run)
    count = len(run.rounds) or max(len(value) for value in run.metrics.values() if _is_curve(value))
    return markup.section(
        "rounds",
        f"How it went over {count} rounds",
        f'<div class="charts">{"".join(drawn)}</div>',
        markup.details("As a table", _table(run.rounds), twin=True) if run.rounds else "",
    )


def _is_curve(value: Any) -> bool:
    """Say whether a metric is a list of numbers, one for each round."""
    return isinstance(value, list) and len(value) > 1 and all(isinstance(one, int | float) for one in value)


def _none(run: RunFiles) -> str:
    if "n_rounds" not in run.parameters or "validation_fraction" not in run.parameters or not _sends(run):
        return ""
    said = (
        "The rounds have no figures: of so few rows with a label, none were left to be set aside."
        if run.parameters["validation_fraction"]
        else "Nobody followed the rounds: with validation_fraction = 0.1 sites test each round's model on some rows."
    )
    return markup.section("rounds", f"{run.parameters['n_rounds']} rounds", markup.paragraph(said))


def _sends(run: RunFiles) -> bool:
    """Say whether anything leaves the sites in the rounds; of a method that is not installed here, it is taken to."""
    try:
        return bool(getattr(method_class(run.method), "sends", True))
    except FedgeomError:
        return True


def _series(rounds: Sequence[Mapping[str, float]], kind: str) -> dict[str, list[float]]:
    """Return the figures of a kind by name, each with a value for every round."""
    names = [name for name in (rounds[0] if rounds else ()) if name.endswith(f"_{kind}")]
    found = {name: [float(one.get(name, np.nan)) for one in rounds] for name in names}
    return {name: values for name, values in found.items() if np.isfinite(values).sum() > 1}


def joint_curve(rounds: Sequence[Mapping[str, float]], kind: str) -> list[float]:
    """Return the first figure of a kind that was followed, round by round; nothing where none was."""
    return next(iter(_series(rounds, kind).values()), [])


def round_charts(rounds: Sequence[Mapping[str, float]]) -> str:
    """Return a chart for each kind of figure that was followed from round to round."""
    found = [
        curve_chart(title, {key.removesuffix(f"_{kind}"): values for key, values in _series(rounds, kind).items()})
        for kind, title in KINDS.items()
    ]
    return "".join(found)


def curve_chart(title: str, series: Mapping[str, Sequence[float]]) -> str:
    """Return curves over the rounds on one pair of axes with ticks; the best round of each is marked."""
    if not series:
        return ""
    every = np.array([value for values in series.values() for value in values if np.isfinite(value)], np.float64)
    rounds = max(map(len, series.values()))
    ticks = _ticks(float(every.min()), float(every.max()))
    low = min(ticks[0], float(every.min()))
    high = max(ticks[-1], float(every.max()))

    def across(number: int) -> float:
        return WIDE * number / max(rounds - 1, 1)

    def down(value: float) -> float:
        return TALL * (high - value) / (high - low)

    lines = [f'<path class="grid" d="M0 {down(one):.1f}H{WIDE:.0f}"/>' for one in ticks]
    keys = []
    for at, (name, values) in enumerate(series.items()):
        kind = f"k{at % 6}"
        points = " ".join(
            f"{across(number):.1f},{down(value):.1f}" for number, value in enumerate(values) if np.isfinite(value)
        )
        lines.append(f'<polyline class="line {kind}" points="{points}"/>')
        known = [value for value in values if np.isfinite(value)]
        ends = f"{escape(name or title)}: {known[0]:.3g} → {known[-1]:.3g}"
        if title in KINDS.values():
            best = int(np.nanargmin(values) if title == KINDS["loss"] else np.nanargmax(values))
            lines.append(f'<path class="best {kind}" d="M{across(best):.1f} {down(values[best]):.1f}h0"/>')
            ends += f'<span class="dim">best {values[best]:.3g} in round {best + 1}</span>'
        keys.append(f'<li><i class="{kind}"></i>{ends}</li>')
    said = f"{title}, round 1 to {rounds}"
    values_of = "".join(f'<i style="top:{down(one) / TALL:.1%}">{one:.4g}</i>' for one in ticks)
    shown = sorted({1, rounds, *(round(part * rounds) for part in (0.25, 0.5, 0.75) if rounds > 8)})
    rounds_of = "".join(f'<i style="left:{across(one - 1) / WIDE:.1%}">{one}</i>' for one in shown)
    return (
        f'<figure class="curve"><figcaption>{escape(title)}</figcaption><div class="axes">'
        f'<div class="values" aria-hidden="true">{values_of}</div>'
        f'<svg viewBox="0 0 {WIDE:.0f} {TALL:.0f}" preserveAspectRatio="none" role="img" aria-label="{escape(said)}">'
        f'{"".join(lines)}</svg><div class="across" aria-hidden="true">{rounds_of}</div>'
        f'<div class="unit dim" aria-hidden="true">round</div></div><ul class="keys">{"".join(keys)}</ul></figure>'
    )


def _ticks(low: float, high: float) -> list[float]:
    """Return three to six round numbers that span a range, nearly."""
    room = (high - low) or max(abs(high), 1.0) * 0.1
    size = 10.0 ** math.floor(math.log10(room))
    step = next(one * size for one in (0.2, 0.5, 1.0, 2.0, 5.0) if room / (one * size) <= 4)
    first = math.floor(low / step + 0.1)
    last = max(math.ceil(high / step - 0.1), first + 1)
    return [at * step for at in range(first, last + 1)]


def _table(rounds: Sequence[Mapping[str, float]]) -> str:
    head = list(dict.fromkeys(name for one in rounds for name in one))
    rows = [[f"{one[name]:.6g}" if name in one else "–" for name in head] for one in rounds]
    named = [name.replace("_", " ") for name in head]
    return to_html(ReportTable("Round by round", named, rows, right=range(len(head))))
