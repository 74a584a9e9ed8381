"""What is likely to be a mistake in tables that can be read: each with the evidence, and what to do.

Placeholders for values and for labels, quantities as labels, features that give the outcome away, units that differ
between sites, columns that are empty at one of them, and the same rows at two.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from fedgeom.arrays import Floats
from fedgeom.data.sites import SiteData
from fedgeom.data.tables import is_sparse, listed
from fedgeom.data.validation import LARGEST_LOG, Finding, TableFacts, fault

MOST_COLUMNS = 500
"""Tables with more columns are genes or pixels: single ones are not looked at."""
MOST_CELLS = 2**24
"""Nor are those of larger tables."""
ENOUGH = 20
"""So many values of a column are enough to speak of its median."""
SHOWN = 4
"""How many columns of a kind are shown with their numbers."""

SENTINELS = (-9.0, -99.0, -999.0, -9999.0, -99999.0, 99.0, 999.0, 9999.0, 99999.0)
"""Numbers that stand for "not measured" in many files."""
PLACEHOLDERS = frozenset(
    {
        *("?", "??", "-", "--", "–", "—", "#n/a", "tbd", "-9", "-99", "-999", "-9999", "9999"),
        *(
            "unknown",
            "missing",
            "undefined",
            "unspecified",
            "(none)",
            "(blank)",
            "(empty)",
            "n.a.",
            "n.a",
            "n. a.",
        ),
        *("not available", "not known", "not specified", "not reported"),
        *("unbekannt", "fehlt", "fehlend", "(leer)", "k.a.", "k.a", "k. a.", "keine angabe", "nicht bekannt"),
    }
)
"""Label names, in small letters, that say of a row that nobody knows its class."""
MANY_QUANTITIES = 20
"""So many different numbers as labels, with few rows each, are a quantity."""
FEW_ROWS = 20
LEAST_CLASS = 8
"""A class of fewer rows may be told apart by any column, by chance."""
LEAKING = 0.05
"""A column gives the outcome away that leaves this share of the doubt about it."""
TIME = re.compile(
    r"^time$|futime|follow.?up|surviv|^(os|pfs|dfs|rfs|efs)([_. ]|$)|"
    r"(time|days|months|years)[_. ]?(to|until)[_. ]?(death|event|relapse|progress|censor|last)",
    re.IGNORECASE,
)
"""What columns are called that say how long somebody was observed."""
APART = 1.8
"""Medians that are this factor apart, with ranges that do not meet, may be in different units."""
FACTORS = {
    2.2046: "lb and kg", 2.54: "cm and inches", 7.0: "days and weeks", 10.0: "", 12.0: "months and years",
    18.02: "glucose in mg/dl and mmol/l", 24.0: "hours and days", 30.44: "days and months",
    38.67: "cholesterol in mg/dl and mmol/l", 60.0: "minutes and hours", 88.4: "creatinine in µmol/l and mg/dl",
    100.0: "cm and m, or per cent and shares", 365.25: "days and years", 1000.0: "g and kg, or mg and g",
}  # fmt: skip
"""What a factor between medians may mean."""

Column = dict[str, Floats]
"""A column's numbers by site."""


def doubts(sites: Sequence[SiteData], *, raw: bool = False) -> list[Finding]:
    """Return what looks like a mistake, in one table or between several; ``raw`` ones are prepared yet.

    Parameters
    ----------
    sites: a list of `SiteData`
        Their columns are compared by name.
    raw: true or false; false if not given
        Whether gaps are filled in later: then numbers that are not finite are not told elsewhere.
    """
    data = [site for site in sites if len(site)]
    found = [*_placeholders(data), *_quantity(data)]
    wide = any(is_sparse(site.table) or site.shape[1] > MOST_COLUMNS or not site.columns for site in data)
    if not data or wide or sum(len(site) * site.shape[1] for site in data) > MOST_CELLS:
        return found
    columns = _columns(data)
    if raw:
        found += [*_infinite(data), *_empty(data, columns), *_words(data, columns)]
    return [*found, *_sentinels(columns), *_units(columns), *_same_rows(data), *_leaks(data)]


