"""Tables as text: comma- and tab-separated files, zipped or not."""

from __future__ import annotations

import csv
import gzip
import io
import zlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fedgeom.arrays import Floats
from fedgeom.data.tables import EMPTY, Columns, Table, as_labels, from_columns, listed, wanted_columns
from fedgeom.errors import InputError
from fedgeom.storage import check_unpacked, largest_unpacked

BLOCK = 2**20
"""How many bytes of text are taken at once, at least; a row must fit."""


def read_plain(
    file: Path, mark: str | None, label: str | None, columns: Columns | None, also: Sequence[str]
) -> Table | None:
    """Return a text table, or None where the careful reader has to look; ``mark`` None: commas, or semicolons."""
    if find_spec("pyarrow") is None:
        return None
    top = _top(file)
    if top is None:
        return None
    line, before = top
    mark = mark or mark_of(line)
    header = [name.strip() for name in next(csv.reader([line], delimiter=mark))]
    places = places_of(file, header)
    wanted = wanted_columns(file, list(places), label, columns, also)
    texts = [name for name in (label, *also) if name is not None]
    layout = file, mark, len(header), before
    try:  # Arrow's errors are ValueErrors
        X, found = _read_fast_csv(*layout, [places[name] for name in wanted], _texts(places, texts))
    except (OSError, ValueError, EOFError):
        return _read_texts(*layout, places, wanted, label, also)
    index = None if 0 in places.values() else found.pop(0).to_numpy(zero_copy_only=False)
    along = dict(zip(texts, map(_labels, found), strict=True))
    return Table(
        X,
        None if label is None else along[label],
        tuple(wanted),
        first_row=2,
        index=index,
        also={name: along[name] for name in also},
    )


def _read_texts(
    file: Path,
    mark: str,
    width: int,
    before: int,
    places: dict[str, int],
    wanted: list[str],
    label: str | None,
    also: Sequence[str],
) -> Table | None:
    """Read all cells as text and then look at each, where not all are plain numbers; None where Arrow cannot at all."""
    names = [*wanted, *(name for name in (label, *also) if name is not None)]
    try:
        _, found = _read_fast_csv(file, mark, width, before, [], _texts(places, names))
    except (OSError, ValueError, EOFError):
        return None
    index = None if 0 in places.values() else found.pop(0).to_numpy(zero_copy_only=False)
    cells = dict(zip(names, found, strict=True))

    def column(name: str) -> Any:
        return _numbers(cells[name]) if name in features else cells[name].to_pylist()

    features = set(wanted)
    table = from_columns(file, list(places), column, label, wanted, first_row=2, also=also)
    return replace(table, first_row=2, index=index)


def _numbers(column: Any) -> Any:
    """Return a column of text as numbers where Arrow reads them all, otherwise its cells as they are."""
    from pyarrow import array, compute  # an extra

    trimmed = compute.utf8_trim_whitespace(column)
    empty = compute.is_in(compute.utf8_lower(trimmed), value_set=array(EMPTY))
    try:
        return compute.cast(compute.if_else(empty, None, trimmed), "float64").to_numpy()
    except ValueError:  # Arrow's own among them
        return column.to_pylist()


def mark_of(line: str) -> str:
    """Return what stands between the cells of a header: commas, or semicolons where it has no comma."""
    return ";" if ";" in line and "," not in line else ","


def places_of(file: Path, header: Sequence[str]) -> dict[str, int]:
    """Return where each named column stands; refuse names given twice.

    An unnamed first column, as tools write it for what rows are called, is not among them.
    """
    twice = [name for name, n in Counter(header).items() if n > 1]
    if twice:
        raise InputError(f"{file}: the header names {listed(twice)} more than once; rename the columns")
    return {name: at for at, name in enumerate(header) if at or name or len(header) == 1}


def is_zipped(file: Path) -> bool:
    """Say whether a file is zipped, by its first bytes."""
    with file.open("rb") as raw:
        return raw.read(2) == b"\x1f\x8b"


LEAST_TEXT = 16 * 2**20
"""Text of up to so many bytes is unzipped from any file; its cells take about ten times as many."""


