"""Hashing: the angle law, the shared projection, exact distances, and randomised response."""

from __future__ import annotations

import math
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedgeom.errors import InputError
from fedgeom.geometry.graphs.lsh import (
    cosine_from_hamming,
    debias,
    flip_bits,
    hamming,
    hash_bits,
    projection_blocks,
)
from tests.tiers import examples

SEED = bytes(range(32))
GOLDEN: list[float] = [0.048031691157335216, 0.38037038924764927, 1.1035911288735158, 0.0915918433207483]


def pair_at(angle: float, d: int = 20) -> np.ndarray:
    rng = np.random.default_rng(7)
    basis, _ = np.linalg.qr(rng.normal(size=(d, 2)))
    return np.stack([basis[:, 0], math.cos(angle) * basis[:, 0] + math.sin(angle) * basis[:, 1]])


def test_the_projection_is_the_same_for_every_block_size() -> None:
    whole = np.vstack(list(projection_blocks(SEED, 40, 13, block=40)))
    for block in (1, 7, 16, 512):
        np.testing.assert_array_equal(np.vstack(list(projection_blocks(SEED, 40, 13, block))), whole)


def test_the_projection_is_fixed_for_all_machines() -> None:
    # The first numbers, written down once: a change here would make sites of different versions disagree.
    first = next(projection_blocks(SEED, 1, 4))[0]
    np.testing.assert_allclose(first, GOLDEN, rtol=1e-12)


def test_thousands_of_columns_fit_in_little_memory() -> None:
    """The whole projection for L = 4096 and d = 10,000 would be 313 MiB; blocks of it are made and dropped."""
    X = np.random.default_rng(0).normal(size=(20, 10_000))
    tracemalloc.start()
    try:
        bits = hash_bits(X, SEED, 4096)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert bits.shape == (20, 512)
    assert peak < 64 * 2**20
    np.testing.assert_array_equal(hash_bits(X, SEED, 64, block=8), bits[:, :8])


@pytest.mark.parametrize("byte", [0, 15, 16, 31])
def test_every_part_of_the_seed_matters(byte: int) -> None:
    other = bytearray(SEED)
    other[byte] ^= 1
    assert not np.array_equal(next(projection_blocks(bytes(other), 4, 4)), next(projection_blocks(SEED, 4, 4)))


def test_the_projection_is_standard_normal() -> None:
    values = np.sort(np.vstack(list(projection_blocks(SEED, 400, 250))).ravel())
    from scipy.stats import kstest

    assert kstest(values, "norm").pvalue > 1e-3


@pytest.mark.parametrize("angle", [0.0, 0.1, 0.7, math.pi / 2, 2.5, math.pi])
def test_the_angle_is_estimated_without_bias(angle: float) -> None:
    L, X = 65_528, pair_at(angle)
    bits = hash_bits(X, SEED, L)
    h = float(hamming(bits[:1], bits[1:], L)[0, 0])
    p = angle / math.pi
    assert abs(h / L - p) <= 4.5 * math.sqrt(p * (1 - p) / L) + 1e-12
    assert cosine_from_hamming(h, L) == pytest.approx(math.cos(angle), abs=4.5 * math.pi / 2 / math.sqrt(L))


@examples(25)
@given(st.integers(0, 2**32 - 1), st.floats(1e-6, 1e6))
def test_scaling_changes_no_bit_and_turning_round_changes_all(seed: int, factor: float) -> None:
    X = np.random.default_rng(seed).normal(size=(3, 6))
    bits = hash_bits(X, SEED, 64)
    np.testing.assert_array_equal(hash_bits(factor * X, SEED, 64), bits)
    np.testing.assert_array_equal(hash_bits(-X, SEED, 64), ~bits)


def test_a_rotation_of_all_rows_keeps_the_estimates_up_to_noise() -> None:
    rng = np.random.default_rng(0)
    X, L = rng.normal(size=(12, 8)), 16_384
    turn, _ = np.linalg.qr(rng.normal(size=(8, 8)))
    a, b = hash_bits(X, SEED, L), hash_bits(X @ turn, SEED, L)
    difference = hamming(a, a, L).astype(float) - hamming(b, b, L)
    assert np.abs(difference).max() <= 6 * math.sqrt(L / 2)


def test_rows_of_zeros_are_at_a_right_angle_to_others_and_equal_among_themselves() -> None:
    X = np.vstack([np.zeros((2, 5)), np.random.default_rng(0).normal(size=(3, 5))])
    H = hamming(*[hash_bits(X, SEED, 8192)] * 2, 8192)
    assert H[0, 1] == 0
    assert np.abs(cosine_from_hamming(H[0, 2:], 8192)).max() < 0.1


@examples(20)
@given(st.integers(1, 20), st.integers(0, 20), st.sampled_from([8, 64, 1000]), st.integers(0, 2**31))
def test_distances_are_exact(n: int, m: int, L: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    A, B = (rng.integers(0, 256, (rows, L // 8), dtype=np.uint8) for rows in (n, m))
    slow = np.unpackbits(A[:, None] ^ B[None], axis=2).sum(axis=2)
    fast = hamming(A, B, L)
    assert fast.dtype == np.uint16
    np.testing.assert_array_equal(fast, slow)


def test_distances_beyond_two_bytes_get_four() -> None:
    ones, zeros = np.full((1, 8200), 255, np.uint8), np.zeros((1, 8200), np.uint8)
    H = hamming(ones, zeros, 65_600)
    assert H.dtype == np.uint32
    assert H[0, 0] == 65_600


@pytest.mark.parametrize("rate", [0.0, 0.1, 0.3])
@pytest.mark.parametrize("both", [True, False])
def test_debiased_distances_of_flipped_bits_are_right_on_average(rate: float, both: bool) -> None:
    L, rng = 60_000, np.random.default_rng(1)
    bits = hash_bits(pair_at(0.8), SEED, L)
    true = float(hamming(bits[:1], bits[1:], L)[0, 0])
    a = flip_bits(bits[:1], rate, rng)
    b = flip_bits(bits[1:], rate, rng) if both else bits[1:]
    found = float(debias(hamming(a, b, L), L, rate, both=both)[0, 0])
    assert abs(found - true) <= 5 * math.sqrt(L / 4) / (1 - 2 * rate) ** 2
    if rate == 0:
        assert found == true


def test_the_share_of_flipped_bits_is_the_rate() -> None:
    zeros = np.zeros((4, 10_000), np.uint8)
    flipped = np.unpackbits(flip_bits(zeros, 0.2, np.random.default_rng(0))).mean()
    assert flipped == pytest.approx(0.2, abs=0.004)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: hash_bits(np.ones((2, 3)), b"short", 8), "32"),
        (lambda: hash_bits(np.ones((2, 3)), SEED, 12), "multiple of 8"),
        (lambda: hash_bits(np.array([[1.0, np.nan]]), SEED, 8), "missing"),
        (lambda: hash_bits(np.ones(3), SEED, 8), "one row per point"),
        (lambda: hamming(np.zeros((1, 2), np.uint8), np.zeros((1, 1), np.uint8), 16), "B is"),
        (lambda: flip_bits(np.zeros((1, 1), np.uint8), 0.5, np.random.default_rng(0)), "less than 0.5"),
    ],
)
def test_refuses(call: object, words: str) -> None:
    with pytest.raises(InputError, match=words):
        call()  # type: ignore[operator]
