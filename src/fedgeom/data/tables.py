"""What every file reader hands over, and the checks they share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fedgeom.arrays import Floats
from fedgeom.errors import InputError

Columns = str | Sequence[str]

UNLABELLED = ("", "nan", "na", "n/a", "<na>")
"""Cells of a label column, in lower case, that mean: nobody said what this row is."""
_EMPTY = (*UNLABELLED, "none", "null", "?", ".")


@dataclass(frozen=True)
class Table:
    """A file's numbers, its labels as text ("" where there is none), and its columns' names."""

    X: Floats
    """(rows, columns); NaN where a cell is empty."""
    y: npt.NDArray[np.str_] | None
    """(rows,): labels as text."""
    columns: tuple[str, ...] = ()
    first_row: int = 0
    """What the file's readers call its first row of numbers: 2 where row 1 is a header."""


def from_columns(
    file: Path,
    header: Sequence[str],
    column: Callable[[str], Any],
    label: str | None,
    columns: Columns | None,
) -> Table:
    """Put a table together column by column; without ``columns`` all but the label are features."""
    if label is not None and label not in header:
        raise InputError(f"{file} has no column {label!r} for the labels; its columns are {listed(header)}")
    wanted = [columns] if isinstance(columns, str) else list(columns or [h for h in header if h != label])
    missing = [name for name in wanted if name not in header]
    if missing:
        raise InputError(f"{file} has no columns {listed(missing)}; its columns are {listed(header)}")
    if label in wanted:
        raise InputError(f"{file}: the label column {label!r} is among the features; leave it out of `columns`")
    if not wanted:
        raise InputError(f"{file} has no columns beside the label {label!r}; wanted at least one of numbers")
    found, words = [], []
    for name in wanted:
        try:
            found.append(numbers(column(name)))
        except ValueError:
            words.append(name)
    if words:
        usable = [name for name in wanted if name not in words]
        raise InputError(
            f"{file}: these columns hold text, wanted numbers: {listed(words)}. Name the ones to use, "
            f"columns=[…]; those of numbers are {listed(usable)}"
        )
    return Table(
        np.column_stack(found), None if label is None else as_labels(column(label)), tuple(map(str, wanted))
    )


def numbers(cells: Any) -> Floats:
    """Return a column as numbers; an empty cell is NaN. Raises ValueError for text.

    cells (n,); returns (n,), f8.
    """
    values = np.asarray(cells)
    if values.dtype.kind in "biuf":
        return values.astype(np.float64)
    return np.array([np.nan if _is_empty(cell) else float(cell) for cell in values.tolist()], np.float64)


def _is_empty(cell: Any) -> bool:
    return cell is None or (isinstance(cell, str) and cell.strip().lower() in _EMPTY)


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
