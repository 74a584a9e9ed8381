"""Real tables of several sites for benchmarks, each as rows, labels and the site of each row."""

from __future__ import annotations

from typing import Any

import numpy as np

from papers.common import load_data

Rows = tuple[Any, Any, Any]
"""Rows, labels, and the site of each row."""


def pooled(name: str, **options: Any) -> Rows:
    """Return a built-in set in one table."""
    import fedgeom

    found = fedgeom.load_set(name, **options)
    parts = [*found.train, *found.test]
    owner = np.concatenate([np.repeat(site.name, len(site)) for site in parts])
    return np.vstack([site.X for site in parts]), np.concatenate([site.y for site in parts]).astype(str), owner


def cells(file: str, label: str, names: str, owner: str, columns: int, *, genes: bool = False) -> Rows:
    """Read cells of several donors: principal components of the 1,000 genes that vary most, or these genes."""
    import scipy.sparse as sp
    from sklearn.decomposition import PCA

    z = load_data(file)
    known = z[label] >= 0
    if "X_data" in z:
        parts = (z["X_data"], z["X_indices"].astype("int32"), z["X_indptr"])
        counts = sp.csr_matrix(parts, shape=tuple(z["X_shape"])).astype(float)[known]
        if z["X_data"].dtype.kind in "iu":  # raw counts
            counts = sp.csr_matrix(sp.diags(1e4 / np.asarray(counts.sum(axis=1)).ravel()) @ counts)
            counts.data = np.log1p(counts.data)
        spread = np.asarray(counts.multiply(counts).mean(axis=0) - np.square(counts.mean(axis=0))).ravel()
        X = counts[:, np.argsort(-spread)[: columns if genes else 1000]].toarray()
    else:
        X = np.asarray(z["X"], np.float64)[known]
        X = X[:, np.argsort(-X.var(axis=0))[:columns]] if genes else X
    X = X if genes else PCA(columns, random_state=0).fit_transform(X)
    where = _dealt(len(known), 3) if not owner else z[f"{owner}_names"][z[owner]].astype(str)
    return X, z[names][z[label][known]].astype(str), where[known]


def _dealt(rows: int, sites: int) -> Any:
    return np.array([f"site {at}" for at in range(sites)])[np.random.default_rng(0).integers(0, sites, rows)]


def images(file: str, rows: int, sites: int) -> Rows:
    """Read images, every second pixel both ways: 196 columns."""
    z = load_data(file)
    chosen = np.random.default_rng(0).permutation(len(z["y_train"]))[:rows]
    X = z["X_train"][chosen][:, ::2, ::2].reshape(rows, -1) / 255
    return X, z["y_train"][chosen].astype(str), _dealt(rows, sites)


def clinical(file: str, outcome: str, owner: str, leave: int = 0) -> Rows:
    """Read a table of patients; gaps get the column's median."""
    z = load_data(file)
    X = np.asarray(z["X"], np.float64)
    X = X[:, : X.shape[1] - leave]
    known = z[outcome] >= 0
    X = np.where(np.isnan(X), np.nanmedian(X, axis=0), X)[known]
    varies = X.std(axis=0) > 0
    return X[:, varies], z[outcome][known].astype(str), z[owner][known].astype(str)
