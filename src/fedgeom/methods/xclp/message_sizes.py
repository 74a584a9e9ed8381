"""How large the messages of a run over pairs become: known from the numbers of rows, before anything is sent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from fedgeom.data.checks import label_names
from fedgeom.data.findings import FaultsError, fault
from fedgeom.data.sites import SiteData
from fedgeom.federation.method import MessageSizes
from fedgeom.methods.xclp.scores import is_labelled
from fedgeom.methods.xclp.settings import XclpSettings
from fedgeom.protocols.hamming import variant
from fedgeom.protocols.pairs import asks_first

_FRAME = 1024
"""What a letter's seal and a message's frame take, at most."""


def largest_message(comparison: str, bits: int, me: str, rows: Mapping[str, int]) -> int:
    """Return the bytes of the largest message that a site writes or reads while rows are compared, about.

    ``rows`` has the number of rows of every site, ``me`` among them. At turn 0 a site writes its first letters and the
    distances within it; at turn n it reads letters and answers each with the next one, or with its share.
    """
    how, mine = variant(comparison), rows[me]
    written: dict[int, int] = {0: mine * (mine - 1) + _FRAME}
    read: dict[int, int] = {}
    known: dict[tuple[int, int], tuple[int, ...]] = {}  # many sites have as many rows
    for partner, theirs in rows.items():
        if partner == me:
            continue
        first = asks_first(me, partner)
        pair = (mine, theirs) if first else (theirs, mine)
        letters = known.setdefault(pair, ()) or how.sizes(*pair, bits)
        known[pair] = letters
        for number, size in enumerate(letters):
            by_me = first == (number % 2 == 0)  # the two of them write in turn
            at, where = (number, written) if by_me else (number + 1, read)
            where[at] = where.get(at, 0) + size + _FRAME
        written[len(letters)] = written.get(len(letters), 0) + 2 * mine * theirs + _FRAME
    return max([*written.values(), *read.values()])


def sizes_over_pairs(settings: XclpSettings, sites: Sequence[SiteData]) -> dict[str, int]:
    """Return the bytes of the largest message that each site writes or reads when all rows are compared, about."""
    rows = {site.name: len(site) for site in sites}
    needed = {}
    for site in sites:
        wanted = len(site) if settings.hide_labelled else int(np.sum(is_labelled(site.y)))
        spread = 4 * sum(rows.values()) * wanted + _FRAME
        compared = largest_message(settings.hamming, settings.bits, site.name, rows)
        needed[site.name] = max(spread, compared)
    return needed


def message_sizes(settings: XclpSettings, sites: Sequence[SiteData]) -> MessageSizes:
    """Return the largest messages of a run; over anchors, at most those of sums over all of them."""
    if settings.graph == "pairs":
        largest = max(sizes_over_pairs(settings, sites).values())
        return MessageSizes(largest, largest)
    rows = sum(len(site) for site in sites)
    anchors, columns = min(settings.anchors, max(rows // settings.min_cell, 1)), sites[0].shape[1]
    cells = anchors * (1 + columns)
    codes = anchors * (anchors + 1) // 2 + (anchors + 1) * len(settings.classes or label_names(sites))
    return MessageSizes(8 * max(cells, codes), 8 * cells)


def check_message_sizes(settings: XclpSettings, sites: Sequence[SiteData], most: int) -> None:
    """Refuse a run that would lose sites to their limit of the size of a message, saying what to do instead."""
    if settings.graph != "pairs":
        return
    large = {name: size for name, size in sizes_over_pairs(settings, sites).items() if size > most}
    if not large:
        return
    shown = ", ".join(f"{name!r} {size:,} bytes" for name, size in list(large.items())[:8])
    more = f" and {len(large) - 8} more" if len(large) > 8 else ""
    enough = -(-max(large.values()) // 2**20) * 2**20
    what = (
        f"{len(large)} of {len(sites)} sites would be lost: comparing all rows takes messages of {shown}{more}, and "
        f"the policy has max_message_bytes = {most:,}"
    )
    remedy = (
        f'take graph="anchors", whose messages do not grow with the rows; or fewer bits than {settings.bits:,}, or '
        f"fewer rows; or allow max_message_bytes = {enough:,}"
    )
    raise FaultsError([fault(what, remedy, topic="size")])
