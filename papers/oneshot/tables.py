"""The sets of cells: each hospital, donor or technology a site, rows to learn from and to test on, names in a tree.

`cells` has them raw, as a run takes them. `with_components` prepares gene counts as is usual, in one place: depth to
10,000, log1p, the 2,000 genes of largest variance, columns to unit variance (at most 10), principal components; all
fitted on the training rows of all sites together. Cytometry is only scaled, by the methods themselves.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp

import fedgeom
from fedgeom.data.split import holdout
from papers.common import Floats, load_data

GENES, MOST = 2000, 10.0
COMPONENTS = 20
TESTED = 0.3
"""The share of each class of each site that is kept aside."""


@dataclass(frozen=True)
class Cells:
    """A set: what each site learns from and is tested on, under common names, and the tree above these."""

    train: list[fedgeom.SiteData]
    test: list[fedgeom.SiteData]
    tree: dict[str, tuple[str, ...]]
    """For each name what stands above it, from near to far."""


@dataclass(frozen=True)
class Source:
    """Where a set comes from and what its numbers are."""

    file: str
    kind: Literal["counts", "logs", "markers"]
    """Raw counts, log-normalised ones, or markers of cytometry."""
    sites: str = "site"
    """The array with the site of each row; its names are beside it. Empty: rows are dealt to five sites at random."""
    word: str = ""
    """What stands before the names of sites."""
    each: int | None = None
    """How many rows of each site are drawn; None: all that have a label."""


SETS = {
    "tcells": Source("hipc_tcell_5hospitals.npz", "markers", each=4000),
    "kang": Source("kang_pbmc_8donors.npz", "counts", "donor", "donor "),
    "lung": Source("lung_2atlases_6donors.npz", "counts", "donor", "donor "),
    "pbmc": Source("pbmc_3tech_1200.npz", "logs"),
    "paul": Source("paul15.npz", "counts", ""),
}
"""Five hospitals' T cells (seven markers, ten types under two), eight donors' blood cells (seven types), six donors of
two lung atlases (46 types under 21, under four compartments), blood cells by three technologies (nine types), and blood
progenitors (19 clusters)."""


def cells(name: str, seed: int) -> Cells:
    """Return a set with raw rows, divided by site and class into train and test."""
    source, rng = SETS[name], np.random.default_rng(seed)
    z = load_data(source.file)
    labelled = np.flatnonzero(z["y"] >= 0)
    if source.each is None:
        at = np.sort(rng.permutation(labelled))
    else:
        number = len(z[f"{source.sites}_names"])
        at = np.concatenate(
            [rng.permutation(labelled[z[source.sites][labelled] == s])[: source.each] for s in range(number)]
        )
    owner = z[source.sites][at].astype(int) if source.sites else rng.integers(0, 5, len(at))
    names = z[f"{source.sites}_names"].tolist() if source.sites else [f"site {i}" for i in range(5)]
    table, words = _table(z)[at], z["class_names"][z["y"][at]].astype(str)
    genes = tuple(z["gene_names"].tolist()) if "gene_names" in z else ()
    sites = [
        fedgeom.SiteData(source.word + str(one), table[owner == i], words[owner == i], columns=genes)
        for i, one in enumerate(names)
    ]
    parts = [holdout(site, TESTED, seed) for site in sites]
    return Cells([part[0] for part in parts], [part[1] for part in parts], _tree(z))


def _table(z: Any) -> Any:
    if "X" in z:
        return z["X"].astype(np.float64)
    return sp.csr_matrix((z["X_data"], z["X_indices"].astype("int32"), z["X_indptr"]), shape=tuple(z["X_shape"]))


def with_components(name: str, seed: int, number: int = COMPONENTS) -> Cells:
    """Return a set prepared: genes as principal components, markers as they are."""
    raw = cells(name, seed)
    if SETS[name].kind == "markers":
        return raw
    both = [sp.vstack([site.table for site in some], format="csr") for some in (raw.train, raw.test)]
    if SETS[name].kind == "counts":
        both = [_logs(counts) for counts in both]
    train, test = _components(both[0], both[1], number)
    return replace(raw, train=_dealt(raw.train, train), test=_dealt(raw.test, test))


def _dealt(sites: list[fedgeom.SiteData], rows: Floats) -> list[fedgeom.SiteData]:
    ends = np.cumsum([len(site) for site in sites])[:-1]
    return [fedgeom.SiteData(s.name, own, s.y) for s, own in zip(sites, np.split(rows, ends), strict=True)]


def _logs(counts: Any) -> Any:
    """Return counts (sparse, cells × genes) at a depth of 10,000, log(1 + x)."""
    X = sp.csr_matrix(counts, dtype=np.float64)
    X = sp.csr_matrix(X.multiply(1e4 / np.maximum(X.sum(axis=1), 1)))
    X.data = np.log1p(X.data)
    return X


def _components(train: Any, test: Any, number: int) -> tuple[Floats, Floats]:
    """Return principal components of log-normalised rows, fitted on the training rows."""
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
