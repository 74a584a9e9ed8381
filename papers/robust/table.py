"""Sites that lie under secure sums: plain mean, open robust aggregations, and the median over groups of sites.

    python papers/robust/table.py                       # 3 seeds; goes on where it stopped; writes results/table.*
    python papers/robust/table.py --only moments        # one of both methods
    python papers/robust/table.py --quick --json        # 10 sites, 1 seed, half a minute; writes nothing
    python papers/robust/table.py --minutes 8           # stops after so long; the next call goes on

10, 20 and 40 sites of 100 rows each, of which 0 to 4 lie, in each of four ways (`papers.robust.liars`). Two Gaussian
classes in ten columns whose best classifier is right on 95.7 % of rows; accuracy on 4,000 rows that no site has. Sums
are secure sums wherever a row says nothing else. Settings
are the methods' own, but for two rounds of four epochs.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import fedgeom
from fedgeom.errors import FedgeomError
from fedgeom.methods.iterative import GroupMedian, Krum, TrimmedMean

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from papers.common import Results, bold, parser, print_json, table
from papers.robust.liars import KINDS, lying, with_liars
from papers.robust.picture import COLORS, GROUPS, HONEST, LIARS, TITLES, picture, seeds_of

RESULTS = Results(Path(__file__).resolve().parent / "results")
CELLS = RESULTS.folder / "cells.jsonl"
SITES, SEEDS = (10, 20, 40), 3
ROWS, COLUMNS, TEST, GOAL = 100, 10, 4000, 0.93
APART = 0.01
"""Seeds whose accuracies are closer to each other than this are told by their mean alone."""


def drawn(sites: int, seed: int) -> tuple[list[fedgeom.SiteData], Any, Any]:
    """Return the sites' tables, and rows and labels for testing."""
    rng = np.random.default_rng([seed, sites])
    direction = rng.normal(size=COLUMNS)
    direction *= 1.717 / np.linalg.norm(direction)  # Φ(1.717) = .957

    def some(rows: int) -> tuple[Any, Any]:
        y = np.arange(rows) % 2
        return rng.normal(size=(rows, COLUMNS)) + np.where(y[:, None], direction, -direction), y

    tables = []
    for at in range(sites):
        X, y = some(ROWS)
        tables.append(fedgeom.SiteData(f"s{at:03d}", X, np.array(["no", "yes"])[y]))
    X, y = some(TEST)
    return tables, X, np.array(["no", "yes"])[y]


def ways(method: str, sites: int) -> dict[str, fedgeom.Method]:
    """Return what is compared."""
    groups = GROUPS[sites]
    if method == "moments":
        return {
            "sum (plain mean)": fedgeom.Moments(space="euclidean"),
            "sum, max_abs_value = 1,000": fedgeom.Moments(space="euclidean", max_abs_value=1000.0),
            "GroupMedian": fedgeom.Moments(
                space="euclidean", aggregation=GroupMedian(n_groups=groups, drawn_by="seed")
            ),
            'GroupMedian(rule="geometric")': fedgeom.Moments(
                space="euclidean", aggregation=GroupMedian(n_groups=groups, rule="geometric", drawn_by="seed")
            ),
        }
    usual: dict[str, Any] = {"n_rounds": 2, "epochs": 4}
    found: dict[str, fedgeom.Method] = {
        "GroupMedian": fedgeom.FedAvg(aggregation=GroupMedian(n_groups=groups, drawn_by="seed"), **usual),
        "plain mean": fedgeom.FedAvg(**usual),
        "plain mean, max_abs_change = 0.5": fedgeom.FedAvg(max_abs_change=0.5, **usual),
        "median, open": fedgeom.FedAvg(aggregation="median", **usual),
        "trimmed mean, open": fedgeom.FedAvg(aggregation=TrimmedMean(0.2), **usual),
        "Krum, open": fedgeom.FedAvg(aggregation=Krum(), **usual),
    }
    if sites < max(SITES):  # it costs as much again
        rule = GroupMedian(n_groups=groups, rule="geometric", drawn_by="seed")
        found['GroupMedian(rule="geometric")'] = fedgeom.FedAvg(aggregation=rule, **usual)
    return found


