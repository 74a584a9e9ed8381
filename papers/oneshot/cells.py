"""Cells at hospitals, donors and technologies: methods that ask once beside training in rounds and pooled rows.

    python papers/oneshot/cells.py                    # all sets, 10 splits; writes results/cells.{json,md}
    python papers/oneshot/cells.py --only tcells      # some sets; what is in the results is not computed again
    python papers/oneshot/cells.py --splits 3         # the first three splits
    python papers/oneshot/cells.py --quick --json     # one split of one set, a minute; writes nothing

Accuracy in percent over all sites' test rows (30 % of each class of each site). Kang, lung (21 types) and Paul from raw
counts: depth, log1p, 2,000 variable genes, scaled to at most 10, 50 principal components; PBMC, log-normalised already,
from scaling on; T cells: seven markers as they are, which methods scale. The preparation is fitted over all sites'
training rows by secure sums, once for each split, and all rows of the table learn from the same prepared rows, pooled
and local ones too. Classes of fewer than 10 rows in all are left out, at a site those of fewer than 2. All federated
figures come from secure runs. `Ellipses` and `Hulls` have words of the sites' own, which nobody tells: they match them.
"left out" is a joint model of all other sites, prepared by these alone, on the rows of a site that took no part, mean
over sites; two splits. Settings were chosen on split 1, which is not reported.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import fedgeom
from fedgeom.federation.steps import Step
from fedgeom.methods.ridge.features import Fourier
from fedgeom.preparation import PCA, LogCounts, Scale, SelectVariable, prepared_method

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
FIRST, SPLITS, LEFT_OUT = 100, 10, 2
FEWEST, AT_A_SITE = 10, 2
COMPONENTS = 50

Sites = list[fedgeom.SiteData]


STEPS: dict[str, tuple[Step, ...]] = {
    "counts": (LogCounts(), SelectVariable(2000), Scale(max_value=10.0), PCA(COMPONENTS)),
    "logs": (Scale(max_value=10.0), PCA(COMPONENTS)),
    "markers": (),
}


def raw(name: str, seed: int) -> Cells:
    """Return a set without its rare classes; lung by its 21 types."""
    cells = tables.cells(name, seed)
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


def prepared(cells: Cells, name: str, seed: int) -> Cells:
    """Return a set with its rows prepared over all sites, by the secure sums of a run."""
    steps = STEPS[tables.SETS[name].kind]
    if not steps:
        return cells
    found = held(fedgeom.Pipeline(*steps, fedgeom.Moments(space="euclidean")), cells.train, seed).model.preparation
    return _by(found, cells)


def _by(found: Any, cells: Cells) -> Cells:
    """Return a set with its rows prepared by fitted steps."""
    both = [[fedgeom.SiteData(s.name, found.rows(s), s.y) for s in some] for some in (cells.train, cells.test)]
    return replace(cells, train=both[0], test=both[1])


def _renamed(site: fedgeom.SiteData, words: dict[str, str]) -> fedgeom.SiteData:
    return replace(site, y=np.array([words[one] for one in site.y.astype(str).tolist()]))


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


def left_out(name: str, cells: Cells, seed: int) -> dict[str, float]:
    """Score joint models of all other sites on each site that took no part, mean over these."""
    found: dict[str, list[float]] = {way: [] for way in AWAY}
    for at, away in enumerate(cells.test):
        others = [site for i, site in enumerate(cells.train) if i != at]
        known = {str(word) for site in others for word in site.classes.tolist()}
        rows = away.take(np.isin(away.y.astype(str), sorted(known)))
        if not len(rows):
            continue
        one, steps = replace(cells, train=others, test=[rows]), STEPS[tables.SETS[name].kind]
        if steps:
            one = _by(
                prepared_method(
                    fedgeom.Pipeline(*steps, fedgeom.Ridge(features="linear")), others, seed
                ).preparation,
                one,
            )
        for way, score in AWAY.items():
            found[way].append(score(one.train, one.test, seed))
    return {way: float(np.mean(values)) for way, values in found.items()}


RIDGE = shared(fedgeom.Ridge(features=Fourier(bandwidth=0.7, scale="joint"), rule="discriminant"))
MOMENTS = shared(fedgeom.Moments(space="euclidean"))
WAYS: dict[str, Callable[[Sites, Sites, int], float]] = {
    "pooled logistic regression": pooled,
    "Ridge: Fourier features, discriminants": RIDGE,
    "Ridge: components": shared(fedgeom.Ridge(features="linear")),
    "Ellipses, own words": matched(lambda number: fedgeom.Ellipses(n_classes=number, min_rows=2)),
    "Ellipses, own words, linear": matched(
        lambda number: fedgeom.Ellipses(n_classes=number, min_rows=2, rule="linear")
    ),
    "Moments": MOMENTS,
    "Hulls, own words": matched(
        lambda number: fedgeom.Hulls(n_classes=number, embedding="discriminant", scale="joint")
    ),
    "XCLP through anchors": shared(fedgeom.XCLP(graph="anchors")),
    "FedAvg, 30 rounds": shared(fedgeom.FedAvg(n_rounds=30, epochs=2)),
    "each site alone": alone,
}
AWAY = {"left out: pooled": pooled, "left out: Ridge": RIDGE, "left out: Moments": MOMENTS}
ONCE = tuple(way for way in WAYS if way.startswith(("Ridge", "Ellipses", "Moments", "Hulls")))
"""The rows that ask once."""


def page(content: dict[str, dict[str, dict[str, float]]]) -> str:
    """Write the table: a line for each way, a column for each set."""
    columns = {name: summed(splits) for name, splits in content.items()}
    lines = []
    for way in (*WAYS, *AWAY):
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
        for way in (*WAYS, *AWAY)
        if any(way in one for one in splits.values())
    }


def keep(content: dict[str, Any], options: Any) -> None:
    """Write what there is so far, so that an interrupted script goes on there."""
    if not options.quick:
        RESULTS.write("cells", content, page)


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
            away = seed < FIRST + LEFT_OUT and not set(AWAY) <= set(done) and not options.quick
            cells = raw(name, seed) if todo or away else None
            ready = prepared(cells, name, seed) if cells and todo else None
            for way in todo:
                assert ready is not None
                done[way] = round(WAYS[way](ready.train, ready.test, seed), 3)
                keep(content, options)
            if away:
                assert cells is not None
                done |= {way: round(value, 3) for way, value in left_out(name, cells, seed).items()}
                keep(content, options)
    found = {name: summed(splits) for name, splits in content.items()}
    print_rows(found)
    print_json(options, found)


if __name__ == "__main__":
    main()
