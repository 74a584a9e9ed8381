"""The keys by which two sites mask: from one agreement for a whole run, a key for each of its sums.

What two sites agreed on is the *root* of a key stream; its pieces are the pair's keys, one for each sum, and from none
does another follow. A site that is lost in a sum takes its pairs' keys with it, and the others' masks with it would
stand in the sum. So each site draws a secret for each sum, locks its keys of that sum by it, and leaves the locked keys
with the coordinator; the secret is shared among other sites. Put together, it opens the keys of this one sum only.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence

from fedgeom.crypto.keys import KEY_BYTES, fingerprint, with_length
from fedgeom.crypto.masks import KeyStream
from fedgeom.errors import ProtocolError

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