def cells(methods: Iterable[str], sites: Iterable[int], seeds: int) -> Iterator[dict[str, Any]]:
    """Yield what there is to compute, seed by seed, the cheap ones first."""
    for seed in range(seeds):
        for count in sites:
            for method in methods:
                for kind, liars in [(HONEST, 0), *((kind, liars) for kind in KINDS for liars in LIARS)]:
                    for way in ways(method, count):
                        yield {
                            "method": method,
                            "sites": count,
                            "seed": seed,
                            "kind": kind,
                            "liars": liars,
                            "way": way,
                        }


def accuracy(cell: dict[str, Any]) -> float | None:
    """Return the accuracy of the joint model on rows that no site has; None where the run was refused."""
    tables, X, y = drawn(cell["sites"], cell["seed"])
    rng = np.random.default_rng([cell["seed"], cell["sites"], cell["liars"], 7])
    names = rng.choice([one.name for one in tables], cell["liars"], replace=False).tolist()
    way = ways(cell["method"], cell["sites"])[cell["way"]]
    try:
        with lying(names, cell["kind"], cell["sites"]):
            model = fedgeom.run(way, with_liars(tables, names, cell["kind"]), seed=cell["seed"]).model
    except FedgeomError:  # a sum was beyond its bounds, or no model follows from what came
        return None
    return float(np.mean(model.predict(X) == y))


def key(cell: dict[str, Any]) -> str:
    """Return a cell's name."""
    return json.dumps([cell[name] for name in ("method", "sites", "seed", "kind", "liars", "way")])


def known() -> dict[str, dict[str, Any]]:
    """Return the cells that were computed before."""
    if not CELLS.exists():
        return {}
    lines = CELLS.read_text(encoding="utf-8").splitlines()
    return {key(cell): cell for cell in map(json.loads, lines)}


