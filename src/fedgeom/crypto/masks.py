"""Masks of secure sums: rings, keys of pairs of sites, and the streams that masks and noise are made of."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES, ChaCha20
from cryptography.hazmat.primitives.ciphers.modes import CTR

from fedgeom.arrays import Words
from fedgeom.crypto.keys import KEY_BYTES, fingerprint, with_length
from fedgeom.errors import InputError, ProtocolError

_FEW = 8
"""A division takes as long as some six differences."""


@dataclass(frozen=True)
class Ring:
    """Integers modulo ``modulus``, as numpy vectors of unsigned 64-bit words."""

    modulus: int

    def __post_init__(self) -> None:
        q = self.modulus
        if not (2 <= q < 2**63 or q == 2**63 or q == 2**64):
            raise InputError(f"modulus {q} given; wanted 2 … 2^63, or 2^64")

    @cached_property
    def bits(self) -> int:
        """How many bits an element needs."""
        return (self.modulus - 1).bit_length()

    @property
    def is_power_of_two(self) -> bool:
        """Whether reduction is a bit mask."""
        return self.modulus & (self.modulus - 1) == 0

    def reduce(self, vector: Words) -> Words:
        """Bring 64-bit words below the modulus."""
        if self.modulus == 2**64:
            return vector
        if self.is_power_of_two:
            return vector & np.uint64(self.modulus - 1)
        return vector % np.uint64(self.modulus)

    def reduce_in_place(self, vector: Words, most: int) -> None:
        """Bring sums of at most ``most`` elements, which fit into 64 bits, below the modulus, where they stand.

        Of few, by differences: what is smaller than a multiple of the modulus becomes huge when that is taken away.
        """
        if self.is_power_of_two or most > _FEW:
            vector[:] = self.reduce(vector)
            return
        less = np.empty_like(vector)
        multiple = 1 << max(most - 1, 0).bit_length()
        while multiple > 1:
            multiple //= 2
            np.subtract(vector, np.uint64(multiple * self.modulus), out=less)
            np.minimum(vector, less, out=vector)

    def check(self, vector: npt.ArrayLike) -> Words:
        """Return ``vector`` as ring elements, or say which entry is none."""
        array = np.asarray(vector)
        if array.ndim != 1 or array.dtype.kind not in "ui":
            raise InputError(f"a 1-D integer vector is wanted, {array.ndim}-D {array.dtype} was given")
        if self.modulus == 2**64 and array.dtype == np.uint64:
            return array
        low = np.flatnonzero(array < 0) if array.dtype.kind == "i" else np.empty(0, int)
        high = np.flatnonzero(array.astype(np.uint64) > np.uint64(self.modulus - 1))
        if low.size or high.size:
            at = int(min([*low[:1], *high[:1]]))
            raise InputError(f"entry {at} is {array[at]}, outside 0 … {self.modulus - 1}")
        return array.astype(np.uint64)

    def add(self, a: Words, b: Words) -> Words:
        """Add two vectors of ring elements."""
        total = np.asarray(a + b)  # below 2^64 for q ≤ 2^63; wraps by itself for 2^64
        self.reduce_in_place(total, 2)
        return total

    def add_to(self, total: Words, b: Words) -> None:
        """Add a vector of ring elements to another, in its place."""
        total += b
        if self.modulus != 2**64:
            self.reduce_in_place(total, 2)

    def subtract(self, a: Words, b: Words) -> Words:
        """Subtract the second vector of ring elements from the first."""
        if self.is_power_of_two:
            return self.reduce(a - b)
        total = np.asarray(np.uint64(self.modulus) - b)
        total += a
        self.reduce_in_place(total, 2)
        return total


_PIECE = 1 << 14
"""How many words are made at a time, 128 KiB: they stay in the processor's cache until they are added."""
_SHORT = 1 << 11
_BATCH = 8
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
    added = [KeyStream(key) for key in plus]
    taken = [KeyStream(key) for key in minus]
    drawn = bytearray(8 * min(_PIECE, len(total)))
    words = np.frombuffer(drawn, "<u8")
    bits = np.uint64(ring.modulus - 1)
    for start in range(0, len(total), _PIECE):
        piece = total[start : start + _PIECE]
        room = memoryview(drawn)[: 8 * len(piece)]
        mask = words[: len(piece)]
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
    total = start.copy()
    alone = list[tuple[bytes, int]]()
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
    count = len(piece)
    room = _room(ring)
    used = 1
    skipping = set[int]()
    words = np.frombuffer(drawn, "<u8")[: most * count].reshape(most, count)
    rows = [memoryview(drawn)[8 * row * count : 8 * (row + 1) * count] for row in range(most)]
    cut = np.uint64((1 << ring.bits) - 1)
    bound = np.uint64(ring.modulus)
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


