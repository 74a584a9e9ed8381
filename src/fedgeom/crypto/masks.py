"""Vectors that look random to all but the holders of a 256-bit key: a stream cipher, expanded.

A key masks one vector only (each run and round derives its own), so the nonce can be zero. Which cipher it is follows
from the ring and the vector's length, which both holders of a key know. Modulo a power of two it is ChaCha20, and for
vectors of up to 128 words SHAKE-256 of the key: setting ChaCha20 up takes longer than that. Modulo a prime it is
AES-256 in counter mode: these are the words of sparse codes, as long as all sites' entries together, where the cipher
is what most of a run goes to, and with a processor's own instructions AES takes less than half the time. Of n blocks of
AES no two are the same, by which its sequence could be told from random bits with a chance of n²/2^129: 2^-81 for the
longest message that there is.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES, ChaCha20
from cryptography.hazmat.primitives.ciphers.modes import CTR

from fedgeom.arrays import Words
from fedgeom.crypto.rings import Ring

_PIECE = 1 << 14
"""How many words are made at a time, 128 KiB: they stay in the processor's cache until they are added."""
_SHORT, _BATCH = 1 << 11, 8
"""Vectors of so few words are masked by so many keys at a time where words may have to be skipped: of these, it is the
calls that take the time."""
_HASHED = 1 << 7
"""Masks modulo a power of two of so few words are hashes of their keys; longer ones come from the cipher."""
_LABEL = b"fedgeom short mask "
_ZEROS = bytes(8 * _PIECE)
_COUNTER_AND_NONCE = bytes(16)


class KeyStream:
    """The endless sequence of uniform 64-bit words that belongs to a key, by ChaCha20."""

    def __init__(self, key: bytes):
        self._encryptor = Cipher(ChaCha20(key, _COUNTER_AND_NONCE), mode=None).encryptor()

    def words(self, count: int) -> Words:
        """Return the next ``count`` words, little-endian on every machine."""
        out = bytearray(8 * count)
        for start in range(0, len(out), len(_ZEROS)):
            self.fill(memoryview(out)[start : start + len(_ZEROS)])
        return np.frombuffer(out, "<u8").astype(np.uint64, copy=False)

    def take(self, size: int) -> bytes:
        """Return the next bytes of the sequence, for few."""
        return self._encryptor.update(bytes(size))

    def fill(self, piece: memoryview) -> None:
        """Write the next bytes of the sequence, at most 128 KiB."""
        self._encryptor.update_into(memoryview(_ZEROS)[: len(piece)], piece)


class AesStream(KeyStream):
    """The endless sequence of uniform 64-bit words that belongs to a key, by AES-256 in counter mode."""

    def __init__(self, key: bytes):
        self._encryptor = Cipher(AES(key), CTR(_COUNTER_AND_NONCE)).encryptor()


def stream_for(key: bytes, ring: Ring) -> KeyStream:
    """Return the sequence from which a key's elements of a ring are made."""
    return KeyStream(key) if ring.is_power_of_two else AesStream(key)


def expand(key: bytes, ring: Ring, length: int) -> Words:
    """Stretch a key to ``length`` independent, exactly uniform ring elements.

    Returns (length,), u8.

    Words are cut to the ring's bit length, and those not below the modulus are skipped. Both holders
    of a key see the same words, so they skip the same ones.
    """
    if ring.is_power_of_two and length <= _HASHED:
        return _cut(_hashed([key], length)[0], ring)
    stream = stream_for(key, ring)
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


def _hashed(keys: Sequence[bytes], length: int) -> Words:
    """Return short masks, side by side, (keys, length)."""
    made = [hashlib.shake_256(_LABEL + key).digest(8 * length) for key in keys]
    return np.frombuffer(bytearray().join(made), "<u8").astype(np.uint64, copy=False).reshape(len(keys), length)


def _cut(words: Words, ring: Ring) -> Words:
    if ring.bits < 64:
        words &= np.uint64((1 << ring.bits) - 1)
    return words


