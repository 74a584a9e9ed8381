"""NumPy archives, read without pickles."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from fedgeom.data.rows import flat_rows
from fedgeom.data.tables import Columns, Table, as_labels, listed
from fedgeom.errors import InputError
from fedgeom.registry import did_you_mean


def read_npz(file: Path, label: str | None, columns: Columns | None, *, also: Sequence[str] = ()) -> Table:
    """Read an archive: ``columns`` is the key of the table, "X" if not given, ``label`` the key of the labels.

    ``also`` are keys of other arrays with a value per row.
    """
    key = "X" if columns is None else columns
    if not isinstance(key, str):
        raise InputError(f"{file}: columns={list(key)!r} given; for .npz wanted one key, such as 'X'")
    try:
        archive = np.load(file, allow_pickle=False)
        keys = list(archive)
        for wanted in (key, label, *also):
            if wanted is not None and wanted not in keys:
                hint = did_you_mean(wanted, keys)
                raise InputError(
                    f"{file} has no key {wanted!r}; its keys are {listed(keys)}{'.' if hint else ''}{hint}"
                )
        X, along = archive[key], {one: archive[one] for one in (label, *also) if one is not None}
    except (OSError, ValueError, EOFError, AttributeError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{file} cannot be read as an .npz archive without pickles: {error}") from error
    if X.ndim < 2 or X.dtype.kind not in "biuf":
        raise InputError(
            f"{file}: {key!r} has shape {X.shape} and type {X.dtype}; wanted a table of numbers (rows × columns)"
        )
    for one, values in along.items():
        if values.shape != (len(X),):
            raise InputError(
                f"{file}: {one!r} has shape {values.shape}; wanted one value for each of {len(X)} rows"
            )
    y = None if label is None else as_labels(along[label])
    return Table(flat_rows(X), y, also={one: as_labels(along[one]) for one in also})
