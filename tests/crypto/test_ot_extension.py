"""The extension of base transfers: against slow twins, and for what each side sees."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import ECB
from scipy.stats import chisquare

from fedgeom.crypto.oblivious_transfer import (
    COLUMNS,
    RowHash,
    new_delta,
    receiver_columns,
    receiver_rows,
    sender_rows,
    transpose,
)


def keys(label: str) -> list[bytes]:
    return [hashlib.sha256(f"{label} {at}".encode()).digest() for at in range(COLUMNS)]


def even(data: np.ndarray) -> bool:
    """Whether bytes look uniform (a wrong alarm once in a million)."""
    return bool(chisquare(np.bincount(data.ravel(), minlength=256)).pvalue > 1e-6)


@pytest.mark.parametrize(("high", "width"), [(8, 1), (8, 5), (128, 1), (128, 37), (24, 3)])
def test_transposition_is_that_of_the_bits(high: int, width: int) -> None:
    columns = np.random.default_rng(high * width).integers(0, 256, (high, width), np.uint8)
    slow = np.packbits(np.unpackbits(columns, axis=1).T, axis=1)
    assert np.array_equal(transpose(columns), slow)


def test_rows_differ_by_delta_exactly_where_the_choice_is_one() -> None:
    delta = new_delta()
    pairs = list(zip(keys("zero"), keys("one"), strict=True))
    choices = np.random.default_rng(0).integers(0, 256, 33, np.uint8)
    message = receiver_columns(pairs, choices)
    sent = sender_rows(delta, [pair[bit] for pair, bit in zip(pairs, delta, strict=True)], message)
    got = receiver_rows([zero for zero, _ in pairs], 33)
    bits = np.unpackbits(choices)
    assert np.array_equal(sent ^ got, bits[:, None] * np.packbits(delta))


def test_the_row_hash_is_its_slow_twin() -> None:
    key = bytes(range(16))
    rows = np.random.default_rng(1).integers(0, 256, (6, 16), np.uint8)

    def pi(block: bytes) -> bytes:
        return Cipher(AES(key), ECB()).encryptor().update(block)

    def xor(one: bytes, two: bytes) -> bytes:
        return bytes(a ^ b for a, b in zip(one, two, strict=True))

    for length in (1, 16, 17, 50):
        fast, blocks = RowHash(key, length)(rows, 1000), -(-length // 16)
        for at, row in enumerate(rows):
            inner, string = pi(row.tobytes()), b""
            for block in range(blocks):
                tweak = ((1000 + at) * blocks + block).to_bytes(16, "little")
                string += xor(pi(xor(inner, tweak)), inner)
            assert fast[at].tobytes() == string[:length]


def test_the_row_hash_on_a_fixed_vector() -> None:
    """FIPS 197's example block: π(00…) is known, and with it the hash under tweak 0."""
    key = bytes.fromhex("000102030405060708090a0b0c0d0e0f")
    row = np.frombuffer(bytes.fromhex("00112233445566778899aabbccddeeff"), np.uint8)[None]
    inner = bytes.fromhex("69c4e0d86a7b0430d8cdb78070b4c55a")
    outer = Cipher(AES(key), ECB()).encryptor().update(inner)
    expected = bytes(a ^ b for a, b in zip(outer, inner, strict=True))
    assert RowHash(key, 16)(row, 0)[0].tobytes() == expected


def test_strings_repeat_for_neither_rows_nor_blocks() -> None:
    rows = np.zeros((50, 16), np.uint8)  # equal rows are told apart by their tweaks
    strings = RowHash(bytes(16), 64)(rows, 0).reshape(-1, 16)
    assert len({block.tobytes() for block in strings}) == len(strings)


@pytest.mark.parametrize("fill", [0, 255, 0b10101010])
def test_the_sender_sees_nothing_of_the_choices(fill: int) -> None:
    """Without the other keys, even after taking away all it knows, the message is noise."""
    delta, width = new_delta(), 4000
    pairs = list(zip(keys("a"), keys("b"), strict=True))
    choices = np.full(width, fill, np.uint8)
    message = receiver_columns(pairs, choices)
    known = sender_rows(np.zeros(128, np.uint8), [p[b] for p, b in zip(pairs, delta, strict=True)], message)
    left = message ^ transpose(known)
    assert even(message)
    assert even(left)
    agreement = np.mean(np.unpackbits(left ^ choices))
    assert abs(agreement - 0.5) < 5 * 0.5 / np.sqrt(8 * left.size)
