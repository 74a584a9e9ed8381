"""Whether sites' tables fit together: the same columns by name, values of the same kind, classes that several have."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches

import numpy as np

from fedgeom.data.columns import MOST_SUGGESTED
from fedgeom.data.sites import SiteData
from fedgeom.data.tables import listed
from fedgeom.data.validation import (
    ENOUGH_ROWS,
    MANY_COLUMNS,
    Finding,
    TableFacts,
    fault,
    kind_of,
    spelling_findings,
)
from fedgeom.errors import InputError

MOST_NAMES = 6
"""How many names of columns are shown; the others are counted."""
SHORT_LIST = 40
"""Up to so many shared columns a remedy writes out the line to add."""
RARE = 0.5
"""A column that is 0 in more than this share of the others' rows may well be 0 in all rows of one site."""


def align(sites: Sequence[SiteData]) -> tuple[list[SiteData], list[Finding]]:
    """Return the sites with their columns in one order, and what does not fit; they are as given where it does not."""
    data = list(sites)
    named = [site for site in data if site.columns]
    if len({site.columns for site in named}) > 1:
        faults = _name_faults(named)
        if faults:
            return data, faults
        first = named[0].columns
        data = [_in_order(site, first) for site in data]
    counts = Counter(site.shape[1] for site in data)
    if len(counts) <= 1:
        return data, []
    usual = counts.most_common(1)[0][0]
    odd = [site for site in data if site.shape[1] != usual]
    shown = ", ".join(f"{site.name!r} has {site.shape[1]:,}" for site in odd[:8])
    return data, [
        fault(
            f"sites must have the same columns: most have {usual:,}, but site {shown}",
            "give every site the same columns in the same order; with names (a header) they are compared by name",
            topic="columns",
        )
    ]


def _in_order(site: SiteData, wanted: tuple[str, ...]) -> SiteData:
    if not site.columns or site.columns == wanted:
        return site
    places = {name: at for at, name in enumerate(site.columns)}
    return replace(site, table=site.table[:, [places[name] for name in wanted]], columns=wanted)


def shared_columns(sites: Sequence[SiteData]) -> list[SiteData]:
    """Return the sites with the columns that all of them have, in the first one's order.

    Parameters
    ----------
    sites: a list of `SiteData`
        All need names of columns.

    Returns
    -------
    a list of `SiteData`

    >>> north = SiteData("north", [[1.0, 2.0]], ["ill"], columns=("age", "bmi"))
    >>> south = SiteData("south", [[3.0, 4.0]], ["well"], columns=("crp", "age"))
    >>> [site.X.tolist() for site in shared_columns([north, south])]
    [[[1.0]], [[4.0]]]
    """
    data = list(sites)
    nameless = [site.name for site in data if not site.columns]
    if nameless:
        raise InputError(f"the columns of site {listed(nameless)} have no names; nobody can say which are shared")
    everywhere = set(data[0].columns).intersection(*(site.columns for site in data)) if data else set()
    wanted = tuple(name for name in data[0].columns if name in everywhere) if data else ()
    if data and not wanted:
        raise InputError(
            f"no column is at all sites: {data[0].name!r} has {listed(data[0].columns, 4)}, {data[-1].name!r} "
            f"{listed(data[-1].columns, 4)}; rename them alike"
        )
    return [_in_order(site, wanted) for site in data]


def without_columns(sites: Sequence[SiteData], names: Collection[str]) -> list[SiteData]:
    """Return the sites without the columns of these names."""
    found = []
    for site in sites:
        kept = tuple(name for name in site.columns if name not in names)
        found.append(_in_order(site, kept) if kept else site)
    return found


def _name_faults(named: Sequence[SiteData]) -> list[Finding]:
    """Say of each site whose columns are not those of most sites which it lacks and which only it has."""
    usual = set(Counter(frozenset(site.columns) for site in named).most_common(1)[0][0])
    example = next(site for site in named if set(site.columns) == usual)
    shared = set(named[0].columns).intersection(*(site.columns for site in named))
    remedy = _shared_remedy([name for name in named[0].columns if name in shared], len(usual))
    faults = []
    for site in named:
        mine = set(site.columns)
        if mine == usual:
            continue
        lacks = [name for name in example.columns if name not in mine]
        more = [name for name in site.columns if name not in usual]
        parts = []
        if lacks:
            parts.append(f"it lacks {len(lacks):,}: {listed(lacks, MOST_NAMES)}")
        if more:
            parts.append(f"it has {len(more):,} that are not there: {listed(more, MOST_NAMES)}")
        hint = _nearest(lacks, more)
        faults.append(
            fault(
                f"has other columns than {example.name!r}: {', and '.join(parts)}{hint}",
                remedy,
                site=site.name,
                topic="columns",
            )
        )
    return faults


