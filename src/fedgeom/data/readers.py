"""Reading a site's file by its ending: CSV, TSV, NumPy archives, Parquet, AnnData, and what other packages read.

A reader turns a file into a `fedgeom.data.tables.Table`. One for another format is a function, made known in this
process by `register_reader`, or to every process by an entry point of the group ``fedgeom.readers`` that is named like
the ending, such as ``".fcs"``.
"""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from inspect import signature
from pathlib import Path
from typing import Any, Protocol

import msgspec
import numpy as np
import numpy.typing as npt

from fedgeom.data.cells import (
    DAYS,
    NOTHING_SAID,
    ReadOptions,
    Remark,
    check_reading,
    conversion,
    days_of,
    duration_parts,
    is_day,
)
from fedgeom.data.columns import check_distinct
from fedgeom.data.csv import header_of_text, read_csv, read_tsv
from fedgeom.data.frames import header_of_parquet, header_of_xlsx, read_h5ad, read_parquet, read_xlsx, with_text
from fedgeom.data.labels import as_given, in_words, label_type, type_of_words
from fedgeom.data.rows import as_rows, dense, flat_rows
from fedgeom.data.sites import Roles, SiteData
from fedgeom.data.tables import Columns, Table, as_labels, is_sparse, listed, need
from fedgeom.errors import InputError
from fedgeom.registry import Registry, did_you_mean
from fedgeom.storage import check_archive

TYPED = (".parquet", ".h5ad", ".npz")
"""Files that say of what type labels are; in others, labels that are all whole numbers are taken for such."""
BROKEN = (zipfile.BadZipFile, zlib.error)
"""What reading a damaged archive raises, beside errors of files and values."""


def read_npz(file: Path, label: str | None, columns: Columns | None, *, also: Sequence[str] = ()) -> Table:
    """Read an archive: ``columns`` is the key of the table, "X" if not given, ``label`` the key of the labels.

    ``also`` are keys of other arrays with a value per row.
    """
    key = "X" if columns is None else columns
    if not isinstance(key, str):
        raise InputError(f"{file}: columns={list(key)!r} given; for .npz wanted one key, such as 'X'")
    try:
        check_archive(file)
        archive = np.load(file, allow_pickle=False)
        keys = list(archive)
        for wanted in (key, label, *also):
            if wanted is not None and wanted not in keys:
                hint = did_you_mean(wanted, keys)
                raise InputError(
                    f"{file} has no key {wanted!r}; its keys are {listed(keys)}{'.' if hint else ''}{hint}"
                )
        X = archive[key]
        along = {one: archive[one] for one in (label, *also) if one is not None}
    except (OSError, ValueError, EOFError, AttributeError, MemoryError, NotImplementedError, *BROKEN) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{file} cannot be read as an .npz archive without pickles: {error}") from error
    if X.ndim < 2 or X.dtype.kind not in "biuf":
        raise InputError(
            f"{file}: {key!r} has shape {X.shape} and type {X.dtype}; wanted a table of numbers (rows × columns)"
        )
    for one, values in along.items():
        if values.shape != (len(X),):
            raise InputError(
                f"{file}: {one!r} has shape {values.shape}; wanted one value for each of {len(X)} rows"
            )
    y = None if label is None else in_words(as_given(as_labels(along[label]), label_type(along[label])))
    return Table(flat_rows(X), y, also={one: as_labels(along[one]) for one in also})


__all__ = [
    "READERS",
    "Reader",
    "Table",
    "read_site",
    "read_sites_from",
    "read_table",
    "register_reader",
]


class Reader(Protocol):
    """Anything that reads files of one format."""

    def __call__(self, file: Path, label: str | None, columns: Columns | None, /) -> Table:
        """Return the file's table.

        ``label`` names what holds the class of each row (None: the table has no labels); ``columns`` says which
        features are wanted (None: all there are). What either may be is the format's matter; what cannot be read raises
        `InputError` that names the file and says what is wanted.

        A reader that also takes ``also``, a list of columns by keyword, puts them as text into `Table.also`: patients,
        and the sites of a file that holds several. One that takes ``reading`` is told what the federation or site file
        says of decimal marks and the like (`fedgeom.data.cells.ReadOptions`).
        """


WORKBOOKS = (".xlsx", ".xls", ".ods")
"""Spreadsheets."""
READERS = Registry("reader", "fedgeom.readers")
"""All readers by the ending of the files they read, in lower case and with its dot."""


