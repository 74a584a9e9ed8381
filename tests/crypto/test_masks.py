"""Masks against arithmetic with whole numbers, and the key streams against published vectors."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest
from scipy.stats import chisquare

from fedgeom.crypto.masks import AesStream, KeyStream, Ring, add_masks, expand, stream_for

MODULI = [
    2, 3, 5, 2**8, 257, 2**31 - 1, 2**32, 2**32 + 15, 2**61 - 1, 2**62, 2**62 + 1, 2**62 + 2**61 + 3,
    2**63 - 25, 2**63 - 1, 2**63, 2**64,
]  # fmt: skip


def key(*parts: object) -> bytes:
    return hashlib.sha256(repr(parts).encode()).digest()


def vector(modulus: int, values: list[int]) -> np.ndarray:
    return np.array([v % modulus for v in values], dtype=np.uint64)


# RFC 8439, appendix A.1, vectors 1 and 2 (key 0, counters 0 and 1), and the stream of the key 00…01
ZERO_KEY_STREAM = bytes.fromhex(
    "76b8e0ada0f13d90405d6ae55386bd28bdd219b8a08ded1aa836efcc8b770dc7"
    "da41597c5157488d7724e03fb8d84a376a43b8f41518a11cc387b669b2ee6586"
    "9f07e7be5551387a98ba977c732d080dcb0f29a048e3656912c6533e32ee7aed"
    "29b721769ce64e43d57133b074d839d531ed1f28510afb45ace10a1f4b794d6f"
)
ONE_KEY_STREAM = bytes.fromhex("4540f05a9f1fb296d7736e7b208e3c96eb4fe1834688d2604f450952ed432d41")


# AES-256 of the blocks 0 and 1 under the key 0: H and the tag of test case 13 in "The Galois/Counter Mode of Operation"
ZERO_KEY_AES = bytes.fromhex("dc95c078a2408989ad48a21492842087530f8afbc74536b9a963b4f1c4cb738b")


def words_of(stream: bytes) -> list[int]:
    return [int.from_bytes(stream[i : i + 8], "little") for i in range(0, len(stream), 8)]


def test_the_key_stream_is_chacha20_of_rfc_8439_in_little_endian_words() -> None:
    assert KeyStream(bytes(32)).words(16).tolist() == words_of(ZERO_KEY_STREAM)
    assert KeyStream(bytes(31) + b"\x01").words(4).tolist() == words_of(ONE_KEY_STREAM)


def test_modulo_a_prime_the_key_stream_is_aes_256_in_counter_mode() -> None:
    assert AesStream(bytes(32)).words(4).tolist() == words_of(ZERO_KEY_AES)
    assert type(stream_for(bytes(32), Ring(2**61 - 1))) is AesStream
    assert expand(bytes(32), Ring(2**61 - 1), 4).tolist() == [w % 2**61 for w in words_of(ZERO_KEY_AES)]


def test_a_long_mask_over_2_to_the_64_is_the_key_stream() -> None:
    assert expand(bytes(32), Ring(2**64), 129)[:16].tolist() == words_of(ZERO_KEY_STREAM)
    assert expand(bytes(32), Ring(2**8), 129)[:16].tolist() == [w % 256 for w in words_of(ZERO_KEY_STREAM)]


@pytest.mark.parametrize("length", [0, 1, 3, 128])
def test_a_short_mask_over_2_to_the_64_is_shake_256_of_the_key(length: int) -> None:
    stream = hashlib.shake_256(b"fedgeom short mask " + bytes(32)).digest(8 * length)
    assert expand(bytes(32), Ring(2**64), length).tolist() == words_of(stream)
    assert expand(bytes(32), Ring(2**8), length).tolist() == [w % 256 for w in words_of(stream)]


def test_shake_256_is_that_of_fips_202() -> None:
    assert (
        hashlib.shake_256(b"").hexdigest(32) == "46b9dd2b0ba88d13233b3feb743eeb243fcd52ea62b81b82b50c27646ed5762f"
    )


def test_the_key_stream_goes_on_across_pieces() -> None:
    n = 3 * 2**14 + 5  # more than two pieces of 128 KiB
    whole = KeyStream(key("pieces")).words(n)
    stream = KeyStream(key("pieces"))
    parts = np.concatenate([stream.words(k) for k in (1, 2**13, 7, n - 2**13 - 8)])
    assert (whole == parts).all()
    assert len(np.unique(whole)) == n


@pytest.mark.parametrize("modulus", MODULI)
def test_masks_are_the_accepted_words_in_order(modulus: int) -> None:
    ring, length = Ring(modulus), 500
    accepted = [w % 2**ring.bits for w in stream_for(key(modulus), ring).words(8 * length).tolist()]
    wanted = [w for w in accepted if w < modulus][:length]
    assert expand(key(modulus), ring, length).tolist() == wanted


@pytest.mark.parametrize("modulus", [3, 257, 2**62 + 1, 2**62 + 2**61 + 3, 2**63 - 25, 2**64])
def test_a_shorter_mask_is_the_beginning_of_a_longer_one(modulus: int) -> None:
    ring = Ring(modulus)
    whole = expand(key("prefix"), ring, 400)
    for n in (129, 200, 399) if ring.is_power_of_two else (0, 1, 2, 17, 399):
        assert expand(key("prefix"), ring, n).tolist() == whole[:n].tolist()


@pytest.mark.parametrize(
    "modulus", [2, 3, 5, 7, 100, 257, 2**62 + 2**61 + 3, 2**62 + 1, 2**63 - 25, 2**61 - 1, 2**64]
)
def test_masks_are_uniform(modulus: int) -> None:
    values = expand(key("uniform", modulus), Ring(modulus), 60_000)
    bins = min(modulus, 50)
    counted = np.bincount([v * bins // modulus for v in values.tolist()], minlength=bins)
    expected = [(-(-(b + 1) * modulus // bins) - -(-b * modulus // bins)) / modulus * 60_000 for b in range(bins)]
    assert chisquare(counted, expected).pvalue > 1e-3  # the keys are fixed, so this cannot flicker
    if modulus > 2**32:  # the lowest bits too
        low = np.bincount([v % 16 for v in values.tolist()], minlength=16)
        assert chisquare(low).pvalue > 1e-3


def test_a_biased_reduction_would_fail_the_uniformity_test() -> None:
    modulus = 2**62 + 2**61 + 3
    biased = KeyStream(key("biased")).words(60_000) % np.uint64(modulus)
    counted = np.bincount([v * 50 // modulus for v in biased.tolist()], minlength=50)
    assert chisquare(counted).pvalue < 1e-6


@pytest.mark.parametrize("modulus", MODULI)
@pytest.mark.parametrize("many", [0, 1, 2, 3, 9])
def test_adding_masks_equals_whole_number_arithmetic(modulus: int, many: int) -> None:
    ring, length = Ring(modulus), 20
    start = vector(modulus, [modulus - 1] * length)
    plus, minus = [key("+", i) for i in range(many)], [key("-", i) for i in range(many // 2)]
    wanted = [int(v) for v in start]
    for sign, keys in ((1, plus), (-1, minus)):
        for one in keys:
            wanted = [w + sign * int(m) for w, m in zip(wanted, expand(one, ring, length), strict=True)]
    masked = add_masks(start, ring, plus=plus, minus=minus)
    assert masked.tolist() == [w % modulus for w in wanted]
    assert add_masks(masked, ring, plus=minus, minus=plus).tolist() == start.tolist()


def test_adding_masks_leaves_the_vector_alone() -> None:
    start = np.arange(5, dtype=np.uint64)
    add_masks(start, Ring(97), plus=[key(1)], minus=[key(2)])
    assert start.tolist() == [0, 1, 2, 3, 4]


def test_many_masks_in_a_small_ring_never_overflow() -> None:
    ring, keys = Ring(2**61 - 1), [key("many", i) for i in range(40)]
    wanted = sum((expand(k, ring, 3).astype(object) for k in keys), np.zeros(3, object)) % ring.modulus
    assert add_masks(np.zeros(3, np.uint64), ring, plus=keys).tolist() == wanted.tolist()


@pytest.mark.parametrize("modulus", [2**8, 2**32, 2**63, 2**64])
@pytest.mark.parametrize("length", [0, 1, 2**14 - 1, 2**14, 2**15 + 3])
def test_masks_made_piece_by_piece_are_those_of_the_whole(modulus: int, length: int) -> None:
    ring, rng = Ring(modulus), np.random.default_rng(length)
    start = ring.reduce(rng.integers(0, 2**64, length, dtype=np.uint64))
    plus, minus = [key("plus", i) for i in range(3)], [key("minus", i) for i in range(2)]
    wanted = start
    for one in plus:
        wanted = ring.add(wanted, expand(one, ring, length))
    for one in minus:
        wanted = ring.subtract(wanted, expand(one, ring, length))
    before = start.copy()
    assert (add_masks(start, ring, plus=plus, minus=minus) == wanted).all()
    assert (start == before).all()
    assert add_masks(start, ring, plus=plus, minus=minus, in_place=True) is start
    assert (start == wanted).all()
