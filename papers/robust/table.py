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

RESULTS = Results(Path(__file__).resolve().parent / "results")
CELLS = RESULTS.folder / "cells.jsonl"
SITES, LIARS, SEEDS = (10, 20, 40), (1, 2, 3, 4), 3
GROUPS = {10: 3, 20: 6, 40: 9}
"""As many groups of at least three sites as there can be; with 40 sites nine, enough for four liars."""
ROWS, COLUMNS, TEST, GOAL = 100, 10, 4000, 0.93
HONEST = "nobody lies"
TITLES = {"fedavg": "FedAvg", "moments": "Moments"}
COLORS = {
    "plain mean": "#555555",
    "sum (plain mean)": "#555555",
    "plain mean, largest_change = 0.5": "#999999",
    "sum, largest_entry = 1,000": "#999999",
    "median, open": "#E69F00",
    "trimmed mean, open": "#CC79A7",
    "Krum, open": "#D55E00",
    "GroupMedian": "#0072B2",
    'GroupMedian(rule="geometric")': "#56B4E9",
}
"""By row, in the order of the tables."""


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
            "sum, largest_entry = 1,000": fedgeom.Moments(space="euclidean", largest_entry=1000.0),
            "GroupMedian": fedgeom.Moments(
                space="euclidean", aggregation=GroupMedian(groups=groups, drawn_by="seed")
            ),
            'GroupMedian(rule="geometric")': fedgeom.Moments(
                space="euclidean", aggregation=GroupMedian(groups=groups, rule="geometric", drawn_by="seed")
            ),
        }
    usual: dict[str, Any] = {"rounds": 2, "epochs": 4}
    found: dict[str, fedgeom.Method] = {
        "GroupMedian": fedgeom.FedAvg(aggregation=GroupMedian(groups=groups, drawn_by="seed"), **usual),
        "plain mean": fedgeom.FedAvg(**usual),
        "plain mean, largest_change = 0.5": fedgeom.FedAvg(largest_change=0.5, **usual),
        "median, open": fedgeom.FedAvg(aggregation="median", **usual),
        "trimmed mean, open": fedgeom.FedAvg(aggregation=TrimmedMean(0.2), **usual),
        "Krum, open": fedgeom.FedAvg(aggregation=Krum(), **usual),
    }
    if sites < max(SITES):  # it costs as much again
        rule = GroupMedian(groups=groups, rule="geometric", drawn_by="seed")
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
            "refused": len(several) - len(got),
            "n": len(several),
        }
    return found


def words(entry: dict[str, Any] | None) -> str:
    """Write one entry: the mean over seeds, or that runs were refused."""
    if entry is None:
        return ""
    if entry["mean"] is None:
        return "refused"
    return f"{entry['mean']:.3f}".removeprefix("0") + (
        f" ({entry['refused']} refused)" if entry["refused"] else ""
    )


def worst(found: dict[str, Any]) -> list[str]:
    """Return a table of the worst of the kinds of lies, as far as all of them were computed."""
    rows = []
    for method, by_sites in found.items():
        for sites, ways_ in by_sites.items():
            for way, kinds in ways_.items():
                cells = []
                for liars in (0, *LIARS):
                    entries = [kinds.get(kind, {}).get(str(liars)) for kind in (KINDS if liars else (HONEST,))]
                    if any(entry is None for entry in entries):
                        cells.append("")
                        continue
                    means = [entry["mean"] for entry in entries if entry is not None]
                    least = min((one for one in means if one is not None), default=0.0)
                    text = f"{least:.3f}".removeprefix("0") + (" or refused" if None in means else "")
                    cells.append(bold(text, least >= GOAL))
                rows.append([f"{TITLES[method]}, {sites} sites, {GROUPS[int(sites)]} groups", way, *cells])
    return table(["", "", *(f"{liars} lie" if liars else HONEST for liars in (0, *LIARS))], rows)