def register_reader(ending: str, reader: Reader) -> Reader:
    """Make a reader known in this process for files that end so, such as ``".fcs"``."""
    if not ending.startswith(".") or len(ending) < 2 or ending != ending.lower() or ending.endswith(".gz"):
        raise InputError(
            f'ending={ending!r} given; wanted a dot and small letters, such as ".fcs" (without ".gz")'
        )
    READERS.add(ending, reader)
    return reader


for _ending, _reader in {
    ".csv": read_csv,
    ".tsv": read_tsv,
    ".npz": read_npz,
    ".parquet": read_parquet,
    ".h5ad": read_h5ad,
    **dict.fromkeys(WORKBOOKS, read_xlsx),
}.items():
    register_reader(_ending, _reader)


def read_site(
    path: str | Path,
    *,
    label: str = "",
    name: str | None = None,
    columns: Columns | None = None,
    rows: npt.ArrayLike | None = None,
    drop_unlabelled: bool = False,
    group: str | None = None,
    index: str | None = None,
    text: bool = False,
    reading: ReadOptions | Mapping[str, Any] | None = None,
) -> SiteData:
    """Read one site's file.

    Which files can be read is in `fedgeom.data.readers.READERS`, by their endings; packages may add to them.

    Parameters
    ----------
    path: a path
        The file; its ending says what it is.
    label: text; "" if not given
        The column (CSV, Parquet), key (.npz) or ``obs`` column (.h5ad) with the class of each row. "": ``reading``
        names an outcome, or times and events, instead.
    name: text or None; None if not given
        What the site is called. None: the file's name without its ending.
    columns: text, a list of texts or None; None if not given
        The features. CSV and Parquet: names of columns; None: all but the label. ``.npz``: the key of the table;
        None: ``"X"``. ``.h5ad``: ``"X"``, ``"layers:counts"``, ``"raw"``, ``"obsm:X_pca"`` or a list of genes.
    rows: indices, a mask or None; None if not given
        Only these of the file's rows.
    drop_unlabelled: true or false; false if not given
        Leave rows without a label out. Otherwise their label is ``""``: `XCLP` finds their labels, and methods that
        learn from labels only refuse them.
    group: text or None; None if not given
        The column (key, ``obs`` column) with the patient of each row, or the like. No group is on both sides of a
        holdout.
    index: text or None; None if not given
        The column (key, ``obs`` column) with the name of each row, which is no feature. None: the file's own index.
    text: true or false; false if not given
        Keep columns of text, as categories, for methods with preparation. Otherwise they are refused.
    reading: settings by name, or None; None if not given
        How cells are read, as in the federation file: ``{"decimal": ",", "missing": [-9999], "coerce": True}`` and the
        like. What is left out is found.

    Returns
    -------
    SiteData
    """
    file, ending = _existing(path)
    how, roles = _roles(label, as_reading(reading))
    beside = _beside(group, index, *roles.beside)
    table = _named_rows(_table(file, ending, roles.label(label), columns, beside, text=text, reading=how), index)
    _check_categorical(file, table, how)
    found: SiteData = SiteData.from_table(
        table,
        str(file),
        name or _stem(file, ending),
        group=group,
        drop_unlabelled=drop_unlabelled,
        rows=rows,
        roles=roles,
        reading=how,
    )
    return found


def _roles(label: str, reading: ReadOptions) -> tuple[ReadOptions, Roles]:
    """Return how cells are read, and which columns are to be explained; readers need not know of the latter."""
    said = {name: getattr(reading, name) for name in Roles.__dataclass_fields__}
    return msgspec.structs.replace(reading, **dict.fromkeys(said, "")), Roles.of(label, **said)


def read_sites_from(
    path: str | Path,
    *,
    by: str,
    label: str = "",
    columns: Columns | None = None,
    drop_unlabelled: bool = False,
    group: str | None = None,
    index: str | None = None,
    text: bool = False,
    reading: ReadOptions | Mapping[str, Any] | None = None,
) -> list[SiteData]:
    """Read one file that holds several sites, one for each value of the column ``by``; the others as in `read_site`."""
    file, ending = _existing(path)
    how, roles = _roles(label, as_reading(reading))
    beside = _beside(by, group, index, *roles.beside)
    table = _named_rows(_table(file, ending, roles.label(label), columns, beside, text=text, reading=how), index)
    _check_categorical(file, table, how)
    found: list[SiteData] = SiteData.from_table(
        table,
        str(file),
        _stem(file, ending),
        by=by,
        group=group,
        drop_unlabelled=drop_unlabelled,
        roles=roles,
        reading=how,
    )
    if len(found) == 1:
        raise InputError(
            f"{file}: column {by!r} has one value, {found[0].name!r}; wanted the column that says from which site "
            "a row comes, with a value for each of them"
        )
    return found


