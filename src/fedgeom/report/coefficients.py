"""Coefficients with their intervals, as a table for the terminal and as a picture for pages."""

from __future__ import annotations

import math
from typing import Any

from fedgeom.methods.regression.model import INTERCEPT, RATIOS, RegressionModel
from fedgeom.methods.survival.model import CoxModel
from fedgeom.report import markup
from fedgeom.report.markup import escape
from fedgeom.report.table import ReportTable, to_html

ROW = 26.0
NAMES, DRAWN, SAID = 230.0, 420.0, 190.0
"""Widths of the picture's three parts: names, intervals, numbers."""
UNLIKE = 8
"""An interval that reaches so many times as far as the middle one of all makes the others look like points."""
FAR = 7.0
"""Ratios of a thousand and more are those of a unit that no two rows are apart."""
FEWEST_TICKS = 3
MOST = 60
"""So many coefficients are drawn at most."""


def coefficient_tables(model: Any) -> list[ReportTable]:
    """Return the tables of a model of coefficients; none for other models."""
    if not isinstance(model, RegressionModel | CoxModel):
        return []
    ratio = RATIOS.get(model.family)
    head = ["term", "coef", "se", "low", "high", "p", *([ratio, "low", "high"] if ratio else [])]
    ratios = model.coefficient_rows(exponentiate=True) if ratio else []
    rows = []
    for at, (term, coef, se, low, high, p) in enumerate(model.coefficient_rows()):
        more = [_number(one) for one in (ratios[at][1], *ratios[at][3:5])] if ratios else []
        rows.append([term, _number(coef), _number(se), _number(low), _number(high), _chance(p), *more])
    facts = model.statistics
    fit = [["rows", f"{facts['rows']:,.0f}"], ["sites", f"{facts['sites']:.0f}"]]
    for name, title in (
        ("events", "events"),
        ("intervals", "intervals of time"),
        ("deviance", "deviance"),
        ("log_likelihood", "log likelihood"),
        ("aic", "AIC"),
        ("r2", "R²" if model.family == "gaussian" else "R² (of the deviance)"),
        ("rmse", "RMSE"),
        ("dispersion", "dispersion"),
    ):
        if name in facts and not (name == "dispersion" and model.family in ("binomial", "poisson")):
            fit.append([title, _number(facts[name])])
    if "lr_chi2" in facts and facts["converged"]:
        said = f"χ² {_number(facts['lr_chi2'])}, {facts['lr_df']:.0f} df, p {_chance(facts['lr_p'])}"
        fit.append(["against no columns", said])
    if "grouping_error" in facts:
        fit.append(["half as many intervals move a coefficient by", f"{facts['grouping_error']:.2g} errors"])
    fit += [[f"{name} is compared to", ", ".join(words)] for name, words in model.references.items()]
    title = f"Coefficients ({model.family}; errors: {model.errors}; intervals: {model.level:.0%})"
    found = [
        ReportTable(title, head, rows, right=range(1, len(head))),
        ReportTable("Fit", ["", ""], fit, right=(1,)),
    ]
    if isinstance(model, CoxModel):
        return found + ([_proportionality(model)] if model.proportional.size else [])
    if model.effect.size:
        found.append(_effect(model))
    if model.compared.size:
        found.append(_heterogeneity(model))
    return found


def _proportionality(model: CoxModel) -> ReportTable:
    rows = [[term, _number(chi2), f"{df:.0f}", _chance(p)] for term, chi2, df, p in model.proportionality_rows()]
    return ReportTable(
        "Is the hazard ratio the same at all times?", ["term", "χ²", "df", "p"], rows, right=range(1, 4)
    )


def _effect(model: RegressionModel) -> ReportTable:
    rows = [[name, *(_number(one) for one in values), _chance(p)] for name, *values, p in model.effect_rows()]
    title = "The treatment's effect, standardised over all rows"
    return ReportTable(title, ["measure", "estimate", "se", "low", "high", "p"], rows, right=range(1, 6))


def _heterogeneity(model: RegressionModel) -> ReportTable:
    rows = [
        [term, f"{sites}", _number(q), f"{df:.0f}", _chance(p), f"{share:.0%}"]
        for term, sites, q, df, p, share in model.heterogeneity_rows()
    ]
    return ReportTable("How far sites differ", ["term", "sites", "Q", "df", "p", "I²"], rows, right=range(1, 6))


def _number(value: float) -> str:
    if math.isnan(value):
        return "–"
    return f"{value:,.0f}" if 1e4 <= abs(value) < 1e15 else f"{value:,.4g}"


def _chance(value: float) -> str:
    return "–" if math.isnan(value) else "<0.001" if value < 0.001 else f"{value:.3f}"


def coefficients(model: Any) -> str:
    """Return the section with coefficients, their picture, and the fit; nothing for other models."""
    tables = coefficient_tables(model)
    if not tables:
        return ""
    first, *others = tables
    return markup.section(
        "coefficients",
        "Coefficients",
        markup.scroll(_picture(model), "Coefficients and their intervals"),
        to_html(first),
        *(f"<h3>{escape(one.title)}</h3>{to_html(one)}" for one in others),
    )


