"""Sites that are to learn together have the same columns: put into one order, or those that all of them have."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from fedgeom.data.sites import SiteData
from fedgeom.data.tables import listed
from fedgeom.errors import InputError


def same_columns(sites: Sequence[SiteData]) -> list[SiteData]:
    """Return the sites with their columns in the first one's order; refuse sites whose columns differ.

    A hospital that exports the same measurements in another order would otherwise spoil the joint model silently.
    """
    sites = list(sites)
    named = [site for site in sites if site.columns]
    if len({site.columns for site in named}) <= 1:
        return sites
    first = named[0]
    for site in named:
        wanted, there = set(first.columns), set(site.columns)
        lacks = [name for name in first.columns if name not in there]
        more = [name for name in site.columns if name not in wanted]
        if lacks or more:
            shared = set(first.columns).intersection(*(one.columns for one in named))
            raise InputError(
                f"site {site.name!r} has other columns than {first.name!r}: it lacks {listed(lacks)} and has "
                f"{listed(more)} instead. {len(shared):,} columns are at all sites: keep these alone with "
                "shared_columns = true in the federation file or fedgeom.shared_columns(sites) in Python, or name the "
                "columns to use, columns=[…]"
            )
    return [_chosen(site, first.columns) if site.columns else site for site in sites]


def shared_columns(sites: Sequence[SiteData]) -> list[SiteData]:
    """Return the sites with the columns that all of them have, in the first one's order; all need names of columns.

    >>> north = SiteData("north", [[1.0, 2.0]], ["ill"], columns=("age", "bmi"))
    >>> south = SiteData("south", [[3.0, 4.0]], ["well"], columns=("crp", "age"))
    >>> [site.X.tolist() for site in shared_columns([north, south])]
    [[[1.0]], [[4.0]]]
    """
    sites = list(sites)
    nameless = [site.name for site in sites if not site.columns]
    if nameless:
        raise InputError(
            f"the columns of site {listed(nameless)} have no names; nobody can say which of them are shared"
        )
    everywhere = set(sites[0].columns).intersection(*(site.columns for site in sites)) if sites else set()
    wanted = tuple(name for name in (sites[0].columns if sites else ()) if name in everywhere)
    if sites and not wanted:
        raise InputError(
            f"no column is at all sites: {sites[0].name!r} has {listed(sites[0].columns, 4)}, {sites[-1].name!r} "
            f"{listed(sites[-1].columns, 4)}; rename them alike"
        )
    return [_chosen(site, wanted) for site in sites]


def _chosen(site: SiteData, wanted: tuple[str, ...]) -> SiteData:
    if site.columns == wanted:
        return site
    places = {name: at for at, name in enumerate(site.columns)}
    return replace(site, table=site.table[:, [places[name] for name in wanted]], columns=wanted)