def read_table(
    path: str | Path,
    *,
    columns: Columns | None = None,
    label: str | None = None,
    also: Sequence[str] = (),
    as_it_came: bool = False,
    text: bool = False,
    reading: ReadOptions | Mapping[str, Any] | None = None,
) -> Table:
    """Read a file's rows for prediction, with the names of its columns and rows.

    ``label``, if given, is left out of the rows and returned beside them. ``also`` names columns that are no features
    but wanted as text (`Table.also`). Its X are dense float64 rows, or with ``as_it_came`` what the file holds: sparse,
    or of another type. ``text`` keeps columns of text.
    """
    file, ending = _existing(path)
    table = _table(file, ending, label, columns, also, text=text, reading=as_reading(reading))
    if len(table) == 0:
        raise InputError(f"{file} has no rows")
    return table if as_it_came else replace(table, X=dense(table.X, str(file)))


def _beside(*names: str | None) -> list[str]:
    """Return the columns to read that are no features, each once."""
    return list(dict.fromkeys(name for name in names if name))


def _named_rows(table: Table, index: str | None) -> Table:
    """Return a table whose rows are called what a column says, where one is named."""
    return table if index is None else replace(table, index=table.also[index])


def _existing(path: str | Path) -> tuple[Path, str]:
    """Return a file that is there, and the ending by which it is read."""
    file = Path(path)
    if not file.is_file():
        what = "is a folder" if file.is_dir() else "does not exist"
        raise InputError(f"{file} {what}; wanted a file that ends in {READERS}")
    parts = Path(file.name.lower().removesuffix(".gz")).suffixes
    endings = ["".join(parts[at:]) for at in range(len(parts))]  # the longest first: .ome.csv before .csv
    known = next((ending for ending in endings if ending in READERS), None)
    if known is None:
        shown = parts[-1] if parts else "nothing"
        raise InputError(f"{file} ends in {shown!r}; files that can be read end in {READERS}")
    return file, known


def _stem(file: Path, ending: str) -> str:
    plain = file.name[:-3] if file.name.lower().endswith(".gz") else file.name
    return plain[: -len(ending)] or plain


def as_reading(given: ReadOptions | Mapping[str, Any] | None) -> ReadOptions:
    """Return how cells are read, from settings by name."""
    if given is None:
        return NOTHING_SAID
    if isinstance(given, ReadOptions):
        return check_reading(given)
    for key in given:
        if key not in ReadOptions.__struct_fields__:
            names = ReadOptions.__struct_fields__
            raise InputError(
                f"reading has the unknown key {key!r}; known are {', '.join(names)}.{did_you_mean(key, names)}"
            )
    try:
        return check_reading(msgspec.convert(dict(given), ReadOptions))
    except msgspec.ValidationError as error:
        raise InputError(f"reading = {dict(given)!r} does not fit: {error}") from error


def _table(
    file: Path,
    ending: str,
    label: str | None,
    columns: Columns | None,
    also: Sequence[str] = (),
    *,
    text: bool = False,
    reading: ReadOptions = NOTHING_SAID,
) -> Table:
    """Let the reader read, with ``text`` also columns of text, and see to it that what it returns is a table."""

    def read(some: Columns | None, beside: Sequence[str]) -> Table:
        return _numbers(file, ending, label, some, beside, reading)

    def table(some: Columns | None, beside: Sequence[str]) -> Table:
        found = with_text(read, some, beside, reading) if text else read(some, beside)
        return _without_missing(found, reading) if reading.missing else found

    if reading.reshapes:
        change = Reshaping(file, _header(file, ending, reading), reading)
        label = None if label is None else change.old(label)
        reading = change.options
        found = change.applied(table, columns, also)
    else:
        found = table(columns, also)
    if reading.rename_labels and found.y is not None:
        renamed = [reading.rename_labels.get(word, word) for word in found.y.tolist()]
        found = replace(found, y=np.array(renamed, np.str_))
    return _with_words(file, found, reading) if reading.rename_words and text else found


