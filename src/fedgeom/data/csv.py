"""Tables as text: comma- and tab-separated files, zipped or not."""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import re
import zlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fedgeom.arrays import Floats
from fedgeom.data.cells import NOTHING_SAID, ReadOptions, Remark
from fedgeom.data.tables import EMPTY, NO_FEATURES, Columns, Table, as_labels, from_columns, listed, wanted_columns
from fedgeom.errors import InputError
from fedgeom.storage import check_unpacked, largest_unpacked

BLOCK = 2**20
"""How many bytes of text are taken at once, at least; a row must fit."""


def read_plain(
    file: Path,
    mark: str | None,
    label: str | None,
    columns: Columns | None,
    also: Sequence[str],
    reading: ReadOptions = NOTHING_SAID,
) -> Table | None:
    """Return a text table, or None where the careful reader has to look; ``mark`` None: as the header shows."""
    if find_spec("pyarrow") is None or not _is_utf8(reading.encoding):
        return None
    top = _top(file)
    if top is None:
        return None
    mark = _mark(mark, top.mark, top.line, reading)
    header = [name.strip() for name in next(csv.reader([top.line], delimiter=mark))]
    places = places_of(file, header)
    wanted = wanted_columns(file, list(places), label, columns, also)
    texts = [name for name in (label, *also) if name is not None]
    layout = _Layout(file, mark, len(header), top.before, top.first_row)
    if reading.decimal == "," or set(wanted) & set(reading.categorical):
        return _read_texts(layout, places, wanted, label, also, reading)
    try:  # Arrow's errors are ValueErrors
        X, found = _read_fast_csv(layout, [places[name] for name in wanted], _texts(places, texts))
    except (OSError, ValueError, EOFError):
        return _read_texts(layout, places, wanted, label, also, reading)
    index = None if 0 in places.values() else found.pop(0).to_numpy(zero_copy_only=False)
    along = dict(zip(texts, map(_labels, found), strict=True))
    return Table(
        X,
        None if label is None else along[label],
        tuple(wanted),
        first_row=top.first_row,
        index=index,
        also={name: along[name] for name in also},
    )


@dataclass(frozen=True)
class _Layout:
    """Where the cells of a plain file are."""

    file: Path
    mark: str
    width: int
    before: int
    """How many lines stand before the first row."""
    first_row: int


def _is_utf8(encoding: str) -> bool:
    return not encoding or codecs.lookup(encoding).name in ("utf-8", "utf-8-sig", "ascii")


def _read_texts(
    layout: _Layout,
    places: dict[str, int],
    wanted: list[str],
    label: str | None,
    also: Sequence[str],
    reading: ReadOptions,
) -> Table | None:
    """Read all cells as text and then look at each, where not all are plain numbers; None where Arrow cannot at all."""
    names = [*wanted, *(name for name in (label, *also) if name is not None)]
    try:
        _, found = _read_fast_csv(layout, [], _texts(places, names))
    except (OSError, ValueError, EOFError):
        return None
    index = None if 0 in places.values() else found.pop(0).to_numpy(zero_copy_only=False)
    cells = dict(zip(names, found, strict=True))

    def column(name: str) -> Any:
        return _numbers(cells[name]) if name in features else cells[name].to_pylist()

    features = set(wanted)
    table = from_columns(
        layout.file,
        list(places),
        column,
        label,
        wanted or NO_FEATURES,
        first_row=layout.first_row,
        also=also,
        reading=reading,
        separator=layout.mark,
        texts=lambda name: cells[name].to_pylist(),
    )
    return replace(table, first_row=layout.first_row, index=index)


def _numbers(column: Any) -> Any:
    """Return a column of text as numbers where Arrow reads them all, otherwise its cells as they are."""
    from pyarrow import array, compute  # an extra

    trimmed = compute.utf8_trim_whitespace(column)
    empty = compute.is_in(compute.utf8_lower(trimmed), value_set=array(EMPTY))
    try:
        return compute.cast(compute.if_else(empty, None, trimmed), "float64").to_numpy()
    except ValueError:  # Arrow's own among them
        return column.to_pylist()


MARKS = (",", ";", "\t", "|")
"""What may stand between cells, where the file does not say it."""
EXCEL_MARK = re.compile(r"\ufeff?sep=(.)\s*", re.IGNORECASE)
"""A first line with which spreadsheets say what stands between cells."""


def mark_of(line: str) -> str:
    """Return what stands between the cells of a header: the sign that it has most of outside of quotes, or a comma.

    >>> mark_of('age;"a, b, c";class')
    ';'
    """
    bare = re.sub(r'"[^"]*"', "", line)
    return max(MARKS, key=bare.count)


