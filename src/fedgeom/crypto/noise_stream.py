"""The random bits that noise is made of: AES-256 in counter mode, which processors have instructions for.

Masks are made by ChaCha20 (`fedgeom.crypto.masks`), the same on both sides; noise is drawn by one site alone, which
tells nobody the key. A key makes the noise of one sum only, so the counter begins at 0. Of n blocks, 2^18 for a million
numbers, no two are the same, by which the sequence could be told from random bits with a chance of n²/2^129.
"""

from __future__ import annotations

from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CTR

from fedgeom.crypto.masks import KeyStream


class NoiseStream(KeyStream):
    """The endless sequence of uniform 64-bit words that belongs to a key, by AES."""

    def __init__(self, key: bytes):
        self._encryptor = Cipher(AES(key), CTR(bytes(16))).encryptor()
