"""The published experiment on Olsson's cells, as the authors ran it (Table 1 and Table 2, first rows).

What differs from fedgeom's defaults is here and nowhere else: the split, the seeds, groups that are named by
the true labels of their hulls, and the details of the reference code that the digits depend on.

    python papers/hulls/published.py                   # the row, trial by trial
    python papers/hulls/published.py --only FLP FLE    # some of its columns
    python papers/hulls/published.py --quick --json    # two trials

It writes no file: table1.py puts the row into results/table1.json.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import train_test_split

from fedgeom.geometry.hyperbolic.grid import PolarGrid
from fedgeom.geometry.hyperbolic.reference import extreme_points, with_start_twice
from fedgeom.geometry.hyperbolic.svm import EuclideanSVC, PoincareSVC
from fedgeom.methods.hulls.core import fit_groups, group_hulls

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from papers.common import Floats, Ints, confidence, figure, load_data, parser, percent, print_json
from papers.hulls.plain import local_hulls

Sites = list[tuple[Floats, Ints]]

C = 0.1  # the paper's λ for biological data
N_SITES = 3
TRIALS = 10
QUICK_TRIALS = 2
PAPER = {"CP": 79.17, "CE": 68.75, "CH-CP": 83.33, "CH-CE": 77.08, "FLP": 86.04, "FLE": 75.0}
PAPER_CI = {"FLP": 1.41, "FLE": 3.51}


def olsson_points() -> tuple[Floats, Ints]:
    """Give all 319 points of 8 classes."""
    with load_data("olsson.npz") as file:
        X = np.vstack([file["emb8_x_train"], file["emb8_x_test"]])
        return X, np.concatenate([file["emb8_y_train"], file["emb8_y_test"]]).astype(np.int64)


def olsson_split() -> tuple[Floats, Floats, Ints, Ints]:
    """Give X_train, X_test, y_train, y_test: 271 and 48 points, the same in all trials."""
    X_train, X_test, y_train, y_test = train_test_split(*olsson_points(), test_size=0.15, random_state=3)
    return X_train, X_test, y_train, y_test


def published_partition(X: Floats, y: Ints, n_sites: int, seed: int) -> Sites:
    """Shuffle all points with NumPy's legacy generator, then cut every class into consecutive equal parts."""
    order = np.random.RandomState(seed).permutation(len(X))
    parts: list[list[Ints]] = [[] for _ in range(n_sites)]
    for label in np.unique(y):
        mine = order[y[order] == label]
        size = -(-len(mine) // n_sites)
        for site in range(n_sites):
            parts[site].append(mine[site * size : (site + 1) * size])
    chosen = [np.concatenate(part) for part in parts]
    return [(X[index], y[index]) for index in chosen]


def published_groups(sites: Sites, grid: PolarGrid, n_classes: int, seed: int) -> list[Floats]:
    """Give the point set of each label 0, …, J-1, as the reference code's server has it.

    A group is named by the true label of most of its hulls, the smallest on a tie; groups of one name are
    merged; a label that names no group is a single point at the origin.
    """
    local = [local_hulls(X, y, grid, trim=0.0) for X, y in sites]
    hulls = [bins for site in local for bins in site.values()]
    labels = np.array([label for site in local for label in site])
    owners = np.repeat(np.arange(len(local)), [len(site) for site in local])
    members = group_hulls(hulls, owners, n_classes, grid=grid, how="published", seed=seed)
    named: dict[int, list[NDArray[Any]]] = {}
    for g in np.unique(members):
        name = int(np.bincount(labels[members == g]).argmax())
        named.setdefault(name, []).extend(hulls[i] for i in np.flatnonzero(members == g))
    return [
        grid.center(np.unique(np.concatenate(named[j]))) if j in named else np.zeros((1, 2))
        for j in range(n_classes)
    ]


def centralised(X: Floats, y: Ints, *, hulls_only: bool = False) -> tuple[PoincareSVC, EuclideanSVC]:
    """Fit CP and CE of Table 1 on pooled data, or with ``hulls_only`` CH-CP and CH-CE of Table 2.

    Table 2's hulls carry their start point twice, as rows of the training set. With each corner once CH-CP
    falls from 83.33 to 77.08 and CH-CE from 77.08 to 75.00.
    """
    if hulls_only:
        parts = [with_start_twice(extreme_points(X[y == label])) for label in np.unique(y)]
        y = np.repeat(np.unique(y), [len(part) for part in parts])
        X = np.vstack(parts)
    return PoincareSVC.published(C).fit(X, y), EuclideanSVC(C).fit(X, y)


def federated_trial(
    X: Floats, y: Ints, trial: int, *, epsilon: float = 0.01, shuffle: int | None = None
) -> tuple[PoincareSVC, EuclideanSVC]:
    """Fit FLP and FLE of one trial; ``shuffle`` seeds a reordering of the sites and of their rows."""
    sites = published_partition(X, y, N_SITES, seed=3 * trial)
    if shuffle is not None:
        rng = np.random.default_rng(shuffle)
        sites = [sites[i] for i in rng.permutation(len(sites))]
        orders = [rng.permutation(len(part)) for _, part in sites]
        sites = [(Xs[order], ys[order]) for (Xs, ys), order in zip(sites, orders, strict=True)]
    grid = PolarGrid(epsilon, float(np.linalg.norm(X, axis=1).max()) + 1e-4)
    groups = published_groups(sites, grid, len(np.unique(y)), seed=4 * trial)
    poincare, euclidean = fit_groups(groups, PoincareSVC.published(C)), fit_groups(groups, EuclideanSVC(C))
    assert isinstance(poincare, PoincareSVC)
    assert isinstance(euclidean, EuclideanSVC)
    return poincare, euclidean


def row(
    *,
    epsilon: float = 0.01,
    shuffle: int | None = None,
    trials: int = TRIALS,
    only: Sequence[str] = tuple(PAPER),
) -> dict[str, list[float]]:
    """Give the accuracies of the published row: one value per centralised column, ten per federated one."""
    X, X_test, y, y_test = olsson_split()
    columns: dict[str, list[float]] = {}

    def add(names: Sequence[str], models: tuple[PoincareSVC, EuclideanSVC]) -> None:
        for name, model in zip(names, models, strict=True):
            if name in only:
                columns.setdefault(name, []).append(percent(model.predict(X_test), y_test))

    if {"CP", "CE"} & set(only):
        add(["CP", "CE"], centralised(X, y))
    if {"CH-CP", "CH-CE"} & set(only):
        add(["CH-CP", "CH-CE"], centralised(X, y, hulls_only=True))
    for trial in range(trials if {"FLP", "FLE"} & set(only) else 0):
        add(["FLP", "FLE"], federated_trial(X, y, trial, epsilon=epsilon, shuffle=shuffle))
    return columns


def main() -> None:
    """Print the row."""
    options = parser(__doc__, PAPER).parse_args()
    columns = row(trials=QUICK_TRIALS if options.quick else TRIALS, only=options.only)
    for name, values in columns.items():
        mean, half = confidence(values)
        print(f"{name:6} {mean:6.2f} ± {half:.2f}   {' '.join(f'{value:.2f}' for value in values)}")
    print_json(options, {name: figure(values, PAPER[name]) for name, values in columns.items()})


if __name__ == "__main__":
    main()
