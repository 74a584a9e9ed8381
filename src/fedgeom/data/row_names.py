"""What a file calls its rows: barcodes, an index, a chosen column, or else the numbers that readers give them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fedgeom.data.tables import listed, need
from fedgeom.data.text_tables import read_cells
from fedgeom.errors import InputError

ROW, OBS_NAMES, UNNAMED = "row", "obs_names", "index"
"""What the names of rows are called where a file does not say it: numbers, cells, and rows of other tables."""


@dataclass(frozen=True)
class RowNames:
    """The names of a file's rows, and what they are called together."""

    title: str
    names: tuple[Any, ...]
    """One for each row, in the order of the file: texts, or numbers."""


def ending_of(path: str | Path) -> str:
    """Return the ending that says of what kind a file is, in small letters, without ".gz".

    >>> ending_of("runs/Cells.CSV.gz"), ending_of("cells.h5ad")
    ('.csv', '.h5ad')
    """
    return Path(Path(path).name.lower().removesuffix(".gz")).suffix


def text_cells(file: Path) -> tuple[list[str], list[list[str]]]:
    """Return header and cells of a .csv or .tsv file; the first column has no name where tools wrote an index there."""
    return read_cells(file, "\t" if ending_of(file) == ".tsv" else None)


def row_names(path: str | Path, rows: int, *, index: str | None = None, first_row: int = 0) -> RowNames:
    """Return the names of a file's rows.

    ``index`` is the column (CSV, TSV, Parquet, .h5ad: of ``obs``) or key (.npz) that has them. None: the index of the
    file, where it has one; otherwise the rows are counted from ``first_row``.
    """
    file = Path(path)
    counted = RowNames(ROW, tuple(range(first_row, first_row + rows)))
    find = {".csv": _of_text, ".tsv": _of_text, ".parquet": _of_parquet, ".h5ad": _of_h5ad, ".npz": _of_npz}
    reader = find.get(ending_of(file))
    if reader is None:
        if index is not None:
            raise InputError(
                f"index={index!r} given for {file}; names of rows are read from {', '.join(find)} only"
            )
        return counted
    found = reader(file, index) or counted
    if len(found.names) != rows:
        raise InputError(f"{file}: {found.title!r} names {len(found.names):,} rows; wanted {rows:,}")
    return found


def other_columns(path: str | Path, left_out: Sequence[str | None]) -> list[str] | None:
    """Return all columns of a CSV, TSV or Parquet file but some; None for files whose features stand apart."""
    file, ending = Path(path), ending_of(path)
    if ending in (".csv", ".tsv"):
        header = [name for name in text_cells(file)[0] if name]
    elif ending == ".parquet":
        header = [name for name in _schema(file).names if name not in _index_columns(file)]
    else:
        return None
    return [name for name in header if name not in left_out]


def _of_text(file: Path, index: str | None) -> RowNames | None:
    header, lines = text_cells(file)
    if index is None and header[0]:
        return None
    if index is not None and index not in header:
        raise InputError(f"{file} has no column {index!r} for the names of rows; its columns are {listed(header)}")
    at = 0 if index is None else header.index(index)
    return RowNames(index or UNNAMED, tuple(line[at] for line in lines))


def _schema(file: Path) -> Any:
    parquet = need(file, "pyarrow.parquet", "pandas")
    try:
        return parquet.read_schema(file)
    except (OSError, ValueError) as error:
        raise InputError(f"{file} cannot be read as Parquet: {error}") from error


def _index_columns(file: Path) -> list[str]:
    """Return the columns that pandas made of an index of names; one that only counts is no column."""
    noted = (_schema(file).pandas_metadata or {}).get("index_columns", [])
    return [name for name in noted if isinstance(name, str)]


def _of_parquet(file: Path, index: str | None) -> RowNames | None:
    names, kept = _schema(file).names, _index_columns(file)
    if index is None and len(kept) != 1:  # none, or several, which no one column can hold
        return None
    column = kept[0] if index is None else index
    if column not in names:
        raise InputError(f"{file} has no column {index!r} for the names of rows; its columns are {listed(names)}")
    parquet = need(file, "pyarrow.parquet", "pandas")
    found = parquet.read_table(file, columns=[column]).column(column).to_pylist()
    return RowNames(UNNAMED if column.startswith("__index_level_") else column, tuple(found))


def _of_h5ad(file: Path, index: str | None) -> RowNames:
    anndata = need(file, "anndata")
    try:
        cells = anndata.read_h5ad(file, backed="r")
    except (OSError, ValueError, KeyError) as error:
        raise InputError(f"{file} cannot be read as .h5ad: {error}") from error
    try:
        if index is None:
            title = cells.obs_names.name
            return RowNames(str(title) if title else OBS_NAMES, tuple(map(str, cells.obs_names)))
        if index not in cells.obs:
            raise InputError(
                f"{file} has no obs column {index!r} for the names of rows; its obs columns are "
                f"{listed(list(cells.obs))}"
            )
        return RowNames(index, tuple(cells.obs[index].tolist()))
    finally:
        cells.file.close()


def _of_npz(file: Path, index: str | None) -> RowNames | None:
    if index is None:
        return None
    try:
        with np.load(file, allow_pickle=False) as archive:
            keys = list(archive)
            if index not in keys:
                raise InputError(f"{file} has no key {index!r} for the names of rows; its keys are {listed(keys)}")
            names = archive[index]
    except (OSError, ValueError, EOFError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{file}: {index!r} cannot be read without pickles: {error}") from error
    if names.ndim != 1:
        raise InputError(f"{file}: {index!r} has shape {names.shape}; wanted one name per row")
    return RowNames(index, tuple(names.tolist()))
