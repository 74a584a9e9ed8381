"""The hulls paper's Figure 1 from raw counts to a classifier: every step by secure sums, the map included.

    python papers/maps/figure1.py               # Paul, lung, Kang; writes results/figure1.{json,md}
    python papers/maps/figure1.py --only paul   # one set; the others stay as they are
    python papers/maps/figure1.py --quick       # Paul, one seed; writes nothing

Raw counts at the sites are prepared as by ``prepare="counts"``, put on a joint Poincaré map, and classified there:
by the classes near landmarks (`PoincareMap`), by hulls (`Hulls(embedding="map")`), by a Gaussian for each class of all
sites (`Moments`, in the disc and in a ball of five dimensions) or of each site (`Ellipses`), and by labels that spread
between rows and anchors (`XCLP`). Beside them are hulls on the joint discriminant map, which labels decide. A quarter
of each site's rows is kept aside for the test; rows of classes that a site has fewer than eight of are left out there.
All runs are secure runs, in one process.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

import fedgeom

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from papers.common import Results, confidence, finish, parser, print_json, table
from papers.maps.sets import SETS, Cells

RESULTS = Results(Path(__file__).parent / "results")
NAMES = ("paul", "lung", "kang")
SEEDS = (0, 1, 2)
LEAST = 8


def sites_of(cells: Cells) -> list[fedgeom.SiteData]:
    """Return the sites, without rows of classes of which a site has few."""
    found = []
    for site in cells.sites():
        counts = site.class_counts()
        found.append(site.take(np.array([counts[str(word)] >= LEAST for word in site.y.tolist()])))
    return found


def methods(cells: Cells) -> dict[str, fedgeom.Method]:
    """Return what classifies, by title."""
    given: dict[str, Any] = {"prepare": cells.steps, "holdout": 0.25}
    ball = given | {"prepare": (*cells.steps, fedgeom.PoincareMap(n_components=5, n_columns=20))}
    disc = given | {"prepare": (*cells.steps, fedgeom.PoincareMap(n_columns=20))}
    return {
        "near landmarks": fedgeom.PoincareMap(**given),
        "hulls on the map": fedgeom.Hulls(names="shared", embedding="map", **given),
        "Gaussians on the map": fedgeom.Moments(**disc),
        "Gaussians of each site on the map": fedgeom.Ellipses(names="shared", **disc),
        "labels spread on the map": fedgeom.XCLP(graph="anchors", **disc),
        "Gaussians in five dimensions": fedgeom.Moments(**ball),
        "hulls on the discriminant map": fedgeom.Hulls(names="shared", embedding="discriminant", **given),
    }


def measured(name: str, seeds: tuple[int, ...]) -> dict[str, Any]:
    """Return accuracy on rows kept aside, in percent, with the half width of its interval, and CPU seconds."""
    cells = SETS[name]()
    sites = sites_of(cells)
    found: dict[str, Any] = {}
    for title, method in methods(cells).items():
        right, spent = [], []
        for seed in seeds:
            began = time.process_time()
            run = fedgeom.run(method, sites, seed=seed)
            spent.append(time.process_time() - began)
            right.append(100 * run.evaluation["own"].values()["accuracy"])
            print(name, title, seed, round(right[-1], 1), f"{spent[-1]:.0f} s", flush=True)
        mean, half = confidence(right)
        found[title] = {
            "accuracy": [round(mean, 1), round(half, 1)],
            "CPU seconds": round(float(np.mean(spent)), 1),
        }
    return found


def page(found: dict[str, Any]) -> str:
    """Return the table in Markdown."""
    titles = list(next(iter(found.values())))
    rows = []
    for name, one in found.items():
        cells = (one[title]["accuracy"] for title in titles)
        rows.append([name, *(f"{mean:.1f} ± {half:.1f}" for mean, half in cells)])
    said = (__doc__ or "").split("\n\n")[-1].strip()
    return "\n".join(["# From raw counts to a classifier", "", said, "", *table(["set", *titles], rows), ""])


def main() -> None:
    """Run what is asked for."""
    options = parser(__doc__, NAMES).parse_args()
    names = ["paul"] if options.quick else options.only
    found = {}
    for name in names:  # what is computed is kept, though the next one fails
        found[name] = measured(name, SEEDS[:1] if options.quick else SEEDS)
        finish(options, RESULTS, "figure1", {name: found[name]}, NAMES, page)
    print_json(options, found)


if __name__ == "__main__":
    main()
