"""What a handler of a sum returns: numbers that are not masked yet."""

from __future__ import annotations

from dataclasses import dataclass

from fedgeom.arrays import Words

Rows = tuple[int, int]
"""The first of some rows, and the one after the last."""


@dataclass(frozen=True, eq=False)
class Contribution:
    """What a site adds to a sum: ring elements, not yet masked. It is no message, so it cannot leave by mistake."""

    vector: Words
    """(length,), or (rows, columns) for row sums."""
    own_rows: Rows | None = None
    """For row sums: the rows that are the site's own (`fedgeom.protocols.row_sums`)."""
    fresh: bool = False
    """Whether the vector was made for this alone, so that the masks may be added in its place."""
    noisy: bool = False
    """Whether the site's share of noise is in it: in a run with privacy nothing else leaves."""
