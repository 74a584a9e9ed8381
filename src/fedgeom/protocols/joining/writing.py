"""What a site writes when it has seen the cohort: letters with shares of its secrets, and its pairs' keys, locked.

Both for the sums that the site may be in, which follow from terms and cohort (`sum_parts`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fedgeom.crypto import shamir
from fedgeom.crypto.keys import derive
from fedgeom.crypto.pair_keys import keys_by_sum, lock
from fedgeom.protocols.joining.memory import JoiningMemory
from fedgeom.protocols.joining.messages import Letter
from fedgeom.protocols.joining.parts import SumParts

_KNOWN: dict[tuple[type, bytes, bytes], SumParts] = {}
"""What was worked out in this process, by method, terms and cohort: it is the same for all sites."""


def sum_parts(settings: Any, joined: JoiningMemory) -> SumParts:
    """Return who may be in which of the planned sums, by what a site remembers of terms and cohort."""
    key = type(settings), joined.terms_hash, joined.cohort_seed
    if key not in _KNOWN:
        if len(_KNOWN) >= 4:
            _KNOWN.clear()
        drawn = settings.sum_sites(tuple(sorted(joined.cohort)), joined.seed)
        _KNOWN[key] = SumParts(len(joined.sums), drawn)
    return _KNOWN[key]


def write_letters(
    memory: JoiningMemory, me: str, numbers: Mapping[str, int], needed: int, sums: Sequence[int], *, herald: bool
) -> dict[str, Letter]:
    """Return a site's letters, one to itself among them, with shares of its secrets of the sums that it may be in.

    ``numbers`` are those of the holders; a ``herald`` writes its secret to all.
    """
    holders = (*memory.peers, me)
    given = [secrets[at] for secrets in (memory.mask_secrets, memory.self_seeds) for at in sums]
    shares = shamir.share_each(given, needed, [numbers[name] for name in holders])
    secret = memory.herald_secret if herald else b""
    letters = {name: Letter(secret=secret) for name in numbers} if herald else {}
    for name in holders:
        own = shares[numbers[name]]
        letters[name] = Letter(own[: len(sums)], own[len(sums) :], secret)
    return letters


def make_pair_keys(
    memory: JoiningMemory, me: str, run: bytes, agreed: Mapping[str, bytes], sums: Sequence[int]
) -> tuple[bytes, ...]:
    """Remember the keys of a site's pairs for the sums that it may be in, and return them locked; none for the others.

    ``agreed`` is what the site has agreed on with each of its peers. The keys are those of this run, cohort and pair.
    """
    names = {peer: sorted((me.encode(), peer.encode())) for peer in memory.peers}
    roots = [derive(agreed[peer], b"masks", run, memory.cohort_seed, *both) for peer, both in names.items()]
    mine, made = set(sums), keys_by_sum(roots, len(memory.mask_secrets))
    memory.pair_keys = tuple(keys if at in mine else b"" for at, keys in enumerate(made))
    return tuple(map(lock, memory.pair_keys, memory.mask_secrets))
