"""Work that is kept within a process."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from fedgeom.methods.ridge import work


def test_work_is_done_once_until_it_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[int] = []

    def make() -> np.ndarray:
        done.append(1)
        return np.zeros(1000)

    assert work.once(b"a", make) is work.once(b"a", make)
    assert len(done) == 1
    work.forget(b"a")
    work.once(b"a", make)
    assert len(done) == 2
    monkeypatch.setattr(work, "MOST_BYTES", 12_000)
    work.once(b"b", make)  # there is room for one
    work.once(b"a", make)
    assert len(done) == 4
    work.forget(b"a")


def test_the_name_of_work_differs_where_anything_differs() -> None:
    X, y = np.arange(6.0).reshape(2, 3), np.array(["a", "b"])
    names = {
        work.stamp(X, y),
        work.stamp(X + 1, y),
        work.stamp(X, y[::-1]),
        work.stamp(X, y, b"more"),
        work.stamp(X.astype(np.float32), y),
        work.stamp(X.reshape(3, 2), y),
        work.stamp(X[:0], y),
    }
    assert len(names) == 7


def test_threads_that_push_each_others_work_out_do_no_harm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(work, "MOST_BYTES", 100)

    def many(name: bytes) -> bool:
        return all(work.once(name, lambda: np.full(50, name[0])).tolist() == [name[0]] * 50 for _ in range(200))

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(many, [b"a", b"b", b"c", b"d"]))
    for name in (b"a", b"b", b"c", b"d"):
        work.forget(name)