def log_counts_doubts(sites: Sequence[SiteData], facts: Mapping[str, TableFacts]) -> list[Finding]:
    """Return which tables are logarithms already, where counts are to be prepared."""
    found = []
    for site in sites:
        one = facts[site.name]
        if not len(site) or one.whole.all() or one.negative or float(one.high.max()) > LARGEST_LOG:
            continue
        found.append(
            Finding(
                level="warning",
                what=f"has no raw counts: its numbers have fractions and are at most {float(one.high.max()):.3g}, as "
                "logarithms of counts are",
                remedy='prepare = "counts" would take logarithms again: give raw counts, such as columns = '
                '"layers:counts" or "raw", or prepare with ["select-variable", "pca"] alone',
                sites=(site.name,),
                topic="counts",
            )
        )
    return found


def _columns(data: Sequence[SiteData]) -> dict[str, Column]:
    """Return the columns of numbers, by name, with the finite values of each site."""
    found: dict[str, Column] = {}
    for site in data:
        for at, name in enumerate(site.columns):
            if name not in site.categories:
                values = np.asarray(site.table[:, at], np.float64)
                found.setdefault(name, {})[site.name] = values[np.isfinite(values)]
    return found


def _placeholders(data: Sequence[SiteData]) -> list[Finding]:
    """Find label names that say that nobody knows the class."""
    where: dict[str, list[str]] = {}
    rows = 0
    for site in data:
        for word, count in site.class_counts().items():
            if word.strip().lower() in PLACEHOLDERS:
                where.setdefault(word, []).append(site.name)
                rows += count
    if not where:
        return []
    named = ", ".join(f'"{word}"' for word in where)
    return [
        Finding(
            level="warning",
            what=f"these label names look like placeholders, and are classes of their own, with {rows:,} rows: "
            f"{listed(list(where))}",
            remedy=f"if nobody knows the class of these rows: missing = [{named}] and drop_unlabelled = true",
            sites=tuple(dict.fromkeys(site for some in where.values() for site in some)),
            topic="labels",
        )
    ]


def _quantity(data: Sequence[SiteData]) -> list[Finding]:
    """Find labels that are measurements."""
    counts: dict[str, int] = {}
    for site in data:
        for word, count in site.class_counts().items():
            counts[word] = counts.get(word, 0) + count
    if len(counts) < MANY_QUANTITIES:
        return []
    try:
        numbers = np.sort([float(word) for word in counts])
    except ValueError:
        return []
    few = sum(counts.values()) < FEW_ROWS * len(counts)
    codes = numbers[0] in (0, 1) and np.array_equal(np.diff(numbers), np.ones(len(numbers) - 1))
    if codes and not few:
        return []
    return [
        Finding(
            level="warning",
            what=f"the labels look like a quantity: {len(counts):,} different numbers from {numbers[0]:g} to "
            f"{numbers[-1]:g} in {sum(counts.values()):,} rows, each a class of its own",
            remedy="fedgeom tells classes apart: make a few classes of it, such as below and above a limit, or name "
            "another label column",
            topic="labels",
        )
    ]


def _infinite(data: Sequence[SiteData]) -> list[Finding]:
    """Find infinite numbers, which preparation would take for gaps."""
    found = []
    for site in data:
        bad = np.argwhere(np.isinf(np.asarray(site.table, np.float64)))
        if not len(bad):
            continue
        row, column = bad[0].tolist()
        number = row if site.row_numbers is None else site.row_numbers[row]
        found.append(
            fault(
                f"{len(bad):,} cells are infinite, the first in row {number}, column {site.columns[column]!r}",
                'nobody measures that: mend them, or make them gaps, missing = ["inf", "-inf"]',
                site=site.name,
                topic="cells",
                columns=tuple(site.columns[at] for at in np.unique(bad[:, 1]).tolist()),
            )
        )
    return found


