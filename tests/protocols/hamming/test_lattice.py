"""Secure Hamming by lattice encryption as products of matrices."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedgeom.crypto import bfv_matrix
from fedgeom.crypto.bfv_matrix import LARGE, MARGIN_BITS, leak_bits, modulus_for
from fedgeom.errors import ProtocolError
from fedgeom.protocols.hamming import (
    PackedBits,
    converse,
    plain_distances,
    variant,
)
from tests.protocols.hamming.words import bits, even, flat, opened
from tests.tiers import examples


@pytest.mark.full
def test_the_farthest_possible_distance_is_not_zero() -> None:
    """Modulo L, as the paper has it, these two would be the same."""
    length = 65535
    asker, helper = flat(1, length, 0), PackedBits.of(np.vstack([np.zeros(length), np.ones(length)]))
    assert opened(variant("lattice"), asker, helper).tolist() == [[0, length]]


@examples(40)
@given(st.integers(1, 30), st.integers(1, 30), st.integers(1, 400), st.integers(0, 99))
def test_packed_lattice_on_any_size(one: int, other: int, length: int, seed: int) -> None:
    asker, helper = bits(one, length, seed), bits(other, length, seed + 1)
    assert np.array_equal(opened(variant("lattice"), asker, helper), plain_distances(asker, helper))


@pytest.mark.parametrize("points", [1, 100, 1000, 1500, 3000, 10_000, 30_000, 100_000])
def test_every_number_of_points_keeps_the_margin_of_its_noise(points: int) -> None:
    for other in (1, points):
        assert leak_bits(4096, points * other, modulus_for(4096, points * other)) >= MARGIN_BITS


def test_with_the_larger_modulus_distances_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    asker, helper = bits(20, 300, 1), bits(9, 300, 2)
    monkeypatch.setattr(bfv_matrix, "MARGIN_BITS", 60)  # more than the smaller one gives
    assert modulus_for(300, 20 * 9) == LARGE
    assert np.array_equal(opened(variant("lattice"), asker, helper), plain_distances(asker, helper))


def test_a_site_helps_with_no_more_points_than_noise_hides(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bfv_matrix, "MARGIN_BITS", 200)
    for turn in (
        lambda: variant("lattice").begin(bits(3, 8), 5),
        lambda: variant("lattice").step_b(bits(3, 8), 5, None, b""),
    ):
        with pytest.raises(ProtocolError, match="compare fewer rows at a time"):
            turn()


def test_a_state_of_another_size_is_of_another_turn() -> None:
    asker, helper = bits(3, 8), bits(5, 8)
    first = variant("lattice").begin(asker, 5)
    letter = variant("lattice").step_b(helper, 3, None, first.letter or b"").letter or b""
    with pytest.raises(ProtocolError, match="another turn"):
        variant("lattice").step_a(asker, 5, b"short", letter)


@pytest.mark.parametrize("value", [0, 1])
def test_lattice_letters_are_uniform(value: int) -> None:
    talk = converse(variant("lattice"), flat(90, 300, value), flat(60, 300, 1 - value))
    for letter in talk.letters:
        for field in msgspec.msgpack.decode(letter)[-2:]:
            assert even(np.frombuffer(field, np.uint8))
