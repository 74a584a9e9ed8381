"""What every file reader hands over, and the checks they share."""

from __future__ import annotations

import datetime
import importlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fedgeom.arrays import Floats
from fedgeom.data.cells import EMPTY as EMPTY
from fedgeom.data.cells import (
    NOTHING_SAID,
    UNLABELLED,
    ReadColumn,
    ReadOptions,
    Remark,
    is_empty,
    read_columns,
    written_remarks,
)
from fedgeom.errors import InputError
from fedgeom.registry import did_you_mean

Columns = str | Sequence[str]


class TextColumnsError(InputError):
    """Some columns of a table hold text; the others, ``numbers``, could be read; ``wanted`` are both, in order.

    ``doubtful`` says of those that look like numbers, or like dates, which cells are not, and what to do.
    """

    def __init__(
        self,
        message: str,
        words: tuple[str, ...],
        numbers: tuple[str, ...],
        wanted: tuple[str, ...] = (),
        doubtful: Mapping[str, tuple[str, str]] | None = None,
        remarks: tuple[Remark, ...] = (),
    ):
        super().__init__(message)
        self.words = words
        self.numbers = numbers
        self.wanted = wanted or (*numbers, *words)
        self.doubtful = dict(doubtful or {})
        self.remarks = remarks

    def doubtful_alone(self) -> TextColumnsError:
        """Return the error for the columns that are no categories either."""
        where = str(self).partition(": column ")[0]
        lines = [f"{what}; {remedy}" for what, remedy in self.doubtful.values()]
        others = tuple(name for name in self.wanted if name not in self.doubtful)
        message = f"{where}: " + "\n".join(lines)
        return TextColumnsError(message, tuple(self.doubtful), others, self.wanted, self.doubtful)


@dataclass(frozen=True)
class Table:
    """A file's numbers, its labels as text ("" where there is none), and what its columns and rows are called."""

    X: Any
    """(rows, columns): numbers of any type, or a sparse table of them; NaN where a cell is empty."""
    y: npt.NDArray[np.str_] | None
    """(rows,): labels as text."""
    columns: tuple[str, ...] = ()
    first_row: int = 0
    """What the file's readers call its first row of numbers: 2 where row 1 is a header."""
    index: npt.NDArray[Any] | None = None
    """(rows,): what the rows are called, such as barcodes; None where they are only counted."""
    also: Mapping[str, npt.NDArray[np.str_]] = field(default_factory=dict)
    """The columns that were asked for beside label and features, such as the patient of each row, (rows,) each."""
    categories: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """For each column of text its words; the cells of X say which, counted from 0 (`fedgeom.data.frames`)."""
    remarks: tuple[Remark, ...] = ()
    """What the reader found that somebody should know: decimal commas, an encoding, cells that became gaps."""

    def __len__(self) -> int:
        return int(np.shape(self.X)[0])


