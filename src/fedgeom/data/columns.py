"""The names of columns: where a table has them, whether they are the wanted ones, and how to put them in order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from difflib import get_close_matches
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from fedgeom.arrays import Floats
from fedgeom.data.tables import is_sparse, listed, no_number, numbers
from fedgeom.data.validation import MANY_COLUMNS, TableFacts, kind_of
from fedgeom.errors import InputError

Kind = Literal["number", "whole", "flag"]
LETTERS: dict[str, Kind] = {"n": "number", "w": "whole", "f": "flag"}
"""How kinds are written in a file: a letter for each column."""
ENOUGH_ROWS = 50
"""In fewer rows a column that is 0 or 1 may be a count."""
REMEDY = "If it is what the model learnt from, give the rows as an array, or on the command line --any-kinds"


def kinds_of(tables: Sequence[TableFacts]) -> tuple[Kind, ...]:
    """Return the kind of each column over all tables, which have the same columns."""
    if not tables:
        return ()
    whole = np.all([one.whole for one in tables], axis=0)
    if not whole.any():
        return tuple("number" for _ in whole)
    low = np.min([one.low for one in tables], axis=0)
    high = np.max([one.high for one in tables], axis=0)
    rows = np.sum([one.finite for one in tables], axis=0)
    # Where molecules are counted, a rare one is 0 or 1 everywhere and no flag.
    counted = any(kind_of(one) == "counts" for one in tables)
    flag = whole & (low == 0) & (high == 1) & (rows >= ENOUGH_ROWS) & (not counted)
    return tuple("flag" if f else "whole" if w else "number" for f, w in zip(flag, whole, strict=True))


def write_kinds(kinds: Sequence[Kind]) -> str:
    """Return kinds as a model file has them.

    >>> write_kinds(["flag", "number"])
    'fn'
    """
    letters = {kind: letter for letter, kind in LETTERS.items()}
    return "".join(letters[kind] for kind in kinds)


def read_kinds(text: Any) -> tuple[Kind, ...]:
    """Return the kinds that a model file has; letters of later versions say nothing here."""
    if not isinstance(text, str):
        raise InputError("the kinds of the file's columns are no text")
    return tuple(LETTERS.get(letter, "number") for letter in text)


def check_kinds(rows: Floats, names: Sequence[str], kinds: Sequence[Kind], where: str, first_row: int = 0) -> None:
    """Refuse rows, (rows, columns), f8, whose numbers cannot be what the model learnt from; columns by their names.

    ``first_row`` is what the first row is called.
    """
    if not len(rows) or len(kinds) != len(names):
        return
    empty = np.argwhere(~np.isfinite(rows))
    if len(empty):
        at, column = empty[0].tolist()
        raise InputError(
            f"{where}: {len(empty):,} cells are empty or no finite numbers, the first in row {at + first_row}, column "
            f"{names[column]!r}; fill them as the sites did, or leave these rows out"
        )
    faults = []
    for at in (at for at, kind in enumerate(kinds) if kind == "flag"):
        other = np.flatnonzero(~np.isin(rows[:, at], (0, 1)))
        if len(other):
            first = other[0]
            faults.append(
                f"column {names[at]!r}, row {first + first_row}: {rows[first, at]:g}, {len(other):,} of {len(rows):,} "
                "cells are neither 0 nor 1"
            )
    if faults:
        more = f" and {len(faults) - 3} more columns" if len(faults) > 3 else ""
        raise InputError(
            f"{where}: the model learnt from columns of 0 and 1 alone ({'; '.join(faults[:3])}{more}); write them in "
            f"the same way. {REMEDY}"
        )
    _check_counts(rows, names, kinds, where)


def _check_counts(rows: Floats, names: Sequence[str], kinds: Sequence[Kind], where: str) -> None:
    """Refuse counts where logarithms were learnt, and logarithms where counts were."""
    broken = [at for at, kind in enumerate(kinds) if kind == "number"]
    asked = broken
    found = "counts"
    learnt = "fractions"
    if not broken:
        asked = list(range(len(kinds)))
        found = "logarithms"
        learnt = "whole numbers"
    if len(asked) < MANY_COLUMNS or kind_of(TableFacts.of_table(rows[:, asked], where)) != found:
        return
    raise InputError(
        f"{where}: looks like {'raw ' if found == 'counts' else ''}{found} of molecules, but the model learnt from "
        f"{learnt} in {len(asked):,} of {len(kinds):,} columns, such as {listed([names[at] for at in asked], 3)}; "
        f"prepare rows as those of the sites were prepared. {REMEDY}"
    )


MOST_SUGGESTED = 3
"""For how many missing columns the nearest name is looked up: it takes a while among thousands."""


def names_of(table: Any) -> tuple[str, ...]:
    """Return the names of a table's columns: a frame's ``columns``, or the ``var_names`` of an AnnData.

    An array has none, and neither has a frame whose columns are only counted (0, 1, 2 …).

    >>> names_of([[1.0, 2.0]])
    ()
    """
    found = getattr(table, "var_names", None)
    if found is None:
        found = getattr(table, "columns", None)
    if found is None or callable(found):
        return ()
    names = list(found)
    if all(isinstance(name, int | np.integer) for name in names) and names == list(range(len(names))):
        return ()
    return tuple(map(str, names))


def cells_of(table: Any) -> Any:
    """Return what holds the numbers of a table, made dense: the ``X`` of an AnnData, otherwise the table itself."""
    cells = table.X if hasattr(table, "var_names") else table
    return cells.toarray() if is_sparse(cells) else cells


def index_of(table: Any) -> npt.NDArray[Any] | None:
    """Return what a table's rows are called: a frame's index, or the ``obs_names`` of an AnnData.

    An array calls them nothing, and neither does a frame whose rows are only counted (0, 1, 2 …).
    """
    found = getattr(table, "obs_names", table.index if hasattr(table, "iloc") else None)
    if found is None:
        return None
    index = np.asarray(found)
    counted = index.dtype.kind in "iu" and np.array_equal(index, np.arange(len(index)))
    return None if counted or index.ndim != 1 else index


def check_distinct(names: Sequence[str], where: str) -> None:
    """Refuse names that are given more than once: nobody could say which column is meant."""
    if len(set(names)) < len(names):
        twice = [name for name, count in Counter(names).items() if count > 1]
        raise InputError(
            f"{where}: these column names are given more than once: {listed(twice)}; rename them, or keep one of each"
        )


def order_of(names: Sequence[str], wanted: Sequence[str], where: str) -> npt.NDArray[np.intp]:
    """Return where each wanted column stands among the names; refuse missing and unknown ones by name.

    Returns (wanted,), whole numbers.

    >>> order_of(["bmi", "age"], ["age", "bmi"], "X").tolist()
    [1, 0]
    """
    check_distinct(names, where)
    places = {name: at for at, name in enumerate(names)}
    known = set(wanted)
    missing = [name for name in wanted if name not in places]
    unknown = [name for name in names if name not in known]
    if missing:
        raise InputError(f"{where}: these columns are missing: {listed(missing)}{_also(unknown, missing)}")
    if unknown:
        raise InputError(
            f"{where}: the model does not know these columns: {listed(unknown)}; leave them out (on the command "
            f"line: --ignore-others). It has {listed(list(wanted), 6)}"
        )
    return np.array([places[name] for name in wanted], np.intp)


def _also(unknown: Sequence[str], missing: Sequence[str]) -> str:
    """Say which columns are there instead, and which of them may be meant."""
    if not unknown:
        return "; give all columns that the model learnt from"
    words = f"; there are others that the model does not know: {listed(unknown)}"
    near = {name: get_close_matches(name, unknown, n=1) for name in missing[:MOST_SUGGESTED]}
    meant = [f"{found[0]!r} for {name!r}" for name, found in near.items() if found]
    return f"{words}. Is it {', '.join(meant)}? Then rename it" if meant else words


def in_order(table: Any, wanted: Sequence[str], where: str = "X", names: Sequence[str] | None = None) -> Any:
    """Return a table's rows with their columns in the wanted order, where both have names; otherwise as they are.

    ``names`` are the table's, where it does not have them itself. Columns that hold text are refused by name.
    """
    names = names_of(table) if names is None else names
    cells = cells_of(table)
    if not names:
        return cells
    rows = np.asarray(cells)
    if rows.dtype.kind not in "biuf" and hasattr(cells, "notna"):  # pandas has a sign of its own for missing cells
        rows = np.asarray(cells.astype(object).where(cells.notna(), None), object)
    if not wanted:
        return cells if rows.dtype.kind in "biuf" else _numbers(rows, names, where)
    order = order_of(names, wanted, where)
    if rows.ndim != 2 or rows.shape[1] != len(names):
        raise InputError(
            f"{where} has shape {rows.shape} and {len(names)} column names; wanted one for each column"
        )
    rows = rows if np.array_equal(order, np.arange(len(order))) else rows[:, order]
    return rows if rows.dtype.kind in "biuf" else _numbers(rows, wanted, where)


def _numbers(rows: npt.NDArray[Any], names: Sequence[str], where: str) -> npt.NDArray[np.float64]:
    """Return cells of any kind as numbers, NaN where they are empty; refuse columns that hold text, by name."""
    found = np.empty(rows.shape)
    words = list[str]()
    for at, name in enumerate(names):
        try:
            found[:, at] = numbers(rows[:, at])
        except (TypeError, ValueError):
            words.append(no_number(name, rows[:, at], first_row=0))
    if words:
        more = f" and {len(words) - 3} more columns" if len(words) > 3 else ""
        raise InputError(f"{where}: the model learnt from numbers, but {'; '.join(words[:3])}{more}")
    return found
