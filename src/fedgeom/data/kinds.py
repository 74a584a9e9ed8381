"""What kind of numbers a column has: flags, whole numbers or any; and whether rows to predict are of the kinds learnt.

Kinds are seen in the rows themselves, because most files do not say them. Only what cannot be right is refused: other
values than 0 and 1 for a flag, such as another coding of yes and no; counts of molecules where their logarithms were
learnt, or the other way round.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from fedgeom.arrays import Floats
from fedgeom.data.tables import listed
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
