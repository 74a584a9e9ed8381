"""What is kept is what the function would give anyway, within bounds, and no longer than it should."""

from __future__ import annotations

import gc
import os
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor

import msgspec
import numpy as np
import pytest

from fedgeom import memo
from fedgeom.memo import Store, memoize, memoize_last, memoize_per_object


class Table:
    """Something that is alive for a while."""


def test_equal_arguments_are_looked_at_once_and_the_least_used_goes_first() -> None:
    seen: list[int] = []

    @memoize(2)
    def double(x: int) -> int:
        seen.append(x)
        return 2 * x

    assert [double(x) for x in (1, 2, 1, 3, 1, 2)] == [2, 4, 2, 6, 2, 4]
    assert seen == [1, 2, 3, 2]
    memo.clear(double)
    assert double(2) == 4
    assert seen == [1, 2, 3, 2, 2]


def test_with_a_key_only_the_key_counts_and_the_oldest_goes_first() -> None:
    seen: list[str] = []

    @memoize(2, key=lambda name, rows, *, scale=1: (name, scale))
    def total(name: str, rows: list[int], *, scale: int = 1) -> int:
        seen.append(name)
        return scale * sum(rows)

    assert total("a", [1, 2]) == total("a", [1, 2, 3]) == 3
    assert total("a", [1, 2], scale=2) == 6
    assert total("b", [4]) == 4
    assert total("a", [1, 2, 3]) == 6
    assert seen == ["a", "a", "b", "a"]


@pytest.mark.parametrize("key", [None, lambda x: x])
def test_a_call_that_fails_keeps_nothing(key: object) -> None:
    seen: list[int] = []

    @memoize(4, key=key)  # type: ignore[arg-type]
    def fail(x: int) -> int:
        seen.append(x)
        return 1 // x

    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            fail(0)
    assert seen == [0, 0]
    assert fail(1) == fail(1) == 1
    assert seen == [0, 0, 1]


def test_none_is_a_result_like_others() -> None:
    seen: list[int] = []
    check = memoize(4, key=lambda x: x)(seen.append)
    check(1)
    check(1)
    assert seen == [1]


def test_a_store_keeps_no_more_bytes_than_it_may_but_always_the_latest() -> None:
    store, done = Store[np.ndarray](max_bytes=12_000), list[bytes]()

    def find(name: bytes, length: int = 1000) -> np.ndarray:
        return store.find(name, lambda: done.append(name) or np.zeros(length))  # type: ignore[func-returns-value]

    assert find(b"a") is find(b"a")
    store.drop(b"a")
    store.drop(b"a")
    find(b"a")
    find(b"b")  # there is room for one
    find(b"a")
    find(b"c", 10_000)
    find(b"c")
    assert done == [b"a", b"a", b"b", b"a", b"c"]
    assert len(store) == 1
    store.clear()
    assert len(store) == 0


def test_threads_that_push_each_others_work_out_do_no_harm() -> None:
    store = Store[np.ndarray](2, max_bytes=600)

    def many(name: bytes) -> bool:
        made = (store.find(name, lambda: np.full(50, name[0])) for _ in range(500))
        return all(one.tolist() == [name[0]] * 50 for one in made)

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(many, [b"a", b"b", b"c", b"d"]))
    assert len(store) == 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes cannot be forked here")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_process_that_is_forked_while_a_result_is_put_in_goes_on() -> None:
    store, held, over = Store[int](4), threading.Event(), threading.Event()

    def hold() -> None:
        with memo._LOCK:
            held.set()
            over.wait(60)

    holder = threading.Thread(target=hold)
    holder.start()
    held.wait(60)
    child = os.fork()
    if not child:
        found = threading.Thread(target=store.find, args=("a", lambda: 1), daemon=True)
        found.start()
        found.join(30)
        os._exit(len(store))
    _, status = os.waitpid(child, 0)
    over.set()
    holder.join()
    assert os.waitstatus_to_exitcode(status) == 1


def test_the_same_arguments_are_looked_at_once_and_others_anew() -> None:
    seen = []

    @memoize_last
    def count(run: bytes, keys: dict[str, int], draw: int = 0) -> int:
        seen.append(draw)
        return sum(keys.values()) + draw

    keys = {"a": 1000, "b": 2000}
    assert [count(b"run", keys), count(bytes(bytearray(b"run")), dict(keys))] == [3000, 3000]
    assert len(seen) == 1
    assert count(b"other", keys) == 3000
    assert count(b"other", keys, 4) == 3004
    assert len(seen) == 3
    assert [count(b"other", keys, draw=5), count(b"other", keys, draw=5)] == [3005, 3005]
    assert len(seen) == 5