def from_columns(
    file: Path | str,
    header: Sequence[str],
    column: Callable[[str], Any],
    label: str | None,
    columns: Columns | None,
    *,
    first_row: int = 1,
    also: Sequence[str] = (),
    reading: ReadOptions = NOTHING_SAID,
    separator: str = "",
    texts: Callable[[str], Any] | None = None,
) -> Table:
    """Put a table together column by column; without ``columns`` all but the label are features.

    ``first_row`` is the number that the file's reader gives the first row, for messages; ``also`` names columns that
    are no features but wanted as text, as `Table.also`. ``texts`` returns the cells as they stand in the file, where
    ``column`` may have made numbers of them; ``separator`` stands between them.
    """
    wanted = wanted_columns(file, header, label, columns, also)
    found: dict[str, Any] = {}
    odd = []
    named = set(reading.categorical)
    for name in wanted:
        if name in named:
            continue
        try:
            cells = np.asarray(column(name))
            found[name] = cells if is_small(cells.dtype) else numbers(cells)
        except (TypeError, ValueError):
            odd.append(name)
    remarks: list[Remark] = []
    if odd or reading.decimal == ",":
        source = texts or column
        read = read_columns(odd, source, list(found), first_row=first_row, reading=reading, separator=separator)
        found |= {name: one.values for name, one in read.items() if one.values is not None}
        remarks += [*written_remarks(read), *(remark for one in read.values() for remark in one.remarks)]
        unread = {name: one for name, one in read.items() if one.values is None}
    else:
        unread = {}
    unread |= {name: ReadColumn() for name in wanted if name in named}
    if unread:
        raise _text_error(file, wanted, unread, texts or column, first_row)
    beside = {name: as_labels(column(name)) for name in also}
    rows = max(map(len, beside.values()), default=0)
    X = np.column_stack([found[name] for name in wanted]) if wanted else np.empty((rows, 0))
    return Table(
        X if is_small(X.dtype) else X.astype(np.float64, copy=False),
        None if label is None else as_labels(column(label)),
        tuple(map(str, wanted)),
        also=beside,
        remarks=tuple(remarks),
    )


def _text_error(
    file: Path | str,
    wanted: Sequence[str],
    odd: Mapping[str, ReadColumn],
    column: Callable[[str], Any],
    first: int,
) -> TextColumnsError:
    """Say of columns that hold text which they are, and of those that look like numbers which cells are not."""
    usable = [name for name in wanted if name not in odd]
    doubtful = {name: (one.why, one.remedy) for name, one in odd.items() if one.why}
    remarks = tuple(remark for one in odd.values() for remark in one.remarks)
    plain = [name for name in odd if name not in doubtful]
    lines = [f"{what}; {remedy}" for what, remedy in doubtful.values()]
    if plain:
        examples = "; ".join(no_number(name, column(name), first) for name in plain[:3])
        lines.append(
            f"these columns hold text, wanted numbers: {listed(plain)} ({examples}). Mend the cells, or name the "
            "columns to use, columns=[…]; where the text means categories, let the run prepare them: prepare = "
            '"table"; a column with names of rows: index = "…"'
        )
    lines[-1] += f" (those of numbers are {listed(usable)})"
    return TextColumnsError(
        f"{file}: " + "\n".join(lines), tuple(odd), tuple(usable), tuple(wanted), doubtful, remarks
    )


NO_FEATURES: Columns = list[str]()
"""No column is a feature: all that may be are text, and are read beside them."""


def wanted_columns(
    file: Path | str, header: Sequence[str], label: str | None, columns: Columns | None, also: Sequence[str] = ()
) -> list[str]:
    """Return the features among a table's columns; refuse what is not there, naming what may be meant.

    ``columns`` may be `NO_FEATURES`: what is wanted is ``also`` alone.
    """
    if label is not None and label not in header:
        raise InputError(
            f"{file} has no column {label!r} for the labels; its columns are {listed(header)}{_hint(label, header)}"
        )
    for name in also:
        if name not in header:
            raise InputError(
                f"{file} has no column {name!r}; its columns are {listed(header)}{_hint(name, header)}"
            )
        if name == label:
            raise InputError(
                f"{file}: {name!r} is the label column; wanted another one that says where a row belongs"
            )
    aside = {label, *also}
    if columns is NO_FEATURES:
        return []
    wanted = [columns] if isinstance(columns, str) else list(columns or [h for h in header if h not in aside])
    there = set(header)
    missing = [name for name in wanted if name not in there]
    if missing:
        hint = _hint(missing[0], header)
        raise InputError(f"{file} has no columns {listed(missing)}; its columns are {listed(header)}{hint}")
    if label in wanted:
        raise InputError(f"{file}: the label column {label!r} is among the features; leave it out of `columns`")
    if not wanted:
        raise InputError(f"{file} has no columns beside the label {label!r}; wanted at least one of numbers")
    return wanted