def _mark(usual: str | None, said: str, line: str, reading: ReadOptions) -> str:
    """Return what stands between cells: as the steward says, the file's first line, its ending, or its header."""
    if reading.separator:
        return "\t" if reading.separator == "tab" else reading.separator
    return said or (usual if usual and usual in line else mark_of(line))


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


@dataclass(frozen=True)
class _Top:
    """The header of a plain file."""

    line: str
    before: int
    """How many lines it and what stands before it take."""
    mark: str = ""
    """What the file itself says that stands between cells."""

    @property
    def first_row(self) -> int:
        """What the first row is called: the header is row 1, or 2 where a line says what stands between cells."""
        return 3 if self.mark else 2


def _top(file: Path) -> _Top | None:
    """Return the header's line and where it is; None where it is not plain."""
    before = 0
    mark = ""
    try:
        with gzip.open(file) if is_zipped(file) else file.open("rb") as raw:
            for line in raw:
                before += 1
                text = line.decode("utf-8-sig" if before == 1 else "utf-8").rstrip("\r\n")
                said = EXCEL_MARK.fullmatch(text)
                if said and not mark:
                    mark = said[1]
                elif text:
                    odd = "\r" in text or "\0" in text or text.count('"') % 2
                    return None if odd else _Top(text, before, mark)
    except (OSError, EOFError, UnicodeDecodeError):
        return None
    return None


def _read_fast_csv(layout: _Layout, numeric: list[int], texts: list[int]) -> tuple[Floats, list[Any]]:
    """Return columns of numbers, side by side, and columns of text as Arrow's; raise where a cell is no number.

    X (rows, columns), f8.
    """
    import pyarrow as pa  # an extra
    from pyarrow import csv as arrow

    file = layout.file
    named = [str(at) for at in range(layout.width)]
    types = {str(at): pa.float64() for at in numeric} | {str(at): pa.string() for at in texts}
    reader = arrow.open_csv(
        pa.input_stream(str(file), compression="gzip" if is_zipped(file) else None),
        read_options=arrow.ReadOptions(
            column_names=named, skip_rows=layout.before, block_size=max(BLOCK, 64 * layout.width)
        ),
        parse_options=arrow.ParseOptions(delimiter=layout.mark, newlines_in_values=True),
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


def read_csv(
    file: Path,
    label: str | None,
    columns: Columns | None,
    *,
    also: Sequence[str] = (),
    reading: ReadOptions = NOTHING_SAID,
) -> Table:
    """Read a table with commas between its cells, or what its header has most of: semicolons, tabs, bars."""
    return _read(file, None, label, columns, also, reading)


def read_tsv(
    file: Path,
    label: str | None,
    columns: Columns | None,
    *,
    also: Sequence[str] = (),
    reading: ReadOptions = NOTHING_SAID,
) -> Table:
    """Read a table with tabs between its cells."""
    return _read(file, "\t", label, columns, also, reading)


def _read(
    file: Path,
    mark: str | None,
    label: str | None,
    columns: Columns | None,
    also: Sequence[str],
    reading: ReadOptions,
) -> Table:
    check_zipped(file)
    large = file.stat().st_size > SMALL
    found = read_plain(file, mark, label, columns, also, reading) if large else None
    return read_carefully(file, mark, label, columns, also, reading) if found is None else found


def header_of_text(file: Path, reading: ReadOptions, mark: str | None = None) -> list[str]:
    """Return the names of a text table's columns."""
    top = _top(file) if _is_utf8(reading.encoding) else None
    if top is None:
        return text_table(file, mark, reading).header
    return [
        name.strip() for name in next(csv.reader([top.line], delimiter=_mark(mark, top.mark, top.line, reading)))
    ]


def read_cells(file: Path, mark: str | None = None) -> tuple[list[str], list[list[str]]]:
    """Return a table's header and the texts of its cells, row by row, as they stand in the file.

    ``mark`` stands between cells; None: a comma, or what the header has most of.
    """
    found = text_table(file, mark)
    return found.header, found.lines


def read_text(file: Path, encoding: str = "") -> str:
    """Return a file's text, unzipped where it is zipped and without a byte-order mark.

    Without an ``encoding`` it is UTF-8, UTF-16 where it begins with that mark, and otherwise Windows-1252.
    """
    return _decoded(file, encoding)[0]


def _decoded(file: Path, encoding: str) -> tuple[str, tuple[Remark, ...]]:
    """Return a file's text, and what had to be found out to read it."""
    check_zipped(file)
    raw = file.read_bytes()
    try:
        raw = gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw
    except (OSError, EOFError) as error:
        raise InputError(f"{file} cannot be unzipped: {error}") from error
    if encoding:
        try:
            return raw.decode(encoding).removeprefix("\ufeff"), ()
        except UnicodeDecodeError as error:
            raise InputError(
                f"{file} is not {encoding} text ({error}), though the file says encoding = {encoding!r}; leave the key "
                "out to have it found"
            ) from error
    try:
        if raw[:2] not in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE) and b"\0" not in raw[:64]:
            return raw.decode("utf-8-sig"), ()
    except UnicodeDecodeError:
        return _as_windows(file, raw)
    return _as_utf16(file, raw)