def _sentinels(columns: Mapping[str, Column]) -> list[Finding]:
    """Find numbers far from all others that stand for "not measured" in many files."""
    shown = []
    named: dict[str, None] = {}
    used: dict[float, None] = {}
    sites: dict[str, None] = {}
    for name, parts in columns.items():
        values = np.concatenate(list(parts.values()))
        odd = np.isin(values, SENTINELS)
        rest = values[~odd]
        if not odd.any() or len(rest) < ENOUGH // 2 or rest.max() == rest.min():
            continue
        span = rest.max() - rest.min()
        for one in np.unique(values[odd]).tolist():
            count = int((values == one).sum())
            far = rest.min() - one > span if one < 0 else one - rest.max() > span
            if not (far and (one < 0 or count > 1)) and not (one < 0 <= rest.min()):
                continue
            shown.append(
                f"{one:g} in column {name!r} ({count:,} cells; the others are {rest.min():g} to {rest.max():g})"
            )
            used[one] = None
            named[name] = None
            sites |= {site: None for site, some in parts.items() if (some == one).any()}
    if not shown:
        return []
    more = f" and {len(shown) - SHOWN} more" if len(shown) > SHOWN else ""
    return [
        Finding(
            level="warning",
            what=f"these numbers may mean that nothing was measured: {', '.join(shown[:SHOWN])}{more}",
            remedy=f"if so: missing = [{', '.join(f'{one:g}' for one in used)}]",
            sites=tuple(sites),
            topic="sentinels",
            columns=tuple(named),
        )
    ]


def _units(columns: Mapping[str, Column]) -> list[Finding]:
    """Find columns whose numbers at one site are those of the others times a factor."""
    found = []
    for name, parts in columns.items():
        known = {
            site: np.quantile(one, (0.1, 0.25, 0.5, 0.75, 0.9))
            for site, one in parts.items()
            if len(one) >= ENOUGH
        }
        for site, own in known.items():
            others = np.array([one for other, one in known.items() if other != site])
            factor = _factor(own, others)
            if factor is None:
                continue
            middle = float(np.median(others[:, 2]))
            turned = max(factor, 1 / factor)
            near = min(FACTORS, key=lambda one: abs(one / turned - 1))
            hint = f" ({FACTORS[near]}?)" if abs(near / turned - 1) < 0.12 and FACTORS[near] else ""
            found.append(
                Finding(
                    level="warning",
                    what=f"the median of column {name!r} is {own[2]:.4g}, at the other sites {middle:.4g}: a factor of "
                    f"{turned:.3g}{hint}",
                    remedy=f"is it another unit? Then convert it there: units = {{ {name} = {1 / factor:.4g} }}",
                    sites=(site,),
                    topic="units",
                    columns=(name,),
                )
            )
            if len(known) == 2:  # who is the odd one of two is not known: it is said once
                break
    return found


def _factor(own: Floats, others: Floats) -> float | None:
    """Return the factor between a site's quantiles, (5,), and those of others, (sites, 5); None where there is none."""
    if not len(others):
        return None
    middle = float(np.median(others[:, 2]))
    spread = float(np.median(others[:, 3] - others[:, 1]))
    if own[2] * middle <= 0 or own[3] <= own[1] or spread <= 0:
        return None
    factor = float(own[2] / middle)
    meet = own[0] <= others[:, 4].max() and others[:, 0].min() <= own[4]
    scaled = abs(np.log((own[3] - own[1]) / spread) - np.log(factor)) < 0.35
    return factor if max(factor, 1 / factor) >= APART and not meet and scaled else None


