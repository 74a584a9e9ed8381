"""Cells at hospitals, donors and technologies: methods that ask once beside training in rounds and pooled rows.

    python papers/oneshot/cells.py                    # all sets, 10 splits; writes results/cells.{json,md}
    python papers/oneshot/cells.py --only tcells      # some sets; what is in the results is not computed again
    python papers/oneshot/cells.py --splits 3         # the first three splits
    python papers/oneshot/cells.py --quick --json     # one split of one set, a minute; writes nothing

Accuracy in percent over all sites' test rows (30 % of each class of each site). T cells: seven markers, scaled by the
methods. Kang, lung (21 types) and Paul from raw counts, PBMC log-normalised already: 50 principal components, fitted on
training rows (papers/oneshot/tables.py). Classes of fewer than 10 rows in all are left out, at a site those of fewer
than 2. All federated figures come from secure runs. `Ellipses` and `Hulls` have words of the sites' own, which nobody
tells: they match them. "left out" is a joint model of all other sites on the rows of a site that took no part, mean
over sites.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import fedgeom

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from papers.common import (
    Labels,
    Results,
    Row,
    bold,
    figure,
    parser,
    percent,
    plus_minus,
    print_json,
    print_rows,
    table,
)
from papers.oneshot import tables
from papers.oneshot.tables import Cells

RESULTS = Results(Path(__file__).parent / "results")
FIRST, SPLITS = 100, 10
FEWEST, AT_A_SITE = 10, 2
COMPONENTS = 50

Sites = list[fedgeom.SiteData]


def prepared(name: str, seed: int) -> Cells:
    """Return a set without its rare classes; lung by its 21 types."""
    cells = tables.SETS[name](seed, components=COMPONENTS)
    if name == "lung":
        middle = {leaf: path[0] if path else leaf for leaf, path in cells.tree.items()}
        cells = replace(
            cells, train=[_renamed(s, middle) for s in cells.train], test=[_renamed(s, middle) for s in cells.test]
        )
    words, counts = np.unique(np.concatenate([site.y.astype(str) for site in cells.train]), return_counts=True)
    common, train, test = words[counts >= FEWEST], [], []
    for site, rows in zip(cells.train, cells.test, strict=True):
        mine, here = np.unique(site.y.astype(str), return_counts=True)
        kept = np.intersect1d(mine[here >= AT_A_SITE], common)
        train.append(site.take(np.isin(site.y.astype(str), kept)))
        test.append(rows.take(np.isin(rows.y.astype(str), kept)))
    return replace(cells, train=train, test=test)


def _renamed(site: fedgeom.SiteData, words: dict[str, str]) -> fedgeom.SiteData:
    return fedgeom.SiteData(site.name, site.X, np.array([words[one] for one in site.y.astype(str).tolist()]))


def own_words(site: fedgeom.SiteData) -> fedgeom.SiteData:
    """Return a site with words that no other site has."""
    return fedgeom.SiteData(site.name, site.X, np.array([f"{one} [{site.name}]" for one in site.y.tolist()]))


def matched(method: Callable[[int], Any]) -> Callable[[Sites, Sites, int], float]:
    """Return how to score a method that matches words: each site's model in its words."""

    def score(train: Sites, test: Sites, seed: int) -> float:
        number = len({str(word) for site in train for word in site.classes.tolist()})
        run = held(method(number), [own_words(site) for site in train], seed)
        parts = zip(map(own_words, test), train, strict=True)
        said = [run.model.for_site(run.local[site.name]).predict(rows.X) == rows.y for rows, site in parts]
        return 100 * float(np.concatenate(said).mean())

    return score


def shared(method: Any) -> Callable[[Sites, Sites, int], float]:
    """Return how to score a joint model in the words that all share."""

    def score(train: Sites, test: Sites, seed: int) -> float:
        model = held(method, train, seed).model
        return percent(np.concatenate([model.predict(site.X) for site in test]), _labels(test))

    return score


def held(method: Any, train: Sites, seed: int) -> Any:
    """Hold a secure run in which nobody is lost."""
    run = fedgeom.run(method, train, seed=seed, policy=fedgeom.Policy(min_cohort=2))
    if run.lost:
        raise SystemExit(f"{method.name}: sites were lost: {run.lost}")
    return run


def pooled(train: Sites, test: Sites, seed: int) -> float:
    """Score a logistic regression on all rows in one place."""
    X, y = np.vstack([site.X for site in train]), _labels(train)
    return percent(np.concatenate([_logistic(X, y).predict(np.vstack([site.X for site in test]))]), _labels(test))


