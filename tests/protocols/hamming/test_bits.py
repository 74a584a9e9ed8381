"""Bits, the plain distances, shares and letters of secure Hamming."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedgeom.errors import InputError, ProtocolError
from fedgeom.protocols.hamming import (
    PackedBits,
    open_shares,
    plain_distances,
)
from fedgeom.protocols.hamming.bits import PairMessage, read, write
from tests.protocols.hamming.words import flat
from tests.tiers import examples


def test_plain_distances_by_hand() -> None:
    one = PackedBits.of([[0, 0, 0, 0, 0, 0, 0, 0, 0], [1, 1, 1, 1, 1, 1, 1, 1, 1]])
    two = PackedBits.of([[1, 0, 0, 0, 0, 0, 0, 0, 1], [0, 0, 0, 0, 0, 0, 0, 0, 0]])
    assert plain_distances(one, two).tolist() == [[2, 0], [7, 9]]
    assert one.weights().tolist() == [0, 9]
    with pytest.raises(InputError, match="9 and of 8"):
        plain_distances(one, flat(1, 8, 0))


@examples(60)
@given(st.data(), st.integers(1, 9), st.integers(1, 4), st.integers(1, 12))
def test_opening_is_subtraction_of_long_numbers(data: st.DataObject, rows: int, columns: int, group: int) -> None:
    length = 65535
    wanted = np.array(
        data.draw(st.lists(st.integers(0, length), min_size=rows * columns, max_size=rows * columns))
    )
    wanted = wanted.reshape(rows, columns)
    helper = np.empty((rows, columns), np.uint16)
    asker = np.empty((rows, columns), np.uint16)
    for start in range(0, rows, group):
        size = min(group, rows - start)
        for column in range(columns):
            mask = data.draw(st.integers(0, 2 ** (16 * size) - 1))
            word = sum(int(wanted[start + at, column]) << 16 * at for at in range(size))
            for at in range(size):
                helper[start + at, column] = mask >> 16 * at & 0xFFFF
                asker[start + at, column] = (mask + word) >> 16 * at & 0xFFFF
    assert np.array_equal(open_shares(asker, helper, length, group), wanted)


def test_shares_that_do_not_belong_together_are_noticed() -> None:
    share = np.zeros((2, 2), np.uint16)
    with pytest.raises(ProtocolError, match="belong together"):
        open_shares(share, share + np.uint16(1), 100)
    with pytest.raises(ProtocolError, match="one shape"):
        open_shares(share, share[:1], 100)
    with pytest.raises(ProtocolError, match="uint16"):
        open_shares(share, share.astype(np.int64), 100)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("rows", "length", "message"),
    [
        (np.zeros((2, 2), np.uint8), 0, "0 bits"),
        (np.zeros((2, 8192), np.uint8), 65536, "65535"),
        (np.zeros((2, 2), np.uint8), 17, "3 uint8"),
        (np.zeros((0, 2), np.uint8), 16, "at least one row"),
        (np.zeros((2, 2), np.uint16), 16, "uint16"),
        (np.ones((2, 2), np.uint8), 15, "must be 0"),
    ],
)
def test_bits_are_checked(rows: np.ndarray, length: int, message: str) -> None:
    with pytest.raises(InputError, match=message):
        PackedBits(rows, length)


def test_only_zeros_and_ones_are_packed() -> None:
    with pytest.raises(InputError, match="zeros and ones"):
        PackedBits.of([[0, 2]])
    with pytest.raises(InputError, match="zeros and ones"):
        PackedBits.of([0, 1])


class _Example(PairMessage, frozen=True, tag="example"):
    one: bytes


def test_sizes_follow_from_the_reader() -> None:
    assert read(write(_Example(b"abc")), _Example, one=3).one == b"abc"
    with pytest.raises(ProtocolError, match="3 bytes; 4 wanted"):
        read(write(_Example(b"abc")), _Example, one=4)
    with pytest.raises(ProtocolError, match="at most"):
        read(bytes(1000), _Example, one=4)
