"""Work that is kept within a process."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from fedgeom.methods.ridge import site


def test_work_is_done_once_until_it_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[int] = []

    def make() -> np.ndarray:
        done.append(1)
        return np.zeros(1000)

    assert site.once(b"a", make) is site.once(b"a", make)
    assert len(done) == 1
    site.forget(b"a")
    site.once(b"a", make)
    assert len(done) == 2
    monkeypatch.setattr(site, "MOST_BYTES", 12_000)
    site.once(b"b", make)  # there is room for one
    site.once(b"a", make)
    assert len(done) == 4
    site.forget(b"a")


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


def test_threads_that_push_each_others_work_out_do_no_harm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(site, "MOST_BYTES", 100)

    def many(name: bytes) -> bool:
        return all(site.once(name, lambda: np.full(50, name[0])).tolist() == [name[0]] * 50 for _ in range(200))

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(many, [b"a", b"b", b"c", b"d"]))
    for name in (b"a", b"b", b"c", b"d"):
        site.forget(name)
