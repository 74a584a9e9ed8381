"""Secure Hamming by packed lattice encryption."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedgeom import memo
from fedgeom.crypto import bfv
from fedgeom.crypto.bfv import MARGIN_BITS, leak_bits
from fedgeom.errors import ProtocolError
from fedgeom.protocols.hamming import (
    PackedBits,
    converse,
    plain_distances,
    variant,
)
from fedgeom.protocols.hamming.bfv import layout
from tests.protocols.hamming.words import bits, even, flat, opened
from tests.tiers import examples


def test_the_farthest_possible_distance_is_not_zero() -> None:
    """Modulo L, as the paper has it, these two would be the same."""
    pytest.importorskip("seal")
    length = 65535
    asker, helper = flat(1, length, 0), PackedBits.of(np.vstack([np.zeros(length), np.ones(length)]))
    assert opened(variant("bfv"), asker, helper).tolist() == [[0, length]]


@examples(40)
@given(st.integers(1, 30), st.integers(1, 30), st.integers(1, 400), st.integers(0, 99))
def test_packed_lattice_on_any_size(one: int, other: int, length: int, seed: int) -> None:
    pytest.importorskip("seal")
    asker, helper = bits(one, length, seed), bits(other, length, seed + 1)
    assert np.array_equal(opened(variant("bfv"), asker, helper), plain_distances(asker, helper))


@pytest.mark.parametrize(
    "sizes", [(100, 100, 4096), (1, 1, 1), (1000, 7, 4096), (7, 1000, 100), (5000, 5000, 65535)]
)
def test_layouts_fit_and_cover(sizes: tuple[int, int, int]) -> None:
    plan = layout(*sizes)
    places = plan.places()
    assert places.max() < 8192
    assert len(set(places.tolist())) == plan.rows * plan.columns
    assert plan.depth * plan.pieces >= sizes[2] > plan.depth * (plan.pieces - 1)
    assert plan.rows * plan.row_groups * 3 >= sizes[0]
    assert plan.columns * plan.column_groups >= sizes[1]


@pytest.mark.parametrize("points", [1, 100, 1000, 1500, 3000, 10_000, 30_000])
def test_every_layout_keeps_the_margin_of_its_noise(points: int) -> None:
    for other in (1, points):
        plan = layout(points, other, 4096)
        answers = plan.row_groups * plan.column_groups * plan.rows * plan.columns
        assert answers * 3 >= points * other
        assert leak_bits(4096, plan.columns, answers, plan.primes) >= MARGIN_BITS
    assert layout(1000, 1000, 4096).primes == 2
    assert layout(30_000, 30_000, 4096).primes == 3


def test_with_three_primes_distances_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("seal")
    asker, helper = bits(20, 300, 1), bits(9, 300, 2)
    memo.clear(layout)
    monkeypatch.setattr(bfv, "MARGIN_BITS", 60)  # more than two primes give
    try:
        assert layout(20, 9, 300).primes == 3
        assert np.array_equal(opened(variant("bfv"), asker, helper), plain_distances(asker, helper))
    finally:
        memo.clear(layout)


def test_a_site_helps_with_no_more_points_than_noise_hides(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("seal")
    memo.clear(layout)
    monkeypatch.setattr(bfv, "MARGIN_BITS", 200)
    for turn in (
        lambda: variant("bfv").begin(bits(3, 8), 5),
        lambda: variant("bfv").step_b(bits(3, 8), 5, None, b""),
    ):
        with pytest.raises(ProtocolError, match="compare fewer rows at a time"):
            turn()
    memo.clear(layout)


@pytest.mark.parametrize("value", [0, 1])
def test_lattice_letters_are_uniform(value: int) -> None:
    pytest.importorskip("seal")
    talk = converse(variant("bfv"), flat(90, 300, value), flat(60, 300, 1 - value))
    for letter in talk.letters:
        for field in msgspec.msgpack.decode(letter)[-2:]:
            if len(field) == 8 * 6 * 8192:
                continue  # a public key, in part modulo a small prime
            low = np.frombuffer(field, "<u8") & np.uint64(2**16 - 1)  # the top bits follow the primes
            assert even(low.astype("<u2").view(np.uint8))
