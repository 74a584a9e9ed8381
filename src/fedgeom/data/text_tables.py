"""Tables as text: comma- and tab-separated files, zipped or not."""

from __future__ import annotations

import csv
import gzip
import io
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from fedgeom.data.fast_csv import mark_of, places_of, read_plain
from fedgeom.data.tables import Columns, Table, from_columns, listed
from fedgeom.errors import InputError

SMALL = 2**20
"""Files of up to so many bytes are read before Arrow would be imported."""


def read_csv(file: Path, label: str | None, columns: Columns | None, *, also: Sequence[str] = ()) -> Table:
    """Read a table with commas (or, where the header has none, semicolons) between its cells."""
    return _read(file, None, label, columns, also)


def read_tsv(file: Path, label: str | None, columns: Columns | None, *, also: Sequence[str] = ()) -> Table:
    """Read a table with tabs between its cells."""
    return _read(file, "\t", label, columns, also)


def _read(file: Path, mark: str | None, label: str | None, columns: Columns | None, also: Sequence[str]) -> Table:
    large = file.stat().st_size > SMALL
    found = read_plain(file, mark, label, columns, also) if large else None
    return read_carefully(file, mark, label, columns, also) if found is None else found


def read_cells(file: Path, mark: str | None = None) -> tuple[list[str], list[list[str]]]:
    """Return a table's header and the texts of its cells, row by row, as they stand in the file.

    ``mark`` stands between cells; None: a comma, or a semicolon where the header has no comma.
    """
    return _lines(file, read_text(file), mark)


def read_text(file: Path) -> str:
    """Return a file's text, unzipped where it is zipped and without a byte-order mark; refuse what is not UTF-8."""
    raw = file.read_bytes()
    try:
        return (gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{file} is not UTF-8 text ({error}); save it as UTF-8") from error
    except (OSError, EOFError) as error:
        raise InputError(f"{file} cannot be unzipped: {error}") from error


def read_carefully(
    file: Path, mark: str | None, label: str | None, columns: Columns | None, also: Sequence[str]
) -> Table:
    """Read a text table cell by cell: slow, but it takes what people write, and says which cell is wrong."""
    header, lines = read_cells(file, mark)
    where = places_of(file, header)
    index = None if 0 in where.values() else np.array([line[0] for line in lines], object)
    found = from_columns(
        file,
        list(where),
        lambda name: [line[where[name]] for line in lines],
        label,
        columns,
        first_row=2,
        also=also,
    )
    return replace(found, first_row=2, index=index)


def _lines(file: Path, text: str, mark: str | None) -> tuple[list[str], list[list[str]]]:
    source = io.StringIO(text, newline=None)
    top = next((line for line in source if line != "\n"), "")
    source.seek(0)
    try:
        lines = [line for line in csv.reader(source, delimiter=mark or mark_of(top)) if line]
    except csv.Error as error:
        raise InputError(f"{file} cannot be read as a text table: {error}") from error
    if not lines:
        raise InputError(f"{file} is empty; wanted a header and rows")
    header = [name.strip() for name in lines[0]]
    for number, line in enumerate(lines[1:], start=2):
        if len(line) != len(header):
            raise InputError(f"{file}, row {number}: {len(line)} cells, but the header has {len(header)}")
    if len(lines) == 1:
        raise InputError(f"{file} has no rows, only a header: {listed(header)}")
    return header, lines[1:]
