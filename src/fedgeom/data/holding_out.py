"""Setting rows aside for testing: class by class, and no patient on both sides."""

from __future__ import annotations

from hashlib import blake2b

import numpy as np
import numpy.typing as npt

from fedgeom.data.sites import SiteData
from fedgeom.errors import InputError

Mask = npt.NDArray[np.bool_]


def holdout(
    site: SiteData, share: float, seed: int | np.random.Generator = 0, *, keep: int = 2, few: int = 0
) -> tuple[SiteData, SiteData]:
    """Set a share of a site's rows aside for testing, class by class; every class keeps two rows to learn from.

    ``seed`` draws which rows. Rows without a label cannot be tested and are never set aside. Where the site knows which
    rows belong together (``site.groups``), such as those of one patient, all of a group are on the same side, and no
    class gives more than half of its rows away. ``keep`` is how many rows of a class must be left to learn
    from. Of a class with at least four times as many rows, ``few`` are set aside even where the share is smaller.

    >>> kept, aside = holdout(SiteData("north", [[0.0], [1.0], [2.0], [3.0]], ["a", "a", "a", "a"]), 0.25)
    >>> len(kept), len(aside)
    (3, 1)
    """
    if not 0 <= share < 1:
        raise InputError(f"a holdout share of {share} was given; wanted at least 0 and less than 1")
    rng = np.random.default_rng(seed)
    aside = _by_group(site, share, rng, keep, few) if site.groups is not None else None
    if aside is None:
        aside = np.zeros(len(site), bool)
        for label in site.classes:
            members = rng.permutation(np.flatnonzero(site.y == label))
            aside[members[: _wanted(len(members), share, keep, few)]] = True
    return site.take(~aside), site.take(aside)


def holdout_by_content(site: SiteData, share: float, salt: bytes) -> tuple[SiteData, SiteData]:
    """Set about a share of a site's rows aside, each by what is in it: one row more or less moves no other.

    Where the site knows which rows belong together, a row's group decides instead, so that they are on the same side.
    Rows without a label are never set aside. Differential privacy needs this: rows of both sides are then different
    rows, whatever other rows there are.
    """
    if site.groups is not None:
        keys = [str(group).encode() for group in np.asarray(site.groups).tolist()]
    else:
        rows = np.ascontiguousarray(site.X, np.float64)
        keys = [row.tobytes() + str(label).encode() for row, label in zip(rows, site.y.tolist(), strict=True)]
    drawn = [int.from_bytes(blake2b(key, digest_size=8, key=salt[:64]).digest(), "big") for key in keys]
    aside = (np.array(drawn, np.uint64) < np.uint64(int(share * 2**64))) & site.has_label
    return site.take(~aside), site.take(aside)


def _wanted(rows: int, share: float, keep: int, few: int) -> int:
    """Return how many of a class's rows are to be set aside."""
    least = min(few, rows // 4) if share else 0
    return min(max(round(share * rows), least), max(rows - keep, 0))


def _by_group(site: SiteData, share: float, rng: np.random.Generator, keep: int, few: int) -> Mask:
    """Mark whole groups, for the rarest class first, until each class has as many rows aside as it should."""
    labelled = site.has_label
    _, group = np.unique(np.asarray(site.groups).astype(str), return_inverse=True)
    names, coded = np.unique(site.y[labelled].astype(str), return_inverse=True)
    table = np.zeros((int(group.max(initial=-1)) + 1, len(names)), int)  # (groups, classes): rows of each
    np.add.at(table, (group[labelled], coded), 1)
    rows = table.sum(axis=0)
    wanted = np.array([_wanted(int(n), share, keep, few) for n in rows], int)
    most = np.minimum(np.maximum(wanted, rows // 2), np.maximum(rows - keep, 0))
    chosen, order = np.zeros(len(table), bool), rng.permutation(len(table))
    for label in np.argsort(rows, kind="stable"):
        for one in order[table[order, label] > 0]:
            taken = table[chosen].sum(axis=0)
            if taken[label] >= wanted[label]:
                break
            if not chosen[one] and (taken + table[one] <= most).all():
                chosen[one] = True
    return np.asarray(chosen[group], bool)
