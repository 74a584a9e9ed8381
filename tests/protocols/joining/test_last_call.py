"""What remembers its last call gives what it would give anyway."""

from __future__ import annotations

from fedgeom.protocols.joining.last_call import remembers_last


def test_the_same_object_is_looked_at_once_and_another_anew():
    seen = []

    @remembers_last
    def count(run: bytes, keys: dict[str, int], draw: int = 0) -> int:
        seen.append(draw)
        return sum(keys.values()) + draw

    keys, equal = {"a": 1, "b": 2}, {"a": 1, "b": 2}
    assert [count(b"run", keys), count(bytes(bytearray(b"run")), keys)] == [3, 3]
    assert len(seen) == 1
    assert count(b"run", equal) == 3  # equal, but who knows: another object
    assert len(seen) == 2
    assert count(b"other", equal) == 3
    assert count(b"other", equal, 4) == 7
    assert count(b"other", equal, draw=5) == 8
    assert count(b"other", equal, draw=5) == 8
    assert count(b"other", equal) == 3
    assert len(seen) == 7