def _as_utf16(file: Path, raw: bytes) -> tuple[str, tuple[Remark, ...]]:
    """Return text of two bytes a sign, whose order the first of them show."""
    order = "utf-16" if raw[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE) else ""
    order = order or ("utf-16-le" if raw[1:2] == b"\0" else "utf-16-be")
    try:
        text = raw.decode(order)
    except UnicodeDecodeError as error:
        raise InputError(
            f"{file} is no text: it has bytes of 0, and is not UTF-16 ({error}); save it as UTF-8"
        ) from error
    if "\0" in text:
        raise InputError(f"{file} is no text: it has bytes of 0; wanted a text table, saved as UTF-8")
    return text, (Remark("note", "the file is UTF-16", "", "encoding"),)


def _as_windows(file: Path, raw: bytes) -> tuple[str, tuple[Remark, ...]]:
    """Return text of a byte a sign, with a word by which somebody can see whether it is the right reading."""
    if b"\0" in raw:
        raise InputError(f"{file} is no text: it has bytes of 0; wanted a text table, saved as UTF-8")
    try:
        text = raw.decode("cp1252")
    except UnicodeDecodeError:  # five bytes mean nothing there
        text = raw.decode("latin-1")
    words = list(dict.fromkeys(re.findall(r"[^\s,;\"\t|]*[^\x00-\x7f][^\s,;\"\t|]*", text)))[:3]
    what = f"the file is not UTF-8, and is read as Windows-1252 (latin-1): {listed(words)}"
    return text, (
        Remark("note", what, 'if these are misspelt, say encoding = "…", or save it as UTF-8', "encoding"),
    )


def read_carefully(
    file: Path,
    mark: str | None,
    label: str | None,
    columns: Columns | None,
    also: Sequence[str],
    reading: ReadOptions = NOTHING_SAID,
) -> Table:
    """Read a text table cell by cell: slow, but it takes what people write, and says which cell is wrong."""
    text = text_table(file, mark, reading)
    where = places_of(file, text.header)
    index = None if 0 in where.values() else np.array([line[0] for line in text.lines], object)
    found = from_columns(
        file,
        list(where),
        lambda name: [line[where[name]] for line in text.lines],
        label,
        columns,
        first_row=text.first_row,
        also=also,
        reading=reading,
        separator=text.mark,
    )
    remarks = (*text.remarks, *found.remarks)
    return replace(found, first_row=text.first_row, index=index, remarks=remarks)


@dataclass(frozen=True)
class TextTable:
    """The texts of a table."""

    header: list[str]
    lines: list[list[str]]
    mark: str
    first_row: int
    remarks: tuple[Remark, ...]


def text_table(file: Path, mark: str | None, reading: ReadOptions = NOTHING_SAID) -> TextTable:
    """Return a table's texts as they stand in the file, and what stands between them."""
    text, remarks = _decoded(file, reading.encoding)
    text = text.replace("\r\n", "\n").replace("\r", "\n").lstrip("\n")
    top, _, rest = text.partition("\n")
    said = EXCEL_MARK.fullmatch(top)
    if said:
        text = rest.lstrip("\n")
        top = text.partition("\n")[0]
    mark = _mark(mark, said[1] if said else "", top, reading)
    source = io.StringIO(text)
    try:
        lines = [line for line in csv.reader(source, delimiter=mark) if line]
    except csv.Error as error:
        raise InputError(f"{file} cannot be read as a text table: {error}") from error
    if not lines:
        raise InputError(f"{file} is empty; wanted a header and rows")
    header = [name.strip() for name in lines[0]]
    first_row = 3 if said else 2
    for number, line in enumerate(lines[1:], start=first_row):
        if len(line) != len(header):
            raise InputError(
                f"{file}, row {number}: {len(line)} cells, but the header has {len(header)}{_why(line, header, mark)}"
            )
    if len(lines) == 1:
        raise InputError(f"{file} has no rows, only a header: {listed(header)}")
    return TextTable(header, lines[1:], mark, first_row, remarks)


def _why(line: Sequence[str], header: Sequence[str], mark: str) -> str:
    """Say why a row may have other cells than the header, where that is likely."""
    if mark == "," and len(line) > len(header) and sum(cell.strip().isdigit() for cell in line) > 1:
        return "; are there decimal commas? Then put the cells in quotes, or divide them by semicolons"
    if len(line) == 1 and len(header) > 1 and line[0].strip():
        return (
            f"; cells are divided by {mark!r} in the header: is this line no row, or is its separator another one?"
        )
    return ""
