"""Vectors that look random to all but the holders of a 256-bit key: ChaCha20, expanded.

A key masks one vector only (each run and round derives its own), so the cipher's nonce can be zero.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20

from fedgeom.arrays import Words
from fedgeom.crypto.rings import Ring

_PIECE = 1 << 14
"""How many words are made at a time, 128 KiB: they stay in the processor's cache until they are added."""
_SHORT, _BATCH = 1 << 11, 8
"""Vectors of so few words are masked by so many keys at a time where words may have to be skipped: of these, it is the
calls that take the time."""
_ZEROS = bytes(8 * _PIECE)
_COUNTER_AND_NONCE = bytes(16)


class KeyStream:
    """The endless sequence of uniform 64-bit words that belongs to a key."""

    def __init__(self, key: bytes):
        self._encryptor = Cipher(ChaCha20(key, _COUNTER_AND_NONCE), mode=None).encryptor()

    def words(self, count: int) -> Words:
        """Return the next ``count`` words, little-endian on every machine."""
        out = bytearray(8 * count)
        for start in range(0, len(out), len(_ZEROS)):
            self.fill(memoryview(out)[start : start + len(_ZEROS)])
        return np.frombuffer(out, "<u8").astype(np.uint64, copy=False)

    def fill(self, piece: memoryview) -> None:
        """Write the next bytes of the sequence, at most 128 KiB."""
        self._encryptor.update_into(memoryview(_ZEROS)[: len(piece)], piece)


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
        return _add_in_pieces(vector if in_place else vector.copy(), ring, list(plus), list(minus))
    return ring.subtract(_total(plus, ring, vector), _total(minus, ring, np.zeros_like(vector)))


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
    """Add the masks of some keys, several at a time; reductions wait while the sum is sure to fit into 64 bits."""
    room = 1 << max(64 - ring.bits, 0)  # how many elements may be added before the sum could wrap
    most = max(1, min(_BATCH, room - 1)) if len(start) <= _SHORT else 1
    total, used, waiting = start.copy(), 1, list(keys)
    drawn = bytearray(8 * min(_PIECE, len(start)) * most)
    while waiting:
        batch, waiting = waiting[:most], waiting[most:]
        if used + len(batch) > room:
            total, used = ring.reduce(total), 1
        _add_batch(total, batch, ring, drawn)
        used += len(batch)
    return ring.reduce(total)


def _add_batch(total: Words, keys: Sequence[bytes], ring: Ring, drawn: bytearray) -> None:
    """Add what `expand` makes of some keys, side by side and piece by piece, which never leave the processor's cache.

    A key of which a word is skipped, seldom where the modulus is just below a power of two, goes on by itself.
    """
    streams = {row: KeyStream(key) for row, key in enumerate(keys)}
    width = min(_PIECE, len(total))
    words, room = np.frombuffer(drawn, "<u8")[: width * len(keys)].reshape(len(keys), width), memoryview(drawn)
    cut = np.uint64((1 << ring.bits) - 1)
    for start in range(0, len(total), width or 1):
        count = min(width, len(total) - start)
        for row, stream in streams.items():
            stream.fill(room[8 * row * width : 8 * (row * width + count)])
        some = words[:, :count]
        np.bitwise_and(some, cut, out=some)
        if int(np.maximum.reduce(some, axis=None)) >= ring.modulus:
            for row in [row for row in streams if int(some[row].max()) >= ring.modulus]:
                total[start:] += expand(keys[row], ring, len(total))[start:]
                words[row] = 0
                del streams[row]
        total[start : start + count] += some[0] if len(keys) == 1 else np.add.reduce(some, axis=0)
