"""Tables with named columns from pandas: frames in memory, and Parquet files (which need the ``bio`` extra)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fedgeom.arrays import Floats
from fedgeom.data.cells import NONE, NOTHING_SAID, ReadOptions, Remark
from fedgeom.data.columns import check_distinct, index_of
from fedgeom.data.labels import as_given, in_words, label_type
from fedgeom.data.rows import dense
from fedgeom.data.tables import (
    EMPTY,
    NO_FEATURES,
    Columns,
    Table,
    TextColumnsError,
    as_labels,
    from_columns,
    is_sparse,
    listed,
    need,
    wanted_columns,
)
from fedgeom.errors import InputError
from fedgeom.memo import memoize
from fedgeom.registry import did_you_mean
from fedgeom.storage import check_archive, check_unpacked

PIECE = 2**26
"""So many bytes of columns of a Parquet file are read at once: beside the table there is little else in memory."""
BATCH = 8192
"""So many rows of them are put into the table at once: they fit into a processor's cache."""


def read_parquet(
    file: Path,
    label: str | None,
    columns: Columns | None,
    *,
    also: Sequence[str] = (),
    reading: ReadOptions = NOTHING_SAID,
) -> Table:
    """Read a Parquet table: columns of numbers a piece at a time, others, where they are wanted, through pandas."""
    parquet = need(file, "pyarrow.parquet", "pandas")
    try:
        with parquet.ParquetFile(file) as source:
            check_parquet(file, source.metadata)
            names = _index_names(source.schema_arrow)
            header = [name for name in source.schema_arrow.names if name not in names]
            check_distinct(header, str(file))
            wanted = wanted_columns(file, header, label, columns, also)
            beside = [*names, *(name for name in (label, *also) if name is not None)]
            kinds = [source.schema_arrow.field(name).type for name in wanted]
            if all(_is_number(kind) for kind in kinds) and not set(wanted) & set(reading.categorical):
                return _numbers(source, wanted, label, also, beside)
            frame = source.read([*beside, *wanted], use_pandas_metadata=True).to_pandas()
    except (OSError, ValueError) as error:  # Arrow's errors are among them
        if isinstance(error, InputError):
            raise
        raise InputError(f"{file} cannot be read as Parquet: {error}") from error
    return frame_table(frame, str(file), label, wanted, also=also, reading=reading)


def header_of_parquet(file: Path) -> list[str]:
    """Return the names of a Parquet file's columns."""
    schema = need(file, "pyarrow.parquet", "pandas").read_schema(file)
    index = _index_names(schema)
    return [name for name in schema.names if name not in index]


def sheet_of(file: Path, reading: ReadOptions = NOTHING_SAID) -> list[list[Any]]:
    """Return the cells of a workbook's sheet, its header first."""
    return _sheet(file, file.stat().st_mtime_ns, reading.sheet)


