"""Joint maps beside maps of pooled rows: what follows classes, and what keeps neighbourhoods.

    python papers/maps/table.py                 # all sets, three draws of rows; writes results/table.{json,md}
    python papers/maps/table.py --only olsson   # one set; the others stay as they are
    python papers/maps/table.py --choose        # graph, walk, unit and placement on other draws; prints them
    python papers/maps/table.py --quick --json  # Olsson, one draw; writes nothing

Each draw has four rows in five, 3,000 at most. All maps are of the same principal components of these rows. Accuracy is
that of the five nearest neighbours on the map (five folds). Local and global quality are means of the co-ranking
quality of neighbourhoods up to, and beyond, the size at which it is farthest above chance (Lee and Verleysen 2010),
against the components, on 800 rows. Joint maps come from the sums of `LandmarkMap`, at sites without floors and at
strict ones; secure runs give the same numbers (tests/methods/poincare_map). "Our central map" embeds each row as a
landmark of its own, 700 rows at most; the published coordinates are those of Klimovskaia et al. (2020).
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.neighbors import KNeighborsClassifier

import fedgeom
from fedgeom.errors import FedgeomError
from fedgeom.geometry.hyperbolic.landmark_map import MapSettings, embed_landmarks
from fedgeom.geometry.hyperbolic.poincare import pairwise_distance
from fedgeom.preparation import LandmarkMap, fit_plain

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from papers.common import Floats, Ints, Labels, Results, confidence, finish, parser, print_json, table
from papers.maps.sets import SETS, Cells, prepared

RESULTS = Results(Path(__file__).parent / "results")
SEEDS = (0, 1, 2)
OTHER_SEEDS = (100, 101)
ROWS, CENTRAL, RANKED, NEAREST = 3000, 700, 800, 5
STRICT = (3, 10)
WAYS = (
    "all components", "PCA", "published map", "our central map", "UMAP", "joint map", "joint map, strict sites",
)  # fmt: skip


def drawn(rows: int, seed: int) -> Ints:
    """Return four rows in five, up to `ROWS`."""
    return np.sort(np.random.default_rng([seed, 1]).permutation(rows)[: min(ROWS, 4 * rows // 5)])


def flat(points: Floats) -> Floats:
    """Return Euclidean distances, (n, n)."""
    squares = (points**2).sum(axis=1)
    return np.sqrt(np.maximum(squares[:, None] + squares - 2 * points @ points.T, 0.0))


def accuracy(distances: Floats, y: Labels, seed: int) -> float:
    """Return the share of rows of which the nearest in other folds name the class, in percent."""
    fold = np.random.default_rng([seed, 2]).permutation(len(y)) % 5
    right = 0
    for at in range(5):
        test, train = np.flatnonzero(fold == at), np.flatnonzero(fold != at)
        near = KNeighborsClassifier(NEAREST, metric="precomputed").fit(distances[np.ix_(train, train)], y[train])
        right += int((near.predict(distances[np.ix_(test, train)]) == y[test]).sum())
    return 100 * right / len(y)


def quality(high: Floats, low: Floats) -> tuple[float, float]:
    """Return local and global quality of neighbourhoods, from distances before and on a map."""
    n = len(high)
    ranks = [np.argsort(np.argsort(one, axis=1, kind="stable"), axis=1) for one in (high, low)]
    later = np.maximum(*ranks)
    np.fill_diagonal(later, 0)
    kept = np.cumsum(np.bincount(later.ravel(), minlength=n)[1:n]) / (n * np.arange(1, n))
    best = int(np.argmax(kept - np.arange(1, n) / (n - 1)))
    return 100 * float(kept[: best + 1].mean()), 100 * float(kept[best + 1 :].mean())


def joint(cells: Cells, X: Floats, rows: Ints, floors: tuple[int, int], **settings: Any) -> tuple[Floats, int]:
    """Return the rows' places on a joint map, and how many landmarks it has."""
    made = {"n_columns": 20 if X.shape[1] > 20 else None} | settings
    sites = [
        fedgeom.SiteData(str(at), X[rows[cells.site[rows] == at]], cells.y[rows[cells.site[rows] == at]])
        for at in np.unique(cells.site[rows])
    ]
    fitted = fit_plain((LandmarkMap(**made),), sites, floors=floors)
    return fitted.rows(X[rows]), len(fitted.fits[0].get("sizes"))


