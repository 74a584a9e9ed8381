"""Reading a site's file by its ending: CSV, TSV, NumPy archives, Parquet, AnnData, and what other packages read.

A reader turns a file into a `fedgeom.data.tables.Table`. One for another format is a function, made known in this
process by `register_reader`, or to every process by an entry point of the group ``fedgeom.readers`` that is named like
the ending, such as ``".fcs"``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt

from fedgeom.arrays import Floats
from fedgeom.data.archives import read_npz
from fedgeom.data.bio import read_h5ad, read_parquet
from fedgeom.data.sites import SiteData
from fedgeom.data.tables import Columns, Table, as_labels, listed
from fedgeom.data.text_tables import read_csv, read_tsv
from fedgeom.errors import InputError
from fedgeom.registry import Registry

__all__ = ["READERS", "Reader", "Table", "read_rows", "read_site", "read_table", "register_reader", "same_columns"]


class Reader(Protocol):
    """Anything that reads files of one format."""

    def __call__(self, file: Path, label: str | None, columns: Columns | None, /) -> Table:
        """Return the file's table.

        ``label`` names what holds the class of each row (None: the table has no labels); ``columns`` says which
        features are wanted (None: all there are). What either may be is the format's matter; what cannot be read raises
        `InputError` that names the file and says what is wanted.
        """


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
}.items():
    register_reader(_ending, _reader)


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

    Which files can be read is in `fedgeom.data.readers.READERS`, by their endings; packages may add to them.
    """
    file, ending = _existing(path)
    table = _table(file, ending, label, columns)
    labels = as_labels([]) if table.y is None else table.y
    if len(labels) != len(table.X):
        raise InputError(f"{file}: {len(table.X)} rows but {len(labels)} labels; wanted one label per row")
    numbers = table.first_row + np.arange(len(labels))
    site = SiteData(name or _stem(file, ending), table.X, labels, columns=table.columns, row_numbers=numbers)
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
    table = read_table(path, columns=columns, label=label)
    return table.X, table.y


def read_table(path: str | Path, *, columns: Columns | None = None, label: str | None = None) -> Table:
    """Read a file's rows for prediction, with the names of its columns; ``label`` as in `read_rows`."""
    file, ending = _existing(path)
    table = _table(file, ending, label, columns)
    if len(table.X) == 0:
        raise InputError(f"{file} has no rows")
    return table


def same_columns(sites: Sequence[SiteData]) -> list[SiteData]:
    """Return the sites with their columns in the first one's order; refuse sites whose columns differ.

    A hospital that exports the same measurements in another order would otherwise spoil the joint model silently.
    """
    sites = list(sites)
    named = [site for site in sites if site.columns]
    if len({site.columns for site in named}) <= 1:
        return list(sites)
    first = named[0]
    result = []
    for site in sites:
        if not site.columns:
            result.append(site)
            continue
        places, wanted = {name: at for at, name in enumerate(site.columns)}, set(first.columns)
        lacks = [name for name in first.columns if name not in places]
        more = [name for name in site.columns if name not in wanted]
        if lacks or more:
            raise InputError(
                f"site {site.name!r} has other columns than {first.name!r}: it lacks {listed(lacks)} and has "
                f"{listed(more)} instead; name the columns that all sites share, columns=[…]"
            )
        order = [places[name] for name in first.columns]
        result.append(replace(site, X=site.X[:, order], columns=first.columns))
    return result


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


def _table(file: Path, ending: str, label: str | None, columns: Columns | None) -> Table:
    """Let the reader read, and see to it that what it returns is a table."""
    found = READERS.find(ending)(file, label, columns)
    if not isinstance(found, Table):
        raise InputError(f"the reader of {ending!r} returned a {type(found).__name__}; wanted a Table")
    X = np.asarray(found.X)
    if X.ndim != 2 or X.dtype.kind not in "biuf":
        raise InputError(
            f"{file}: the reader of {ending!r} found X of shape {X.shape} and type {X.dtype}; wanted a table of "
            "numbers (rows × columns)"
        )
    y = None if found.y is None else np.asarray(found.y)
    if y is not None and y.dtype.kind != "U":
        y = as_labels(y)
    return replace(found, X=X.astype(np.float64), y=y, columns=tuple(map(str, found.columns)))