def _empty(data: Sequence[SiteData], columns: Mapping[str, Column]) -> list[Finding]:
    """Find columns that have no value at one site, and some at others."""
    found = []
    for site in data:
        none = [
            name
            for name in site.columns
            if name in columns
            and name not in site.categories
            and not len(columns[name].get(site.name, ()))
            and any(len(one) for other, one in columns[name].items() if other != site.name)
        ]
        if none:
            found.append(
                Finding(
                    level="warning",
                    what=f"has columns without a single value that others have filled: {listed(none, SHOWN)}",
                    remedy="all its gaps would be filled with what the others have: leave the columns out at all sites "
                    "(drop), or look whether they are called otherwise there",
                    sites=(site.name,),
                    topic="gaps",
                    columns=tuple(none),
                )
            )
    return found


def _words(data: Sequence[SiteData], columns: Mapping[str, Column]) -> list[Finding]:
    """Find columns whose cells sites write in different ways: words here and numbers there, or other words."""
    found = []
    for name in dict.fromkeys(name for site in data for name in site.categories):
        words = {site.name: set(site.categories[name]) for site in data if site.categories.get(name)}
        what, remedy, where = _written_otherwise(name, words, columns.get(name, {}))
        if what:
            found.append(
                Finding(
                    level="warning", what=what, remedy=remedy, sites=tuple(where), topic="words", columns=(name,)
                )
            )
    return found


def _written_otherwise(name: str, words: Mapping[str, set[str]], column: Column) -> tuple[str, str, list[str]]:
    """Return what is odd about the words of a column, what to do, and at which sites; no words where nothing is."""
    shown = "; ".join(f"{one}: {listed(sorted(words[one]), SHOWN)}" for one in list(words)[:SHOWN])
    numbers = [one for one, values in column.items() if len(values)]
    if numbers:
        return (
            f"column {name!r} holds words ({shown}) and at {listed(numbers, SHOWN)} numbers, so it is left out",
            "write it alike at all sites; where its numbers are codes they are words by "
            f'categorical = ["{name}"], and rename_words gives words other names',
            numbers,
        )
    spellings: dict[str, set[str]] = {}
    for word in set().union(*words.values()):
        spellings.setdefault(word.casefold(), set()).add(word)
    alike = sorted(word for some in spellings.values() if len(some) > 1 for word in some)
    others = {
        one: set().union(*(own for other, own in words.items() if other != one)) for one in words if len(words) > 1
    }
    alone = [one for one in others if not words[one] & others[one]]
    if not alike and not alone:
        return "", "", []
    case = f"words of column {name!r} differ in capital letters alone: {listed(alike, SHOWN)}" if alike else ""
    lone = f"no word of column {name!r} is at another site ({shown})" if alone else ""
    return (
        "; ".join(one for one in (lone, case) if one),
        "if they mean the same, write them alike: rename_words in the file, or in the table. Otherwise each is a "
        "category of its own, and where policies have floors, rare ones are left out",
        alone or [one for one, own in words.items() if own & set(alike)],
    )


def _same_rows(data: Sequence[SiteData]) -> list[Finding]:
    """Find sites that have rows in common, where rows are as good as never alike at one site."""
    names = sorted(set(data[0].columns).intersection(*(site.columns for site in data)))
    names = [name for name in names if not any(name in site.categories for site in data)]
    if len(data) < 2 or not names:
        return []
    rows: dict[str, set[bytes]] = {}
    for site in data:
        places = [site.columns.index(name) for name in names]
        table = np.ascontiguousarray(np.asarray(site.table[:, places], np.float64) + 0.0)
        table[np.isnan(table)] = np.nan
        mine = {row.tobytes() for row in table}
        if len(mine) >= 0.9 * len(site):
            rows[site.name] = mine
    pairs = []
    for at, one in enumerate(rows):
        for other in list(rows)[at + 1 :]:
            shared = len(rows[one] & rows[other])
            if shared >= max(10, 0.2 * min(len(rows[one]), len(rows[other]))):
                pairs.append((one, other, shared))
    if not pairs:
        return []
    shown = ", ".join(f"{shared:,} at {one!r} and {other!r}" for one, other, shared in pairs[:SHOWN])
    more = f" and {len(pairs) - SHOWN} more pairs" if len(pairs) > SHOWN else ""
    return [
        Finding(
            level="warning",
            what=f"sites have the same rows: {shown}{more}",
            remedy="is one file given twice, or is a patient at two sites? Such rows count twice, and a test on them "
            "promises too much",
            sites=(),
            topic="rows",
        )
    ]


