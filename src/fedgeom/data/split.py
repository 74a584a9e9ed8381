"""Splitting rows: into sites, and into rows to learn from and rows to test on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from hashlib import blake2b
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from fedgeom.data.columns import index_of, names_of
from fedgeom.data.rows import as_rows
from fedgeom.data.sites import SiteData
from fedgeom.errors import InputError

MOST_DRAWS = 200
"""How often Dirichlet shares are drawn until every site has enough rows."""


def split(
    X: npt.ArrayLike,
    y: npt.ArrayLike,
    n_sites: int | None = None,
    how: Literal["iid", "dirichlet", "by"] | None = None,
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
    how: "iid", "dirichlet", "by" or None; None if not given
        "iid", the default: a shuffled deal, each class spread evenly. "dirichlet": each class is divided by
        Dirichlet(``alpha``) shares; ``alpha`` alone says this. "by": one site for each value of ``by``, which alone
        says this.
    seed: a whole number; 0 if not given
        Draws who gets which rows.
    by: one value for each row, or None; None if not given
        The row's hospital, donor, writer.
    alpha: a number above 0 or None; None if not given
        The smaller, the more the sites differ. None: 0.5 where ``how`` is "dirichlet".
    min_rows: a whole number; 1 if not given
        How many rows each site has at least: Dirichlet shares are drawn again until it is so.
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
    table = as_rows(X, "site 'the whole set'")
    labels = np.asarray(y)
    rows = table.shape[0]
    if len(labels) != rows:
        raise InputError(f"{rows} rows but {len(labels)} labels were given")
    if alpha is not None and (how in ("iid", "by") or by is not None):
        other = "`by`" if how is None else f"how={how!r}"
        raise InputError(
            f'alpha={alpha} and {other} were given; alpha is of how="dirichlet": leave one of them away'
        )
    if how == "by" or by is not None:
        owner, default_names = _by_value(by, rows, n_sites, how)
    else:
        asked = 3 if n_sites is None else n_sites
        if not 1 <= asked <= rows:
            raise InputError(f"n_sites={asked} given for {rows} rows; wanted 1 … {rows}")
        rng = np.random.default_rng(seed)
        dealt = alpha is None if how is None else how == "iid"
        shares = 0.5 if alpha is None else alpha
        named = how or "dirichlet"
        owner = _deal(labels, asked, rng) if dealt else _dirichlet(labels, asked, named, shares, rng, min_rows)
        width = len(str(asked))
        default_names = [f"site-{i + 1:0{width}d}" for i in range(asked)]
    least = int(np.bincount(owner, minlength=len(default_names)).min())
    if least < min_rows:
        raise InputError(
            f"a site has {least} rows; min_rows={min_rows} given: take fewer sites, a smaller min_rows, or in a "
            "Dirichlet split a larger alpha"
        )
    titles = list(names) if names is not None else default_names
    if len(titles) != len(default_names):
        raise InputError(f"{len(titles)} names were given for {len(default_names)} sites")
    extras = {key: np.asarray(value) for key, value in (extra or {}).items()}
    whole = SiteData("the whole set", table, labels, extras, names_of(X), index=index_of(X))
    parts = [whole.take(np.flatnonzero(owner == i)) for i in range(len(titles))]
    return [replace(part, name=title, row_numbers=None) for part, title in zip(parts, titles, strict=True)]


def _by_value(
    by: npt.ArrayLike | None, rows: int, n_sites: int | None, how: str | None
) -> tuple[npt.NDArray[np.intp], list[str]]:
    """Return the site of each row and the sites' names: one for each value of ``by``."""
    if how not in (None, "by"):
        raise InputError(
            f"how={how!r} and `by` were given; `by` makes a site of each of its values, {how!r} deals rows at random: "
            "leave one of them away"
        )
    if by is None or np.ndim(by) != 1 or len(np.asarray(by)) != rows:
        shape = "nothing" if by is None else f"an array of shape {np.shape(by)}"
        raise InputError(
            'how="by" needs `by`, one value per row that says which site it belongs to; '
            f"{shape} was given for {rows} rows"
        )
    values, owner = np.unique(np.asarray(by), return_inverse=True)
    if n_sites is not None and n_sites != len(values):
        raise InputError(
            f"n_sites={n_sites} given, but `by` has {len(values)} values, which are as many sites: leave n_sites away"
        )
    return owner, [str(value) for value in values.tolist()]


def _deal(labels: npt.NDArray[Any], n_sites: int, rng: np.random.Generator) -> npt.NDArray[np.intp]:
    """Deal class after class like cards, going on where the last class stopped."""
    coded = _codes(labels)
    order = np.lexsort((rng.random(len(labels)), coded))
    owner = np.empty(len(labels), np.intp)
    owner[order] = np.arange(len(labels)) % n_sites
    return owner


def _codes(labels: npt.NDArray[Any]) -> npt.NDArray[np.intp]:
    """Return the number of each row's class."""
    try:
        return np.unique(labels, return_inverse=True)[1]
    except TypeError:  # numbers among None or text cannot be sorted
        return np.unique(labels.astype(str), return_inverse=True)[1]


def _dirichlet(
    labels: npt.NDArray[Any], n_sites: int, how: str, alpha: float, rng: np.random.Generator, min_rows: int
) -> npt.NDArray[np.intp]:
    """Divide each class by Dirichlet shares, again until every site has enough rows, or it seems in vain."""
    if how != "dirichlet":
        raise InputError(f'how={how!r} given; wanted "iid", "dirichlet" or "by"')
    if not alpha > 0:
        raise InputError(f"alpha={alpha} given; wanted a positive concentration")
    coded = _codes(labels)
    owner = np.empty(len(labels), np.intp)
    for _ in range(MOST_DRAWS):
        for code in range(coded.max(initial=-1) + 1):
            members = rng.permutation(np.flatnonzero(coded == code))
            cuts = np.floor(np.cumsum(rng.dirichlet(np.full(n_sites, alpha))) * len(members)).astype(int)
            owner[members] = np.searchsorted(cuts[:-1], np.arange(len(members)), side="right")
        if np.bincount(owner, minlength=n_sites).min() >= min_rows:
            break
    return owner


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
