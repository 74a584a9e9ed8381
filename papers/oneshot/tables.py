"""The sets of cells: each hospital, donor or technology a site, rows to learn from and to test on, names in a tree.

Gene counts are prepared as is usual: depth to 10,000, log1p, the 2,000 genes of largest variance, columns to unit
variance (at most 10), principal components; all fitted on the training rows of all sites together, which sums over
sites give exactly. Cytometry is only scaled, by the method itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

import fedgeom
from fedgeom.data.holding_out import holdout
from papers.common import Floats, Ints, Labels, load_data

GENES, MOST = 2000, 10.0
COMPONENTS = 20


@dataclass(frozen=True)
class Cells:
    """A set: what each site learns from and is tested on, under common names, and the tree above these."""

    train: list[fedgeom.SiteData]
    test: list[fedgeom.SiteData]
    tree: dict[str, tuple[str, ...]]
    """For each name what stands above it, from near to far."""


def count_components(train: Any, test: Any, number: int = COMPONENTS) -> tuple[Floats, Floats]:
    """Return principal components of counts (sparse, cells × genes), fitted on the training rows."""
    logs = []
    for counts in (train, test):
        X = sp.csr_matrix(counts, dtype=np.float64)
        X = sp.csr_matrix(X.multiply(1e4 / np.maximum(X.sum(axis=1), 1)))
        X.data = np.log1p(X.data)
        logs.append(X)
    return log_components(*logs, number)


def log_components(train: Any, test: Any, number: int = COMPONENTS) -> tuple[Floats, Floats]:
    """Return principal components of rows that are log-normalised already."""
    mean = np.asarray(train.mean(axis=0)).ravel()
    variance = np.asarray(train.multiply(train).mean(axis=0)).ravel() - mean**2
    genes = np.sort(np.argsort(-variance)[:GENES])
    scale = np.sqrt(np.maximum(variance[genes], 1e-12))

    def dense(X: Any) -> Floats:
        return np.clip((X[:, genes].toarray() - mean[genes]) / scale, -MOST, MOST)

    rows = dense(train)
    _, vectors = np.linalg.eigh(rows.T @ rows)
    axes = vectors[:, ::-1][:, :number]
    return rows @ axes, dense(test) @ axes


def _sparse(z: Any) -> Any:
    return sp.csr_matrix((z["X_data"], z["X_indices"].astype("int32"), z["X_indptr"]), shape=tuple(z["X_shape"]))


def _dealt(
    X: Any,
    words: Labels,
    owner: Ints,
    names: Sequence[str],
    seed: int,
    *,
    logged: bool | None,
    number: int = COMPONENTS,
) -> Any:
    """Divide rows by site and class into train and test; counts are prepared, logged ones from the second step on."""
    marks = [
        fedgeom.SiteData(name, np.flatnonzero(owner == at)[:, None].astype(float), words[owner == at])
        for at, name in enumerate(names)
    ]
    parts = [holdout(one, 0.3, seed) for one in marks]
    both = [np.concatenate([part[side].X[:, 0] for part in parts]).astype(int) for side in (0, 1)]
    if logged is None:
        tables = [np.asarray(X[at], np.float64) for at in both]
    else:
        tables = list((log_components if logged else count_components)(X[both[0]], X[both[1]], number))
    found = []
    for at, rows in zip(both, tables, strict=True):
        found.append(
            [
                fedgeom.SiteData(name, rows[owner[at] == i], words[at][owner[at] == i])
                for i, name in enumerate(names)
            ]
        )
    return found


def _tree(z: Any) -> dict[str, tuple[str, ...]]:
    """Return what stands above each class; a level that only repeats the one below, or has one name, is none."""
    rows = [tuple(map(str, row)) for row in z["class_tree"]]
    levels = [at for at in range(1, len(rows[0])) if len({row[at] for row in rows}) > 1]
    found = {}
    for row in rows:
        above: list[str] = []
        for at in levels:
            name = row[at]
            others = [r for r in rows if r[at] == name]
            if name not in (row[0], *above) and len(others) > 1:
                above.append(name)
        found[row[0]] = tuple(above)
    return found


def tcells(seed: int, rows: int = 4000, components: int = COMPONENTS) -> Cells:
    """Five hospitals' T cells: seven markers, ten types under two."""
    z, rng = load_data("hipc_tcell_5hospitals.npz"), np.random.default_rng(seed)
    at = np.concatenate([rng.permutation(np.flatnonzero(z["site"] == s))[:rows] for s in range(5)])
    words = z["class_names"][z["y"][at]].astype(str)
    names = [str(name) for name in z["site_names"]]
    train, test = _dealt(z["X"][at], words, z["site"][at].astype(int), names, seed, logged=None)
    return Cells(train, test, _tree(z))


def kang(seed: int, rows: int = 13_371, components: int = COMPONENTS) -> Cells:
    """Eight donors' blood cells, seven types under coarser ones, from raw counts."""
    z, rng = load_data("kang_pbmc_8donors.npz"), np.random.default_rng(seed)
    at = np.sort(rng.permutation(np.flatnonzero(z["y"] >= 0))[:rows])
    words = z["class_names"][z["y"][at]].astype(str)
    names = [f"donor {name}" for name in z["donor_names"]]
    train, test = _dealt(
        _sparse(z)[at], words, z["donor"][at].astype(int), names, seed, logged=False, number=components
    )
    return Cells(train, test, _tree(z))


def lung(seed: int, rows: int = 2000, components: int = COMPONENTS) -> Cells:
    """Six donors of two atlases: 46 types of lung cells under 21, under four compartments, from raw counts."""
    z, rng = load_data("lung_2atlases_6donors.npz"), np.random.default_rng(seed)
    at = np.sort(rng.permutation(len(z["y"]))[:rows])
    words = z["class_names"][z["y"][at]].astype(str)
    names = [f"donor {name}" for name in z["donor_names"]]
    train, test = _dealt(
        _sparse(z)[at], words, z["donor"][at].astype(int), names, seed, logged=False, number=components
    )
    return Cells(train, test, _tree(z))


def pbmc(seed: int, rows: int = 1200, components: int = COMPONENTS) -> Cells:
    """Blood cells by three technologies, nine types, log-normalised already."""
    z, rng = load_data("pbmc_3tech_1200.npz"), np.random.default_rng(seed)
    at = np.sort(rng.permutation(len(z["y"]))[:rows])
    words = z["class_names"][z["y"][at]].astype(str)
    names = [str(name) for name in z["site_names"]]
    train, test = _dealt(
        _sparse(z)[at], words, z["site"][at].astype(int), names, seed, logged=True, number=components
    )
    return Cells(train, test, _tree(z))


def paul(seed: int, rows: int = 2730, components: int = COMPONENTS) -> Cells:
    """Blood progenitors, 19 clusters, from raw counts; dealt to five sites at random."""
    z, rng = load_data("paul15.npz"), np.random.default_rng(seed)
    at = np.sort(rng.permutation(len(z["y"]))[:rows])
    words = z["class_names"][z["y"][at]].astype(str)
    owner = rng.integers(0, 5, len(at))
    train, test = _dealt(
        _sparse(z)[at], words, owner, [f"site {i}" for i in range(5)], seed, logged=False, number=components
    )
    return Cells(train, test, _tree(z))


SETS = {"tcells": tcells, "kang": kang, "lung": lung, "pbmc": pbmc, "paul": paul}
