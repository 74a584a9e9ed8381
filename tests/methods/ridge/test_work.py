"""Work that is kept within a process is known by a name."""

from __future__ import annotations

import numpy as np

from fedgeom.methods.ridge import site


def test_the_name_of_work_differs_where_anything_differs() -> None:
    X, y = np.arange(6.0).reshape(2, 3), np.array(["a", "b"])
    names = {
        site.stamp(X, y),
        site.stamp(X + 1, y),
        site.stamp(X, y[::-1]),
        site.stamp(X, y, b"more"),
        site.stamp(X.astype(np.float32), y),
        site.stamp(X.reshape(3, 2), y),
        site.stamp(X[:0], y),
    }
    assert len(names) == 7
