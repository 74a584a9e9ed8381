"""Hulls in balls of two to five dimensions beside Ellipses: what is sent, and how well it is told apart.

    python papers/hulls/balls.py                  # T cells and Kang, 3 seeds, some minutes; writes results/balls.*
    python papers/hulls/balls.py --only t-cells   # one set
    python papers/hulls/balls.py --quick --json   # T cells, one seed, fewer rows; writes nothing

The protocol of the hulls is for the disc: bins of a grid in more dimensions would be too many to sum. So that its
worth can be judged, hulls are here computed in the clear: rows are brought to d principal components, scaled to a
median length of 1 and laid into the ball by the exponential map; every site's classes have their hull (Qhull in Klein
coordinates), and a linear SVM in Klein coordinates, where geodesic hyperplanes are flat, learns from the corners alone
or from all rows (C by five folds on what it learns from). Ellipses are secure runs of `fedgeom.Ellipses` on the same
points of the same ball with shared names. T cells: five hospitals, 400 rows each; Kang: eight donors, 1,600 cells in
all. A quarter is tested on.
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.model_selection import GridSearchCV
from sklearn.svm import LinearSVC

import fedgeom
from fedgeom.geometry.hyperbolic import convex_hull
from fedgeom.geometry.hyperbolic.poincare import exp0, to_klein

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from papers.common import Floats, MissingFile, figure, parser, percent, plus_minus, print_json, table
from papers.hulls.runs import RESULTS
from papers.xclp.tasks import Task, cells, hipc

DIMENSIONS = (2, 3, 4, 5)
SEEDS = (10, 11, 12)
SETS = {
    "t-cells": lambda seed, quick: hipc(seed, 120 if quick else 400),
    "kang": lambda seed, quick: cells("kang", seed, 600 if quick else 1600, centred=False),
}
COLUMNS = (
    "% of rows that are corners",
    "SVM on corners",
    "SVM on all rows",
    "Ellipses",
    "numbers, hulls",
    "Ellipses’",
)
"""The last two: how many numbers a site sends in the mean, corners or counts, means and covariances."""


def in_ball(X: Floats, d: int) -> Floats:
    """Lay rows into the ball by their first d principal components."""
    centred = X - X.mean(axis=0)
    flat = centred @ np.linalg.svd(centred, full_matrices=False)[2][:d].T
    return exp0(flat / np.median(np.linalg.norm(flat, axis=1)))


def corners_of(points: Floats, y: Any, owner: Any) -> Any:
    """Return the rows that are corners of their site's hull of their class."""
    found = []
    for site in np.unique(owner):
        for label in np.unique(y[owner == site]):
            rows = np.flatnonzero((owner == site) & (y == label))
            with warnings.catch_warnings():
                warnings.simplefilter(
                    "ignore"
                )  # it warns that hulls hide little in five dimensions: the point here
                found.append(rows[convex_hull(points[rows])])
    return np.concatenate(found)


def svm(X: Floats, y: Any, at: Floats) -> Any:
    """Fit a linear SVM, C by folds, and predict."""
    grid = GridSearchCV(LinearSVC(dual=False, class_weight="balanced"), {"C": [0.1, 1, 10, 100]}, cv=5)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # classes of fewer than five rows
        return grid.fit(X, y).predict(at)


def measure(task: Task, d: int, seed: int) -> dict[str, float]:
    """Return the figures of one set, dimension and seed."""
    rng = np.random.default_rng([seed, 5])
    test = rng.random(len(task.y)) < 0.25
    points = in_ball(task.X, d)
    flat, train = to_klein(points), np.flatnonzero(~test)
    chosen = train[corners_of(points[train], task.y[train], task.owner[train])]
    names = np.array([f"class {label}" for label in task.y])
    sites = [
        fedgeom.SiteData(f"site {one}", points[mine], names[mine])
        for one in np.unique(task.owner)
        for mine in [train[task.owner[train] == one]]
    ]
    run = fedgeom.run(fedgeom.Ellipses(names="shared", space="ball", scale="none"), sites, seed=seed)
    classes = np.mean([len(np.unique(site.y)) for site in sites])
    said = (svm(flat[rows], task.y[rows], flat[test]) for rows in (chosen, train))
    right = [percent(found, task.y[test]) for found in said]
    ellipses = percent(run.model.predict(points[test]), names[test])
    numbers = d * len(chosen) / len(sites), classes * (1 + d + d * (d + 1) / 2)
    return dict(zip(COLUMNS, (100 * len(chosen) / len(train), *right, ellipses, *numbers), strict=True))


def page(results: dict[str, Any]) -> str:
    """Return the table as Markdown."""
    lines = [
        "# Hulls in balls of more dimensions, beside Ellipses",
        "",
        "Made by `python papers/hulls/balls.py`, whose head says how. Accuracy in percent, mean over seeds 10 to 12",
        "± half of its 95 % interval.",
        "",
    ]
    rows = [
        [name, d, *(plus_minus(found[column], 1) for column in COLUMNS)]
        for name, by_dimension in results.items()
        for d, found in by_dimension.items()
    ]
    return "\n".join([*lines, *table(["set", "dimensions", *COLUMNS], rows), ""])


def main() -> None:
    """Measure, write and print."""
    options = parser(__doc__, SETS).parse_args()
    found: dict[str, Any] = {}
    for name in options.only[:1] if options.quick else options.only:
        try:
            tasks = {seed: SETS[name](seed, options.quick) for seed in (SEEDS[:1] if options.quick else SEEDS)}
        except MissingFile as reason:
            print(f"{name} is left out: {reason}")
            continue
        found[name] = {}
        for d in DIMENSIONS:
            each = [measure(task, d, seed) for seed, task in tasks.items()]
            found[name][str(d)] = {column: figure([one[column] for one in each]) for column in COLUMNS}
        print(page({name: found[name]}), flush=True)
        if not options.quick:
            RESULTS.keep("balls", {name: found[name]}, SETS, page)
    print_json(options, found)


if __name__ == "__main__":
    main()