def _header(file: Path, ending: str, reading: ReadOptions) -> list[str] | None:
    """Return the names of a file's columns, where it can have columns that are no features."""
    if ending in (".csv", ".tsv"):
        return header_of_text(file, reading, "\t" if ending == ".tsv" else None)
    if ending == ".parquet":
        return header_of_parquet(file)
    return header_of_xlsx(file, reading) if ending in WORKBOOKS else None


class Reshaping:
    """What is done to the columns of a file before anybody sees them: new names, units, durations, columns left out."""

    def __init__(self, file: Path, header: list[str] | None, reading: ReadOptions) -> None:
        self.file = file
        self.header = header
        self.reading = reading
        self.remarks: list[Remark] = []
        self.rename = dict(reading.rename)
        if header is not None:
            self.rename = {old: new for old, new in reading.rename.items() if old in header}
            for old, new in reading.rename.items():
                if old not in header and new not in header:
                    raise InputError(
                        f"{file}: rename names {old!r}, which is not there; its columns are {listed(header)}."
                        f"{did_you_mean(old, header)}"
                    )
            check_distinct([self.rename.get(name, name) for name in header], f"{file}, renamed")
        self._olds = {new: old for old, new in self.rename.items()}

    def old(self, name: str) -> str:
        """Return what a column is called in the file."""
        return self._olds.get(name, name)

    @property
    def options(self) -> ReadOptions:
        """How cells are read, with columns by their names in the file."""
        return msgspec.structs.replace(
            self.reading, categorical=[self.old(name) for name in self.reading.categorical]
        )

    def applied(
        self, read: Callable[[Columns | None, Sequence[str]], Table], columns: Columns | None, also: Sequence[str]
    ) -> Table:
        """Read a table, whose columns are asked for by their new names, and change it."""
        spans = {name: duration_parts(name, given) for name, given in self.reading.durations.items()}
        dates = list(dict.fromkeys(one for _, *ends in spans.values() for one in ends if not is_day(one)))
        if self.header is None and dates:
            raise InputError(
                f"{self.file}: durations are made of columns of text files, workbooks and Parquet files"
            )
        there = None if self.header is None else {self.rename.get(name, name) for name in self.header}
        gone = [name for name in self.reading.drop if there is None or name in there]
        for name in self.reading.drop:
            if name not in gone:
                hint = did_you_mean(name, there or ())
                self.remarks.append(
                    Remark("warning", f"drop names {name!r}, which is no column.{hint}", "", "columns")
                )
        beside = list(dict.fromkeys([*also, *dates, *(gone if self.header is not None else ())]))
        wanted: Columns | None = columns
        if columns is not None and not (isinstance(columns, str) and self.header is None):
            named = [columns] if isinstance(columns, str) else columns
            wanted = [self.old(name) for name in named if name not in (*gone, *spans, *dates)]
        found = self._renamed(read(wanted, [self.old(name) for name in beside]))
        if self.header is None and gone:
            kept = [at for at, name in enumerate(found.columns) if name not in gone]
            found = replace(found, X=found.X[:, kept], columns=tuple(found.columns[at] for at in kept))
        found = self._converted(found)
        for name, (unit, start, end) in spans.items():
            found = self._with_span(found, name, unit, start, end)
        return replace(
            found,
            also={name: found.also[name] for name in also},
            remarks=(*found.remarks, *self.remarks),
        )

    def _renamed(self, found: Table) -> Table:
        new = self.rename
        return replace(
            found,
            columns=tuple(new.get(name, name) for name in found.columns),
            also={new.get(name, name): values for name, values in found.also.items()},
            categories={new.get(name, name): words for name, words in found.categories.items()},
        )

    def _converted(self, found: Table) -> Table:
        if not self.reading.units:
            return found
        X = np.array(dense(found.X, str(self.file)))
        for name, given in self.reading.units.items():
            if name not in found.columns or name in found.categories:
                what = "a column of text" if name in found.categories else "none of the features"
                raise InputError(
                    f"{self.file}: units names {name!r}, which is {what}; there are {listed(found.columns)}."
                    f"{did_you_mean(name, found.columns)}"
                )
            times, plus = conversion(name, given)
            at = found.columns.index(name)
            X[:, at] = X[:, at] * times + plus
        return replace(found, X=X)

    def _with_span(self, found: Table, name: str, unit: str, start: str, end: str) -> Table:
        if name in found.columns:
            raise InputError(
                f"{self.file}: durations makes {name!r}, which is a column already; choose another name"
            )

        def days(one: str) -> Any:
            cells = [one] * len(found) if is_day(one) else found.also[one].tolist()
            try:
                return days_of(one, cells, found.first_row, self.reading)
            except InputError as error:
                raise InputError(f"{self.file}: {error}") from error

        values = (days(end) - days(start)) / DAYS[unit]
        X = np.column_stack([dense(found.X, str(self.file)), values])
        return replace(found, X=X, columns=(*found.columns, name))