def _picture(model: RegressionModel | CoxModel) -> str:
    """Return a forest plot: a square for each coefficient, a line for its interval."""
    ratio = RATIOS.get(model.family)
    rows = [one for one in model.coefficient_rows() if one[0] != INTERCEPT and math.isfinite(one[3])]
    rows = rows[:MOST]
    if not rows:
        return ""
    sizes = _sizes(model, [one[0] for one in rows], [max(abs(one[3]), abs(one[4])) for one in rows])
    per = "" if sizes is None else ", per standard deviation of the column"
    units = [1.0] * len(rows) if sizes is None else sizes
    low = min(0.0, *(unit * one[3] for unit, one in zip(units, rows, strict=True)))
    high = max(0.0, *(unit * one[4] for unit, one in zip(units, rows, strict=True)))
    room = 0.04 * (high - low) or 1.0
    low -= room
    high += room

    def across(value: float) -> float:
        return NAMES + DRAWN * (value - low) / (high - low)

    height = ROW * (len(rows) + 1.6)
    parts = [f'<line x1="{across(0):.1f}" x2="{across(0):.1f}" y1="0" y2="{ROW * len(rows):.0f}" class="zero"/>']
    for at, (term, coef, _, begin, end, _) in enumerate(rows):
        y = ROW * (at + 0.5)
        unit = units[at]
        told = [unit * coef, unit * begin, unit * end]
        place, left, right = map(across, told)
        numbers = [math.exp(one) if ratio else one for one in told]
        said = f"{numbers[0]:.3g} ({numbers[1]:.3g} to {numbers[2]:.3g})"
        name = term if len(term) < 30 else f"{term[:28]}…"
        parts.append(
            f'<text x="{NAMES - 12:.0f}" y="{y + 4:.0f}" text-anchor="end">{escape(name)}</text>'
            f'<line x1="{left:.1f}" x2="{right:.1f}" y1="{y:.0f}" y2="{y:.0f}" class="span"/>'
            f'<rect x="{place - 4:.1f}" y="{y - 4:.0f}" width="8" height="8" class="point"/>'
            f'<text x="{NAMES + DRAWN + 12:.0f}" y="{y + 4:.0f}">{escape(said)}</text>'
        )
    base = ROW * len(rows)
    ticks = _ticks(low, high, ratio=bool(ratio))
    for value, text in ticks:
        parts.append(
            f'<line x1="{across(value):.1f}" x2="{across(value):.1f}" y1="{base:.0f}" y2="{base + 5:.0f}" '
            f'class="zero"/>'
            f'<text x="{across(value):.1f}" y="{base + 19:.0f}" text-anchor="middle">{text}</text>'
        )
    title = f"{ratio or 'coefficient'} and {model.level:.0%} interval{per}"
    parts.append(
        f'<text x="{NAMES + DRAWN / 2:.0f}" y="{base + 36:.0f}" text-anchor="middle">{escape(title)}</text>'
    )
    wide = NAMES + DRAWN + SAID
    style = (
        "<style>.forest text{font-size:13px;fill:currentColor}.forest .zero{stroke:currentColor;opacity:.4}"
        ".forest .span{stroke:currentColor;stroke-width:2}.forest .point{fill:currentColor}</style>"
    )
    return (
        f'<svg class="forest" viewBox="0 0 {wide:.0f} {height:.0f}" style="width:100%;max-width:{wide:.0f}px" '
        f'role="img" '
        f'aria-label="{escape(title)} of {len(rows)} columns">{style}{"".join(parts)}</svg>'
    )


def _sizes(model: RegressionModel | CoxModel, drawn: list[str], reaches: list[float]) -> list[float] | None:
    """Return the columns' deviations, where their units are so different that one axis could not show them all."""
    odd = max(reaches) > UNLIKE * sorted(reaches)[len(reaches) // 2]
    far = model.family in RATIOS and max(reaches) > FAR
    if len(reaches) < 2 or not (odd or far):
        return None
    terms = [term for term in model.terms if term != INTERCEPT]
    places = {term: at for at, term in enumerate(terms)}
    return [float(model.spreads[places[term]]) for term in drawn]


def _ticks(low: float, high: float, *, ratio: bool) -> list[tuple[float, str]]:
    """Return where the axis is marked: at round ratios, or round numbers."""
    if ratio:
        known = [m * 10.0**e for e in range(-9, 10) for m in (1, 2, 5)]
        found = [one for one in known if low <= math.log(one) <= high]
        if len(found) < FEWEST_TICKS:  # all ratios are near 1
            first, last = math.exp(low), math.exp(high)
            size = 10.0 ** math.floor(math.log10((last - first) / 3))
            size *= next(m for m in (1, 2, 5, 10) if (last - first) / (m * size) <= 7)
            found = [round(at * size, 9) for at in range(math.ceil(first / size), math.floor(last / size) + 1)]
        step = max(1, -(-len(found) // 7))
        middle = found.index(1.0) if 1.0 in found else 0
        return [(math.log(one), f"{one:g}") for at, one in enumerate(found) if (at - middle) % step == 0]
    size = 10.0 ** math.floor(math.log10((high - low) / 4))
    size *= next(m for m in (1, 2, 5, 10) if (high - low) / (m * size) <= 7)
    first = math.ceil(low / size)
    return [(at * size, f"{at * size:g}") for at in range(first, math.floor(high / size) + 1)]