def _leaks(data: Sequence[SiteData]) -> list[Finding]:
    """Find features that tell the classes apart all by themselves, and times that are known only afterwards."""
    y = np.concatenate([np.where(site.has_label, site.y.astype(str), "") for site in data])
    labels, counts = np.unique(y[y != ""], return_counts=True)
    big = labels[counts >= LEAST_CLASS]
    if len(big) < 2:
        return []
    names = [name for name in data[0].columns if all(name in site.columns for site in data)]
    copies = []
    known = np.isin(y, big)
    for name in names:
        values = _joined(data, name)
        some = known & (values != "") if values.dtype.kind == "U" else known & np.isfinite(values)
        if some.sum() >= 30 and _doubt_left(values[some], y[some]) <= LEAKING:
            copies.append(name)
    found = []
    if copies and len(copies) <= max(1, len(names) // 5):  # where many columns do, the classes are plainly apart
        named = ", ".join(f'"{name}"' for name in copies)
        found.append(
            Finding(
                level="warning",
                what=f"these columns tell the classes apart all by themselves: {listed(copies, SHOWN)}",
                remedy="is it a copy of the label, or known only after the outcome? A model learns nothing else then: "
                f"drop = [{named}]",
                topic="leak",
                columns=tuple(copies),
            )
        )
    times = [name for name in names if TIME.search(name) and name not in copies]
    if times and len(labels) == 2:
        named = ", ".join(f'"{name}"' for name in times)
        found.append(
            Finding(
                level="warning",
                what=f"these columns seem to say how long somebody was observed: {listed(times, SHOWN)}",
                remedy=f"that is known only after the outcome {labels[0]!r} or {labels[1]!r}, which it gives away: "
                f"drop = [{named}]",
                topic="leak",
                columns=tuple(times),
            )
        )
    return found


def _joined(data: Sequence[SiteData], name: str) -> npt.NDArray[np.float64] | npt.NDArray[np.str_]:
    """Return a column of all sites: numbers, or words where it is text, "" where one is empty."""
    parts = [np.asarray(site.table[:, site.columns.index(name)], np.float64) for site in data]
    if not any(name in site.categories for site in data):
        return np.concatenate(parts)
    words = []
    for site, part in zip(data, parts, strict=True):
        own = np.array([*site.categories.get(name, ()), ""], np.str_)
        at = np.where(np.isfinite(part), part, len(own) - 1).astype(int)
        words.append(own[np.minimum(at, len(own) - 1)])
    return np.concatenate(words)


def _doubt_left(values: npt.NDArray[np.generic], y: npt.NDArray[np.str_]) -> float:
    """Return the share of the doubt about the labels, as of Gini, that is left where a column is known; 1: all."""
    labels, codes = np.unique(y, return_inverse=True)
    counts = np.bincount(codes)
    if len(labels) < 2 or counts.min() < LEAST_CLASS:
        return 1.0
    n = len(y)
    doubt = n - float((counts**2).sum()) / n
    different, groups, sizes = np.unique(values, return_inverse=True, return_counts=True)
    cells, alike = np.unique(groups * len(labels) + codes, return_counts=True)
    within = n - float((alike**2 / sizes[cells // len(labels)]).sum())
    if len(different) <= max(20, 2 * len(labels)):
        return within / doubt
    if values.dtype.kind == "U":
        return 1.0
    order = np.lexsort((codes, groups))
    between = (np.diff(groups[order]) != 0) & (np.diff(codes[order]) != 0)
    return (within + max(int(between.sum()) - (len(labels) - 1), 0)) / doubt
