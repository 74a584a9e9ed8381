"""A description of all sites' tables as tables for people: "table one", what is missing, and what was left out."""

from __future__ import annotations

import csv
import io
import math
from pathlib import Path

from fedgeom.methods.describe.model import ABOUT, NUMBER, SOME, Description
from fedgeom.report import markup
from fedgeom.report.table import Cell, Line, ReportTable, to_html
from fedgeom.storage import write_text

INSIDE = "  "
"""Before what belongs to the line above."""


def description_tables(found: Description) -> list[ReportTable]:
    """Return the tables of a description."""
    tables = [_table_one(found)]
    if found.left_out:
        lines: list[Line] = [[name, why] for name, why in _reported(found)]
        tables += [ReportTable("Not described", ["column", "why"], lines)] if lines else []
    if found.site_names:
        tables.append(_gaps(found))
    return tables


def description_section(found: Description) -> str:
    """Return the section of a page."""
    first, *others = description_tables(found)
    more = "".join(f"<h3>{markup.escape(one.title)}</h3>{to_html(one)}" for one in others)
    shown = to_html(first).replace(f'<th scope="row">{INSIDE}', '<th scope="row">&emsp;')
    return markup.section("description", first.title, shown, more)


def description_csv(found: Description) -> str:
    """Return a description's lines as CSV; a gap is an empty cell."""
    lines = io.StringIO()
    rows = csv.writer(lines)
    names, values = found.lines()
    rows.writerow(names)
    rows.writerows([["" if isinstance(one, float) and math.isnan(one) else one for one in row] for row in values])
    return lines.getvalue()


def write_description(found: Description, folder: Path) -> list[Path]:
    """Write a description's lines as CSV, and its tables as a page of their own."""
    title = f"What the rows of {found.sites} sites are like"
    body = f"<header><h1>{markup.escape(title)}</h1></header>{description_section(found)}"
    return [
        write_text(folder / "description.csv", description_csv(found), private=True),
        write_text(folder / "description.html", markup.document(title, body), private=True),
    ]


def _reported(found: Description) -> list[tuple[str, str]]:
    """Return what is not described, and why; of words that others leave over, only those that stay together."""
    described = set(found.of.tolist())
    shown = []
    for name, why in found.left_out.items():
        column = next((at for at, title in enumerate(found.raw) if name.startswith(f"{title} = ")), None)
        together = 0
        if column is not None and name not in found.raw:
            together = sum(one.startswith(f"{found.raw[column]} = ") for one in found.left_out)
        if together != 1 or column not in described:
            shown.append((name if not name.endswith(" = ") else f"{name.removesuffix(' = ')} is missing", why))
    return shown


def _table_one(found: Description) -> ReportTable:
    groups = range(len(found.groups))
    rows: list[Line] = []
    for column, title in enumerate(found.raw):
        entries = [at for at in range(len(found.of)) if found.of[at] == column]
        if not entries:
            continue
        if found.kinds[entries[0]] == NUMBER:
            rows += _number_rows(found, entries[0], title)
        else:
            rows += _word_rows(found, column, title)
    head = ["", *(f"{name} (n = {count:,.0f})" for name, count in zip(found.groups, found.rows, strict=True))]
    return ReportTable(
        "All sites' rows together",
        head,
        rows,
        right=range(1, 1 + len(groups)),
        aside=f"{found.sites} sites",
        notes=_notes(found),
    )


def _notes(found: Description) -> list[str]:
    notes = []
    least_sites, least_rows = found.floors
    if least_rows > 1:
        notes.append(
            f"No number rests on fewer than {least_rows} rows or {least_sites} sites. Rows of labels that fewer have "
            "are in no number."
        )
    errors = [
        found.rank_error(group, entry)
        for entry in range(len(found.of))
        if found.kinds[entry] == NUMBER
        for group in range(len(found.groups))
        if found.told_quantiles(entry, group)
    ]
    if errors and max(errors) > 0:
        notes.append(
            f"Quantiles are of means of {least_rows} neighbours: the share of rows below one is off by "
            f"{min(errors):.0%} to {max(errors):.0%} at most, by the number of rows; a tenth of that is usual."
        )
    if ABOUT in found.gap_kinds:
        half = found.sites * least_rows // 2
        notes.append(f"≈: rounded at each site to multiples of {least_rows}, so off by {half} at most.")
    return notes