def _nearest(lacks: Sequence[str], more: Sequence[str]) -> str:
    """Say which of the columns that are there may be meant by those that are missing."""
    if not lacks or not more:
        return ""
    lowered = {name.casefold().strip(): name for name in more}
    meant = []
    for name in lacks[: 200 if len(more) > 1000 else 2000]:
        same = lowered.get(name.casefold().strip())
        if same is not None:
            meant.append(f"{same!r} for {name!r}")
    if len(more) <= 1000:  # it takes a while among thousands
        known = {pair.partition(" for ")[2] for pair in meant}
        for name in [name for name in lacks if repr(name) not in known][:MOST_SUGGESTED]:
            near = get_close_matches(name, more, n=1, cutoff=0.8)
            meant += [f"{near[0]!r} for {name!r}"] if near else []
    if not meant:
        return ""
    rest = f" and {len(meant) - MOST_SUGGESTED:,} more" if len(meant) > MOST_SUGGESTED else ""
    return f". Is it {', '.join(meant[:MOST_SUGGESTED])}{rest}? Then rename {'it' if len(meant) == 1 else 'them'}"


def _shared_remedy(shared: Sequence[str], usual: int) -> str:
    if not shared:
        return "no column has the same name at all sites: rename them alike"
    if len(shared) <= SHORT_LIST:
        line = ", ".join(f'"{name}"' for name in shared)
        return f"rename columns alike, or use the {len(shared)} that all sites share: columns = [{line}]"
    return (
        f"{len(shared):,} columns have the same name at all sites (of {usual:,}): keep these alone with "
        "shared_columns = true in the federation file or fedgeom.shared_columns(sites) in Python, or name those "
        "that you want, columns = […]"
    )


def compare_tables(sites: Sequence[SiteData], facts: Mapping[str, TableFacts]) -> list[Finding]:
    """Return what looks odd between tables whose columns are the same ones, in the same order."""
    data = [site for site in sites if len(site) and site.name in facts]
    words = {site.name: site.class_counts() for site in data}
    spelling = spelling_findings(words) if len(words) > 1 else []
    columns = (
        [*_complete(data, facts), *_same_everywhere(data, facts), *_not_measured(data, facts)] if data else []
    )
    return [*_kinds(data, facts), *spelling, *columns, *_lone_classes(words)]


def compare_raw(sites: Sequence[SiteData]) -> list[Finding]:
    """Return what looks odd between tables that are yet to be prepared, whose columns may differ."""
    data = [site for site in sites if len(site)]
    words = {site.name: site.class_counts() for site in data}
    spelling = spelling_findings(words) if len(words) > 1 else []
    return [*spelling, *_lone_classes(words), *_other_names(data), *_raw_columns(data)]


def _other_names(data: Sequence[SiteData]) -> list[Finding]:
    """Say of a column that a site lacks, and most others have, which of its own may be meant."""
    named = [site for site in data if site.columns]
    counts = Counter(name for site in named for name in site.columns)
    usual = [name for name, count in counts.items() if count > len(named) / 2]
    found = []
    for site in named:
        mine = set(site.columns)
        lacks = [name for name in usual if name not in mine]
        hint = _nearest(lacks, [name for name in site.columns if counts[name] <= len(named) / 2])
        if hint:
            found.append(
                Finding(
                    level="warning",
                    what=f"has no columns {listed(lacks, MOST_NAMES)}, which most sites have, and others instead{hint}",
                    remedy='a column that a site lacks is left out at all of them: rename = { "name there" = "name" }',
                    sites=(site.name,),
                    topic="columns",
                )
            )
    return found


def _raw_columns(data: Sequence[SiteData]) -> list[Finding]:
    """Look at the columns of numbers that all sites have: which say nothing anywhere, or were not measured at one."""
    if not data or not all(site.columns for site in data):
        return []
    numbers = set(data[0].columns).intersection(*(set(site.columns) - set(site.categories) for site in data))
    shared = [_in_order(site, tuple(name for name in data[0].columns if name in numbers)) for site in data]
    if not numbers:
        return []
    facts = {site.name: TableFacts.of(site) for site in shared}
    return [*_same_everywhere(shared, facts), *_not_measured(shared, facts)]


