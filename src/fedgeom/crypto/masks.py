"""Vectors that look random to all but the holders of a 256-bit key: ChaCha20, expanded.

A key masks one vector only (each run and round derives its own), so the cipher's nonce can be zero.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20

from fedgeom.arrays import Words
from fedgeom.crypto.rings import Ring

_ZEROS = bytes(1 << 16)  # encrypted in pieces that stay in the processor's cache
_COUNTER_AND_NONCE = bytes(16)


class KeyStream:
    """The endless sequence of uniform 64-bit words that belongs to a key."""

    def __init__(self, key: bytes):
        self._encryptor = Cipher(ChaCha20(key, _COUNTER_AND_NONCE), mode=None).encryptor()

    def words(self, count: int) -> Words:
        """Return the next ``count`` words, little-endian on every machine."""
        out = bytearray(8 * count)
        view, zeros = memoryview(out), memoryview(_ZEROS)
        for start in range(0, len(out), len(_ZEROS)):
            piece = view[start : start + len(_ZEROS)]
            self._encryptor.update_into(zeros[: len(piece)], piece)
        return np.frombuffer(out, "<u8").astype(np.uint64, copy=False)


def expand(key: bytes, ring: Ring, length: int) -> Words:
    """Stretch a key to ``length`` independent, exactly uniform ring elements.

    Returns (length,), u8.

    Words are cut to the ring's bit length, and those not below the modulus are skipped. Both holders
    of a key see the same words, so they skip the same ones.
    """
    stream = KeyStream(key)
    elements = _cut(stream.words(length), ring)
    if ring.is_power_of_two:
        return elements
    bound = np.uint64(ring.modulus)
    if length and elements.max() < bound:  # the rule when the modulus is just below a power of two
        return elements
    kept = elements[elements < bound]
    while kept.size < length:
        more = _cut(stream.words(length - kept.size + 16), ring)
        kept = np.concatenate([kept, more[more < bound]])
    return kept[:length]


def _cut(words: Words, ring: Ring) -> Words:
    if ring.bits < 64:
        words &= np.uint64((1 << ring.bits) - 1)
    return words


def add_masks(vector: Words, ring: Ring, *, plus: Iterable[bytes] = (), minus: Iterable[bytes] = ()) -> Words:
    """Add the masks of some keys to a vector and take away those of others.

    vector (length,), u8; returns (length,), u8.

    Reductions are postponed while the running sums are sure to fit into 64 bits: the cipher, not the
    arithmetic, should cost the time.
    """
    return ring.subtract(_total(plus, ring, vector), _total(minus, ring, np.zeros_like(vector)))


def _total(keys: Iterable[bytes], ring: Ring, start: Words) -> Words:
    room = 1 << max(64 - ring.bits, 0)  # how many elements may be added before the sum could wrap
    total, used = start.copy(), 1
    for key in keys:
        if used >= room and not ring.is_power_of_two:
            total, used = ring.reduce(total), 1
        total += expand(key, ring, len(start))
        used += 1
    return ring.reduce(total)
