"""A table of numbers as it came, dense or sparse, in its own type; and as the dense rows that methods compute with."""

from __future__ import annotations

import math
import os
import sys
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import numpy as np

from fedgeom.arrays import Floats, Indices
from fedgeom.data.tables import is_small, is_sparse, no_number
from fedgeom.errors import InputError

if sys.platform != "win32":
    import resource


def free_memory() -> int | None:
    """Return how many bytes can still be asked for; None where nobody says.

    The machine, the control group (a container) and the process's own limit may each set one; the least counts.
    """
    known = [found for found in (_of_machine(), _of_group(), _of_process()) if found is not None]
    return min(known) if known else None


def as_gib(size: int) -> str:
    """Write a number of bytes for a person.

    >>> as_gib(3 * 2**30), as_gib(5 * 2**20)
    ('3.0 GiB', '5.0 MiB')
    """
    return f"{size / 2**30:.1f} GiB" if size >= 2**29 else f"{size / 2**20:.1f} MiB"


def _of_machine() -> int | None:
    """What the kernel says is available without swapping, or where it says nothing, how many pages are free."""
    found = _field(Path("/proc/meminfo"), "MemAvailable:")
    if found is None:
        try:
            found = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        except (ValueError, OSError, AttributeError):
            return None
    return found


def _of_group(root: Path = Path("/sys/fs/cgroup")) -> int | None:
    """What the control group still allows."""
    try:
        most, used = ((root / name).read_text().strip() for name in ("memory.max", "memory.current"))
    except OSError:
        return None
    return max(int(most) - int(used), 0) if most.isdecimal() and used.isdecimal() else None


def _of_process() -> int | None:
    """What the process's own limits still allow: a site's max_memory_mb is one of data."""
    if sys.platform == "win32":
        return None
    found = []
    for limit, field in ((resource.RLIMIT_DATA, "VmData:"), (resource.RLIMIT_AS, "VmSize:")):
        most = resource.getrlimit(limit)[0]
        used = _field(Path("/proc/self/status"), field)
        if most != resource.RLIM_INFINITY and used is not None:
            found.append(max(most - used, 0))
    return min(found) if found else None


def _field(file: Path, name: str) -> int | None:
    """Read one line of kB from the kernel's files, in bytes."""
    try:
        line = next((line for line in file.read_text().splitlines() if line.startswith(name)), "")
    except OSError:
        return None
    return int(line.split()[1]) * 1024 if line else None


SMALL = 2**24
"""Tables of up to so many bytes are made dense without a look at what memory is left."""
Rows = Any
"""(rows, columns): a NumPy array of numbers of any type, or SciPy's ``csr_array``."""
_FULL: ContextVar[dict[int, Any] | None] = ContextVar("tables that have no gaps", default=None)
"""Those that were looked at and have none, by their identity, while something is `shared_gap_check`."""


def as_rows(X: Any, where: str) -> Rows:
    """Return a table as it came: sparse ones as ``csr_array``, arrays of small numbers in their own type.

    Others become float64. Rows of several dimensions, such as images, become rows of columns. Nothing is copied where
    nothing has to be.
    """
    cells = X.X if hasattr(X, "var_names") else X
    if is_sparse(cells):
        from scipy.sparse import csr_array  # .1 s, which a command that reads nothing should not wait for

        if np.dtype(cells.dtype).kind not in "biuf":
            raise InputError(f"{where}: X must be numbers; a sparse table of {cells.dtype} was given")
        return csr_array(cells)
    try:
        rows = np.asarray(cells)
        rows = rows if is_small(rows.dtype) else rows.astype(np.float64, copy=False)
    except (TypeError, ValueError) as error:
        raise InputError(f"{where}: X must be numbers ({_culprit(X) or error})") from error
    if rows.ndim < 2:
        raise InputError(f"{where}: X must be a table of rows and columns, {rows.ndim}-D was given")
    return flat_rows(rows)


def flat_rows(rows: Rows) -> Rows:
    """Return rows of any shape, such as images, as rows of columns: (rows, …) to (rows, columns), without a copy."""
    return rows if rows.ndim == 2 else rows.reshape(len(rows), math.prod(rows.shape[1:]))


def dense_bytes(rows: Rows) -> int:
    """Return how many bytes of memory dense rows would take beside the table: none, where it is that already."""
    ready = not is_sparse(rows) and rows.dtype == np.float64
    return 0 if ready else int(rows.shape[0]) * int(rows.shape[1]) * 8


def dense(rows: Rows, where: str) -> Floats:
    """Return a table as dense float64 rows; refuse one for which there is no memory, before anything is taken.

    Returns (rows, columns), f8: the table itself where it is that already.
    """
    needed = dense_bytes(rows)
    if not needed:
        return np.asarray(rows, np.float64) if not is_sparse(rows) else np.zeros(rows.shape)
    free = free_memory() if needed > SMALL else None
    if free is None or needed <= free:
        try:
            return np.asarray(rows.astype(np.float64).toarray() if is_sparse(rows) else rows.astype(np.float64))
        except MemoryError:  # somebody else was quicker
            pass
    there = "more than there is" if free is None else f"{as_gib(free)} are free"
    raise InputError(
        f"{where}: {rows.shape[0]:,} rows × {rows.shape[1]:,} columns need {as_gib(needed)} of memory as dense rows of "
        f"numbers; {there}. Choose fewer columns (columns=[…], or for .h5ad an embedding, columns='obsm:…'), take "
        "fewer rows, or a machine with more memory"
    )


def no_gaps(rows: Rows) -> bool:
    """Say whether a table has finite numbers only; where their sum overflows it says no, and each has to be looked at.

    A sum is finite only where all numbers are, and costs a tenth of looking at each.
    """
    cells = rows.data if is_sparse(rows) else rows
    full = _FULL.get()
    if cells.dtype.kind != "f":
        return True
    known = None if full is None else full.get(id(cells))
    if known is not None and known() is cells:
        return True
    with np.errstate(all="ignore"):
        found = bool(np.isfinite(cells.sum()))
    if found and full is not None:
        full[id(cells)] = weakref.ref(cells)
    return found


@contextmanager
def shared_gap_check() -> Iterator[None]:
    """Look at each table once for gaps: a run's check, and its sites when they join, have the same rows before them."""
    token = _FULL.set({})
    try:
        yield
    finally:
        _FULL.reset(token)


def not_finite(rows: Rows) -> Indices:
    """Return where a table has no finite number, row by row, without making it dense.

    Returns (cells, 2): row and column of each.
    """
    if no_gaps(rows):
        return np.empty((0, 2), np.intp)
    if not is_sparse(rows):
        return np.argwhere(~np.isfinite(rows))
    bad = np.flatnonzero(~np.isfinite(rows.data))
    of_row = np.searchsorted(rows.indptr, bad, side="right") - 1
    found = np.column_stack([of_row, rows.indices[bad]]).astype(np.intp)
    return np.asarray(found[np.lexsort((found[:, 1], found[:, 0]))])


def _culprit(X: Any) -> str:
    """Say which cell of a table is no number; "" where the table is none."""
    try:
        cells = np.asarray(X, object)
    except ValueError:  # rows of different lengths
        return ""
    if cells.ndim != 2:
        return ""
    names = list(getattr(X, "columns", range(cells.shape[1])))
    for name, column in zip(names, cells.T, strict=True):
        try:
            column.astype(np.float64)
        except (TypeError, ValueError):
            return no_number(str(name), column, first_row=0)
    return ""
