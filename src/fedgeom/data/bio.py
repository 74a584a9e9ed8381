"""Parquet tables and AnnData files, which need the ``bio`` extra."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import numpy as np

from fedgeom.arrays import Floats
from fedgeom.data.tables import Columns, Table, as_labels, from_columns, listed
from fedgeom.errors import InputError


def need(file: Path, *modules: str) -> Any:
    """Import what a format needs, or say how to install it; the first module is returned."""
    try:
        loaded = [importlib.import_module(module) for module in modules]
    except ImportError as error:
        raise InputError(
            f"reading {file} needs {' and '.join(modules)} ({error}); install them with pip install 'fedgeom[bio]'"
        ) from error
    return loaded[0]


def read_parquet(file: Path, label: str | None, columns: Columns | None) -> Table:
    """Read a Parquet table."""
    pandas = need(file, "pandas", "pyarrow")
    try:
        frame = pandas.read_parquet(file)
    except (OSError, ValueError) as error:
        raise InputError(f"{file} cannot be read as Parquet: {error}") from error
    frame.columns = [str(name) for name in frame.columns]

    def column(name: str) -> Any:
        cells = frame[name]
        return cells.to_numpy() if cells.dtype.kind in "biuf" else cells.astype(object).where(cells.notna(), None)

    return from_columns(file, list(frame.columns), column, label, columns)


def read_h5ad(file: Path, label: str | None, columns: Columns | None) -> Table:
    """Read an AnnData file: features from ``X``, an ``obsm`` entry or named genes, the label from ``obs``."""
    anndata = need(file, "anndata")
    try:
        cells = anndata.read_h5ad(file)
    except (OSError, ValueError, KeyError) as error:
        raise InputError(f"{file} cannot be read as .h5ad: {error}") from error
    if label is not None and label not in cells.obs:
        raise InputError(f"{file} has no obs column {label!r}; its obs columns are {listed(list(cells.obs))}")
    y = None
    if label is not None:
        values = cells.obs[label].astype(object)
        y = as_labels(values.where(values.notna(), None).to_numpy())
    X, names = _features(file, cells, columns)
    return Table(X, y, names)


def _features(file: Path, cells: Any, columns: Columns | None) -> tuple[Floats, tuple[str, ...]]:
    if columns is None or columns == "X":
        if cells.X is None:
            raise InputError(
                f"{file} has no X; choose one of its obsm, columns='obsm:…': {listed(list(cells.obsm))}"
            )
        return _dense(cells.X), tuple(map(str, cells.var_names))
    if isinstance(columns, str) and columns.startswith("obsm:"):
        key = columns.removeprefix("obsm:")
        if key not in cells.obsm:
            raise InputError(f"{file} has no obsm {key!r}; it has {listed(list(cells.obsm))}")
        X = _dense(cells.obsm[key])
        return X, tuple(f"{key}[{i}]" for i in range(X.shape[1]))
    genes = [columns] if isinstance(columns, str) else list(columns)
    missing = [gene for gene in genes if gene not in cells.var_names]
    if missing:
        raise InputError(
            f"{file} has no genes {listed(missing)} among its {cells.n_vars:,}; wanted genes of var_names, "
            f"'X', or 'obsm:…' with one of {listed(list(cells.obsm))}"
        )
    return _dense(cells[:, genes].X), tuple(genes)


def _dense(matrix: Any) -> Floats:
    rows = matrix.toarray() if hasattr(matrix, "toarray") else matrix
    return np.asarray(rows, dtype=np.float64)
