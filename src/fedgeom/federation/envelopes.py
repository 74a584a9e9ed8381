"""Large vectors are not copied into messages: the message is written around them, where they stand.

A vector that is to be sent is made with some room before and behind it (`roomy_words`). What a frame has before and
behind the vector's bytes is then written there (`put_together`), once: room that is used is no longer room.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from weakref import WeakValueDictionary

import numpy as np

from fedgeom.arrays import Bits, Words

LARGE = 1 << 20
"""Vectors of so many bytes are large; smaller ones are copied, which costs nothing to speak of."""
ROOM = 1 << 12
"""How many bytes are left before and behind a large vector: frames have some hundred around it."""
_ALIGNED = 64

Buffer = bytes | memoryview

_ROOMY: WeakValueDictionary[int, Bits] = WeakValueDictionary()
"""Buffers with a vector in the middle and room around it that is not used yet, by their identity."""


def roomy_words(count: int) -> Words:
    """Return a vector of so many words, not yet set; a large one has room around it."""
    size = 8 * count
    if size < LARGE:
        return np.empty(count, np.uint64)
    owner = np.empty(size + 2 * ROOM, np.uint8)
    _ROOMY[id(owner)] = owner
    return owner[ROOM : ROOM + size].view(np.uint64)


def lengthened(vector: Words, tail: Words) -> Words:
    """Return a vector with some words more behind it: in its room, where it has any; else a copy."""
    owner, end = _owner(vector), ROOM + vector.nbytes + tail.nbytes
    if owner is None or end > len(owner):
        return np.concatenate([vector, tail])
    longer = owner[ROOM:end].view(np.uint64)
    longer[len(vector) :] = tail
    return longer


def put_together(parts: Sequence[Buffer]) -> Buffer:
    """Return parts of a message one after the other; around a vector that has room for the others, without a copy."""
    size = sum(map(len, parts))
    if size < LARGE:
        return b"".join(parts)
    at = max(range(len(parts)), key=lambda part: len(parts[part]))
    before, largest, behind = b"".join(parts[:at]), parts[at], b"".join(parts[at + 1 :])
    owner, start = _owner(largest.obj) if isinstance(largest, memoryview) else None, ROOM
    end = start + len(largest)
    if owner is not None and len(before) <= ROOM and end + len(behind) <= len(owner):
        del _ROOMY[id(owner)]
    else:
        # Memory of numpy's, which comes in large pages; the vector in it begins where vectors like to.
        start = len(before) + -len(before) % _ALIGNED
        owner, end = np.empty(size + _ALIGNED, np.uint8), start + len(largest)
        owner[start:end] = np.frombuffer(largest, np.uint8)
    owner[start - len(before) : start] = np.frombuffer(before, np.uint8)
    owner[end : end + len(behind)] = np.frombuffer(behind, np.uint8)
    return owner[start - len(before) : end + len(behind)].data.toreadonly()


def _owner(vector: Any) -> Bits | None:
    """Return the buffer in which a vector stands, whole, with room around it; None elsewhere."""
    if not isinstance(vector, np.ndarray) or vector.base is None:
        return None
    roomy = _ROOMY.get(id(vector.base))
    if roomy is None or roomy is not vector.base:
        return None
    start = vector.__array_interface__["data"][0] - roomy.__array_interface__["data"][0]
    whole = start == ROOM and vector.flags.c_contiguous and vector.nbytes >= len(roomy) - 2 * ROOM
    return roomy if whole else None
