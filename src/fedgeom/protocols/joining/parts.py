"""Which sums a site may be in: where the terms draw a part of the sites for a sum, only these share its secrets.

Who is drawn follows from the terms, the seed and the cohort, which all sites know when they write their letters. The
holders of shares are the same as for any sum; there is nothing to hold of a site that is in no such sum.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from fedgeom.errors import ProtocolError

if TYPE_CHECKING:
    from fedgeom.protocols.joining.memory import JoiningMemory


class SumParts:
    """For each planned sum, the sites that may be in it."""

    def __init__(self, sums: int, sites: Sequence[Collection[str]] | None):
        self.sums, self.sites = sums, sites
        """``sites`` is None where any site may be in any sum."""
        self._of: dict[str, Sequence[int]] = {}

    def of(self, name: str) -> Sequence[int]:
        """Return the numbers of the sums that a site may be in, in order."""
        if self.sites is None:
            return range(self.sums)
        if name not in self._of:
            self._of[name] = tuple(at for at, part in enumerate(self.sites) if name in part)
        return self._of[name]

    def check(self, number: int, names: Iterable[str]) -> None:
        """Refuse a sum over sites that are not drawn for it: nobody holds shares with which they could be unmasked."""
        if self.sites is None:
            return
        strange = sorted(set(names) - set(self.sites[number]))
        if strange:
            raise ProtocolError(
                f"{', '.join(strange[:8])} cannot be in this sum, of round {number}, for which by the terms and the "
                "seed others are drawn"
            )


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
