"""Numbers modulo a power of two in limbs: carried, rounded and written as whole numbers are."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedgeom.crypto.bfv_matrix import LARGE, SMALL, Modulus, short_words


def whole(limbs: list[np.ndarray], modulus: Modulus) -> list[int]:
    """Return numbers modulo q as Python has them."""
    q = 1 << modulus.limbs * modulus.bits
    rows = zip(*(limb.reshape(-1).tolist() for limb in limbs), strict=True)
    return [sum(limb << modulus.bits * at for at, limb in enumerate(row)) % q for row in rows]


def drawn(modulus: Modulus, seed: int, bits: int, *shape: int) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [rng.integers(-(2**bits), 2**bits, shape) for _ in range(modulus.limbs)]


@pytest.mark.parametrize("modulus", [SMALL, LARGE])
@given(seed=st.integers(0, 999), bits=st.integers(1, 61))
def test_carried_written_and_read_again_they_are_the_same_numbers(modulus: Modulus, seed: int, bits: int) -> None:
    limbs = drawn(modulus, seed, bits, 3, 5)
    settled = modulus.settled(limbs)
    assert all(limb.min() >= 0 and limb.max() < 2**modulus.bits for limb in settled)
    assert whole(settled, modulus) == whole(limbs, modulus)
    data = modulus.to_bytes(limbs)
    assert len(data) == 15 * modulus.size
    assert whole(modulus.from_bytes(data, 3, 5), modulus) == whole(limbs, modulus)


@pytest.mark.parametrize("modulus", [SMALL, LARGE])
def test_rounding_is_to_the_nearest_of_the_first_bits(modulus: Modulus) -> None:
    limbs, cut = drawn(modulus, 1, 50, 400), modulus.limbs * modulus.bits - 32
    for exact, found in zip(whole(limbs, modulus), modulus.rounded(limbs).tolist(), strict=True):
        off = (found - exact / 2**cut + 2**31) % 2**32 - 2**31
        assert abs(off) <= 0.5 + 2.0 ** (32 - modulus.bits)


@pytest.mark.parametrize("modulus", [SMALL, LARGE])
def test_a_message_stands_in_the_highest_bits(modulus: Modulus) -> None:
    limbs = [np.zeros(4, np.int64) for _ in range(modulus.limbs)]
    modulus.add_message(limbs, np.array([0, 1, 2**15, 2**16 - 1]))
    step = 1 << modulus.limbs * modulus.bits - 16
    assert whole(limbs, modulus) == [0, step, step << 15, step * (2**16 - 1)]


def test_the_sizes_that_travel() -> None:
    assert (SMALL.size, LARGE.size) == (11, 14)
    assert (SMALL.flood_bits, LARGE.flood_bits) == (71, 88)
    assert short_words(bytes([1, 0, 0, 0, 0, 1, 0, 0]), 1, 2).tolist() == [[1, 256]]
