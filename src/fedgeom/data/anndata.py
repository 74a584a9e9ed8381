"""AnnData: in files, which need the ``bio`` extra, and in memory. What is sparse stays sparse."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fedgeom.data.columns import check_distinct, index_of
from fedgeom.data.frames import labels_of_series
from fedgeom.data.tables import Columns, Table, is_sparse, listed, need
from fedgeom.errors import InputError
from fedgeom.registry import did_you_mean


def read_h5ad(file: Path, label: str | None, columns: Columns | None, *, also: Sequence[str] = ()) -> Table:
    """Read an AnnData file: features from ``X``, a layer, ``raw``, an ``obsm`` entry or named genes of ``X``.

    The label, and what is wanted also, are columns of ``obs``.
    """
    anndata = need(file, "anndata")
    try:
        cells = anndata.read_h5ad(file)
    except (OSError, ValueError, KeyError) as error:
        raise InputError(f"{file} cannot be read as .h5ad: {error}") from error
    place: dict[str, Any] = {}
    if isinstance(columns, str):
        kind, colon, key = columns.partition(":")
        known = (
            {"X": {}, "raw": {"use_raw": True}} if not colon else {"layers": {"layer": key}, "obsm": {"obsm": key}}
        )
        place = known.get(kind, {"genes": [columns]})
    elif columns is not None:
        place = {"genes": list(columns)}
    return anndata_table(cells, str(file), label, also=also, **place)


def anndata_table(
    cells: Any,
    where: str,
    label: str | None,
    *,
    genes: Sequence[str] | None = None,
    layer: str | None = None,
    use_raw: bool = False,
    obsm: str | None = None,
    also: Sequence[str] = (),
) -> Table:
    """Return an AnnData as a table: its ``X``, or a layer, ``raw`` or ``obsm`` entry; all genes if none are named."""
    if not hasattr(cells, "var_names") or not hasattr(cells, "obs"):
        raise InputError(f"{where}: a {type(cells).__name__} was given; wanted an AnnData")
    if getattr(cells, "isbacked", False):
        cells = cells.to_memory()
    for name in (label, *also):
        if name is not None and name not in cells.obs:
            hint = did_you_mean(name, map(str, cells.obs))
            raise InputError(
                f"{where} has no obs column {name!r}; its obs columns are {listed(list(cells.obs))}"
                f"{'.' if hint else ''}{hint}"
            )
    if label is not None and label in also:
        raise InputError(
            f"{where}: {label!r} is the label column; wanted another one that says where a row belongs"
        )
    X, names = _matrix(cells, where, layer, use_raw, obsm)
    if genes is not None:
        X, names = _chosen(X, names, genes, where, cells)
    check_distinct(names, where)
    return Table(
        X if is_sparse(X) else np.asarray(X),
        None if label is None else labels_of_series(cells.obs[label]),
        names,
        index=index_of(cells),
        also={name: labels_of_series(cells.obs[name]) for name in also},
    )


def _matrix(
    cells: Any, where: str, layer: str | None, use_raw: bool, obsm: str | None
) -> tuple[Any, tuple[str, ...]]:
    """Return the matrix that was asked for, and what its columns are called."""
    asked = [name for name, given in (("layer", layer), ("use_raw", use_raw), ("obsm", obsm)) if given]
    if len(asked) > 1:
        raise InputError(f"{where}: {' and '.join(asked)} were given; wanted one of them")
    for kind, key in (("layers", layer), ("obsm", obsm)):
        there = getattr(cells, kind)
        if key and key not in there:
            hint = did_you_mean(key, there)
            raise InputError(
                f"{where} has no {kind} {key!r}; it has {listed(list(there))}{'.' if hint else ''}{hint}"
            )
    if obsm:
        X = cells.obsm[obsm]
        X = X.to_numpy() if hasattr(X, "to_numpy") else X
        return X, tuple(f"{obsm}[{i}]" for i in range(X.shape[1]))
    if use_raw:
        if cells.raw is None:
            raise InputError(f"{where} has no raw; its layers are {listed(list(cells.layers))}")
        return cells.raw.X, tuple(map(str, cells.raw.var_names))
    X = cells.layers[layer] if layer else cells.X
    if X is None:
        raise InputError(
            f"{where} has no X; choose one of its layers, columns='layers:…': {listed(list(cells.layers))}, or of its "
            f"obsm, columns='obsm:…': {listed(list(cells.obsm))}"
        )
    return X, tuple(map(str, cells.var_names))


def _chosen(
    X: Any, names: tuple[str, ...], genes: Sequence[str], where: str, cells: Any
) -> tuple[Any, tuple[str, ...]]:
    """Return the columns of some genes, in the order in which they are named."""
    places = {name: at for at, name in enumerate(names)}
    missing = [gene for gene in genes if gene not in places]
    if missing:
        raise InputError(
            f"{where} has no genes {listed(missing)} among its {len(names):,}; wanted genes of var_names, 'X', 'raw', "
            f"'layers:…' with one of {listed(list(cells.layers))}, or 'obsm:…' with one of {listed(list(cells.obsm))}"
        )
    wanted = set(genes)
    check_distinct([name for name in names if name in wanted], where)  # of two of one name, which is meant?
    return X[:, [places[gene] for gene in genes]], tuple(genes)
