"""The bits that noise is made of: AES of 0, 1, 2, …, and nothing else."""

from __future__ import annotations

import os

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import ECB

from fedgeom.crypto.masks import NoiseStream


def test_the_first_block_of_the_key_of_zeros_is_the_published_one() -> None:
    assert NoiseStream(bytes(32)).words(2).tobytes().hex() == "dc95c078a2408989ad48a21492842087"


def test_blocks_are_those_of_the_counter_however_they_are_asked_for() -> None:
    key = os.urandom(32)
    blocks = b"".join(number.to_bytes(16, "big") for number in range(9000))
    wanted = Cipher(AES(key), ECB()).encryptor().update(blocks)
    assert NoiseStream(key).words(18_000).tobytes() == wanted
    stream, got = NoiseStream(key), bytearray()
    for size in (1, 15, 16, 40_000, 65_536):
        piece = bytearray(size)
        stream.fill(memoryview(piece))
        got += piece
    assert bytes(got) == wanted[: len(got)]


def test_another_key_is_another_sequence() -> None:
    one, two = (NoiseStream(os.urandom(32)).words(4096) for _ in range(2))
    assert (one != two).all()
    ones = np.unpackbits(one.view(np.uint8)).mean()
    assert abs(ones - 0.5) < 0.01
