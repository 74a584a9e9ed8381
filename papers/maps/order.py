"""Whether a map's order is the known one, and whether it comes out again: pseudotime, and stability over draws.

    python papers/maps/order.py                 # Olsson, Paul and lung; writes results/order.{json,md}
    python papers/maps/order.py --only olsson   # one set; the others stay as they are
    python papers/maps/order.py --quick --json  # Olsson, without UMAP; writes nothing

*Order*: along each known branch, Spearman's correlation of a cell's distance from the middle of the branch's first
class with the number of its class on the branch; means of the branches. "All components" goes by distances in the
principal components. *Stability*: maps of two draws of four rows in five, 3,000 at most; a draw stands for a seed,
which joint maps do not have. Of the rows that both have, the correlation of their distances from each other on the
two maps; and, where an isometry has taken one map onto the other (Procrustes), how far a row is from its place on
the other, as a share of the distance of two rows (medians). Means over three draws, or their three pairs, with 95 %
intervals.
"""

from __future__ import annotations

import sys
import warnings
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import spearmanr

from fedgeom.geometry.hyperbolic import procrustes
from fedgeom.geometry.hyperbolic.landmark_map import middle
from fedgeom.geometry.hyperbolic.poincare import pairwise_distance

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from papers.common import Floats, Ints, Labels, Results, confidence, finish, parser, print_json, table
from papers.maps.sets import SETS, prepared
from papers.maps.table import SEEDS, STRICT, drawn, flat, joint

RESULTS = Results(Path(__file__).parent / "results")
NAMES = ("olsson", "paul", "lung")
ROUNDS = 30
"""So often rows are weighed anew for the isometry between two maps."""
COMPARED = 800
"""Distances are compared between so many rows."""
BRANCHES: dict[str, tuple[tuple[tuple[str, ...], ...], ...]] = {
    "olsson": (
        (("HSPC-1",), ("HSPC-2",), ("Multi-Lin",), ("MDP",), ("Mono",)),
        (("HSPC-1",), ("HSPC-2",), ("Multi-Lin",), ("Myelocyte",), ("Gran",)),
    ),
    "paul": (
        (("7MEP",), ("6Ery",), ("5Ery",), ("4Ery",), ("3Ery",), ("2Ery",), ("1Ery",)),
        (("9GMP", "10GMP"), ("14Mo", "15Mo")),
        (("9GMP", "10GMP"), ("16Neu", "17Neu")),
    ),
}
"""Classes in the order in which cells go through them (Olsson 2016; Paul 2015)."""


def order(name: str, points: Floats, y: Labels, *, hyperbolic: bool) -> float:
    """Return the mean correlation of distances from the first class with the known order."""
    found = []
    for branch in BRANCHES[name]:
        stage = np.full(len(y), -1)
        for at, classes in enumerate(branch):
            stage[np.isin(y, classes)] = at
        first, some = points[stage == 0], points[stage >= 0]
        if hyperbolic:
            away = pairwise_distance(some, middle(first, np.ones(len(first)))[None])[:, 0]
        else:
            away = np.linalg.norm(some - first.mean(axis=0), axis=1)
        found.append(float(spearmanr(away, stage[stage >= 0]).statistic))
    return float(np.mean(found))


def places(name: str, seed: int, rows: Ints, *, umap: bool) -> dict[str, Floats]:
    """Return the rows' places by each way."""
    cells, X = prepared(name)
    found = {"all components": X[rows], "joint map": joint(cells, X, rows, (1, 1))[0]}
    found["joint map, strict sites"] = joint(cells, X, rows, STRICT)[0]
    if cells.published is not None:
        found["published map"] = cells.published[rows]
    if umap:
        from umap import UMAP

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found["UMAP"] = UMAP(random_state=seed, n_jobs=1).fit_transform(X[rows]).astype(float)
    return found


def stability(one: Floats, other: Floats, *, hyperbolic: bool) -> tuple[float, float | None]:
    """Return how two maps of the same rows agree: the correlation of distances, and how far rows have moved."""
    if not hyperbolic:
        return float(spearmanr(_pairs(flat(one)), _pairs(flat(other))).statistic), None
    moved = _moved(one, other)
    between = _pairs(pairwise_distance(other, other))
    alike = float(spearmanr(_pairs(pairwise_distance(one, one)), between).statistic)
    return alike, float(np.median(moved) / np.median(between))


def _moved(one: Floats, other: Floats) -> Floats:
    """Return how far each row of a map is from its place on another, after the isometry with the least sum of that.

    `procrustes` minimises cosh of distances, by which the farthest rows decide; weighed by 1/sinh, all count alike.
    """
    best = np.full(len(one), np.inf)
    weights = np.ones(len(one))
    for _ in range(ROUNDS):
        away = _row_distances(procrustes(one, other, weights=weights)(one), other)
        best = away if away.sum() < best.sum() else best
        weights = 1 / np.sinh(np.maximum(away, 0.05))
    return best


def _row_distances(one: Floats, other: Floats) -> Floats:
    return np.diag(pairwise_distance(one, other))


def _pairs(distances: Floats) -> Floats:
    return distances[np.triu_indices(len(distances), 1)]


def measured(name: str, seeds: tuple[int, ...], *, umap: bool) -> dict[str, dict[str, list[float]]]:
    """Return each way's figures: mean and half width."""
    cells, _ = prepared(name)
    draws = [drawn(len(cells.y), seed) for seed in seeds]
    made = [places(name, seed, rows, umap=umap) for seed, rows in zip(seeds, draws, strict=True)]
    found: dict[str, dict[str, list[float]]] = {}
    for way in made[0]:
        figures: dict[str, Any] = {}
        hyperbolic = "map" in way
        if name in BRANCHES:
            ordered = zip(draws, made, strict=True)
            figures["order"] = [
                order(name, one[way], cells.y[rows], hyperbolic=hyperbolic) for rows, one in ordered
            ]
        if way not in ("all components", "published map"):  # these are the same for every draw
            pairs = []
            for a, b in combinations(range(len(seeds)), 2):
                shared, left, right = np.intersect1d(draws[a], draws[b], return_indices=True)
                some = np.random.default_rng(0).permutation(len(shared))[:COMPARED]
                pairs.append(stability(made[a][way][left[some]], made[b][way][right[some]], hyperbolic=hyperbolic))
            figures["alike"] = [alike for alike, _ in pairs]
            figures["moved"] = [moved for _, moved in pairs if moved is not None]
        found[way] = {key: [round(x, 3) for x in confidence(values)] for key, values in figures.items() if values}
        print(name, way, found[way], flush=True)
    return found


def page(found: dict[str, Any]) -> str:
    """Return the table in Markdown."""
    lines = ["# Order, and stability", "", __doc__.split("\n\n")[-1].strip(), ""]
    rows = []
    for name, ways in found.items():
        for way, figures in ways.items():
            cells = [
                "{:.2f} ± {:.2f}".format(*figures[key]) if key in figures else ""
                for key in ("order", "alike", "moved")
            ]
            rows.append([name, way, *cells])
    head = ["set", "map", "order", "distances on two maps", "moved"]
    return "\n".join([*lines, *table(head, rows), ""])


def main() -> None:
    """Compute what is asked for."""
    options = parser(__doc__, {name: SETS[name] for name in NAMES}).parse_args()
    found = {}
    for name in ["olsson"] if options.quick else options.only:
        found[name] = measured(name, SEEDS, umap=not options.quick)
        finish(options, RESULTS, "order", {name: found[name]}, {one: SETS[one] for one in NAMES}, page)
    print_json(options, found)


if __name__ == "__main__":
    main()
