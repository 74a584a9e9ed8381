"""Tables as text: comma- and tab-separated files, zipped or not."""

from __future__ import annotations

import csv
import gzip
import io
from collections import Counter
from dataclasses import replace
from pathlib import Path

from fedgeom.data.tables import Columns, Table, from_columns, listed
from fedgeom.errors import InputError


def read_csv(file: Path, label: str | None, columns: Columns | None) -> Table:
    """Read a table with commas (or, where the header has none, semicolons) between its cells."""
    return _from_text(file, *read_cells(file), label, columns)


def read_tsv(file: Path, label: str | None, columns: Columns | None) -> Table:
    """Read a table with tabs between its cells."""
    return _from_text(file, *read_cells(file, "\t"), label, columns)


def read_cells(file: Path, mark: str | None = None) -> tuple[list[str], list[list[str]]]:
    """Return a table's header and the texts of its cells, row by row, as they stand in the file.

    ``mark`` stands between cells; None: a comma, or a semicolon where the header has no comma.
    """
    text = read_text(file)
    top = text.partition("\n")[0]
    return _lines(file, text, mark or (";" if ";" in top and "," not in top else ","))


def read_text(file: Path) -> str:
    """Return a file's text, unzipped where it is zipped and without a byte-order mark; refuse what is not UTF-8."""
    raw = file.read_bytes()
    try:
        return (gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{file} is not UTF-8 text ({error}); save it as UTF-8") from error
    except (OSError, EOFError) as error:
        raise InputError(f"{file} cannot be unzipped: {error}") from error


def _from_text(
    file: Path, header: list[str], lines: list[list[str]], label: str | None, columns: Columns | None
) -> Table:
    where = {name: at for at, name in enumerate(header)}
    if header[0].strip() == "" and len(header) > 1:
        where.pop(header[0])  # the unnamed first column that tools write for row numbers
    twice = [name for name, n in Counter(header).items() if n > 1]
    if twice:
        raise InputError(f"{file}: the header names {listed(twice)} more than once; rename the columns")
    found = from_columns(
        file, list(where), lambda name: [line[where[name]] for line in lines], label, columns, first_row=2
    )
    return replace(found, first_row=2)


def _lines(file: Path, text: str, mark: str) -> tuple[list[str], list[list[str]]]:
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
