"""Lists of names as a site remembers them: encoded, and read once in a process.

A site's memory is read and written with every question. Of a thousand sites each remembers the names of all, several
times, and in a simulation they are the same lists a thousand times.
"""

from __future__ import annotations

from functools import lru_cache

import msgspec

from fedgeom.protocols.joining.last_call import remembers_last

NO_NAMES = memoryview(b"")


@remembers_last
def pack_names(names: tuple[str, ...]) -> memoryview:
    """Encode a list of names; none are no bytes."""
    return memoryview(msgspec.msgpack.encode(names)) if names else NO_NAMES


def read_names(packed: memoryview) -> tuple[str, ...]:
    """Read a list of names (`pack_names`); equal lists are the very same tuple."""
    return _read(bytes(packed)) if packed else ()


@lru_cache(maxsize=64)  # a few lists for all sites of a process
def _read(packed: bytes) -> tuple[str, ...]:
    return msgspec.msgpack.decode(packed, type=tuple[str, ...])


@lru_cache(maxsize=64)  # likewise
def in_order(names: tuple[str, ...]) -> bool:
    """Say whether names are given once each, in alphabetical order."""
    return list(names) == sorted(set(names))


@lru_cache(maxsize=64)  # likewise
def name_set(names: tuple[str, ...]) -> frozenset[str]:
    """Return the set of some names; those of a list that was read before are looked up."""
    return frozenset(names)
