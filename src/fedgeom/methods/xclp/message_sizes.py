"""How large the messages of a run over pairs become: known from the numbers of rows, before anything is sent."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache

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


WAVE_BYTES = 32 * 2**20
"""As many pairs are compared at once as keep every site's messages below this; a pair that takes more goes alone."""

Turns = dict[tuple[int, bool], int]
"""Bytes by turn, and whether they are written, not read."""
Wave = dict[str, tuple[str, ...]]
"""Who is compared with whom at a time: for each site its partners."""


def _pair_turns(comparison: str, bits: int, me: str, mine: int, partner: str, theirs: int) -> Turns:
    """Return the bytes that a site writes and reads at each turn with one partner.

    At turn 0 a site writes its first letters; at turn n it reads letters and answers each with the next one, or with
    its share.
    """
    first, turns = asks_first(me, partner), Turns()
    letters = _letter_sizes(comparison, *((mine, theirs) if first else (theirs, mine)), bits)
    for number, size in enumerate(letters):
        by_me = first == (number % 2 == 0)  # the two of them write in turn
        turns[number if by_me else number + 1, by_me] = size + _FRAME
    at = len(letters), True
    turns[at] = turns.get(at, 0) + 2 * mine * theirs + _FRAME
    return turns


@lru_cache(maxsize=1024)  # many sites have as many rows
def _letter_sizes(comparison: str, asker: int, helper: int, bits: int) -> tuple[int, ...]:
    return variant(comparison).sizes(asker, helper, bits)


def largest_message(comparison: str, bits: int, me: str, rows: Mapping[str, int], *, own: bool = True) -> int:
    """Return the bytes of the largest message that a site writes or reads while rows are compared at once, about.

    ``rows`` has the number of rows of every site, ``me`` among them; with ``own``, distances within it are sent, too.
    """
    mine = rows[me]
    total = Turns({(0, True): (mine * (mine - 1) if own else 0) + _FRAME})
    for partner, theirs in rows.items():
        if partner != me:
            for turn, size in _pair_turns(comparison, bits, me, mine, partner, theirs).items():
                total[turn] = total.get(turn, 0) + size
    return max(total.values())


def plan_waves(comparison: str, bits: int, rows: Mapping[str, int]) -> list[Wave]:
    """Divide all pairs of sites into waves, so that no site has messages above `WAVE_BYTES` in one; mostly one will do.

    A pair whose letters alone are larger has a wave in which neither site has another partner.
    """
    waves: list[dict[str, list[str]]] = [{name: [] for name in rows}]
    loads: list[dict[str, Turns]] = [{name: {(0, True): rows[name] ** 2} for name in rows}]
    for one, other in circle_pairs(sorted(rows)):
        pair = (one, other), (other, one)
        turns = {me: _pair_turns(comparison, bits, me, rows[me], you, rows[you]) for me, you in pair}
        number = next((k for k in range(len(waves)) if _fits(waves[k], loads[k], turns)), len(waves))
        if number == len(waves):
            waves.append({})
            loads.append({})
        for me, you in pair:
            waves[number].setdefault(me, []).append(you)
            load = loads[number].setdefault(me, {})
            for turn, size in turns[me].items():
                load[turn] = load.get(turn, 0) + size
    return [{name: tuple(sorted(partners)) for name, partners in wave.items()} for wave in waves]


def circle_pairs(names: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield all pairs as in a tournament, round by round: in each, nobody plays twice."""
    ring = [*names, ""] if len(names) % 2 else list(names)
    for _ in range(len(ring) - 1):
        half = len(ring) // 2
        yield from ((a, b) for a, b in zip(ring[:half], reversed(ring[half:]), strict=True) if a and b)
        ring = [ring[0], ring[-1], *ring[1:-1]]


def _fits(wave: Mapping[str, Sequence[str]], load: Mapping[str, Turns], more: Mapping[str, Turns]) -> bool:
    """Say whether another pair can be compared in a wave; one that finds both sites free always can."""
    return all(
        not wave.get(me) or all(load[me].get(turn, 0) + size <= WAVE_BYTES for turn, size in turns.items())
        for me, turns in more.items()
    )


def sizes_over_pairs(settings: XclpSettings, sites: Sequence[SiteData]) -> dict[str, int]:
    """Return the bytes of the largest message that each site writes or reads when all rows are compared, about.

    Within groups, whose draw is not known beforehand, at most those of a site among the largest of the others.
    """
    if settings.groups is None:
        return _sizes_together(settings, sites, sites)
    largest, most = sorted(sites, key=len, reverse=True), -(-len(sites) // settings.groups)
    needed: dict[str, int] = {}
    for site in sites:
        others = [one for one in largest if one is not site][: most - 1]
        needed |= _sizes_together(settings, [site, *others], [site])
    return needed


def _sizes_together(
    settings: XclpSettings, sites: Sequence[SiteData], wanted_of: Sequence[SiteData]
) -> dict[str, int]:
    """Return the bytes of some sites' largest messages when the rows of all of ``sites`` are compared, about."""
    rows = {site.name: len(site) for site in sites}
    needed, waves = {}, plan_waves(settings.hamming, settings.bits, rows)
    for site in wanted_of:
        wanted = len(site) if settings.hide_labelled else int(np.sum(is_labelled(site.y)))
        needed[site.name] = 4 * sum(rows.values()) * wanted + _FRAME
        for number, wave in enumerate(waves):
            some = {name: rows[name] for name in (site.name, *wave.get(site.name, ()))}
            compared = largest_message(settings.hamming, settings.bits, site.name, some, own=number == 0)
            needed[site.name] = max(needed[site.name], compared)
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
        f"fewer rows, or groups of sites (groups); or allow max_message_bytes = {enough:,}"
    )
    raise FaultsError([fault(what, remedy, topic="size")])
