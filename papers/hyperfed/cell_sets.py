"""Sets of cells whose types come in a tree, taken apart into sites and what is tested."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

import fedgeom
from fedgeom.geometry.graphs.class_tree import ClassTree
from papers.common import Floats, Ints, load_data

GENES, FEWEST = 200, 10
"""How many genes are kept, and the fewest cells of a class."""
T_CELLS, KANG, LUNG = "hipc_tcell_5hospitals.npz", "kang_pbmc_8donors.npz", "lung_2atlases_6donors.npz"
FILES = {
    "t-cells": (T_CELLS, "site", 600, 2500),
    "kang": (KANG, "donor", 400, 2500),
    "lung": (LUNG, "donor", 10**6, 0),
    "lung, Cell Ontology": (LUNG, "donor", 10**6, 0),
    "t-cells, fewer tested": (T_CELLS, "site", 600, 0),
    "kang, fewer tested": (KANG, "donor", 400, 0),
}
"""For each set the file, the column of the sites, how many cells of a site are taken at most, and how many more are
tested at most, on which no site trains."""


class Cells(NamedTuple):
    """One set with one seed."""

    sites: list[fedgeom.SiteData]
    X: Floats
    """(rows, genes or markers): those held out."""
    y: Ints
    """(rows,): their classes by number."""
    classes: tuple[str, ...]
    tree: ClassTree


def features(file: Any) -> Floats:
    """Return markers as they are, counts as logarithms of the genes that vary most."""
    if "X" in file:
        return np.asarray(file["X"], np.float64)
    parts = (file["X_data"], file["X_indices"].astype(np.int32), file["X_indptr"])
    counts = sp.csr_matrix(parts, shape=tuple(file["X_shape"])).astype(np.float64)
    totals = np.maximum(np.asarray(counts.sum(axis=1)).ravel(), 1.0)
    logs = (sp.diags(1e4 / totals) @ counts).log1p().tocsc()
    mean, square = (np.asarray(one.mean(axis=0)).ravel() for one in (logs, logs.multiply(logs)))
    return np.asarray(logs[:, np.sort(np.argsort(mean**2 - square)[:GENES])].toarray())


def draw(name: str, seed: int) -> Cells:
    """Take a set's cells apart into sites' and held-out ones."""
    path, column, most, more = FILES[name]
    with load_data(path) as file:
        X, y, site = features(file), file["y"].astype(np.int64), file[column]
        names, paths = file["class_names"].astype(str), file["class_tree"].astype(str)
        ids = file["cl_ids"].astype(str) if "Ontology" in name else None
    rng = np.random.default_rng(seed)
    common = np.bincount(y[y >= 0], minlength=len(names)) >= FEWEST
    known = np.flatnonzero((y >= 0) & common[y])
    drawn = [rng.permutation(known[site[known] == one]) for one in np.unique(site)]
    taken = [rows[:most] for rows in drawn]
    classes = tuple(sorted(names[common].tolist()))
    tree = by_paths(paths[common], classes) if ids is None else by_ontology(ids, names, classes)
    held = [np.append(rows[: min(most, len(rows)) // 4], rows[most : most + more]) for rows in drawn]
    sites = [
        fedgeom.SiteData(f"site {at}", X[rows[len(rows) // 4 :]], names[y[rows[len(rows) // 4 :]]])
        for at, rows in enumerate(taken)
    ]
    out = np.concatenate(held)
    number = {label: at for at, label in enumerate(classes)}
    wanted = np.array([number[label] for label in names[y[out]].tolist()])
    return Cells(sites, X[out], wanted, classes, tree)


def by_paths(paths: Any, classes: tuple[str, ...]) -> ClassTree:
    """Return the tree that comes with a set, its classes in their order."""
    tree = ClassTree.from_paths(paths)
    parents = {tree.nodes[at]: tree.nodes[up] for at, up in enumerate(tree.parents.tolist()) if up >= 0}
    return ClassTree.read(parents, classes)


def by_ontology(ids: Any, names: Any, classes: tuple[str, ...]) -> ClassTree:
    """Return the tree that the Cell Ontology has over the classes; ``ids`` are its own for the set's ``names``."""
    called = dict(zip(ids.tolist(), names.tolist(), strict=True))
    with load_data("cell_ontology.npz") as file:
        terms = zip(file["ids"].astype(str).tolist(), file["names"].astype(str).tolist(), strict=True)
        known = [called.get(term, f"{name} ({term})") for term, name in terms]
        edges = [(known[child], known[parent]) for child, parent in file["edges"].tolist()]
    return ClassTree.from_ontology(edges, classes)
