"""What a process keeps of its own work from one question to the next, so that it need not be done again.

It is no memory of a site: whatever is missing is computed again, with the same outcome. A deployed site that answers
each question in a new process finds nothing here.
"""

from __future__ import annotations

import zlib
from collections import OrderedDict
from collections.abc import Callable
from threading import Lock
from typing import Any

import numpy as np
import numpy.typing as npt

from fedgeom.arrays import Floats
from fedgeom.crypto.keys import fingerprint

MOST_BYTES = 2**32
"""How much is kept in all; the oldest goes first."""

_KEPT: OrderedDict[bytes, Floats] = OrderedDict()
_LOCK = Lock()


def stamp(X: npt.NDArray[Any], y: npt.NDArray[Any], *more: bytes | memoryview) -> bytes:
    """Return a name for work on a table: it differs where the table, or anything else that is given, differs."""
    table = zlib.crc32(np.ascontiguousarray(X).data.cast("B")) if X.size else 0
    labels = zlib.crc32(np.ascontiguousarray(y).tobytes())
    return fingerprint(f"{X.shape} {X.dtype} {table} {labels}".encode(), *more)


def once(name: bytes, work: Callable[[], Floats]) -> Floats:
    """Return the outcome of some work, from before where it is still there."""
    with _LOCK:
        found = _KEPT.get(name)
    if found is None:
        found = work()  # outside the lock: several sites of one process may be at work
    with _LOCK:
        _KEPT[name] = found
        _KEPT.move_to_end(name)
        while len(_KEPT) > 1 and sum(one.nbytes for one in _KEPT.values()) > MOST_BYTES:
            _KEPT.popitem(last=False)
    return found


def forget(name: bytes) -> None:
    """Drop what will not be needed again."""
    with _LOCK:
        _KEPT.pop(name, None)
