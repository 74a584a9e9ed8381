"""What a file calls its rows: barcodes, an index, a chosen column, or else the numbers that readers give them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedgeom.data.tables import Table, need

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


def row_names(path: str | Path, table: Table, index: str | None = None) -> RowNames:
    """Return the names of a file's rows; ``table`` is what was read from it.

    ``index`` is one of the columns that were read also (`Table.also`). None: the index of the file, where it has one;
    otherwise the rows are counted, as its readers count them.
    """
    if index is not None:
        return RowNames(index, tuple(table.also[index].tolist()))
    if table.index is None:
        return RowNames(ROW, tuple(range(table.first_row, table.first_row + len(table))))
    titles = {".parquet": _index_of_parquet, ".h5ad": _index_of_h5ad}
    find = titles.get(ending_of(path))
    return RowNames(UNNAMED if find is None else find(Path(path)), tuple(table.index.tolist()))


def _index_of_parquet(file: Path) -> str:
    """Return what pandas called the index that it wrote."""
    schema = need(file, "pyarrow.parquet", "pandas").read_schema(file)
    noted = [name for name in (schema.pandas_metadata or {}).get("index_columns", []) if isinstance(name, str)]
    return UNNAMED if len(noted) != 1 or noted[0].startswith("__index_level_") else noted[0]


def _index_of_h5ad(file: Path) -> str:
    """Return what the names of cells are called."""
    with need(file, "h5py").File(file, "r") as content:
        named = content["obs"].attrs.get("_index", "")
    return OBS_NAMES if named in ("", "_index", "index") else str(named)
