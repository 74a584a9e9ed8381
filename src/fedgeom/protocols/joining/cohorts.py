"""The cohort as bytes, and what is the same for all who look at it: read, checked and hashed once in a process.

A thousand sites that are simulated in one process are shown the same keys a thousand times.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType

import msgspec

from fedgeom.crypto.keys import fingerprint, verify
from fedgeom.federation.messages import encode
from fedgeom.protocols.joining.last_call import remembers_last
from fedgeom.protocols.joining.messages import PublicKeys, follow_chain


@remembers_last
def pack_cohort(cohort: Mapping[str, PublicKeys]) -> bytes:
    """Encode everybody's keys; the same keys always give the same bytes."""
    return msgspec.msgpack.encode(dict(cohort), order="sorted")


_COHORTS: dict[bytes, Mapping[str, PublicKeys]] = {}
"""Cohorts that were read in this process, by their hash."""


def cohort_of(seed: bytes, packed: memoryview) -> Mapping[str, PublicKeys]:
    """Read everybody's keys, which have this hash (`cohort_seed`): to look at a thousand keys' bytes takes a while."""
    if seed not in _COHORTS:
        if len(_COHORTS) >= 2:
            _COHORTS.clear()
        _COHORTS[seed] = read_cohort(bytes(packed))
    return _COHORTS[seed]


_STRICTEST: dict[tuple[bytes, frozenset[str]], tuple[str, int]] = {}
"""What was found by `strictest_policy` in this process, by the hash of the cohort and the names."""


def strictest_policy(seed: bytes, names: frozenset[str], cohort: Mapping[str, PublicKeys]) -> tuple[str, int]:
    """Return which of some sites asks for the most sites in a sum, and for how many; the cohort has this hash."""
    key = seed, names
    if key not in _STRICTEST:
        if len(_STRICTEST) >= 16:
            _STRICTEST.clear()
        wanted = {name: cohort[name].min_cohort for name in sorted(names) if name in cohort}
        strictest = max(wanted, key=wanted.__getitem__, default="")
        _STRICTEST[key] = strictest, wanted.get(strictest, 0)
    return _STRICTEST[key]


@lru_cache(maxsize=2)  # the same for all sites of a process
def read_cohort(packed: bytes) -> Mapping[str, PublicKeys]:
    """Read everybody's keys (`pack_cohort`)."""
    return MappingProxyType(msgspec.msgpack.decode(packed, type=dict[str, PublicKeys]))


@lru_cache(maxsize=2)  # the same for all sites of a process
def hash_each(packed: bytes) -> Mapping[str, bytes]:
    """Return a hash of each site's keys, of a cohort that is packed."""
    return {name: fingerprint(encode(keys))[:16] for name, keys in read_cohort(packed).items()}


@lru_cache(maxsize=2)  # the same for all sites of a process
def broken_commitments(packed: bytes, numbers: bytes, draw: int) -> tuple[str, ...]:
    """Return the sites of a packed cohort whose numbers, encoded by name, are not those that they committed to."""
    shown = msgspec.msgpack.decode(numbers, type=dict[str, bytes])
    cohort = read_cohort(packed)
    return tuple(sorted(n for n in cohort if follow_chain(shown[n], draw + 1) != cohort[n].ring_commit))


@lru_cache(maxsize=4)  # the same for all sites of a process
def hash_cohort(packed: bytes) -> bytes:
    """Return what a packed cohort is remembered by when the ring is drawn for it."""
    return fingerprint(b"drawn for", packed)


@lru_cache(maxsize=4)  # the same for all sites of a process that have the same columns
def misfits(packed: bytes, columns: bytes, rounds: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the sites of a packed cohort with other columns, by their hash, and those with keys for other sums."""
    cohort = read_cohort(packed)
    others = [n for n, keys in cohort.items() if columns and keys.columns_hash and columns != keys.columns_hash]
    odd = [n for n, keys in cohort.items() if not len(keys.masks) == len(keys.seals) == rounds]
    return tuple(others), tuple(odd)


@lru_cache(maxsize=2)  # failures are not kept; the sites of a process check the same keys by the same roster
def verify_cohort(roster: tuple[tuple[str, bytes], ...], run: bytes, terms: bytes, packed: bytes) -> None:
    """Raise `ProtocolError` unless each site of a packed cohort has signed its keys for this run and these terms."""
    known = dict(roster)
    for name, keys in read_cohort(packed).items():
        verify(known[name], keys.signature, "keys", *keys.statement(run, name, terms), signer=name)