def _with_words(file: Path, table: Table, reading: ReadOptions) -> Table:
    """Return a table with the words of some columns renamed; two that become one are one category."""
    X = dense(table.X, str(file)).copy()
    categories = dict(table.categories)
    for name, renamed in reading.rename_words.items():
        if name not in table.columns:
            raise InputError(
                f"{file}: rename_words names {name!r}, which is none of the features {listed(table.columns)}."
                f"{did_you_mean(name, table.columns)}"
            )
        if name not in categories:
            raise InputError(
                f'{file}: rename_words names {name!r}, a column of numbers; if they are codes: categorical = ["{name}"]'
            )
        new = [renamed.get(word, word) for word in categories[name]]
        categories[name] = tuple(sorted(set(new)))
        at = table.columns.index(name)
        there = ~np.isnan(X[:, at])
        places = np.array([categories[name].index(word) for word in new], np.float64)
        X[there, at] = places[X[there, at].astype(np.intp)]
    return replace(table, X=X, categories=categories)


def _check_categorical(file: Path, table: Table, reading: ReadOptions) -> None:
    """Refuse names of columns that are not there."""
    for name in reading.categorical:
        if name not in table.columns:
            raise InputError(
                f"{file}: categorical names {name!r}, which is none of the features {listed(table.columns)}."
                f"{did_you_mean(name, table.columns)}"
            )


def _without_missing(table: Table, reading: ReadOptions) -> Table:
    """Return a table in which what means "not measured", or "not labelled", is a gap."""
    y = table.y
    if y is not None:
        gone = reading.missing_words
        y = np.array(["" if word.lower() in gone else word for word in y.tolist()], np.str_)
    measured = [at for at, name in enumerate(table.columns) if name not in table.categories]
    X = table.X
    if reading.missing_numbers and not is_sparse(X):
        X = np.array(X, np.float64 if X.dtype.itemsize > 4 or X.dtype.kind in "iu" else np.float32)
        places = measured if table.columns else list(range(X.shape[1]))
        for at in places:
            X[np.isin(X[:, at], reading.missing_numbers), at] = np.nan
    return replace(table, X=X, y=y)


def _numbers(
    file: Path,
    ending: str,
    label: str | None,
    columns: Columns | None,
    also: Sequence[str] = (),
    reading: ReadOptions = NOTHING_SAID,
) -> Table:
    """Let the reader read columns of numbers."""
    reader = READERS.find(ending)
    known = signature(reader).parameters
    if also and "also" not in known:
        raise InputError(
            f"{file}: the reader of {ending!r} reads label and features only, not {listed(also)}; wanted one that "
            "takes `also` (fedgeom.extend.Reader)"
        )
    more: dict[str, Any] = {"also": also} if also else {}
    if "reading" in known:
        more["reading"] = reading
    found = reader(file, label, columns, **more)
    if not isinstance(found, Table):
        raise InputError(f"the reader of {ending!r} returned a {type(found).__name__}; wanted a Table")
    X = found.X if is_sparse(found.X) else np.asarray(found.X)
    if X.ndim != 2 or X.dtype.kind not in "biuf":
        raise InputError(
            f"{file}: the reader of {ending!r} found X of shape {X.shape} and type {X.dtype}; wanted a table of "
            "numbers (rows × columns)"
        )
    y = None if found.y is None else np.asarray(found.y)
    if y is not None and y.dtype.kind != "U":
        y = in_words(as_given(as_labels(y), label_type(y)))
    elif y is not None and ending not in TYPED:
        y = as_given(y, type_of_words(np.unique(y).tolist()))
    return replace(found, X=as_rows(X, str(file)), y=y, columns=tuple(map(str, found.columns)))


ROW = "row"
OBS_NAMES = "obs_names"
UNNAMED = "index"
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