def _hint(name: str, known: Sequence[str]) -> str:
    hint = did_you_mean(name, known)
    return f".{hint}" if hint else ""


def need(file: Path, *modules: str, extra: str = "bio") -> Any:
    """Import what a format needs, or say how to install it; the first module is returned."""
    try:
        loaded = [importlib.import_module(module) for module in modules]
    except ImportError as error:
        raise InputError(
            f"reading {file} needs {' and '.join(modules)} ({error}); install them with pip install 'fedgeom[{extra}]'"
        ) from error
    return loaded[0]


def is_sparse(table: Any) -> bool:
    """Say whether a table is one of SciPy's sparse ones."""
    return hasattr(table, "tocsr")


def is_small(dtype: np.dtype[Any]) -> bool:
    """Say whether numbers of a type are kept as they are: they take less room than float64, which holds all of them."""
    return dtype.kind in "biuf" and dtype.itemsize <= 4


def numbers(cells: Any) -> Floats:
    """Return a column as numbers; an empty cell is NaN. Raises ValueError for text.

    cells (n,); returns (n,), f8.
    """
    values = np.asarray(cells)
    if values.dtype.kind in "biuf":
        return values.astype(np.float64, copy=False)
    return np.array([np.nan if is_empty(cell) else float(cell) for cell in values.tolist()], np.float64)


def no_number(name: str, cells: Any, first_row: int) -> str:
    """Say of a column that holds more than numbers which cell is the first that is none, and what to do.

    >>> no_number("dose", ["1.5", "1,5"], first_row=2)
    "column 'dose', row 3: '1,5', 1 of 2 cells is no number; write 1.5 with a point for a comma"
    """
    values = np.asarray(cells, object).tolist()
    bad = [at for at, cell in enumerate(values) if not _is_number(cell)]
    if not bad:
        return f"column {name!r}: no cell is the culprit"
    first = values[bad[0]]
    count = f"{len(bad):,} of {len(values):,} cells {'is no number' if len(bad) == 1 else 'are no numbers'}"
    hint = _remedy(first)
    return f"column {name!r}, row {bad[0] + first_row}: {str(first)!r}, {count}{'; ' if hint else ''}{hint}"


def _is_number(cell: Any) -> bool:
    try:
        float("nan" if is_empty(cell) else cell)
    except (TypeError, ValueError):
        return False
    return True


def _remedy(cell: Any) -> str:
    """Say what to do with a cell that is no number, where that is known."""
    if isinstance(cell, datetime.date | datetime.timedelta | np.datetime64 | np.timedelta64):
        return "a date is no number: write days since some day, or leave the column out"
    text = str(cell).strip()
    if re.fullmatch(r"[+-]?\d+,\d+", text):
        return f"write {text.replace(',', '.')} with a point for a comma"
    if re.fullmatch(r"[<>≤≥]=?\s*[\d.,]+", text):
        return "a limit is no number: write a value that you chose for such cells, or leave them empty"
    if re.fullmatch(r"\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}.*", text):
        return "a date is no number: write days since some day, or leave the column out"
    return ""


def as_labels(cells: Any) -> npt.NDArray[np.str_]:
    """Return labels as text; "" stands for a missing one, and 2.0 is written as 2.

    cells (n,); returns (n,), text.
    """
    texts = []
    for cell in np.asarray(cells).tolist():
        whole = isinstance(cell, float) and cell.is_integer()
        text = str(int(cell)) if whole else "" if cell is None else str(cell).strip()
        texts.append("" if text.lower() in UNLABELLED else text)
    return np.array(texts, dtype=np.str_)


def listed(names: Sequence[Any], most: int = 12) -> str:
    """Write names out for a message, the first few of many.

    >>> listed(["a", "b", "c"], most=2)
    "'a', 'b' and 1 more"
    """
    shown = ", ".join(repr(str(name)) for name in names[:most]) or "none"
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"