def summed_up(done: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """Return, by method, number of sites, way, kind and number of liars, the mean over seeds, and the worst seed."""
    values: dict[tuple[str, str, str, str, str], list[float | None]] = {}
    ranks = list(COLORS)
    for cell in sorted(done, key=lambda one: (one["method"], one["sites"], ranks.index(one["way"]))):
        at = cell["method"], str(cell["sites"]), cell["way"], cell["kind"], str(cell["liars"])
        values.setdefault(at, []).append(cell["accuracy"])
    found: dict[str, Any] = {}
    for (method, sites, way, kind, liars), several in values.items():
        into = found.setdefault(method, {}).setdefault(sites, {}).setdefault(way, {}).setdefault(kind, {})
        got = [one for one in several if one is not None]
        into[liars] = {
            "mean": round(float(np.mean(got)), 4) if got else None,
            "worst": round(min(got), 4) if got else None,
            "best": round(max(got), 4) if got else None,
            "refused": len(several) - len(got),
            "n": len(several),
        }
    return found


def short(value: float) -> str:
    """Write an accuracy in three digits."""
    return f"{value:.3f}".removeprefix("0")


def words(entry: dict[str, Any] | None, usual: int = 0) -> str:
    """Write one entry: the mean over seeds, the least and the largest, how many if not as ``usual``, or refusals."""
    if entry is None:
        return ""
    if entry["mean"] is None:
        return "refused"
    said = [f"{short(entry['worst'])}–{short(entry['best'])}"] if entry["best"] - entry["worst"] > APART else []
    said += [f"n = {entry['n']}"] if usual and entry["n"] != usual else []
    said += [f"{entry['refused']} refused"] if entry["refused"] else []
    return short(entry["mean"]) + (f" ({', '.join(said)})" if said else "")


def worst(found: dict[str, Any]) -> list[str]:
    """Return a table of the worst of the kinds of lies, as far as all of them were computed."""
    rows = []
    for method, by_sites in found.items():
        for sites, ways_ in by_sites.items():
            usual = seeds_of(ways_)
            for way, kinds in ways_.items():
                cells = []
                for liars in (0, *LIARS):
                    entries = [kinds.get(kind, {}).get(str(liars)) for kind in (KINDS if liars else (HONEST,))]
                    if any(entry is None for entry in entries):
                        cells.append("")
                        continue
                    known = [entry for entry in entries if entry is not None and entry["mean"] is not None]
                    least = min(known, key=lambda entry: entry["mean"], default=None)
                    text = words(least, usual) + (" or refused" if len(known) < len(entries) else "")
                    cells.append(bold(text.strip(), least is not None and least["mean"] >= GOAL))
                title = f"{TITLES[method]}, {sites} sites, {GROUPS[int(sites)]} groups, n = {usual}"
                rows.append([title, way, *cells])
    return table(["", "", *(f"{liars} lie" if liars else HONEST for liars in (0, *LIARS))], rows)


def page(found: dict[str, Any]) -> str:
    """Return the tables as Markdown."""
    lines = [
        "# Sites that lie",
        "",
        "Made by `python papers/robust/table.py`: accuracy on 4,000 rows that no site has (± .007 at .95), the mean",
        f"over n seeds, with the least and the largest where these are more than {APART} apart; the best classifier",
        "has .957.",
        f"Bold: at least {GOAL}. “Open” rows show the coordinator each site's model; all others are secure sums.",
        "“Refused”: a sum was beyond its bounds, or no model follows from it.",
    ]
    lines += ["", "## The worst of the four kinds of lies", "", *worst(found)]
    for method, by_sites in found.items():
        for sites, rows in by_sites.items():
            count = seeds_of(rows)
            lines += [
                "",
                f"## {TITLES[method]}, {sites} sites in {GROUPS[int(sites)]} groups; n = {count} seeds",
                "",
            ]
            head = ["", HONEST, *(f"{kind}, {liars}" for kind in KINDS for liars in LIARS)]
            body = []
            for way, kinds in rows.items():
                entries = [kinds.get(HONEST, {}).get("0")]
                entries += [kinds.get(kind, {}).get(str(liars)) for kind in KINDS for liars in LIARS]
                good = [entry is not None and (entry["mean"] or 0) >= GOAL for entry in entries]
                body.append([way, *(bold(words(e, count), g) for e, g in zip(entries, good, strict=True))])
            lines += table(head, body)
    return "\n".join(lines) + "\n"


def held(found: dict[str, Any]) -> dict[str, Any]:
    """Return how often GroupMedian reaches the goal where there are more than twice as many groups as liars."""
    inside, below = 0, []
    for method, by_sites in found.items():
        for sites, rows in by_sites.items():
            for way, kinds in rows.items():
                for kind, by_liars in kinds.items() if way.startswith("GroupMedian") else ():
                    for liars, entry in by_liars.items():
                        if GROUPS[int(sites)] > 2 * int(liars):
                            inside += 1
                            if (entry["worst"] or 0) <= GOAL:
                                below.append([method, int(sites), way, kind, int(liars), entry["worst"]])
    return {"cells": inside, "not above the goal in the worst seed": below}


def main() -> None:
    """Compute what is missing, write and print."""
    made = parser(__doc__, ("fedavg", "moments"))
    made.add_argument("--minutes", type=float, help="stop after about so long; the next call goes on")
    made.add_argument("--seeds", type=int, default=SEEDS)
    made.add_argument(
        "--sites", type=int, nargs="+", choices=SITES, default=SITES, help="compute these numbers of sites"
    )
    made.add_argument("--liars", type=int, nargs="+", choices=(0, *LIARS), help="compute these numbers of liars")
    options = made.parse_args()
    began, done = time.monotonic(), {} if options.quick else known()
    sites, seeds = ((10,), 1) if options.quick else (options.sites, options.seeds)
    for cell in cells(options.only, sites, seeds):
        if options.quick and (cell["liars"] > 1 or "geometric" in cell["way"]):
            continue
        if key(cell) in done or (options.liars is not None and cell["liars"] not in options.liars):
            continue
        if options.minutes and time.monotonic() - began > 60 * options.minutes:
            break
        done[key(cell)] = cell | {"accuracy": accuracy(cell)}
        if not options.quick:
            CELLS.parent.mkdir(parents=True, exist_ok=True)
            with CELLS.open("a", encoding="utf-8") as file:
                file.write(json.dumps(done[key(cell)]) + "\n")
    found = summed_up(done.values())
    results = {"table": found, "goal": held(found)}
    print(page(found))
    print(json.dumps(results["goal"], indent=1))
    if not options.quick:
        RESULTS.write("table", results, lambda made: page(made["table"]))
        picture(found, RESULTS.folder / "liars.png")
    print_json(options, results)


if __name__ == "__main__":
    main()
