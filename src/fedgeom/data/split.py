"""Splitting rows: into sites, and into rows to learn from and rows to test on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import blake2b

import numpy as np
import numpy.typing as npt

from fedgeom.data.partition import Dirichlet, Partition, QuantitySkew, by_value, parted, whole_table
from fedgeom.data.sites import SiteData
from fedgeom.errors import InputError


def split(
    X: npt.ArrayLike,
    y: npt.ArrayLike,
    n_sites: int | None = None,
    how: str | Partition | None = None,
    seed: int = 0,
    *,
    by: npt.ArrayLike | None = None,
    alpha: float | None = None,
    min_rows: int = 1,
    names: Sequence[str] | None = None,
    extra: Mapping[str, npt.ArrayLike] | None = None,
) -> list[SiteData]:
    """Split one data set into sites.

    Parameters
    ----------
    X: a table of shape (rows, columns)
        The features.
    y: one label for each row
        Numbers or text.
    n_sites: a whole number or None; None if not given
        How many sites. None: 3, or as many as ``by`` has values.
    how: a partition, the name of one, "by" or None; None if not given
        A partition is an object of `fedgeom.partition`, such as ``Pathological(classes_per_site=2)``; by name it has
        its usual settings: "iid" (each class spread evenly, as when nothing is given), "dirichlet" (each class divided
        by Dirichlet(``alpha``) shares; ``alpha`` alone says this), "pathological", "shards", "quantity", "feature",
        "noise". "by": one site for each value of ``by``, which alone says this.
    seed: a whole number; 0 if not given
        Draws who gets which rows.
    by: one value for each row, or None; None if not given
        The row's hospital, donor, writer.
    alpha: a number above 0 or None; None if not given
        The smaller, the more the sites differ. None: 0.5 where ``how`` is "dirichlet".
    min_rows: a whole number; 1 if not given
        How many rows each site has at least: Dirichlet shares are drawn again until it is so, other splits refused.
    names: a list of texts or None; None if not given
        The sites' names, in order.
    extra: arrays by name, or None; None if not given
        What is dealt along with the rows.

    Returns
    -------
    a list of `SiteData`

    >>> [len(site) for site in split([[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1], n_sites=2)]
    [2, 2]
    >>> [site.name for site in split([[0.0], [1.0], [2.0]], [0, 1, 1], by=["anna", "bob", "anna"])]
    ['anna', 'bob']
    """
    if alpha is not None and (how not in (None, "dirichlet") or by is not None):
        other = "`by`" if how is None else f"how={how!r}"
        raise InputError(
            f'alpha={alpha} and {other} were given; alpha is of how="dirichlet": leave one of them away'
        )
    if how == "by" or by is not None:
        whole = whole_table(X, y, dict(extra or {}))
        owner, titles = by_value(by, len(whole), n_sites, how)
        if names is not None and len(names) != len(titles):
            raise InputError(f"{len(names)} names were given for {len(titles)} sites")
        sites = parted(whole, owner, titles if names is None else names)
    else:
        partition = _partition(how, alpha, min_rows)
        asked = {} if n_sites is None else {"n_sites": n_sites}
        sites = partition.over(X, y, seed=seed, names=names, extra=dict(extra or {}), **asked).sites
    least = min(map(len, sites))
    if least < min_rows:
        raise InputError(
            f"a site has {least} rows; min_rows={min_rows} given: take fewer sites, a smaller min_rows, or in a "
            "Dirichlet split a larger alpha"
        )
    return sites


def _partition(how: str | Partition | None, alpha: float | None, min_rows: int) -> Partition:
    """Return the partition that the arguments of `split` name."""
    if isinstance(how, Partition):
        return how
    if how is None:
        how = "iid" if alpha is None else "dirichlet"
    if how not in Partition.names:
        raise InputError(
            f'how={how!r} given; wanted one of {", ".join(repr(name) for name in Partition.names)} or "by", or an '
            "object of fedgeom.partition"
        )
    if how == "dirichlet":
        return Dirichlet(0.5 if alpha is None else alpha, min_rows)
    return QuantitySkew(min_rows=min_rows) if how == "quantity" else Partition.names[how]()


Mask = npt.NDArray[np.bool_]


def holdout(
    site: SiteData, share: float, seed: int | np.random.Generator = 0, *, keep: int = 2, few: int = 0
) -> tuple[SiteData, SiteData]:
    """Set a share of a site's rows aside for testing, class by class; every class keeps two rows to learn from.

    Rows without a label cannot be tested and are never set aside. Where the site knows which rows belong together
    (``site.groups``), such as those of one patient, all of a group are on the same side, and no class gives more than
    half of its rows away.

    Parameters
    ----------
    site: a `SiteData`
        The site whose rows are divided.
    share: a number between 0 and 1
        The share of each class's rows that is set aside.
    seed: a whole number or a generator; 0 if not given
        Draws which rows.
    keep: a whole number; 2 if not given
        How many rows of a class must be left to learn from.
    few: a whole number; 0 if not given
        Of a class with at least four times as many rows, this many are set aside even where the share is smaller.

    Returns
    -------
    two of `SiteData`
        The rows to learn from, and those set aside.

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
    chosen = np.zeros(len(table), bool)
    order = rng.permutation(len(table))
    for label in np.argsort(rows, kind="stable"):
        for one in order[table[order, label] > 0]:
            taken = table[chosen].sum(axis=0)
            if taken[label] >= wanted[label]:
                break
            if not chosen[one] and (taken + table[one] <= most).all():
                chosen[one] = True
    return np.asarray(chosen[group], bool)
