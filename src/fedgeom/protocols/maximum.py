"""The largest of the sites' numbers, without telling anyone whose it is or what the others have.

Each site writes, for every level up to its own number, a random ring element, and 0 above. The secure
sum is then a random element on each level that somebody reaches and 0 beyond: the coordinator sees
where the zeros begin, and not how many sites stand below. (A reached level sums to 0 by chance with
probability 2^-61 or so.)
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fedgeom.arrays import Words
from fedgeom.crypto.masks import Ring, expand
from fedgeom.errors import InputError

MODULUS = 2**61 - 1
"""A Mersenne prime, so that a random element is almost never 0 and masks are never skipped."""


RING = Ring(MODULUS)


def write_levels(reached: Sequence[tuple[int, int]], key: bytes) -> Words:
    """Encode pairs (level, number of levels); level 0 means none is reached.

    The random elements come from ``key``, which never leaves the site: whoever knew them could tell
    from the sum which sites reached a level.
    """
    vector = expand(key, RING, sum(levels for _, levels in reached))
    at = 0
    for level, levels in reached:
        if not 0 <= level <= levels:
            raise InputError(f"level {level} of {levels} was given; wanted 0 … {levels}")
        vector[at + level : at + levels] = 0
        at += levels
    return vector


def read_levels(total: Words, levels: Sequence[int]) -> list[int]:
    """Return the highest level that any site reached, for each of the encoded numbers.

    total (sum of the levels,), u8.
    """
    found, at = [], 0
    for count in levels:
        nonzero = np.flatnonzero(total[at : at + count])
        found.append(int(nonzero[-1]) + 1 if nonzero.size else 0)
        at += count
    return found
