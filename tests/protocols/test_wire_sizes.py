"""Sizes are those of messages."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from fedgeom.federation.messages import Array
from fedgeom.federation.plan import array_size, bytes_size, map_header, number_size, text_size, words


@pytest.mark.parametrize("count", [0, 15, 16, 255, 256, 65_535, 65_536])
def test_sizes_are_those_of_messages(count: int) -> None:
    assert bytes_size(count) == len(msgspec.msgpack.encode(bytes(count)))
    text = "é" * min(count, 300)
    assert text_size(text) == len(msgspec.msgpack.encode(text))
    assert words(count).shape == (count,)
    assert map_header(count) == len(msgspec.msgpack.encode(dict.fromkeys(range(count), 0))) - sum(
        1 + len(msgspec.msgpack.encode(at)) for at in range(count)
    )


@pytest.mark.parametrize("number", [0, 127, 128, 255, 256, 65_535, 65_536, 2**32 - 1, 2**32])
def test_numbers_and_arrays_too(number: int) -> None:
    assert number_size(number) == len(msgspec.msgpack.encode(number))
    rows = min(number, 65_536)
    for dtype, array in (("u1", np.zeros(rows, np.uint8)), ("u2", np.zeros((rows, 3), np.uint16))):
        assert array_size(dtype, *array.shape) == len(msgspec.msgpack.encode(Array.of(array)))
