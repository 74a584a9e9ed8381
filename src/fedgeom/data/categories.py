"""Columns of text as categories: a table keeps them as numbers, with the words beside.

A column of text has in each cell the place of its word among the column's words, which are sorted, or NaN where the
cell is empty. Only preparation (`fedgeom.preparation`) knows what to do with them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from fedgeom.arrays import Floats
from fedgeom.data.rows import dense
from fedgeom.data.tables import EMPTY, Columns, Table, TextColumnsError, listed
from fedgeom.errors import InputError

Read = Callable[[Columns | None, Sequence[str]], Table]
"""Reads columns of numbers, and beside them columns as text (`Table.also`)."""


def as_codes(cells: npt.NDArray[np.str_]) -> tuple[Floats, tuple[str, ...]]:
    """Return which word each cell has, (rows,), f8, NaN where it is empty, and the words, sorted.

    >>> as_codes(np.array(["b", "", "a", "?"]))
    (array([ 1., nan,  0., nan]), ('a', 'b'))
    """
    found, codes = np.unique(cells, return_inverse=True)
    words = [str(word).strip() for word in found.tolist()]
    known = sorted({word for word in words if word.lower() not in EMPTY})
    place = {word: float(at) for at, word in enumerate(known)}
    return np.array([place.get(word, np.nan) for word in words])[codes], tuple(known)


def with_text(read: Read, columns: Columns | None, also: Sequence[str]) -> Table:
    """Return a table with its columns of text as categories, in the order in which the columns stand in the file."""
    try:
        return read(columns, also)
    except TextColumnsError as error:
        texts = error
    if not texts.numbers:
        raise InputError(
            f"all columns hold text: {listed(texts.words)}; wanted at least one of numbers (mend its cells if it "
            "should be one)"
        )
    found = read(list(texts.numbers), [*also, *texts.words])
    made = {name: as_codes(found.also[name]) for name in texts.words}
    X = np.column_stack([dense(found.X, "the table"), *(codes for codes, _ in made.values())])
    names = (*found.columns, *texts.words)
    order = [names.index(name) for name in texts.wanted]
    return replace(
        found,
        X=X[:, order],
        columns=texts.wanted,
        also={name: found.also[name] for name in also},
        categories={name: words for name, (_, words) in made.items()},
    )
