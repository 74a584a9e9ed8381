"""Reading a site's file: CSV, TSV, NumPy archives, and with the ``bio`` extra Parquet and AnnData."""

from __future__ import annotations

import csv
import gzip
import io
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from fedgeom.data.sites import SiteData
from fedgeom.data.tables import Columns, Floats, Table, as_labels, from_columns, listed
from fedgeom.errors import InputError

__all__ = ["read_rows", "read_site", "same_columns"]


def read_site(
    path: str | Path,
    *,
    label: str,
    name: str | None = None,
    columns: Columns | None = None,
    rows: npt.ArrayLike | None = None,
    drop_unlabelled: bool = False,
) -> SiteData:
    """Read one site's file.

    - ``label``: the column (CSV, Parquet), key (.npz) or ``obs`` column (.h5ad) with the class of each row;
    - ``name``: what the site is called; the file's name without its ending if not given;
    - ``columns``: the features. CSV and Parquet: column names, all but the label if not given. ``.npz``: the key
      of the table, ``"X"`` if not given. ``.h5ad``: ``"X"``, ``"obsm:X_pca"`` or a list of genes;
    - ``rows``: only these, as indices or a mask over the file's rows;
    - ``drop_unlabelled``: leave rows without a label out. Without it their label is ``""``; what to do with them is
      the method's matter: `XCLP` finds their labels, methods that learn from labels only refuse them.
    """
    file = _existing(path)
    table = _reader(file)(file, label, columns)
    labels = as_labels([]) if table.y is None else table.y
    if len(labels) != len(table.X):
        raise InputError(f"{file}: {len(table.X)} rows but {len(labels)} labels; wanted one label per row")
    site = SiteData(name or _stem(file), table.X, labels, columns=table.columns)
    if rows is not None:
        try:
            site = site.take(np.atleast_1d(np.asarray(rows)))
        except IndexError as error:
            raise InputError(f"{file} has {len(labels)} rows; `rows` does not fit: {error}") from error
    if drop_unlabelled:
        site = site.take(site.has_label)
    if len(site) == 0:
        raise InputError(f"{file} has no {'labelled ' if drop_unlabelled else ''}rows")
    return site


def read_rows(
    path: str | Path, *, columns: Columns | None = None, label: str | None = None
) -> tuple[Floats, npt.NDArray[np.str_] | None]:
    """Read a file's rows for prediction; ``label``, if given, is left out of them and returned beside them."""
    file = _existing(path)
    table = _reader(file)(file, label, columns)
    if len(table.X) == 0:
        raise InputError(f"{file} has no rows")
    return table.X, table.y


def same_columns(sites: Sequence[SiteData]) -> list[SiteData]:
    """Return the sites with their columns in the first one's order; refuse sites whose columns differ.

    A hospital that exports the same measurements in another order would otherwise spoil the joint model silently.
    """
    named = [site for site in sites if site.columns]
    if len({site.columns for site in named}) <= 1:
        return list(sites)
    first = named[0]
    result = []
    for site in sites:
        if not site.columns:
            result.append(site)
            continue
        lacks = [name for name in first.columns if name not in site.columns]
        more = [name for name in site.columns if name not in first.columns]
        if lacks or more:
            raise InputError(
                f"site {site.name!r} has other columns than {first.name!r}: it lacks {listed(lacks)} and has "
                f"{listed(more)} instead; name the columns that all sites share, columns=[…]"
            )
        order = [site.columns.index(name) for name in first.columns]
        result.append(replace(site, X=site.X[:, order], columns=first.columns))
    return result


def _existing(path: str | Path) -> Path:
    file = Path(path)
    if not file.is_file():
        what = "is a folder" if file.is_dir() else "does not exist"
        raise InputError(f"{file} {what}; wanted a file: {', '.join(_READERS)}")
    return file


def _ending(file: Path) -> str:
    name = file.name.lower().removesuffix(".gz")
    return Path(name).suffix


def _stem(file: Path) -> str:
    return Path(file.name.removesuffix(".gz")).stem


def _reader(file: Path) -> Callable[[Path, str | None, Columns | None], Table]:
    ending = _ending(file)
    if ending not in _READERS:
        raise InputError(f"{file} ends in {ending or 'nothing'!r}; files that can be read: {', '.join(_READERS)}")
    return _READERS[ending]


def _read_csv(file: Path, label: str | None, columns: Columns | None) -> Table:
    header, lines = _csv_lines(file)
    where = {name: at for at, name in enumerate(header)}
    if header[0].strip() == "" and len(header) > 1:
        where.pop(header[0])  # the unnamed first column that tools write for row numbers
    twice = [name for name, n in Counter(header).items() if n > 1]
    if twice:
        raise InputError(f"{file}: the header names {listed(twice)} more than once; rename the columns")
    return from_columns(file, list(where), lambda name: [line[where[name]] for line in lines], label, columns)


def _csv_lines(file: Path) -> tuple[list[str], list[list[str]]]:
    raw = file.read_bytes()
    try:
        text = (gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{file} is not UTF-8 text ({error}); save it as UTF-8") from error
    top = text.partition("\n")[0]
    mark = "\t" if _ending(file) == ".tsv" else ";" if ";" in top and "," not in top else ","
    lines = [line for line in csv.reader(io.StringIO(text), delimiter=mark) if line]
    if not lines:
        raise InputError(f"{file} is empty; wanted a header and rows")
    header = [name.strip() for name in lines[0]]
    for number, line in enumerate(lines[1:], start=2):
        if len(line) != len(header):
            raise InputError(f"{file}, row {number}: {len(line)} cells, but the header has {len(header)}")
    if len(lines) == 1:
        raise InputError(f"{file} has no rows, only a header: {listed(header)}")
    return header, lines[1:]


def _read_npz(file: Path, label: str | None, columns: Columns | None) -> Table:
    key = "X" if columns is None else columns
    if not isinstance(key, str):
        raise InputError(f"{file}: columns={list(key)!r} given; for .npz wanted one key, such as 'X'")
    try:
        archive = np.load(file, allow_pickle=False)
        keys = list(archive)
        for wanted in (key, label):
            if wanted is not None and wanted not in keys:
                raise InputError(f"{file} has no key {wanted!r}; its keys are {listed(keys)}")
        X, y = archive[key], None if label is None else archive[label]
    except (OSError, ValueError, EOFError, AttributeError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{file} cannot be read as an .npz archive without pickles: {error}") from error
    if X.ndim != 2 or X.dtype.kind not in "biuf":
        raise InputError(
            f"{file}: {key!r} has shape {X.shape} and type {X.dtype}; wanted a table of numbers (rows × columns)"
        )
    if y is not None and y.ndim != 1:
        raise InputError(f"{file}: {label!r} has shape {y.shape}; wanted one label per row")
    return Table(X.astype(np.float64), None if y is None else as_labels(y))


def _read_parquet(file: Path, label: str | None, columns: Columns | None) -> Table:
    from fedgeom.data.bio import read_parquet

    return read_parquet(file, label, columns)


def _read_h5ad(file: Path, label: str | None, columns: Columns | None) -> Table:
    from fedgeom.data.bio import read_h5ad

    return read_h5ad(file, label, columns)


_READERS: dict[str, Callable[[Path, str | None, Columns | None], Table]] = {
    ".csv": _read_csv,
    ".tsv": _read_csv,
    ".npz": _read_npz,
    ".parquet": _read_parquet,
    ".h5ad": _read_h5ad,
}