@memoize(2)
def _sheet(file: Path, changed: int, sheet: str) -> list[list[Any]]:
    """Return the cells of a sheet, row by row, without rows and columns that are wholly empty at its edges."""
    calamine = need(file, "python_calamine", extra="excel")
    try:
        if file.suffix.lower() != ".xls":
            check_archive(file)
        book = calamine.CalamineWorkbook.from_path(str(file))
        names = list(book.sheet_names)
        if sheet and sheet not in names:
            raise InputError(
                f"{file} has no sheet {sheet!r}; its sheets are {listed(names)}.{did_you_mean(sheet, names)}"
            )
        rows = book.get_sheet_by_name(sheet or names[0]).to_python(skip_empty_area=False)
    except (OSError, ValueError, IndexError, calamine.CalamineError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{file} cannot be read as a workbook: {error}") from error
    filled = [row for row in rows if any(cell != "" for cell in row)]
    if not filled:
        raise InputError(f"{file}: sheet {sheet or names[0]!r} is empty; its sheets are {listed(names)}")
    width = max(at for row in filled for at, cell in enumerate(row) if cell != "") + 1
    return [row[:width] for row in filled]


def read_xlsx(
    file: Path,
    label: str | None,
    columns: Columns | None,
    *,
    also: Sequence[str] = (),
    reading: ReadOptions = NOTHING_SAID,
) -> Table:
    """Read a sheet of a workbook, with a header in its first row that is not empty."""
    rows = sheet_of(file, reading)
    header = header_of_xlsx(file, reading)
    if len(rows) == 1:
        raise InputError(f"{file} has no rows, only a header: {listed(header)}")
    places = {name: at for at, name in enumerate(header) if at or name or len(header) == 1}

    def column(name: str) -> Any:
        return np.array([None if row[places[name]] == "" else row[places[name]] for row in rows[1:]], object)

    found = from_columns(file, list(places), column, label, columns, first_row=2, also=also, reading=reading)
    index = None if 0 in places.values() else np.array([str(row[0]) for row in rows[1:]], object)
    return replace(found, first_row=2, index=index)


def header_of_xlsx(file: Path, reading: ReadOptions) -> list[str]:
    """Return the names of a sheet's columns."""
    rows = sheet_of(file, reading)
    header = [str(name).strip() for name in rows[0]]
    check_distinct(header, str(file))
    return header


def check_parquet(file: Path, facts: Any) -> None:
    """Refuse a Parquet file that unpacks to too much; ``facts`` is what it says of itself.

    A column in which a value repeats takes a few bytes in the file, for any number of rows, and 8 a row in memory.
    """
    groups = sum(facts.row_group(at).total_byte_size for at in range(facts.num_row_groups))
    check_unpacked(file, max(groups, 8 * facts.num_rows * facts.num_columns))


def check_h5ad(file: Path) -> None:
    """Refuse an HDF5 file whose arrays take far more memory than it has bytes: packed, or never written."""
    sizes: list[int] = []

    def add(_: str, one: Any) -> None:
        sizes.append(int(getattr(one, "nbytes", 0)))

    with need(file, "h5py").File(file, "r") as content:
        content.visititems(add)
    check_unpacked(file, sum(sizes))


def _is_number(kind: Any) -> bool:
    """Say whether Arrow's type is one of numbers."""
    from pyarrow import types  # an extra

    return bool(types.is_integer(kind) or types.is_floating(kind))


def _index_names(schema: Any) -> list[str]:
    """Return the columns in which pandas kept what rows are called."""
    kept = (schema.pandas_metadata or {}).get("index_columns", [])
    return [name for name in kept if isinstance(name, str)]


def _numbers(source: Any, wanted: list[str], label: str | None, also: Sequence[str], beside: list[str]) -> Table:
    """Read columns that are all numbers into one array, and beside them those that are not features."""
    small = all(str(source.schema_arrow.field(name).type) in ("float", "halffloat") for name in wanted)
    rows = source.metadata.num_rows
    X = np.empty((rows, len(wanted)), np.float32 if small else np.float64)
    width = max(PIECE // max(8 * rows, 1), 1)
    for left in range(0, len(wanted), width):
        some = wanted[left : left + width]
        top = 0
        for batch in source.read(some, use_threads=False).to_batches(BATCH):
            for at, name in enumerate(some, start=left):
                X[top : top + batch.num_rows, at] = batch.column(name).to_numpy(zero_copy_only=False)
            top += batch.num_rows
    frame = source.read(beside, use_pandas_metadata=True).to_pandas()
    along = {name: labels_of_series(frame[name]) for name in (label, *also) if name is not None}
    y = None if label is None else _typed(along[label], frame[label])
    return Table(X, y, tuple(wanted), index=index_of(frame), also={name: along[name] for name in also})


def frame_table(
    frame: Any,
    where: str,
    label: str | None,
    columns: Columns | None,
    *,
    also: Sequence[str] = (),
    reading: ReadOptions = NOTHING_SAID,
) -> Table:
    """Return a pandas frame as a table; without ``columns`` all columns but the label and ``also`` are features."""
    frame = frame.to_pandas() if hasattr(frame, "to_pandas") else frame  # Arrow's table, and others of columns
    if not hasattr(frame, "iloc") or not hasattr(frame, "columns"):
        raise InputError(
            f"{where}: a {type(frame).__name__} was given; wanted a pandas DataFrame or an Arrow table"
        )
    names = [str(name) for name in frame.columns]
    check_distinct(names, where)
    places = {name: at for at, name in enumerate(names)}
    found = from_columns(
        where,
        names,
        lambda name: cells_of_series(frame.iloc[:, places[name]]),
        label,
        columns,
        first_row=0,
        also=also,
        reading=reading,
    )
    y = found.y if found.y is None or label is None else _typed(found.y, frame.iloc[:, places[label]])
    return replace(found, y=y, index=index_of(frame))


def cells_of_series(series: Any) -> Any:
    """Return a pandas column's cells: numbers as they are, a missing cell of another kind as None."""
    if isinstance(series.dtype, np.dtype) and series.dtype.kind in "biuf":
        return series.to_numpy()
    return series.astype(object).where(series.notna(), None).to_numpy()


def labels_of_series(series: Any) -> npt.NDArray[np.str_]:
    """Return a pandas column as label texts; each word is looked at once.

    Returns (rows,), text.
    """
    codes, words = series.factorize()
    known = words.astype(object).tolist()
    if series.dtype == object and not all(isinstance(word, str) for word in known):
        return as_labels(cells_of_series(series))  # 1, 1.0 and True are one word to pandas
    return np.asarray(as_labels([*known, None])[codes])  # code -1 stands for a missing one: the last


def _typed(words: npt.NDArray[Any], series: Any) -> npt.NDArray[Any]:
    """Return the labels of a pandas column as it has them: whole numbers, numbers, true and false, or text."""
    return in_words(as_given(words, label_type(series.dropna().drop_duplicates().astype(object).tolist())))


Read = Callable[[Columns | None, Sequence[str]], Table]
"""Reads columns of numbers, and beside them columns as text (`Table.also`)."""


def as_codes(cells: npt.NDArray[np.str_], reading: ReadOptions = NOTHING_SAID) -> tuple[Floats, tuple[str, ...]]:
    """Return which word each cell has, (rows,), f8, NaN where it is empty, and the words, sorted.

    >>> as_codes(np.array(["b", "", "a", "?"]))
    (array([ 1., nan,  0., nan]), ('a', 'b'))
    """
    found, codes = np.unique(cells, return_inverse=True)
    words = [str(word).strip() for word in found.tolist()]
    empty = {*EMPTY, *reading.missing_words} - ({NONE} - {*reading.missing_words})
    known = sorted({word for word in words if word.lower() not in empty})
    place = {word: float(at) for at, word in enumerate(known)}
    return np.array([place.get(word, np.nan) for word in words])[codes], tuple(known)


def with_text(
    read: Read, columns: Columns | None, also: Sequence[str], reading: ReadOptions = NOTHING_SAID
) -> Table:
    """Return a table with its columns of text as categories, in the order in which the columns stand in the file.

    Those that look like numbers or dates but for some cells are no categories: they are refused.
    """
    try:
        return read(columns, also)
    except TextColumnsError as error:
        texts = error
        if error.doubtful:
            raise error.doubtful_alone() from error
    found = read(list(texts.numbers) or NO_FEATURES, [*also, *texts.words])
    made = {name: as_codes(found.also[name], reading) for name in texts.words}
    X = np.column_stack([dense(found.X, "the table"), *(codes for codes, _ in made.values())])
    remarks = [
        *found.remarks,
        *texts.remarks,
        *_remarks_on_none({name: words for name, (_, words) in made.items()}),
    ]
    names = (*found.columns, *texts.words)
    order = [names.index(name) for name in texts.wanted]
    return replace(
        found,
        X=X[:, order],
        columns=texts.wanted,
        also={name: found.also[name] for name in also},
        categories={name: words for name, (_, words) in made.items()},
        remarks=tuple(dict.fromkeys(remarks)),
    )


def _remarks_on_none(categories: Mapping[str, Sequence[str]]) -> list[Remark]:
    """Say where "none" was taken for a word."""
    names = [name for name, words in categories.items() if NONE in map(str.lower, words)]
    if not names:
        return []
    what = f"'none' is taken for a word like others in {listed(names)}"
    return [Remark("note", what, 'where it means "not measured": missing = ["none"]')]


def read_h5ad(file: Path, label: str | None, columns: Columns | None, *, also: Sequence[str] = ()) -> Table:
    """Read an AnnData file: features from ``X``, a layer, ``raw``, an ``obsm`` entry or named genes of ``X``.

    The label, and what is wanted also, are columns of ``obs``.
    """
    anndata = need(file, "anndata")
    try:
        check_h5ad(file)
        cells = anndata.read_h5ad(file)
    except (OSError, ValueError, KeyError, RuntimeError) as error:
        if isinstance(error, InputError):
            raise
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
        None if label is None else _typed(labels_of_series(cells.obs[label]), cells.obs[label]),
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