def alone(train: Sites, test: Sites, seed: int) -> float:
    """Score a logistic regression at each site on its own rows."""
    said = [
        _logistic(site.X, site.y.astype(str)).predict(rows.X)
        if len(site.classes) > 1
        else np.full(len(rows), site.y[0])
        for site, rows in zip(train, test, strict=True)
        if len(rows)
    ]
    return percent(np.concatenate(said), _labels(test))


def _logistic(X: Any, y: Labels) -> Any:
    from sklearn.linear_model import LogisticRegression  # slow, and for two rows of the table
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    return make_pipeline(StandardScaler(), LogisticRegression(max_iter=300)).fit(X, y)


def _labels(sites: Sites) -> Labels:
    return np.concatenate([site.y.astype(str) for site in sites])


def left_out(score: Callable[[Sites, Sites, int], float]) -> Callable[[Sites, Sites, int], float]:
    """Return how to score on sites that took no part, mean over these."""

    def mean(train: Sites, test: Sites, seed: int) -> float:
        found = []
        for at, away in enumerate(test):
            others = [site for i, site in enumerate(train) if i != at]
            known = {str(word) for site in others for word in site.classes.tolist()}
            rows = away.take(np.isin(away.y.astype(str), sorted(known)))
            if len(rows):
                found.append(score(others, [rows], seed))
        return float(np.mean(found))

    return mean


RIDGE = shared(fedgeom.Ridge(features=["linear", "fourier"]))
MOMENTS = shared(fedgeom.Moments(space="euclidean"))
WAYS: dict[str, Callable[[Sites, Sites, int], float]] = {
    "pooled logistic regression": pooled,
    "Ridge": RIDGE,
    "Ellipses, own words": matched(lambda number: fedgeom.Ellipses(n_classes=number, min_rows=2)),
    "Ellipses, own words, linear": matched(
        lambda number: fedgeom.Ellipses(n_classes=number, min_rows=2, rule="linear")
    ),
    "Moments": MOMENTS,
    "Hulls, own words": matched(
        lambda number: fedgeom.Hulls(n_classes=number, embedding="discriminant", scale="joint")
    ),
    "XCLP through anchors": shared(fedgeom.XCLP(graph="anchors")),
    "FedAvg, 30 rounds": shared(fedgeom.FedAvg(rounds=30, epochs=2)),
    "each site alone": alone,
    "left out: pooled": left_out(pooled),
    "left out: Ridge": left_out(RIDGE),
    "left out: Moments": left_out(MOMENTS),
}
ONCE = ("Ridge", "Ellipses, own words", "Ellipses, own words, linear", "Moments", "Hulls, own words")
"""The rows that ask once."""


def page(content: dict[str, dict[str, dict[str, float]]]) -> str:
    """Write the table: a line for each way, a column for each set."""
    columns = {name: summed(splits) for name, splits in content.items()}
    lines = []
    for way in WAYS:
        cells = []
        for row in columns.values():
            best = max((row[one]["mean"] for one in ONCE if one in row), default=0.0)
            cells.append(
                bold(plus_minus(row[way], 1), way in ONCE and row[way]["mean"] == best) if way in row else ""
            )
        lines.append([way, *cells])
    counts = ", ".join(f"{len(splits)} of {name}" for name, splits in content.items())
    note = f"`python papers/oneshot/cells.py`; splits from {FIRST} on: {counts}. Bold: the best of those that ask once."
    return "# Cells\n\n" + note + "\n\n" + "\n".join(table(["way", *columns], lines)) + "\n"


def summed(splits: dict[str, dict[str, float]]) -> Row:
    """Return the means over splits."""
    return {
        way: figure([one[way] for one in splits.values() if way in one])
        for way in WAYS
        if any(way in one for one in splits.values())
    }


def main() -> None:
    """Compute, print and write, way by way; what is in the results is not computed again."""
    made = parser(__doc__, tables.SETS)
    made.add_argument("--splits", type=int, default=SPLITS, help="how many splits")
    options = made.parse_args()
    content: dict[str, dict[str, dict[str, float]]] = {} if options.quick else RESULTS.read("cells")
    names = options.only[:1] if options.quick else options.only
    for seed in range(FIRST, FIRST + (1 if options.quick else options.splits)):
        for name in names:
            done = content.setdefault(name, {}).setdefault(str(seed), {})
            todo = [way for way in WAYS if way not in done]
            cells = prepared(name, seed) if todo else None
            for way in todo:
                assert cells is not None
                done[way] = round(WAYS[way](cells.train, cells.test, seed), 3)
                if not options.quick:
                    RESULTS.write("cells", content, page)
    found = {name: summed(splits) for name, splits in content.items()}
    print_rows(found)
    print_json(options, found)


if __name__ == "__main__":
    main()