def _number(value: float) -> str:
    return "–" if math.isnan(value) else f"{value:,.4g}"


def _number_rows(found: Description, entry: int, title: str) -> list[Line]:
    groups = range(len(found.groups))
    if found.is_flag(entry):
        return _flag_rows(found, entry, title)
    means = []
    for at in groups:
        enough = found.numbers[at, entry] >= max(found.floors[1], 2)
        mean = f"{_number(found.means[at, entry])} ± {_number(found.deviations[at, entry])}"
        means.append(mean if enough else "too few")
    rows: list[Line] = [[Cell(f"{title}, mean ± sd", "strong"), *means]]
    if found.shares:
        told = [found.told_quantiles(entry, at) for at in groups]
        if any(told):
            name = f"{INSIDE}quantiles " + ", ".join(f"{100 * share:g} %" for share in found.shares)
            name = f"{INSIDE}median [quartiles]" if found.shares == (0.25, 0.5, 0.75) else name
            rows.append([name, *(_quantiles(found.shares, one) for one in told)])
    gaps = _gap_cells(found, entry)
    if any(gaps):
        rows.append([f"{INSIDE}missing", *(one or "0" for one in gaps)])
    return rows


def _flag_rows(found: Description, entry: int, title: str) -> list[Line]:
    """Return the rows of a column of 0 and 1."""
    both = zip(found.means[:, entry], found.numbers[:, entry], strict=True)
    cells = [f"{share * n:,.0f} ({share:.0%})" for share, n in both]
    gaps = _gap_cells(found, entry)
    missing: list[Line] = [[f"{INSIDE}missing", *(one or "0" for one in gaps)]] if any(gaps) else []
    return [[Cell(f"{title} = 1", "strong"), *cells], *missing]


def _short(value: float) -> str:
    """Write a quantile, of which no more digits are known."""
    return f"{value:,.0f}" if 1000 <= abs(value) < 1e6 else f"{value:.3g}"


def _quantiles(shares: tuple[float, ...], values: list[float]) -> str:
    if not values:
        return "–"
    if shares == (0.25, 0.5, 0.75):
        return f"{_short(values[1])} [{_short(values[0])}, {_short(values[2])}]"
    return ", ".join(map(_short, values))


def _gap_cells(found: Description, entry: int) -> list[str]:
    """Return what is said of a column's gaps in each group; "" where there are none."""
    kind = found.gap_kinds[entry]
    if kind == SOME:
        return ["few"] * len(found.groups)
    cells = []
    for at, rows in enumerate(found.rows):
        gaps = found.missing(entry, at)
        cells.append(f"{'≈ ' if kind == ABOUT else ''}{gaps:,.0f} ({gaps / max(rows, 1):.0%})" if gaps else "")
    return cells


def _word_rows(found: Description, column: int, title: str) -> list[Line]:
    told = [found.categories(column, at) for at in range(len(found.groups))]
    rows: list[Line] = [[Cell(title, "strong"), *("" for _ in told)]]
    for place, (word, _) in enumerate(told[0][0]):
        cells = []
        for (words, missing), count in zip(told, found.rows, strict=True):
            there = count - (0 if math.isnan(missing) else missing)
            n = words[place][1]
            cells.append(f"{n:,.0f} ({n / max(there, 1):.0%})")
        rows.append([f"{INSIDE}{word}", *cells])
    if any(missing > 0 for _, missing in told):
        shares = zip(told, found.rows, strict=True)
        rows.append(
            [f"{INSIDE}missing", *(f"{gaps:,.0f} ({gaps / max(count, 1):.0%})" for (_, gaps), count in shares)]
        )
    return rows


def _gaps(found: Description) -> ReportTable:
    """Return what is missing at each site."""
    rows: list[Line] = []
    for at, title in enumerate(found.raw):
        cells = []
        for gaps, count in zip(found.site_gaps[:, at], found.site_rows, strict=True):
            cells.append("few" if gaps < 0 else f"{gaps:,.0f} ({gaps / max(count, 1):.0%})" if gaps else "0")
        if any(cell != "0" for cell in cells):
            rows.append([title, *cells])
    head = [
        "column",
        *(f"{name} (n = {n:,.0f})" for name, n in zip(found.site_names, found.site_rows, strict=True)),
    ]
    return ReportTable("What is missing at each site", head, rows, right=range(1, len(head)))
