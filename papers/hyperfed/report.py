"""From finished cells to the table: figures over seeds, beside the paper's, and which row is ahead."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from papers.common import Figure, difference, figure, plus_minus, table, with_interval
from papers.hyperfed import published, rows

Line = Mapping[str, Any]
USUAL = {"fashion-mnist": "mlp", "cifar-10": "lenet16"}
"""The network that a data set's figures come from where none is named."""
ORDER = (*rows.MAKERS, rows.RIDGE)
COLUMNS = ("global", "personal")
OURS = ("HyperFed", rows.CHANGED, rows.MOMENTUM)
RIVALS = ("FedAvg", "FedProx", "SCAFFOLD", "SphereFed")


def title(line: Line) -> str:
    """Return the name of the table that a cell is in, "fashion-mnist 0.1"."""
    more = "" if line["kind"] in (USUAL[line["set"]], rows.RIDGE) else f" {line['kind']}"
    return f"{line['set']} {line['alpha']:g}{more}"


def by_row(lines: Iterable[Line], setting: str) -> dict[str, dict[str, dict[int, Line]]]:
    """Return the cells of a setting by table, row and seed."""
    found: dict[str, dict[str, dict[int, Line]]] = {}
    for line in lines:
        if line["setting"] == setting:
            found.setdefault(title(line), {}).setdefault(line["row"], {})[line["seed"]] = line
    ordered = sorted(found, key=lambda name: (name.split()[0] != "fashion-mnist", len(name.split()), name))
    return {name: {row: found[name][row] for row in ORDER if row in found[name]} for name in ordered}


def summary(lines: Iterable[Line], setting: str) -> dict[str, dict[str, dict[str, Figure]]]:
    """Return for each table and row the figures over seeds; where all runs went astray, nothing."""
    found: dict[str, dict[str, dict[str, Figure]]] = {}
    for name, cells in by_row(lines, setting).items():
        for row, seeds in cells.items():
            for column in COLUMNS:
                values = [line[column] for line in seeds.values() if line.get(column) is not None]
                if values:
                    first = next(iter(seeds.values()))
                    paper = published.value(column, row, first["set"], first["alpha"])
                    found.setdefault(name, {}).setdefault(row, {})[column] = figure(values, paper)
    return found


def main_table(lines: list[Line]) -> dict[str, dict[str, dict[str, Figure]]]:
    """Return the tuned figures, and those of the paper's settings for tables whose tuned rows have fewer seeds."""

    def seeds(cells: dict[str, dict[str, Figure]]) -> int:
        return min((int(figure["n"] or 0) for row in cells.values() for figure in row.values()), default=0)

    found, paper = summary(lines, "tuned"), summary(lines, "paper")
    return found | {name: cells for name, cells in paper.items() if seeds(found.get(name, {})) < seeds(cells)}


def gaps(lines: Iterable[Line], name: str, setting: str) -> list[str]:
    """Say for one table by how much each of ours is ahead of each rival, paired over seeds."""
    cells = by_row(lines, setting).get(name, {})
    body = []
    for own in OURS:
        entries: list[object] = [own]
        for rival in RIVALS:
            seeds = [
                seed
                for seed, line in cells.get(own, {}).items()
                if line.get("global") is not None and cells.get(rival, {}).get(seed, {}).get("global") is not None
            ]
            pairs = [(cells[own][seed]["global"], cells[rival][seed]["global"]) for seed in seeds]
            entries.append(with_interval(difference(*zip(*pairs, strict=True)), 2) if len(pairs) > 1 else "–")
        body.append(entries)
    return table(["less", *RIVALS], body)


def best(found: Mapping[str, Mapping[str, Figure]], column: str = "global") -> list[str]:
    """Return the trained rows with a figure, the best first; pooled training and Ridge are no rounds of sites."""
    entries = {row: cells[column]["mean"] for row, cells in found.items() if column in cells}
    return sorted((row for row in entries if row not in (rows.POOLED, rows.RIDGE)), key=lambda row: -entries[row])


def verdict(found: Mapping[str, Mapping[str, Figure]]) -> str:
    """Say in a sentence which rows are ahead on the test images."""
    ranked = best(found)
    if len(ranked) < 2:
        return "Not enough cells yet."
    value = {row: found[row]["global"]["mean"] for row in ranked}
    rivals = [row for row in RIVALS if row in value]
    text = f"Ahead is {ranked[0]} ({value[ranked[0]]:.2f}), then {ranked[1]} ({value[ranked[1]]:.2f})."
    for row in (row for row in OURS if row in value):
        lost = [rival for rival in rivals if value[rival] >= value[row]]
        text += f" {row} ({value[row]:.2f}) is " + (
            f"**not** ahead of {', '.join(lost)}." if lost else f"ahead of {', '.join(rivals)}."
        )
    if rows.RIDGE in found:
        text += f" Ridge, one secure sum and no rounds, has {found[rows.RIDGE]['global']['mean']:.2f}."
    return text


