"""Which method `fedgeom run` takes for shared label names: Moments, or Ridge with which features and balance.

    FEDGEOM_DATA=folder python benchmarks/default_method.py              # all; writes results/default_method.json
    FEDGEOM_DATA=folder python benchmarks/default_method.py --only wine  # one set; others in the results stay
    python benchmarks/default_method.py --quick                          # two small sets, one seed; writes nothing
    python benchmarks/default_method.py --table                          # the results as tables

Every figure is from a whole secure run that keeps 30 % of each site's rows aside: accuracy and balanced accuracy, in
percent, of the model that sites end with. The default, "balanced both", was chosen on the sets of `CHOSEN_ON`, seeds
0 to 2; the sets of `REPORTED` were run with seeds 10 and 11.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.common import Parts, measure_parts, parser, read
from benchmarks.real_sets import Rows, cells, clinical, images, pooled

from papers.common import table

METHODS = ("moments", "ridge", "fourier", "balanced ridge", "balanced both")
SEEDS = {True: (0, 1, 2), False: (10, 11)}
"""Whether a set is one that the rule was chosen on: its seeds."""
SHARE = 0.3
FEWEST = 5
"""Classes of which a site has fewer rows are left out there."""


CHOSEN_ON: dict[str, Callable[[], Rows]] = {
    "wine": lambda: pooled("wine"),
    "digits": lambda: pooled("digits"),
    "hipc": lambda: pooled("hipc", rows=2000),
    "heart": lambda: pooled("heart"),
    "kang, 20 components": lambda: cells("kang_pbmc_8donors.npz", "y", "class_names", "donor", 20),
    "paul15, 30 components": lambda: cells("paul15.npz", "y", "class_names", "", 30),
    "paul15, 300 genes": lambda: cells("paul15.npz", "y", "class_names", "", 300, genes=True),
    "fashion": lambda: images("fashion_mnist.npz", 4000, 5),
}
REPORTED: dict[str, Callable[[], Rows]] = {
    "breast-cancer": lambda: pooled("breast-cancer"),
    "lung, 30 components": lambda: cells("lung_2atlases_6donors.npz", "y_mid", "mid_names", "donor", 30),
    "lung, 300 genes": lambda: cells("lung_2atlases_6donors.npz", "y_mid", "mid_names", "donor", 300, genes=True),
    "pbmc, 30 components": lambda: cells("pbmc_3tech_1200.npz", "y", "class_names", "site", 30),
    "pbmc, 300 genes": lambda: cells("pbmc_3tech_1200.npz", "y", "class_names", "site", 300, genes=True),
    "kang, 300 genes": lambda: cells("kang_pbmc_8donors.npz", "y", "class_names", "donor", 300, genes=True),
    "pbmc68k, 30 components": lambda: cells("pbmc68k_reduced.npz", "y", "class_names", "", 30),
    "mnist": lambda: images("mnist_writers.npz", 4000, 5),
    "eicu, 4 regions": lambda: clinical("eicu_demo_186hospitals.npz", "y_hosp_mort", "region", leave=3),
    "tcga, 6 regions": lambda: clinical("tcga_brca_6regions.npz", "event", "site"),
}


def scored(load: Callable[[], Rows], seeds: tuple[int, ...], *, chosen_on: bool) -> dict[str, Any]:
    """Return what is seen before a run, and each method's figures by seed, in percent."""
    import fedgeom

    X, y, owner = load()
    kept = np.ones(len(y), bool)
    for site in np.unique(owner):
        names, counts = np.unique(y[owner == site], return_counts=True)
        kept &= ~((owner == site) & np.isin(y, names[counts < FEWEST]))
    sites = fedgeom.split(X[kept], y[kept], by=owner[kept])
    counts = np.unique(y[kept], return_counts=True)[1]
    found: dict[str, Any] = {
        "rows": int(kept.sum()), "columns": X.shape[1], "classes": len(counts), "sites": len(sites),
        "smallest class": int(counts.min()), "median class": int(np.median(counts)),
    }  # fmt: skip
    methods = {
        "moments": fedgeom.Moments(space="euclidean", holdout=SHARE),
        "ridge": fedgeom.Ridge(features="linear", holdout=SHARE),
        "fourier": fedgeom.Ridge(features="fourier", holdout=SHARE),
        "balanced ridge": fedgeom.Ridge(features="linear", balanced=True, holdout=SHARE),
        "balanced both": fedgeom.Ridge(
            features=["linear", "fourier"], rule="discriminant", balanced=True, alpha="folds", holdout=SHARE
        ),
    }
    for name in METHODS if chosen_on else (METHODS[0], *METHODS[-2:]):
        runs = [fedgeom.run(methods[name], sites, seed=seed).evaluation["own"] for seed in seeds]
        found[name] = {
            figure: [round(100 * getattr(run, figure).value, 2) for run in runs]
            for figure in ("accuracy", "balanced_accuracy")
        }
    return found


def part(name: str) -> Callable[[bool], Any]:
    """Return what measures a set: with all its seeds, or quickly with one; sets that are large are left out then."""

    def measured(quick: bool) -> Any:
        chosen = name in CHOSEN_ON
        if quick and name not in ("wine", "breast-cancer"):
            return None
        return scored((CHOSEN_ON | REPORTED)[name], SEEDS[chosen][: 1 if quick else None], chosen_on=chosen)

    return measured


PARTS: Parts = {name: part(name) for name in CHOSEN_ON | REPORTED}


def page(found: dict[str, Any]) -> str:
    """Return the tables of sets that the rule was chosen on, and of those it is reported on."""
    lines = []
    for title, names in (("chosen on", CHOSEN_ON), ("reported on", REPORTED)):
        rows = []
        for name in names:
            one = found[name]
            means = [_cell(one.get(method)) for method in METHODS]
            ratio = one["median class"] / one["columns"]
            facts = [f"{one[fact]:,}" for fact in ("rows", "columns", "classes", "sites")]
            rows.append([name, *facts, f"{ratio:.1f}", *means])
        head = [title, "rows", "columns", "classes", "sites", "median class ÷ columns", *METHODS]
        lines += [*table(head, rows), ""]
    return "\n".join(lines)


def _cell(figures: dict[str, list[float]] | None) -> str:
    """Write mean accuracy and balanced accuracy."""
    if figures is None:
        return "–"
    return " / ".join(f"{np.mean(figures[name]):.1f}" for name in ("accuracy", "balanced_accuracy"))


if __name__ == "__main__":
    made = parser(__doc__, PARTS)
    made.add_argument("--table", action="store_true")
    given = made.parse_args()
    if given.table:
        print(page(read("default_method")))
    else:
        print(json.dumps(measure_parts(given, PARTS, "default_method")))
