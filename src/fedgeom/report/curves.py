"""Learning curves of methods that train in rounds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fedgeom.errors import FedgeomError
from fedgeom.methods.catalogue import method_class
from fedgeom.report import markup
from fedgeom.report.markup import escape
from fedgeom.report.run_folder import RunFiles
from fedgeom.report.table import Table, to_html

TALL, WIDE = 100.0, 300.0
KINDS = {"accuracy": "Accuracy on rows set aside", "loss": "Loss on rows set aside"}


def curves(run: RunFiles) -> str:
    """Return what changed from round to round; nothing for methods without rounds."""
    charts = [
        _chart(title, {key.removesuffix(f"_{kind}"): values for key, values in _series(run.rounds, kind).items()})
        for kind, title in KINDS.items()
    ]
    for name, value in run.metrics.items():
        twice = bool(run.rounds) and name in {title.lower() for title in KINDS.values()}
        if _is_curve(value) and not twice:
            charts.append(_chart(name.capitalize(), {"": value}))
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
    if "rounds" not in run.parameters or "validation" not in run.parameters or not _sends(run):
        return ""
    said = (
        "The rounds have no figures: of so few rows with a label, none were left to be set aside."
        if run.parameters["validation"]
        else "Nobody followed the rounds: with validation = 0.1 sites test every round's model on rows set aside."
    )
    return markup.section("rounds", f"{run.parameters['rounds']} rounds", markup.paragraph(said))


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


def _chart(title: str, series: Mapping[str, Sequence[float]]) -> str:
    if not series:
        return ""
    every = np.array([value for values in series.values() for value in values if np.isfinite(value)], np.float64)
    low, high = float(every.min()), float(every.max())
    room = (high - low) or max(abs(high), 1.0) * 0.1
    low, high = max(low - 0.05 * room, 0.0 if low >= 0 else -np.inf), high + 0.05 * room
    if title == KINDS["accuracy"]:
        high = min(high, 1.0)
    lines, keys = [], []
    for at, (name, values) in enumerate(series.items()):
        x = np.linspace(0.0, WIDE, len(values))
        points = [
            f"{across:.1f},{TALL * (high - value) / (high - low):.1f}"
            for across, value in zip(x.tolist(), values, strict=True)
            if np.isfinite(value)
        ]
        lines.append(f'<polyline class="line k{at % 6}" points="{" ".join(points)}"/>')
        last = next(value for value in reversed(values) if np.isfinite(value))
        keys.append(f'<li><i class="k{at % 6}"></i>{escape(name or title)}: {values[0]:.3g} → {last:.3g}</li>')
    count = max(map(len, series.values()))
    said = f"{title}, round 1 to {count}"
    return (
        f'<figure class="curve"><figcaption>{escape(title)}</figcaption><div class="axes"><span>{high:.3g}</span>'
        f'<svg viewBox="0 0 {WIDE:.0f} {TALL:.0f}" preserveAspectRatio="none" role="img" aria-label="{escape(said)}">'
        f"{''.join(lines)}</svg><span>{low:.3g}</span></div>"
        f'<div class="across"><span>round 1</span><span>{count}</span></div>'
        f'<ul class="keys">{"".join(keys)}</ul></figure>'
    )


def _table(rounds: Sequence[Mapping[str, float]]) -> str:
    head = list(dict.fromkeys(name for one in rounds for name in one))
    rows = [[f"{one[name]:.6g}" if name in one else "–" for name in head] for one in rounds]
    named = [name.replace("_", " ") for name in head]
    return to_html(Table("Round by round", named, rows, right=range(len(head))))