def settings(lines: Iterable[Line], name: str, setting: str, row: str) -> str:
    """Return the rate of a row, and how many of its runs went astray."""
    seeds = by_row(lines, setting)[name][row].values()
    astray = sum("error" in line for line in seeds)
    rates = sorted({f"{line['rate']:g}" for line in seeds if line.get("rate") is not None})
    return (", ".join(rates) or "–") + (f"; {astray} of {len(seeds)} went astray" if astray else "")


def one_table(lines: list[Line], name: str, setting: str) -> list[str]:
    """Return the lines of one table in Markdown."""
    found = summary(lines, setting).get(name, {})
    body = []
    for row in by_row(lines, setting)[name]:
        cells: list[object] = [row]
        for column in COLUMNS:
            entry = found.get(row, {}).get(column)
            cells.append("–" if entry is None else plus_minus(entry))
            theirs = published.value(column, row, name.split()[0], float(name.split()[1]))
            cells.append("–" if theirs is None else f"{theirs:.2f}")
        counts = [entry["n"] for entry in found.get(row, {}).values()]
        body.append([*cells, max(counts, default=0), settings(lines, name, setting, row)])
    return table(["row", "G-FL", "paper", "P-FL", "paper", "seeds", "rate"], body)


def missing(lines: Iterable[Line], wanted: Mapping[str, Iterable[Any]]) -> list[str]:
    """Say what of each part is still to be computed."""
    known = {line["cell"] for line in lines}
    left = {part: [cell for cell in cells if cell.key not in known] for part, cells in wanted.items()}
    texts = []
    for part, cells in left.items():
        names = sorted({f"{cell.row} at {cell.alpha:g}" for cell in cells if cell.setting in ("paper", "tuned")})
        if names:
            shown = ", ".join(names[:6]) + (f" and {len(names) - 6} more" if len(names) > 6 else "")
            texts.append(f"- {part}: {len(cells)} cells are missing ({shown}).")
    return texts or ["- Nothing: all cells are there."]


def compact(lines: list[Line], data: str, setting: str) -> list[str]:
    """Return one table for all α of a data set, the paper's figures in brackets."""
    found = {name: cells for name, cells in summary(lines, setting).items() if name.split()[0] == data}
    found = {name: cells for name, cells in found.items() if len(name.split()) == 2}
    body = []
    for row in ORDER:
        cells: list[object] = [row]
        for column in COLUMNS:
            for name in found:
                entry = found[name].get(row, {}).get(column)
                theirs = published.value(column, row, data, float(name.split()[1]))
                beside = "" if theirs is None else f" ({theirs:.1f})"
                cells.append("–" if entry is None else plus_minus(entry, 1) + beside)
        if set(cells[1:]) - {"–"}:
            body.append(cells)
    return table(["row", *(f"{short}, α = {n.split()[1]}" for short in ("G-FL", "P-FL") for n in found)], body)


def put(path: Path, name: str, lines: Iterable[str]) -> None:
    """Put lines into a page between the marks of a name, in place of what is there."""
    text = path.read_text(encoding="utf-8")
    begin, end = f"<!-- {name}, written by the script -->", f"<!-- end of {name} -->"
    before, rest = text.split(begin)
    after = rest.split(end)[1]
    path.write_text("\n".join([before + begin, "", *lines, "", end + after]), encoding="utf-8")


def readme(lines: list[Line], wanted: Mapping[str, Iterable[Any]]) -> list[str]:
    """Return the tables and sentences for the README."""
    text = []
    for data, setting in itertools.product(("fashion-mnist", "cifar-10"), ("tuned", "paper")):
        found = summary(lines, setting)
        if any(name.split()[0] == data for name in found):
            how = "tuned rates" if setting == "tuned" else "the paper's settings"
            text += [f"**{data}, {how}** (in brackets what the paper has)", "", *compact(lines, data, setting), ""]
            text += [
                f"α = {name.split(' ', 1)[1]}: {verdict(found[name])}\n" for name in found if name.startswith(data)
            ]
    return [*text, "Still to be computed:", "", *missing(lines, wanted)]


def page(lines: list[Line], wanted: Mapping[str, Iterable[Any]], how: str) -> str:
    """Return all tables as Markdown."""
    text = ["# HyperFed's Tables 1 and 2, re-run", "", how.strip(), ""]
    for setting, heading in (("tuned", "Tuned rates, equal effort"), ("paper", "The paper's settings")):
        text += [f"## {heading}", ""]
        for name in by_row(lines, setting):
            found = summary(lines, setting).get(name, {})
            text += [f"### {name}", "", *one_table(lines, name, setting), "", verdict(found), ""]
            text += ["G-FL, row less column, paired over seeds:", "", *gaps(lines, name, setting), ""]
    return "\n".join([*text, "## What is not here", "", *missing(lines, wanted), ""])
