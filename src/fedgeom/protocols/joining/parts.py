"""Which sums a site may be in: where the terms draw a part of the sites for a sum, only these share its secrets.

Who is drawn follows from the terms, the seed and the cohort, which all sites know when they write their letters. The
holders of shares are the same as for any sum; there is nothing to hold of a site that is in no such sum.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from fedgeom.errors import ProtocolError


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