def add_masks(
    vector: Words,
    ring: Ring,
    *,
    plus: Iterable[bytes] = (),
    minus: Iterable[bytes] = (),
    in_place: bool = False,
) -> Words:
    """Add the masks of some keys to a vector and take away those of others.

    vector (length,), u8; returns (length,), u8. ``in_place``: the vector is no longer needed and may be written over.

    The cipher, not the arithmetic, should cost the time. Modulo a power of two, where nothing is skipped, the masks of
    all keys are made side by side, piece by piece, and never leave the processor's cache.
    """
    if ring.is_power_of_two:
        add = _add_hashed if len(vector) <= _HASHED else _add_in_pieces
        return add(vector if in_place else vector.copy(), ring, list(plus), list(minus))
    return ring.subtract(_total(plus, ring, vector), _total(minus, ring, np.zeros_like(vector)))


def _add_hashed(total: Words, ring: Ring, plus: Sequence[bytes], minus: Sequence[bytes]) -> Words:
    total += np.add.reduce(_hashed(plus, len(total)), axis=0)
    total -= np.add.reduce(_hashed(minus, len(total)), axis=0)
    return _cut(total, ring)


def _add_in_pieces(total: Words, ring: Ring, plus: Sequence[bytes], minus: Sequence[bytes]) -> Words:
    added, taken = [KeyStream(key) for key in plus], [KeyStream(key) for key in minus]
    drawn = bytearray(8 * min(_PIECE, len(total)))
    words, bits = np.frombuffer(drawn, "<u8"), np.uint64(ring.modulus - 1)
    for start in range(0, len(total), _PIECE):
        piece = total[start : start + _PIECE]
        room, mask = memoryview(drawn)[: 8 * len(piece)], words[: len(piece)]
        for stream in added:
            stream.fill(room)
            piece += mask
        for stream in taken:
            stream.fill(room)
            piece -= mask
        if ring.bits < 64:  # bits above the modulus never reach those below: cutting once at the end is enough
            piece &= bits
    return total


def _total(keys: Iterable[bytes], ring: Ring, start: Words) -> Words:
    """Add to a vector what `expand` makes of some keys, side by side and piece by piece, which stay in the cache.

    A key of which a word is skipped, seldom where the modulus is just below a power of two, goes on by itself.
    """
    streams = [(key, stream_for(key, ring)) for key in keys]
    total, alone = start.copy(), list[tuple[bytes, int]]()
    most = min(_BATCH, _room(ring) - 1) if len(start) <= _SHORT else 1
    width = min(_PIECE, len(start)) or 1
    drawn = bytearray(8 * width * most)
    for at in range(0, len(total), width):
        skipping = _add_next(total[at : at + width], streams, ring, drawn, most)
        if skipping:
            alone += [(streams[place][0], at) for place in skipping]
            streams = [one for place, one in enumerate(streams) if place not in skipping]
    for key, at in alone:
        ring.add_to(total[at:], expand(key, ring, len(total))[at:])
    return total


def _room(ring: Ring) -> int:
    """Return how many elements may be added before the sum could wrap."""
    return 1 << (64 - ring.bits)


def _add_next(
    piece: Words, streams: Sequence[tuple[bytes, KeyStream]], ring: Ring, drawn: bytearray, most: int
) -> set[int]:
    """Add the next elements of all keys to a piece of a vector, ``most`` keys at a time.

    Return the places of keys of which a word is to be skipped: nothing of them was added. Reductions wait while the sum
    is sure to fit into 64 bits.
    """
    count, room, used, skipping = len(piece), _room(ring), 1, set[int]()
    words = np.frombuffer(drawn, "<u8")[: most * count].reshape(most, count)
    rows = [memoryview(drawn)[8 * row * count : 8 * (row + 1) * count] for row in range(most)]
    cut, bound = np.uint64((1 << ring.bits) - 1), np.uint64(ring.modulus)
    for first in range(0, len(streams), most):
        batch = streams[first : first + most]
        if used + len(batch) > room:
            ring.reduce_in_place(piece, used)
            used = 1
        for (_, stream), row in zip(batch, rows, strict=False):
            stream.fill(row)
        some = words[: len(batch)]
        np.bitwise_and(some, cut, out=some)
        if np.maximum.reduce(some, axis=None) >= bound:
            late = np.flatnonzero(some.max(axis=1) >= bound)
            skipping.update((first + late).tolist())
            some[late] = 0
        piece += some[0] if most == 1 else np.add.reduce(some, axis=0)
        used += len(batch)
    ring.reduce_in_place(piece, used)
    return skipping