def maps(name: str, seed: int) -> Iterator[tuple[str, Floats, Ints, dict[str, float]]]:
    """Yield each way's distances between rows, which of the drawn rows they are, and what else is to be said."""
    cells, X = prepared(name)
    rows = drawn(len(X), seed)
    every = np.arange(len(rows))
    yield "all components", flat(X[rows]), every, {}
    yield "PCA", flat(X[rows, :2]), every, {}
    if cells.published is not None:
        points = cells.published[rows]
        yield "published map", pairwise_distance(points, points), every, {}
    some = np.sort(np.random.default_rng([seed, 3]).permutation(len(rows))[:CENTRAL])
    points, _ = embed_landmarks(X[rows[some]][:, :20], np.ones(len(some)), MapSettings(n_neighbors=15))
    yield "our central map", pairwise_distance(points, points), some, {}
    try:
        from umap import UMAP
    except ImportError:
        print("UMAP is left out: umap-learn is not installed")
    else:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield "UMAP", flat(UMAP(random_state=seed, n_jobs=1).fit_transform(X[rows]).astype(float)), every, {}
    for way, floors in (("joint map", (1, 1)), ("joint map, strict sites", STRICT)):
        try:
            points, landmarks = joint(cells, X, rows, floors)
        except FedgeomError as error:
            print(f"{name}, {way}: {str(error).partition(';')[0]}")
            continue
        yield way, pairwise_distance(points, points), every, {"landmarks": landmarks}


def scores(name: str, seed: int) -> dict[str, dict[str, float]]:
    """Return each way's figures on one draw."""
    cells, X = prepared(name)
    rows = drawn(len(X), seed)
    found = {}
    for way, distances, some, more in maps(name, seed):
        ranked = np.sort(np.random.default_rng([seed, 4]).permutation(len(some))[:RANKED])
        local, whole = quality(flat(X[rows[some[ranked]]]), distances[np.ix_(ranked, ranked)])
        found[way] = {
            "accuracy": accuracy(distances, cells.y[rows[some]], seed),
            "local": local,
            "global": whole,
        } | more
        print(name, seed, way, {key: round(value, 1) for key, value in found[way].items()}, flush=True)
    return found


def measured(name: str, seeds: tuple[int, ...]) -> dict[str, dict[str, list[float]]]:
    """Return the mean and the half width of its interval of each way's figures over draws."""
    each = [scores(name, seed) for seed in seeds]
    ways = [way for way in WAYS if all(way in one for one in each)]
    return {
        way: {key: [round(x, 2) for x in confidence([one[way][key] for one in each])] for key in each[0][way]}
        for way in ways
    }


def page(found: dict[str, Any]) -> str:
    """Return the table in Markdown."""
    lines = ["# Joint maps beside maps of pooled rows", "", __doc__.split("\n\n")[-1].strip(), ""]
    rows = []
    for name, ways in found.items():
        for way, figures in ways.items():
            cells = [f"{figures[key][0]:.1f} ± {figures[key][1]:.1f}" for key in ("accuracy", "local", "global")]
            rows.append([name, way, *cells, f"{figures['landmarks'][0]:.0f}" if "landmarks" in figures else ""])
    head = ["set", "map", "5-NN accuracy", "local quality", "global quality", "landmarks"]
    return "\n".join([*lines, *table(head, rows), ""])


def choose(names: list[str]) -> None:
    """Print figures of other settings, on other draws than those that are reported."""
    tried = [
        *({"n_neighbors": k, "gamma": g} for k, g in product((3, 5, 8), (1.0, 2.0, 4.0))),
        *({"sigma": s} for s in (0.5, 2.0)),
        *({"n_nearest": m} for m in (3, 8)),
        *({"n_landmarks": a} for a in (50, 100, 400)),
        {"n_columns": 10}, {"n_columns": 50}, {"min_cell": 2}, {"min_cell": 10},
    ]  # fmt: skip
    for settings in tried:
        every = []
        for name, seed in product(names, OTHER_SEEDS):
            cells, X = prepared(name)
            rows = drawn(len(X), seed)[:1500]
            points, _ = joint(cells, X, rows, (1, 1), **settings)
            distances = pairwise_distance(points, points)
            some = np.random.default_rng(seed).permutation(len(rows))[:500]
            ranks = quality(flat(X[rows[some]]), distances[np.ix_(some, some)])
            every.append([accuracy(distances, cells.y[rows], seed), *ranks])
        means = np.array(every).reshape(len(names), len(OTHER_SEEDS), 3).mean(axis=1)
        shown = " ".join(f"{name} {a:.1f}/{b:.1f}/{c:.1f}" for name, (a, b, c) in zip(names, means, strict=True))
        print(settings, "mean", np.round(means.mean(axis=0), 2).tolist(), shown, flush=True)


def main() -> None:
    """Compute what is asked for."""
    made = parser(__doc__, SETS)
    made.add_argument("--choose", action="store_true", help="print figures of other settings, on other draws")
    options = made.parse_args()
    if options.choose:
        choose(options.only)
        return
    names = ["olsson"] if options.quick else options.only
    found = {}
    for name in names:  # what is computed is kept, though the next one fails
        found[name] = measured(name, SEEDS[:1] if options.quick else SEEDS)
        finish(options, RESULTS, "table", {name: found[name]}, SETS, page)
    print_json(options, found)


if __name__ == "__main__":
    main()