def test_a_dictionary_that_was_changed_is_another() -> None:
    count = memoize_last(lambda keys: sum(value * len(name) for name, value in keys.items()))
    keys = {"a": 1000, "b": 2000}
    assert count(keys) == 3000
    keys["b"] = 3000
    assert count(keys) == 4000
    keys["c"] = 1
    assert count(keys) == 4001
    del keys["c"], keys["b"]
    keys["bb"] = 3000
    assert count(keys) == 7000


class Frozen(msgspec.Struct, frozen=True):
    """A message."""

    values: tuple[int, ...]


class Open(msgspec.Struct):
    """What somebody may change."""

    values: tuple[int, ...]


@pytest.mark.parametrize("kind", [tuple, Frozen])
def test_a_tuple_or_a_struct_is_the_same_if_it_is_the_very_same(kind: type) -> None:
    seen: list[object] = []
    look = memoize_last(lambda value: seen.append(value))
    first, equal = (kind(tuple(range(1, 3))) for _ in range(2))
    for value in (first, first, equal):
        look(value)
    assert len(seen) == 2


@pytest.mark.parametrize("value", [Open((1,)), [1], {1}, np.ones(2), 1.5])
def test_what_may_change_or_be_equal_and_yet_differ_is_looked_at_each_time(value: object) -> None:
    seen: list[object] = []
    look = memoize_last(lambda value: seen.append(value))
    look(value)
    look(value)
    assert len(seen) == 2


def test_numbers_that_are_equal_but_of_another_type_differ() -> None:
    kinds = memoize_last(lambda value: type(value))
    assert [kinds(1), kinds(True), kinds(1)] == [int, bool, int]


def test_equal_arrays_that_nobody_can_write_to_are_the_same() -> None:
    seen: list[object] = []

    @memoize_last
    def total(key: bytes, vector: np.ndarray) -> int:
        seen.append(1)
        return int(vector.sum())

    first, second, floats = (np.frombuffer(bytes(16), kind) for kind in (np.int64, np.int64, np.float64))
    assert [total(b"", first), total(b"", second), total(b"", floats)] == [0, 0, 0]
    assert len(seen) == 2
    changing = np.zeros(2, np.int64)
    assert total(b"", changing) == 0
    changing[0] = 5
    assert total(b"", changing) == 5


def test_with_a_key_the_very_same_objects_are_the_same() -> None:
    seen: list[object] = []

    @memoize_last(key=lambda view, kind: (view.obj, kind))
    def read(view: memoryview, kind: type) -> object:
        seen.append(kind)
        return kind(view)

    first, equal = bytes(bytearray(b"some")), bytes(bytearray(b"some"))
    for given, kind in ((first, bytes), (first, bytes), (first, bytearray), (equal, bytearray)):
        assert read(memoryview(given), kind) == b"some"
    assert seen == [bytes, bytearray, bytearray]


def test_the_last_result_goes_before_the_next_is_made() -> None:
    made: list[weakref.ref[Table]] = []

    @memoize_last
    def make(number: int) -> Table:
        assert all(one() is None for one in made)
        found = Table()
        made.append(weakref.ref(found))
        return found

    for number in range(3):
        make(number)
    memo.clear(make)
    assert made[-1]() is None


def test_each_object_has_a_result_as_long_as_it_is_alive() -> None:
    seen: list[int] = []

    @memoize_per_object(key=lambda table, seed: seed)
    def part(table: Table | None, seed: int) -> Table:
        seen.append(seed)
        return Table()

    first, second = Table(), Table()
    assert part(first, 1) is part(first, 1)
    assert part(second, 1) is part(second, 1) is not part(first, 1)
    assert seen == [1, 1]
    assert part(first, 2) is part(first, 2)
    part(first, 1)  # one result an object
    assert seen == [1, 1, 2, 1]
    kept = weakref.ref(part(first, 1))
    del first
    gc.collect()
    assert kept() is None
    part(second, 1)
    assert len(seen) == 4
    assert part(None, 1) is not part(None, 1)


def test_everything_can_be_cleared() -> None:
    seen: list[str] = []
    table, store = Table(), Store[None](4)
    by_value, by_key = memoize(1)(seen.append), memoize(1, key=lambda one: one)(seen.append)
    last, per_object = (
        memoize_last(seen.append),
        memoize_per_object(key=lambda *_: 1)(lambda _, one: seen.append(one)),
    )

    def call_all() -> None:
        for function in (by_value, by_key, last):
            function("a")
        per_object(table, "a")
        store.find("a", lambda: seen.append("a"))

    for times in (1, 2):
        call_all()
        call_all()
        assert len(seen) == 5 * times
        memo.clear()
