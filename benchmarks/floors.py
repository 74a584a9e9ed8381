"""What floors cost: accuracy on the sets of benchmarks/default_method.py at strict sites and without any policy.

    FEDGEOM_DATA=folder python benchmarks/floors.py              # all; writes results/floors.json
    FEDGEOM_DATA=folder python benchmarks/floors.py --only wine  # one set; others in the results stay
    python benchmarks/floors.py --quick                          # two small sets, one seed; writes nothing
    python benchmarks/floors.py --table                          # the results as a table

Both runs have the same rows: classes that strict sites would leave out, and a site's rows of a class of which it has
few, are taken out before. So what differs is which columns are summed (`fedgeom.federation.disclosure`).
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.common import Parts, measure_parts, parser, read
from benchmarks.default_method import CHOSEN_ON, REPORTED, SHARE
from benchmarks.real_sets import Rows

from papers.common import table

SEEDS = (0, 1)
METHODS = ("moments", "ridge", "balanced both")
FEWEST = 8
"""Rows of a class at a site with fewer are taken out."""
LEAST = (3, 20)
"""Classes at fewer sites, or with fewer rows, are taken out."""
LEFT_OUT = re.compile(r"left out of all sums")


def enough(y: np.ndarray, owner: np.ndarray) -> np.ndarray:
    """Return which rows are of classes that no floor leaves out, (rows,)."""
    kept = np.ones(len(y), bool)
    for name in np.unique(y):
        there = [site for site in np.unique(owner) if ((owner == site) & (y == name)).sum() >= FEWEST]
        mine = (y == name) & np.isin(owner, there)
        kept[y == name] = mine[y == name] & (len(there) >= LEAST[0] and mine.sum() >= LEAST[1])
    return kept


def measured(load: Callable[[], Rows], seeds: tuple[int, ...]) -> dict[str, Any]:
    """Return accuracy by seed, in percent, without a policy and at strict sites, and how many columns were left out."""
    import fedgeom
    from fedgeom.federation.policy import Policy, StrictPolicy

    X, y, owner = load()
    kept = enough(y, owner)
    sites = fedgeom.split(X[kept], y[kept], by=owner[kept])
    found: dict[str, Any] = {"rows": int(kept.sum()), "columns": X.shape[1], "sites": len(sites)}
    methods = {
        "moments": fedgeom.Moments(space="euclidean", holdout=SHARE),
        "ridge": fedgeom.Ridge(features="linear", holdout=SHARE),
        "balanced both": fedgeom.Ridge(
            features=["linear", "fourier"], rule="discriminant", balanced=True, alpha="folds", holdout=SHARE
        ),
    }
    for name in METHODS:
        figures: dict[str, Any] = {"relaxed": [], "strict": [], "left out": []}
        for seed in seeds:
            for policy in (Policy(), StrictPolicy()):
                try:
                    run = fedgeom.run(methods[name], sites, seed=seed, policy=policy)
                except fedgeom.FedgeomError as error:
                    figures["refused"] = str(error).splitlines()[-1][:200]
                    continue
                kind = "strict" if isinstance(policy, StrictPolicy) else "relaxed"
                figures[kind].append(round(100 * run.evaluation["own"].accuracy.value, 2))
                if kind == "strict":
                    width = X.shape[1] if run.model.preparation is None else run.model.preparation.columns.width
                    figures["left out"].append(X.shape[1] - width)
                    told = any(LEFT_OUT.search(str(warning)) for warning in run.warnings)
                    assert told == (width < X.shape[1])
        found[name] = figures
    return found


def part(name: str) -> Callable[[bool], Any]:
    """Return what measures a set: with all seeds, or quickly with one; sets that are large are left out then."""

    def of_set(quick: bool) -> Any:
        if quick and name not in ("wine", "breast-cancer"):
            return None
        return measured((CHOSEN_ON | REPORTED)[name], SEEDS[: 1 if quick else None])

    return of_set


PARTS: Parts = {name: part(name) for name in CHOSEN_ON | REPORTED}


def page(found: dict[str, Any]) -> str:
    """Return the results as a table."""
    rows = []
    for name, one in found.items():
        cells = []
        for method in METHODS:
            figures = one[method]
            if not figures["strict"] or not figures["relaxed"]:
                cells.append("refused")
                continue
            before, after = (np.mean(figures[kind]) for kind in ("relaxed", "strict"))
            cells.append(f"{before:.1f} → {after:.1f} ({max(figures['left out'])})")
        rows.append([name, *(f"{one[fact]:,}" for fact in ("rows", "columns", "sites")), *cells])
    return "\n".join(table(["set", "rows", "columns", "sites", *METHODS], rows))


if __name__ == "__main__":
    made = parser(__doc__, PARTS)
    made.add_argument("--table", action="store_true")
    given = made.parse_args()
    if given.table:
        print(page(read("floors")))
    else:
        print(json.dumps(measure_parts(given, PARTS, "floors")))
