"""Survival curves with their intervals, and numbers at risk below, for the terminal and for pages."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from fedgeom.errors import InputError
from fedgeom.methods.survival.curves import CurvesModel
from fedgeom.report import markup
from fedgeom.report.markup import escape
from fedgeom.report.table import Line, ReportTable, to_html

MOMENTS = 6
"""At so many moments numbers at risk are told."""
WIDE, HIGH, LEFT = 720.0, 300.0, 50.0
ROOM = 17.0
"""How far apart the names of two curves stand."""
DASHES = ("none", "7 4", "2 3", "9 3 2 3")
"""How lines are dashed, one group after the other."""


def survival_tables(model: Any) -> list[ReportTable]:
    """Return the tables of survival curves; none for other models."""
    if not isinstance(model, CurvesModel):
        return []
    moments = _moments(model)
    head = [f"{one:,.4g}" for one in moments]
    at_risk, S = model.at(moments), np.column_stack([np.ones(len(model.names)), model.survival])
    upto = np.searchsorted(model.times, moments, side="right")
    risk: list[Line] = [[name, *(f"{n:,}" for n in at_risk[at])] for at, name in enumerate(model.names)]
    ends = np.array([row[5:] for row in model.curve_rows()]).reshape(len(model.names), -1, 2)
    ends = np.concatenate([np.ones((len(model.names), 1, 2)), ends], axis=1)
    share: list[Line] = [
        [name, *(_share(*one) for one in zip(S[at, upto], *ends[at, upto].T, strict=True))]
        for at, name in enumerate(model.names)
    ]
    found = [
        ReportTable(
            f"Share without the event at a time, and its {model.level:.0%} interval",
            ["", *head],
            share,
            right=range(1, len(head) + 1),
        ),
        ReportTable("Numbers at risk", ["", *head], risk, right=range(1, len(head) + 1)),
    ]
    try:
        test = model.log_rank()
    except InputError:  # there is one curve
        return found
    said: Line = [
        f"{test['chi2']:.4g}",
        f"{test['df']:.0f}",
        f"{test['p']:.4f}" if test["p"] >= 1e-4 else "<0.0001",
    ]
    return [*found, ReportTable("Is it one curve? (log-rank)", ["χ²", "df", "p"], [said], right=range(3))]


def _share(s: float, low: float, high: float) -> str:
    return f"{s:.3f}" if low == high else f"{s:.3f} ({low:.3f} to {high:.3f})"


def _last(model: CurvesModel) -> float:
    """Return until when curves are drawn: where times are in intervals, to where the last one begins.

    That one is long, as few are followed for long, and within it nothing is known of who leaves when.
    """
    at = -1 if model.exact or len(model.times) < 3 else -2
    return float(model.times[at])


def _moments(model: CurvesModel) -> list[float]:
    """Return round moments from 0 to the last time that is drawn."""
    last = _last(model)
    if last <= 0:
        return [0.0]
    size = 10.0 ** math.floor(math.log10(last / MOMENTS))
    size *= next(m for m in (1, 2, 5, 10) if last / (m * size) <= MOMENTS)
    return [at * size for at in range(math.floor(last / size) + 1)]


def survival_section(model: Any) -> str:
    """Return the section of a page; nothing for other models."""
    tables = survival_tables(model)
    if not tables:
        return ""
    parts = [f"<h3>{escape(one.title)}</h3>{to_html(one)}" for one in tables]
    return markup.section("survival", "Survival curves", markup.scroll(_picture(model), "Survival curves"), *parts)


def _picture(model: CurvesModel) -> str:
    """Return the curves as steps, with their intervals as areas."""
    last = _last(model) or 1.0
    rows = [row for row in model.curve_rows() if row[1] <= last]
    parts = []
    names: list[tuple[float, str]] = []
    for place, name in enumerate(model.names):
        own = [row for row in rows if row[0] == name]
        steps = {
            what: _steps([(row[1], row[at]) for row in own], last)
            for what, at in (("S", 4), ("low", 5), ("high", 6))
        }
        area = " ".join([*steps["low"], *reversed(steps["high"])])
        dash = DASHES[place % len(DASHES)]
        names.append((float(steps["S"][-1].split(",")[1]), name))
        parts.append(
            f'<polygon points="{area}" class="area"/>'
            f'<polyline points="{" ".join(steps["S"])}" class="curve" stroke-dasharray="{dash}"/>'
        )
    below = -ROOM
    for y, name in sorted(names):  # names of curves that end close together stand below each other
        below = max(y, below + ROOM)
        parts.append(f'<text x="{LEFT + WIDE + 6:.1f}" y="{below + 4:.1f}">{escape(name[:24])}</text>')
    for share in (0.0, 0.5, 1.0):
        y = HIGH * (1 - share) + 10
        parts.append(f'<text x="{LEFT - 8:.0f}" y="{y + 4:.0f}" text-anchor="end">{share:g}</text>')
    for one in _moments(model):
        x = LEFT + WIDE * one / last
        parts.append(f'<text x="{x:.1f}" y="{HIGH + 30:.0f}" text-anchor="middle">{one:g}</text>')
    style = (
        "<style>.survival text{font-size:13px;fill:currentColor}.survival .area{fill:currentColor;opacity:.1}"
        ".survival .curve{fill:none;stroke:currentColor;stroke-width:2}</style>"
    )
    box = f"0 0 {LEFT + WIDE + 190:.0f} {HIGH + 40:.0f}"
    return (
        f'<svg class="survival" viewBox="{box}" style="width:100%" role="img" aria-label="survival curves of '
        f'{len(model.names)} groups">{style}{"".join(parts)}</svg>'
    )


def _steps(points: list[tuple[float, float]], last: float) -> list[str]:
    """Return the corners of a curve that falls at each point, in the picture's units."""
    found = []
    height = 1.0
    for t, s in [(0.0, 1.0), *points]:
        x = LEFT + WIDE * t / last
        found += [f"{x:.1f},{HIGH * (1 - height) + 10:.1f}", f"{x:.1f},{HIGH * (1 - s) + 10:.1f}"]
        height = s
    return found
