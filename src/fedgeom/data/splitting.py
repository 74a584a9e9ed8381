"""Ways to split one data set into sites."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from fedgeom.data.columns import index_of, names_of
from fedgeom.data.rows import as_rows
from fedgeom.data.sites import SiteData
from fedgeom.errors import InputError


def split(
    X: npt.ArrayLike,
    y: npt.ArrayLike,
    n_sites: int | None = None,
    how: Literal["iid", "dirichlet", "by"] | None = None,
    seed: int = 0,
    *,
    by: npt.ArrayLike | None = None,
    alpha: float = 0.5,
    names: Sequence[str] | None = None,
    extra: Mapping[str, npt.ArrayLike] | None = None,
) -> list[SiteData]:
    """Split one data set, rows X of shape (rows, columns) with labels y, into sites.

    ``how`` the rows are dealt, drawn by ``seed``:

    - ``iid``, the default: a shuffled deal into ``n_sites`` (3), each class spread evenly;
    - ``dirichlet``: each class is divided by Dirichlet(``alpha``) shares, small alpha meaning skewed sites;
    - ``by``: one site for each value of the array ``by`` (hospital, donor, writer), which alone says this.

    ``names`` are those of the sites, in order; ``extra`` has arrays that are dealt along with the rows, by name.

    >>> [len(site) for site in split([[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1], n_sites=2)]
    [2, 2]
    >>> [site.name for site in split([[0.0], [1.0], [2.0]], [0, 1, 1], by=["anna", "bob", "anna"])]
    ['anna', 'bob']
    """
    table, labels = as_rows(X, "site 'the whole set'"), np.asarray(y)
    rows = table.shape[0]
    if len(labels) != rows:
        raise InputError(f"{rows} rows but {len(labels)} labels were given")
    if how == "by" or by is not None:
        owner, default_names = _by_value(by, rows, n_sites, how)
    else:
        asked = 3 if n_sites is None else n_sites
        if not 1 <= asked <= rows:
            raise InputError(f"n_sites={asked} given for {rows} rows; wanted 1 … {rows}")
        rng = np.random.default_rng(seed)
        dealt = how is None or how == "iid"
        owner = _deal(labels, asked, rng) if dealt else _dirichlet(labels, asked, str(how), alpha, rng)
        width = len(str(asked))
        default_names = [f"site-{i + 1:0{width}d}" for i in range(asked)]
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
    _, coded = np.unique(labels, return_inverse=True)
    order = np.lexsort((rng.random(len(labels)), coded))
    owner = np.empty(len(labels), np.intp)
    owner[order] = np.arange(len(labels)) % n_sites
    return owner


def _dirichlet(
    labels: npt.NDArray[Any], n_sites: int, how: str, alpha: float, rng: np.random.Generator
) -> npt.NDArray[np.intp]:
    if how != "dirichlet":
        raise InputError(f'how={how!r} given; wanted "iid", "dirichlet" or "by"')
    if not alpha > 0:
        raise InputError(f"alpha={alpha} given; wanted a positive concentration")
    owner = np.empty(len(labels), np.intp)
    for label in np.unique(labels):
        members = rng.permutation(np.flatnonzero(labels == label))
        cuts = np.floor(np.cumsum(rng.dirichlet(np.full(n_sites, alpha))) * len(members)).astype(int)
        owner[members] = np.searchsorted(cuts[:-1], np.arange(len(members)), side="right")
    return owner
