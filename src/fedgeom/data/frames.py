"""Tables with named columns from pandas: frames in memory, and Parquet files (which need the ``bio`` extra)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fedgeom.data.columns import check_distinct, index_of
from fedgeom.data.tables import Columns, Table, as_labels, from_columns, need
from fedgeom.errors import InputError


def read_parquet(file: Path, label: str | None, columns: Columns | None, *, also: Sequence[str] = ()) -> Table:
    """Read a Parquet table."""
    pandas = need(file, "pandas", "pyarrow")
    try:
        frame = pandas.read_parquet(file)
    except (OSError, ValueError) as error:
        raise InputError(f"{file} cannot be read as Parquet: {error}") from error
    return frame_table(frame, str(file), label, columns, also=also)


def frame_table(
    frame: Any, where: str, label: str | None, columns: Columns | None, *, also: Sequence[str] = ()
) -> Table:
    """Return a pandas frame as a table; without ``columns`` all columns but the label and ``also`` are features."""
    if not hasattr(frame, "iloc") or not hasattr(frame, "columns"):
        raise InputError(f"{where}: a {type(frame).__name__} was given; wanted a pandas DataFrame")
    names = [str(name) for name in frame.columns]
    check_distinct(names, where)
    places = {name: at for at, name in enumerate(names)}
    found = from_columns(
        where,
        names,
        lambda name: cells_of_series(frame.iloc[:, places[name]]),
        label,
        columns,
        first_row=0,
        also=also,
    )
    return replace(found, index=index_of(frame))


def cells_of_series(series: Any) -> Any:
    """Return a pandas column's cells: numbers as they are, a missing cell of another kind as None."""
    if isinstance(series.dtype, np.dtype) and series.dtype.kind in "biuf":
        return series.to_numpy()
    return series.astype(object).where(series.notna(), None).to_numpy()


def labels_of_series(series: Any) -> npt.NDArray[np.str_]:
    """Return a pandas column as label texts; of categories, each is looked at once.

    Returns (rows,), text.
    """
    if not hasattr(series, "cat"):
        return as_labels(cells_of_series(series))
    words = as_labels([*series.cat.categories.astype(object), None])  # code -1 stands for a missing one: the last
    return np.asarray(words[series.cat.codes.to_numpy()])
