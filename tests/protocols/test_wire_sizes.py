"""Sizes are those of messages."""

from __future__ import annotations

import msgspec
import pytest

from fedgeom.federation.plan import bytes_size, map_header, text_size, words


@pytest.mark.parametrize("count", [0, 15, 16, 255, 256, 65_535, 65_536])
def test_sizes_are_those_of_messages(count: int) -> None:
    assert bytes_size(count) == len(msgspec.msgpack.encode(bytes(count)))
    text = "é" * min(count, 300)
    assert text_size(text) == len(msgspec.msgpack.encode(text))
    assert words(count).shape == (count,)
    assert map_header(count) == len(msgspec.msgpack.encode(dict.fromkeys(range(count), 0))) - sum(
        1 + len(msgspec.msgpack.encode(at)) for at in range(count)
    )
