"""What remembers its last call gives what it would give anyway."""

from __future__ import annotations

from fedgeom.memo import remembers_last


def test_the_same_object_is_looked_at_once_and_another_anew():
    seen = []

    @remembers_last
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


def test_a_dictionary_that_was_changed_is_another():
    count = remembers_last(lambda keys: sum(value * len(name) for name, value in keys.items()))
    keys = {"a": 1000, "b": 2000}
    assert count(keys) == 3000
    keys["b"] = 3000
    assert count(keys) == 4000
    keys["c"] = 1
    assert count(keys) == 4001
    del keys["c"], keys["b"]
    keys["bb"] = 3000
    assert count(keys) == 7000


def test_a_tuple_is_the_same_if_it_is_the_very_same():
    seen = []

    @remembers_last
    def count(values: tuple[int, ...]) -> int:
        seen.append(values)
        return sum(values)

    first, equal = (tuple(range(1, 3)) for _ in range(2))
    assert [count(first), count(first), count(equal), count((3,))] == [3, 3, 3, 3]
    assert len(seen) == 3
