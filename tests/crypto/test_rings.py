"""Rings against arithmetic with whole numbers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedgeom.crypto.masks import Ring
from fedgeom.errors import InputError
from tests.tiers import examples

MODULI = [
    2, 3, 5, 2**8, 257, 2**31 - 1, 2**32, 2**32 + 15, 2**61 - 1, 2**62, 2**62 + 1, 2**62 + 2**61 + 3,
    2**63 - 25, 2**63 - 1, 2**63, 2**64,
]  # fmt: skip


def vector(modulus: int, values: list[int]) -> np.ndarray:
    return np.array([v % modulus for v in values], dtype=np.uint64)


BIG = st.lists(st.integers(0, 2**64 - 1), min_size=1, max_size=6)


@examples(150)
@given(modulus=st.sampled_from(MODULI), a=BIG, b=BIG)
def test_rings_add_and_subtract_like_whole_numbers(modulus: int, a: list[int], b: list[int]) -> None:
    n = min(len(a), len(b))
    ring, x, y = Ring(modulus), vector(modulus, a[:n]), vector(modulus, b[:n])
    added = [(int(i) + int(j)) % modulus for i, j in zip(x, y, strict=True)]
    taken = [(int(i) - int(j)) % modulus for i, j in zip(x, y, strict=True)]
    assert ring.add(x, y).tolist() == added
    assert ring.subtract(x, y).tolist() == taken
    assert ring.subtract(ring.add(x, y), y).tolist() == x.tolist()
    assert ring.add(x, y).tolist() == ring.add(y, x).tolist()


@pytest.mark.parametrize("modulus", MODULI)
def test_rings_hold_at_their_edges(modulus: int) -> None:
    ring, top = Ring(modulus), vector(modulus, [modulus - 1])
    zero, one = vector(modulus, [0]), vector(modulus, [1])
    assert ring.add(top, one).tolist() == [0]
    assert ring.subtract(zero, one).tolist() == [modulus - 1]
    assert ring.add(top, top).tolist() == [(2 * modulus - 2) % modulus]
    assert ring.subtract(zero, zero).tolist() == [0]
    assert ring.reduce(np.array([2**64 - 1], np.uint64)).tolist() == [(2**64 - 1) % modulus]
    assert ring.bits == (modulus - 1).bit_length()


@pytest.mark.parametrize("modulus", [-1, 0, 1, 2**63 + 1, 2**64 - 1, 2**64 + 1, 2**65])
def test_moduli_that_overflow_are_refused(modulus: int) -> None:
    with pytest.raises(InputError, match="wanted 2"):
        Ring(modulus)


def test_ring_elements_are_checked() -> None:
    ring = Ring(7)
    assert ring.check(np.array([0, 6], np.int32)).dtype == np.uint64
    assert Ring(2**64).check(np.array([2**64 - 1], np.uint64)).tolist() == [2**64 - 1]
    for bad in ([[1]], [1.0], [7], [-1], [0, 0, 9]):
        with pytest.raises(InputError):
            ring.check(np.array(bad))
    with pytest.raises(InputError, match="entry 2 is -5, outside 0 … 6"):
        ring.check(np.array([0, 6, -5, 8]))
