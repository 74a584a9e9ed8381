"""NumPy archives, read without pickles."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from fedgeom.data.tables import Columns, Table, as_labels, listed
from fedgeom.errors import InputError


def read_npz(file: Path, label: str | None, columns: Columns | None) -> Table:
    """Read an archive: ``columns`` is the key of the table, "X" if not given, ``label`` the key of the labels."""
    key = "X" if columns is None else columns
    if not isinstance(key, str):
        raise InputError(f"{file}: columns={list(key)!r} given; for .npz wanted one key, such as 'X'")
    try:
        archive = np.load(file, allow_pickle=False)
        keys = list(archive)
        for wanted in (key, label):
            if wanted is not None and wanted not in keys:
                raise InputError(f"{file} has no key {wanted!r}; its keys are {listed(keys)}")
        X, y = archive[key], None if label is None else archive[label]
    except (OSError, ValueError, EOFError, AttributeError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{file} cannot be read as an .npz archive without pickles: {error}") from error
    if X.ndim != 2 or X.dtype.kind not in "biuf":
        raise InputError(
            f"{file}: {key!r} has shape {X.shape} and type {X.dtype}; wanted a table of numbers (rows × columns)"
        )
    if y is not None and y.ndim != 1:
        raise InputError(f"{file}: {label!r} has shape {y.shape}; wanted one label per row")
    return Table(X.astype(np.float64), None if y is None else as_labels(y))