def check_zipped(file: Path) -> None:
    """Refuse a zipped file that unzips to far too much; it is unzipped piece by piece for that, and nothing is kept."""
    if not is_zipped(file):
        return
    most = largest_unpacked(file, least=LEAST_TEXT)
    size = 0
    try:
        with gzip.open(file) as content:
            while size <= most and (piece := content.read(BLOCK)):
                size += len(piece)
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"{file} cannot be unzipped: {error}") from error
    check_unpacked(file, size, least=LEAST_TEXT)


def _top(file: Path) -> tuple[str, int] | None:
    """Return the header's line and how many lines it and what stands before it take; None where it is not plain."""
    before = 0
    try:
        with gzip.open(file) if is_zipped(file) else file.open("rb") as raw:
            for line in raw:
                before += 1
                text = line.decode("utf-8-sig" if before == 1 else "utf-8").rstrip("\r\n")
                if text:
                    return None if "\r" in text or text.count('"') % 2 else (text, before)
    except (OSError, EOFError, UnicodeDecodeError):
        return None
    return None


def _read_fast_csv(
    file: Path, mark: str, width: int, before: int, numeric: list[int], texts: list[int]
) -> tuple[Floats, list[Any]]:
    """Return columns of numbers, side by side, and columns of text as Arrow's; raise where a cell is no number.

    X (rows, columns), f8.
    """
    import pyarrow as pa  # an extra
    from pyarrow import csv as arrow

    named = [str(at) for at in range(width)]
    types = {str(at): pa.float64() for at in numeric} | {str(at): pa.string() for at in texts}
    reader = arrow.open_csv(
        pa.input_stream(str(file), compression="gzip" if is_zipped(file) else None),
        read_options=arrow.ReadOptions(column_names=named, skip_rows=before, block_size=max(BLOCK, 64 * width)),
        parse_options=arrow.ParseOptions(delimiter=mark, newlines_in_values=True),
        convert_options=arrow.ConvertOptions(
            column_types=types,
            include_columns=[str(at) for at in [*numeric, *texts]],
            null_values=sorted(
                {way(word) for word in EMPTY for way in (str, str.upper, str.capitalize)} | {"NaN"}
            ),
            strings_can_be_null=False,
        ),
    )
    X = np.empty((1, len(numeric)))
    n = 0
    found = []
    for batch in reader:
        end = n + batch.num_rows
        if end > len(X):  # grown in place: pages that are not written to cost nothing
            X.resize((end + end // 2, len(numeric)), refcheck=False)
        for at in range(len(numeric)):
            X[n:end, at] = batch.column(at).to_numpy(zero_copy_only=False)
        found.append(batch.columns[len(numeric) :])
        n = end
    X.resize((n, len(numeric)), refcheck=False)
    if n == 0:
        raise ValueError("no rows")
    return X, [pa.chunked_array([columns[at] for columns in found]) for at in range(len(texts))]


def _texts(places: dict[str, int], texts: Sequence[str]) -> list[int]:
    """Return where the columns of text stand, those that say what rows are called first, where there is one."""
    index = [] if 0 in places.values() else [0]
    return [*index, *(places[name] for name in texts)]


def _labels(column: Any) -> npt.NDArray[np.str_]:
    """Return a column of text as labels; each word is looked at once.

    column (rows,), Arrow's; returns (rows,), text.
    """
    coded = column.dictionary_encode().combine_chunks()
    return np.asarray(as_labels(coded.dictionary.to_pylist())[coded.indices.to_numpy()])


SMALL = 2**20
"""Files of up to so many bytes are read before Arrow would be imported."""


def read_csv(file: Path, label: str | None, columns: Columns | None, *, also: Sequence[str] = ()) -> Table:
    """Read a table with commas (or, where the header has none, semicolons) between its cells."""
    return _read(file, None, label, columns, also)


def read_tsv(file: Path, label: str | None, columns: Columns | None, *, also: Sequence[str] = ()) -> Table:
    """Read a table with tabs between its cells."""
    return _read(file, "\t", label, columns, also)


def _read(file: Path, mark: str | None, label: str | None, columns: Columns | None, also: Sequence[str]) -> Table:
    check_zipped(file)
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
    check_zipped(file)
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
