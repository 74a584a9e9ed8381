"""Who masks with whom: everybody when sites are few, a ring lattice of O(log n) peers when they are many.

With n sites, all pairs cost n² key agreements. As in SecAgg+ (Bell et al. 2020) a regular graph of
logarithmic degree is enough, as long as nobody can choose his neighbours: here the order on the ring
follows from a hash of everybody's signed keys and of numbers that all committed to when they showed
their keys (`fedgeom.protocols.join.site`), which each site recomputes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from fedgeom.crypto.keys import fingerprint
from fedgeom.memo import memoize

COMPLETE_UP_TO = 48
"""Up to this many sites everybody masks with everybody."""
NEAR = 24
"""How many of its peers a site meets on average where only a part of all sites is summed."""


def degree(n: int, part: int | None = None) -> int:
    """Return how many neighbours each of ``n`` sites has.

    A site's privacy needs an honest neighbour that stays, and colluding neighbours too few to put its
    secrets together. For up to a thousand sites, 12·log2(n/4) peers and two thirds as the threshold:
    with a coordinator that follows the protocol, 3 in 10 sites colluding break a given site with
    probability below 2^-45. A coordinator that lies about who is alive needs only a third of a
    neighbourhood: below 2^-35 for a given site when a tenth of the sites collude with it, but about 2^-10 for a fifth.
    It sees the ring first and may have it drawn 8 times; over all draws and for any site that is 2^-25 for a tenth of
    1,000 sites, and for a fifth about 2^-5 at 100 sites and up to 0.8 at 200.
    Recovery fails with probability below 2^-35 when a tenth of the sites vanish.

    ``part``: the fewest sites over which a sum may go, such as those drawn for a round or a cluster. Of few neighbours
    hardly one is among them, so sites have as many more that `NEAR` are on average; for the smallest parts, all.
    """
    if n <= COMPLETE_UP_TO:
        return n - 1
    wanted = math.ceil(12 * math.log2(n / 4))
    if part is not None and part < n:
        wanted = max(wanted, math.ceil(NEAR * (n - 1) / max(part - 1, 1)))
    return min(n - 1, wanted + wanted % 2)  # an even degree splits evenly to both sides of the ring


def ring_order(names: Iterable[str], seed: bytes) -> tuple[str, ...]:
    """Return the names in an order that nobody chose."""
    return _ring_order(tuple(sorted(names)), seed)


@memoize(4)  # the same for all sites of a process
def _ring_order(names: tuple[str, ...], seed: bytes) -> tuple[str, ...]:
    return tuple(sorted(names, key=lambda name: fingerprint(b"ring", seed, name.encode())))


@memoize(16)  # the same for all sites of a process, and for every list of the living
def smallest_part(names: tuple[str, ...], seed: bytes, living: tuple[str, ...], part: int | None = None) -> int:
    """Return the size of the smallest part into which the mask graph falls when only the living are left.

    Sites of one part share masks with each other and with nobody else, so the sum of each part can be told from the sum
    of all: a site hides among the sites of its own part only. ``part``: as for `degree`.
    """
    peers = neighbours(names, seed, part)
    left = set(living)
    least = len(living)
    while left:
        found = {left.pop()}
        edge = list(found)
        while edge:
            near = left.intersection(peers[edge.pop()])
            left -= near
            found |= near
            edge += near
        least = min(least, len(found))
    return least


def neighbours(names: Iterable[str], seed: bytes, part: int | None = None) -> Mapping[str, tuple[str, ...]]:
    """Return each site's peers: a symmetric relation, everyone with the same number of peers (`degree`)."""
    return _neighbours(tuple(sorted(names)), seed, part)


@memoize(4)  # the same for all sites of a process
def _neighbours(names: tuple[str, ...], seed: bytes, part: int | None) -> Mapping[str, tuple[str, ...]]:
    order = ring_order(names, seed)
    n = len(order)
    k = degree(len(order), part)
    if k >= n - 1:
        return {name: tuple(sorted(set(order) - {name})) for name in order}
    half = k // 2
    return {
        name: tuple(sorted(order[(at + step) % n] for step in range(-half, half + 1) if step))
        for at, name in enumerate(order)
    }