def _kinds(data: Sequence[SiteData], facts: Mapping[str, TableFacts]) -> list[Finding]:
    kinds: dict[str, list[str]] = {}
    for site in data:
        kinds.setdefault(kind_of(facts[site.name]), []).append(site.name)
    if len(kinds) < 2 or not {"counts", "logarithms"} <= set(kinds):
        return []
    return [
        Finding(
            level="warning",
            what=f"some tables look like raw counts ({_some(kinds['counts'])}), others like logarithms of counts "
            f"({_some(kinds['logarithms'])})",
            remedy="a joint model of both means nothing: prepare all sites' rows in the same way",
            topic="counts",
        )
    ]


def _complete(data: Sequence[SiteData], facts: Mapping[str, TableFacts]) -> list[Finding]:
    """Say which columns have no gap at any site, where others have: with these a run could begin at once."""
    full = np.all([facts[site.name].finite == len(site) for site in data], axis=0)
    names = [_name(data[0], at) for at in np.flatnonzero(full).tolist()]
    if full.all() or not names or not data[0].columns:
        return []
    line = ", ".join(f'"{name}"' for name in names)
    return [
        Finding(
            level="note",
            what=f"{len(names):,} of {full.size:,} columns have no gap at any site: {listed(names, MOST_NAMES)}",
            remedy=f"to use these alone: columns = [{line}]" if len(names) <= SHORT_LIST else "",
            topic="gaps",
        )
    ]


def _same_everywhere(data: Sequence[SiteData], facts: Mapping[str, TableFacts]) -> list[Finding]:
    """Find columns that say nothing anywhere."""
    every = [facts[site.name] for site in data]
    marks = np.all([one.constant for one in every], axis=0)
    if marks.any():
        marks &= np.ptp([one.low for one in every], axis=0) == 0
    if not marks.any() or marks.all():
        return []
    names = [_name(data[0], at) for at in np.flatnonzero(marks).tolist()]
    return [
        Finding(
            level="note" if marks.size >= MANY_COLUMNS else "warning",
            what=f"{len(names):,} of {marks.size:,} columns have the same value in all rows of all sites: "
            f"{listed(names, MOST_NAMES)}",
            remedy="nothing can be learnt from them: leave them out",
            topic="constants",
        )
    ]


def _not_measured(data: Sequence[SiteData], facts: Mapping[str, TableFacts]) -> list[Finding]:
    """Find columns that vary everywhere but at one site, which does not seem to have measured them."""
    every = [facts[site.name] for site in data]
    constant = np.array([one.constant for one in every])
    found = list[Finding]()
    if not constant.any():
        return []
    zeros = np.array([one.zeros for one in every])
    rows = np.array([one.rows for one in every])
    for at, site in enumerate(data if len(data) > 1 else ()):
        others = np.arange(len(data)) != at
        usually_zero = zeros[others].sum(axis=0) > RARE * rows[others].sum()
        enough = every[at].finite >= ENOUGH_ROWS
        odd = np.flatnonzero(constant[at] & enough & ~constant[others].any(axis=0) & ~usually_zero).tolist()
        if odd:
            values = _some([f"{_name(site, i)!r} is {every[at].low[i]:g}" for i in odd])
            found.append(
                Finding(
                    level="warning",
                    what=f"has columns with one value in all rows that vary at all other sites: {values}",
                    remedy="was it measured there at all? A placeholder is taken for a value: leave the column out at "
                    "all sites, or fill it in",
                    sites=(site.name,),
                    topic="constants",
                )
            )
    return found


def _name(site: SiteData, column: int) -> str:
    return site.columns[column] if site.columns else f"number {column}"


def _lone_classes(words: Mapping[str, Iterable[str]]) -> list[Finding]:
    """Find classes that one site alone has, where others are shared."""
    where: dict[str, list[str]] = {}
    for site, mine in words.items():
        for word in mine:
            where.setdefault(word, []).append(site)
    lone = sorted(f"{word!r} at {sites[0]}" for word, sites in where.items() if len(sites) == 1)
    if len(words) < 2 or not lone or len(lone) == len(where):  # no word is shared: see the warnings on words
        return []
    return [
        Finding(
            level="note",
            what=f"{len(lone)} of {len(where)} label names occur at one site only: {_some(lone)}",
            remedy="what is summed over such a class is that site's own; strict sites leave it out "
            "(single_site_classes = false): rename it if it is a synonym, or merge it with another",
            topic="classes",
        )
    ]


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:MOST_NAMES]) + (
        f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    )