def page(found: dict[str, Any]) -> str:
    """Return the tables as Markdown."""
    lines = [
        "# Sites that lie",
        "",
        "Made by `python papers/robust/table.py`: accuracy on 4,000 rows that no site has, the mean over seeds; the",
        f"best classifier has .957. Bold: at least {GOAL}. “Open” rows show the coordinator each site's model; all",
        "others are secure sums. “Refused”: a sum was beyond its bounds, or no model follows from it.",
    ]
    lines += ["", "## The worst of the four kinds of lies", "", *worst(found)]
    for method, by_sites in found.items():
        for sites, rows in by_sites.items():
            count = max(
                (e["n"] for kinds in rows.values() for ls in kinds.values() for e in ls.values()), default=0
            )
            lines += ["", f"## {TITLES[method]}, {sites} sites in {GROUPS[int(sites)]} groups; seeds: {count}", ""]
            head = ["", HONEST, *(f"{kind}, {liars}" for kind in KINDS for liars in LIARS)]
            body = []
            for way, kinds in rows.items():
                entries = [kinds.get(HONEST, {}).get("0")]
                entries += [kinds.get(kind, {}).get(str(liars)) for kind in KINDS for liars in LIARS]
                good = [entry is not None and (entry["mean"] or 0) >= GOAL for entry in entries]
                body.append([way, *(bold(words(e), g) for e, g in zip(entries, good, strict=True))])
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


def picture(found: dict[str, Any], path: Path) -> None:
    """Draw accuracy against the number of liars: a row for each method and number of sites, a column for each kind."""
    from matplotlib.figure import Figure  # only pictures need it

    panels = [(method, sites) for method, by_sites in found.items() for sites in by_sites]
    drawing = Figure(figsize=(3.1 * len(KINDS), 2.3 * len(panels) + 0.8), layout="constrained")
    axes = drawing.subplots(len(panels), len(KINDS), sharex=True, sharey=True, squeeze=False)
    for down, (method, sites) in enumerate(panels):
        for across, kind in enumerate(KINDS):
            ax, rows = axes[down, across], found[method][sites]
            for way, kinds in rows.items():
                entries = [kinds.get(HONEST, {}).get("0"), *(kinds.get(kind, {}).get(str(n)) for n in LIARS)]
                points = [(at, e["mean"]) for at, e in enumerate(entries) if e and e["mean"] is not None]
                strong = way.startswith("GroupMedian")
                ax.plot(
                    *zip(*points, strict=True) if points else ([], []),
                    color=COLORS[way],
                    lw={"GroupMedian": 1.6, 'GroupMedian(rule="geometric")': 2.8}.get(way, 1.2),
                    ls="--" if "open" in way else ":" if "largest" in way else "-",
                    marker="o" if strong else ".",
                    ms=4,
                    label=way,
                    zorder=4 if way == "GroupMedian" else 3 if strong else 2,
                )
            most = (GROUPS[int(sites)] - 1) // 2
            ax.axvspan(-0.2, most + 0.5, color="#0072B2", alpha=0.07, lw=0)
            ax.set(ylim=(0, 1.02), xlim=(-0.2, 4.2), xticks=range(5))
            if not down:
                ax.set_title(kind, fontsize=10)
            if not across:
                ax.set_ylabel(f"{TITLES[method]}\n{sites} sites, {GROUPS[int(sites)]} groups", fontsize=9)
            ax.grid(alpha=0.25)
    for ax in axes[-1]:
        ax.set_xlabel("sites that lie")
    marks: dict[str, Any] = {}
    for ax in axes[:, 0]:
        for line, label in zip(*ax.get_legend_handles_labels(), strict=True):
            marks.setdefault(label, line)
    drawing.legend(
        list(marks.values()), list(marks), loc="outside lower center", ncols=3, fontsize=8, frameon=False
    )
    drawing.suptitle("Accuracy; shaded: more than twice as many groups as liars", fontsize=11)
    drawing.savefig(path, dpi=110)


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