class SystemDraws:
    """Draws like a numpy generator's, of which nobody can foresee or repeat one."""

    def permutation(self, n: int) -> npt.NDArray[np.int64]:
        """Return 0 … n−1 in random order: sorted by 128-bit numbers, which are all different."""
        keys = np.frombuffer(os.urandom(16 * n), np.uint64).reshape(n, 2)
        return np.lexsort((keys[:, 0], keys[:, 1])).astype(np.int64)

    def bytes(self, length: int) -> bytes:
        """Return random bytes."""
        return os.urandom(length)


class NoiseStream(AesStream):
    """The endless sequence of uniform 64-bit words that belongs to a key of noise."""


PROOF_BYTES = 16


def keys_by_sum(roots: Sequence[bytes], sums: int) -> tuple[bytes, ...]:
    """Return for each sum the keys of all pairs, one after the other, in the order of the roots."""
    streams = [_stream(root, KEY_BYTES * sums) for root in roots]
    places = (slice(KEY_BYTES * number, KEY_BYTES * (number + 1)) for number in range(sums))
    return tuple(b"".join([stream[place] for stream in streams]) for place in places)


def key_at(keys: bytes, place: int) -> bytes:
    """Return the key of the pair that has a place in the order of the roots."""
    return keys[KEY_BYTES * place : KEY_BYTES * (place + 1)]


def lock(keys: bytes, secret: bytes) -> bytes:
    """Lock the keys of one sum by a secret that serves nothing else; who locks them again opens them."""
    pad = _stream(fingerprint(b"locked keys", secret), len(keys))
    return (int.from_bytes(keys, "big") ^ int.from_bytes(pad, "big")).to_bytes(len(keys), "big")


def open_keys(locked: bytes, secret: bytes, pairs: int) -> bytes:
    """Return the keys of so many pairs that a site locked for one sum."""
    if len(locked) != KEY_BYTES * pairs:
        raise ProtocolError(f"locked keys of {len(locked)} bytes came; {KEY_BYTES * pairs} are wanted")
    return lock(locked, secret)


def mask_key(key: bytes, question_hash: bytes) -> bytes:
    """Derive the key of two sites' mask for one question from the pair's key of the sum; both get the same."""
    return mask_keys([key], question_hash)[0]


def mask_keys(keys: Iterable[bytes], question_hash: bytes) -> list[bytes]:
    """Derive such keys of several pairs."""
    # A fingerprint of label, key and hash, of which all but the key is the same for all: a third of the time.
    before = with_length(b"pair mask") + KEY_BYTES.to_bytes(8, "big")
    after = with_length(question_hash)
    return [hashlib.sha256(before + key + after).digest() for key in keys]


def proof_of(key: bytes) -> bytes:
    """Return what shows that somebody knows a pair's key of a sum, and does not tell it."""
    return fingerprint(b"pair key", key)[:PROOF_BYTES]


def _stream(key: bytes, size: int) -> bytes:
    return KeyStream(key).take(size)
