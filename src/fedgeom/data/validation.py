"""Whether tables are ready: what every method asks of them, what looks odd, and a report with remedies."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from html import escape
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from fedgeom.arrays import Floats
from fedgeom.data.rows import Rows, dense, no_gaps, not_finite
from fedgeom.data.sites import SiteData
from fedgeom.data.tables import TextColumnsError, is_sparse, listed
from fedgeom.errors import InputError, is_name

Level = Literal["error", "warning", "note"]
LEVELS: tuple[Level, ...] = ("error", "warning", "note")
"""Errors first: with one of them a run would fail or lose a site."""

MOST_LINES = 40
"""How many faults an error message lists; the others are counted."""
MOST_SITES = 8
"""How many sites are named where many have the same fault."""


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One thing that was found."""

    level: Level
    what: str
    """What was found, with row, column and value where it is about cells."""
    remedy: str = ""
    """What to do about it."""
    sites: tuple[str, ...] = ()
    """The sites that it is about; none where it is about all of them together, or about no site."""
    topic: str = ""
    """A word for machines: "gaps", "columns", "classes", "size" …"""
    columns: tuple[str, ...] = ()
    """The columns that it is about, where these are few."""

    def __str__(self) -> str:
        return f"{_where(self.sites, self.what)}{'; ' if self.remedy else ''}{self.remedy}"


class FaultsError(InputError):
    """Several things do not fit; ``findings`` has each of them."""

    def __init__(self, findings: Sequence[Finding], head: str = ""):
        self.findings = tuple(findings)
        lines = [head] if head else []
        lines += [str(one) for one in self.findings[:MOST_LINES]]
        if len(self.findings) > MOST_LINES:
            lines.append(f"and {len(self.findings) - MOST_LINES} more")
        super().__init__("\n".join(lines))


def fault(
    what: str, remedy: str = "", *, site: str = "", topic: str = "", columns: tuple[str, ...] = ()
) -> Finding:
    """Return a finding that would make a run fail or lose a site.

    >>> str(fault("no rows", "leave it out", site="ulm"))
    "site 'ulm': no rows; leave it out"
    """
    return Finding(
        level="error", what=what, remedy=remedy, sites=(site,) if site else (), topic=topic, columns=columns
    )


@dataclass
class Collector:
    """Takes `InputError`s one after the other, so that all are said at once."""

    site: str = ""
    found: list[Finding] = field(default_factory=list)

    @contextmanager
    def take(self) -> Iterator[None]:
        """Go on after an `InputError`, which is kept."""
        try:
            yield
        except InputError as error:
            self.found += findings_of(error, self.site)

    def raise_all(self) -> None:
        """Raise what was kept, if anything was."""
        if self.found:
            raise FaultsError(self.found)


def findings_of(error: InputError, site: str = "", *, topic: str = "") -> list[Finding]:
    """Return what an error says as findings; those that name no site are about ``site``."""
    if isinstance(error, FaultsError):
        return [replace(one, sites=one.sites or ((site,) if site else ())) for one in error.findings]
    if isinstance(error, TextColumnsError) and set(error.words) == set(error.doubtful):
        return [fault(what, remedy, site=site, topic="cells") for what, remedy in error.doubtful.values()]
    return [
        fault(str(error).removeprefix(f"site {site!r}: ").removeprefix(f"site {site!r} "), site=site, topic=topic)
    ]


ALIKE = ("counts",)
ALIKE_TOO = "at the first of them; the others are alike"
"""Topics of which single sites' numbers are not worth a line each, and what is said instead."""


def merged(findings: Iterable[Finding]) -> list[Finding]:
    """Return findings with those that are the same at several sites made one, errors first.

    Of what is the same up to a colon, as counts are at sites with other numbers, the first site's numbers are shown.
    """
    same: dict[tuple[str, str, str], Finding] = {}
    for one in findings:
        said = one.what.partition(":")[0] if one.topic in ALIKE else one.what
        key = (one.level, said, one.remedy)
        before = same.get(key)
        if before is None:
            same[key] = one
            continue
        what = before.what if before.what == one.what or ALIKE_TOO in before.what else f"{before.what} {ALIKE_TOO}"
        same[key] = replace(one, what=what, sites=tuple(dict.fromkeys((*before.sites, *one.sites))))
    return sorted(same.values(), key=lambda one: LEVELS.index(one.level))


def _where(sites: Sequence[str], what: str) -> str:
    """Write a finding as a sentence about its sites."""
    if not sites:
        return what
    more = f" and {len(sites) - MOST_SITES} more" if len(sites) > MOST_SITES else ""
    named = f"site{'s' if len(sites) > 1 else ''} {', '.join(map(repr, sites[:MOST_SITES]))}{more}"
    if what.startswith("has "):
        return f"{named} {what if len(sites) == 1 else f'have {what[4:]}'}"
    return f"{named}: {what}"


MOST_CELLS = 10
"""How many cells of a site that are no numbers are named; the others are counted."""
FIRST_CELLS = 3
"""How many are named where there are more."""
MOST_COLUMNS = 5
"""How many columns with most gaps are named."""
MOST_CLASSES = 12
"""How many classes that are too small are named; the others are counted."""
MOSTLY = 0.5
"""A column is mostly empty where this share of its cells is."""


def check_table(site: SiteData, *, min_rows: int, min_rows_per_class: int = 0) -> list[str]:
    """Refuse empty tables, numbers that are not finite, missing labels and classes too small to hide a patient in.

    ``min_rows`` is the method's floor, ``min_rows_per_class`` that of the site's own policy. Returns the site's label
    names, sorted. What does not fit is said at once, a line each.
    """
    faults = _cell_faults(site)
    without = len(site) - int(site.has_label.sum())
    if without:
        faults.append(
            fault(
                f"{without:,} of {len(site):,} rows have no label, which this method cannot use",
                "label them, leave them out with drop_unlabelled = true, or let XCLP find their labels",
                site=site.name,
                topic="labels",
            )
        )
    floor, key = max((min_rows, "min_rows"), (min_rows_per_class, "min_rows_per_class"), key=lambda one: one[0])
    counts = site.class_counts()
    faults += _size_faults(site.name, counts, floor, key)
    if faults:
        raise FaultsError(faults)
    return sorted(counts)


def check_class_sizes(site: str, labels: npt.ArrayLike, least: int, *, key: str) -> None:
    """Refuse classes with fewer rows than ``key`` says.

    labels (n,): the names of the rows that have one.
    """
    names, counts = np.unique(np.asarray(labels, str), return_counts=True)
    faults = _size_faults(site, dict(zip(names.tolist(), counts.tolist(), strict=True)), least, key)
    if faults:
        raise FaultsError(faults)


def check_finite(site: SiteData) -> None:
    """Refuse a table without rows, or with numbers that are not finite, naming the first of them."""
    faults = _cell_faults(site)
    if faults:
        raise FaultsError(faults)


def _size_faults(site: str, counts: Mapping[str, int], least: int, key: str) -> list[Finding]:
    few = [f"{name!r} ({n})" for name, n in sorted(counts.items()) if n < least]
    if not few:
        return []
    shown = f"{', '.join(few[:MOST_CLASSES])}{f' and {len(few) - MOST_CLASSES} more' * (len(few) > MOST_CLASSES)}"
    return [
        fault(
            f"has classes with fewer than {least} rows: {shown}",
            "what so few rows send is the patients themselves: merge or drop these classes (or lower "
            f"{key} knowingly)",
            site=site,
            topic="classes",
        )
    ]


def _cell_faults(site: SiteData) -> list[Finding]:
    """Return what is wrong with the numbers of a table: at most one finding, with the first cells and how many more."""
    if len(site) == 0:
        return [fault("has no rows", "leave it out of the federation", site=site.name, topic="rows")]
    bad = not_finite(site.table)
    if not len(bad):
        return []
    in_column = np.bincount(bad[:, 1], minlength=site.shape[1])
    rows = np.unique(bad[:, 0])
    count = len(bad)
    numbers = np.arange(len(site)) if site.row_numbers is None else site.row_numbers
    named = [repr(name) for name in site.columns] or [str(at) for at in range(site.shape[1])]
    many = count > MOST_CELLS
    what = "; ".join(
        f"row {numbers[row]}, column {named[column]} is {site.table[row, column]}"
        for row, column in bad[: FIRST_CELLS if many else MOST_CELLS].tolist()
    )
    if many:
        worst = [at for at in np.argsort(-in_column, kind="stable")[:MOST_COLUMNS].tolist() if in_column[at]]
        what = (
            f"{count:,} cells in {len(rows):,} of {len(site):,} rows and {int((in_column > 0).sum()):,} of "
            f"{len(named):,} columns are no finite numbers, most in "
            f"{', '.join(f'{named[at]} ({in_column[at]:,})' for at in worst)}; the first: {what}"
        )
        mostly = [named[at] for at in np.flatnonzero(in_column >= MOSTLY * len(site)).tolist()]
        more = f" and {len(mostly) - MOST_COLUMNS} more" if len(mostly) > MOST_COLUMNS else ""
        if mostly:
            what += f"; mostly empty: {', '.join(mostly[:MOST_COLUMNS])}{more}"
    remedy = (
        'finite numbers are wanted: let the run fill gaps in (prepare = "table"), drop the rows, or leave columns '
        "that are mostly empty out at all sites (rows are counted from 0; in a text file, where row 1 is the header, "
        "as there)"
    )
    return [fault(what, remedy, site=site.name, topic="gaps")]


def check_ball(site: SiteData, c: float, remedy: str) -> None:
    """Refuse rows that are no points of the ball of curvature -c; say how many, and which is farthest out.

    A row with a gap is neither inside nor outside: that is said by `check_finite`.
    """
    squares = np.einsum("ij,ij->i", site.X, site.X)
    outside = np.flatnonzero(c * squares >= 1.0)
    if not outside.size:
        return
    numbers = np.arange(len(site)) if site.row_numbers is None else site.row_numbers
    farthest = int(outside[squares[outside].argmax()])
    what = (
        f"{outside.size:,} of {len(site):,} rows are no points of the Poincaré ball: row {numbers[farthest]} has norm "
        f"{math.sqrt(squares[farthest]):.6g}, wanted less than {1 / math.sqrt(c):.6g}"
    )
    raise FaultsError([fault(what, remedy, site=site.name, topic="ball")])


def check_known_labels(site: str, names: Iterable[str], classes: Sequence[str] | None) -> None:
    """Refuse labels that cannot travel, or are not among the agreed classes, where classes were agreed on."""
    present = set(names)  # they may come from an iterator, which is read once
    odd = sorted(name for name in present if not is_name(name))
    unknown = sorted(present - set(classes)) if classes else []
    faults = []
    if odd:
        faults.append(
            fault(
                f"{odd[0]!r} cannot be a label that others learn",
                "wanted one line of up to 200 characters, none of them control characters: rename it",
                site=site,
                topic="labels",
            )
        )
    if unknown:
        more = f" and {len(unknown) - 8} more" if len(unknown) > 8 else ""
        faults.append(
            fault(
                f"labels outside the agreed classes: {', '.join(unknown[:8])}{more}",
                f"rename them, or add them to `classes`, which has {listed(list(classes or ()), 8)}",
                site=site,
                topic="labels",
            )
        )
    if faults:
        raise FaultsError(faults)


def check_columns(columns: Mapping[str, int]) -> None:
    """Raise `InputError`, naming the odd ones out, unless all sites have the same number of columns."""
    counts = Counter(columns.values())
    if len(counts) > 1:
        usual = counts.most_common(1)[0][0]
        odd = ", ".join(f"{name!r} has {n}" for name, n in sorted(columns.items()) if n != usual)
        raise InputError(f"sites must have the same columns: most have {usual}, but site {odd}")


def check_same_names(hashes: Mapping[str, bytes]) -> None:
    """Raise `InputError`, naming the odd ones out, unless the column names that are known by a hash are the same."""
    known = {name: value for name, value in hashes.items() if value}
    counts = Counter(known[name] for name in sorted(known))
    if len(counts) > 1:
        usual = counts.most_common(1)[0][0]
        odd = ", ".join(repr(name) for name in sorted(known) if known[name] != usual)
        raise InputError(
            "sites must have the same columns, by the same names and in the same order; those of site "
            f"{odd} differ from those of {sum(value == usual for value in known.values())} others. Names do not leave "
            "the sites, only whether they agree: compare the headers of the files, and list the columns in one order "
            "at each site, columns = […] in site.toml"
        )


def check_two_classes(sites: Sequence[SiteData]) -> set[str]:
    """Return the labels that occur at any site; refuse sites that have one class in all."""
    present = label_names(sites)
    if len(present) < 2:
        raise InputError(f"all sites together have one class, {', '.join(present)}; a classifier needs two")
    return present


def label_names(sites: Sequence[SiteData]) -> set[str]:
    """Return the labels that occur at any site, as text."""
    return {str(name) for site in sites for name in site.classes.tolist()}


BLOCK = 2**21
"""About how many cells of a sparse table are looked at at once."""
CACHED = 2**16
"""And of a dense one: they stay in the processor's cache."""
FIRST = 1024
"""How many rows are the first ones, which tell enough of most tables."""


@dataclass(frozen=True)
class _Seen:
    """What was seen in some rows of a table."""

    low: Floats
    high: Floats
    spread: Floats
    zeros: npt.NDArray[np.int64]
    finite: npt.NDArray[np.int64]
    whole: npt.NDArray[np.bool_]
    depths: tuple[float, float]


class TableFacts:
    """What a table's columns are like; cells that are not finite are left out.

    Of most tables the first rows tell enough: that no column has one value only, that some numbers are below 0 or not
    whole. All rows are looked at cell by cell where they do not, and when a number is asked for that all have a part
    in. Gaps are looked for in all rows at once.
    """

    def __init__(self, table: Rows, where: str) -> None:
        self._table = table
        self._where = where
        self.rows = int(table.shape[0])
        self.columns = int(table.shape[1])

    @classmethod
    def of(cls, site: SiteData) -> TableFacts:
        """Look at a site's table."""
        return cls.of_table(site.table, site.name)

    @classmethod
    def of_table(cls, table: Rows, where: str) -> TableFacts:
        """Look at a table, dense or sparse, (rows, columns)."""
        return cls(table, where)

    @cached_property
    def _first(self) -> _Seen:
        return _look_at(self._table[: min(FIRST, _step(self._table))], self._where)

    @cached_property
    def _all(self) -> _Seen:
        return _look_at(self._table, self._where)

    @property
    def low(self) -> Floats:
        """(columns,), f8: the smallest number of each column; inf where there is none."""
        return self._all.low

    @property
    def high(self) -> Floats:
        """(columns,), f8: the largest; -inf where there is none."""
        return self._all.high

    @property
    def spread(self) -> Floats:
        """(columns,), f8: standard deviations."""
        return self._all.spread

    @property
    def zeros(self) -> npt.NDArray[np.int64]:
        """(columns,): how many cells are 0."""
        return self._all.zeros

    @property
    def depths(self) -> tuple[float, float]:
        """The smallest and the largest sum of a row."""
        return self._all.depths

    @cached_property
    def finite(self) -> npt.NDArray[np.int64]:
        """(columns,): how many cells are finite numbers."""
        if "_all" not in self.__dict__ and no_gaps(self._table):
            return np.full(self.columns, self.rows, np.int64)
        return self._all.finite

    @property
    def whole(self) -> npt.NDArray[np.bool_]:
        """(columns,): whether all numbers are whole."""
        return self._all.whole if self._first.whole.any() else self._first.whole

    @property
    def negative(self) -> bool:
        """Whether any number is below 0."""
        return bool((self._first.low < 0).any() or (self._all.low < 0).any())

    @property
    def constant(self) -> npt.NDArray[np.bool_]:
        """Which columns have one value in all rows, (columns,)."""
        if (self._first.low < self._first.high).all():
            return np.zeros(self.columns, bool)
        return np.asarray((self._all.finite > 0) & (self._all.low == self._all.high))

    @property
    def sparsity(self) -> float:
        """The share of the numbers that are 0."""
        return float(self.zeros.sum()) / max(int(self.finite.sum()), 1)


def _step(table: Rows) -> int:
    """Return how many rows are looked at at once."""
    return max(1, (BLOCK if is_sparse(table) else CACHED) // max(int(table.shape[1]), 1))


def _look_at(table: Rows, where: str) -> _Seen:
    """Look at rows, cell by cell, in one pass."""
    n = int(table.shape[0])
    columns = int(table.shape[1])
    low = np.full(columns, np.inf)
    high = np.full(columns, -np.inf)
    first = np.zeros(columns)  # sums are taken around a row of the table, which keeps digits
    total = np.zeros(columns)
    squares = np.zeros(columns)
    zeros = np.zeros(columns, np.int64)
    finite = np.zeros(columns, np.int64)
    whole = np.ones(columns, bool)
    depths = [np.inf, -np.inf]
    step = _step(table)
    for at in range(0, n, step):
        block = dense(table[at : at + step], where)
        ones = np.ones(len(block))
        good = None if _all_finite(ones, block) else np.isfinite(block)
        some = block if good is None else np.where(good, block, 0.0)
        if at == 0:
            first = some[0]
        low = np.minimum(low, (block if good is None else np.where(good, block, np.inf)).min(axis=0))
        high = np.maximum(high, (block if good is None else np.where(good, block, -np.inf)).max(axis=0))
        moved = some - first if good is None else np.where(good, some - first, 0.0)
        total = total + ones @ moved
        squares = squares + ones @ np.square(moved, out=moved)
        there = len(block) if good is None else good.sum(axis=0)
        finite += there
        if good is not None or np.count_nonzero(some) < some.size:
            zeros += there - np.count_nonzero(some, axis=0)  # what is not finite is 0 in `some`, not `there`
        if whole.any():
            whole &= (some == np.floor(some)).all(axis=0)
        sums = some @ np.ones(columns)
        depths = [min(depths[0], float(sums.min())), max(depths[1], float(sums.max()))]
    count = np.maximum(finite, 1)
    spread = np.sqrt(np.maximum(squares / count - (total / count) ** 2, 0.0))
    return _Seen(low, high, spread, zeros, finite, whole, (depths[0], depths[1]))


def _all_finite(ones: Floats, block: Floats) -> bool:
    """Say whether all numbers are finite; where a sum overflows they may be, and are looked at one by one."""
    with np.errstate(all="ignore"):
        return bool(np.isfinite(ones @ block).all())


MANY_COLUMNS = 50
"""From so many columns on a table of whole numbers, or of mostly zeros, looks like counts of molecules."""
SPARSE = 0.3
"""Counts of molecules have at least this share of zeros."""
LARGEST_LOG = 20.0
"""Logarithms of counts are not larger."""
PIXEL = 255.0
"""The largest value of a pixel: images are whole numbers with many zeros, too."""
UNSCALED = 1000.0
"""Columns whose deviations differ by more than this factor are on different scales."""
ENOUGH_ROWS = 20
"""In fewer rows a column that counts 1, 2, 3 … may be a measurement."""
NUMBERING = re.compile(
    r"(^|[^a-z])(id|index|patient|patient_?id|subject|record|row|nr|number|mrn)$", re.IGNORECASE
)
"""What columns that number rows are called."""

Kind = Literal["counts", "logarithms", ""]


def inspect_table(site: SiteData, facts: TableFacts | None = None) -> list[Finding]:
    """Return what a steward should know of a table before it is learnt from."""
    if not len(site) or not site.shape[1]:
        return []
    facts = facts or TableFacts.of(site)
    read = [
        Finding(level=one.level, what=one.what, remedy=one.remedy, sites=(site.name,), topic=one.topic)
        for one in site.remarks
    ]
    return [*read, *_kind_findings(site, facts), *_numbering(site, facts), *_class_findings(site)]


def kind_of(facts: TableFacts) -> Kind:
    """Say whether a table looks like raw counts of molecules, or like their logarithms; "" for anything else."""
    if facts.columns < MANY_COLUMNS or facts.negative or facts.sparsity < SPARSE:
        return ""
    top = float(facts.high.max())
    if facts.whole.all():
        return "counts" if top > 1 and top != PIXEL else ""
    return "logarithms" if 1 < top <= LARGEST_LOG else ""


def _kind_findings(site: SiteData, facts: TableFacts) -> list[Finding]:
    kind = kind_of(facts)
    if kind == "counts":
        low, high = facts.depths
        return [
            Finding(
                level="warning",
                what=f"looks like raw counts: whole numbers up to {facts.high.max():,.0f}, {facts.sparsity:.0%} zeros, "
                f"{low:,.0f} to {high:,.0f} in a row",
                remedy="how deeply a row was sequenced would outweigh what it is: let the run prepare them, prepare = "
                '"counts" (one depth, logarithms, variable genes, components), or use a joint embedding',
                sites=(site.name,),
                topic="counts",
            )
        ]
    if kind == "logarithms":
        return [
            Finding(
                level="note",
                what=f"looks like logarithms of counts: numbers up to {facts.high.max():.3g}, {facts.sparsity:.0%} "
                "zeros",
                sites=(site.name,),
                topic="counts",
            )
        ]
    return []


def unscaled(sites: Sequence[SiteData]) -> list[Finding]:
    """Return which tables have columns on very different scales, for methods that do not scale them."""
    found = [_scale_finding(site, TableFacts.of(site)) for site in sites if len(site)]
    return [one for one in found if one is not None]


def _scale_finding(site: SiteData, facts: TableFacts) -> Finding | None:
    varied = np.flatnonzero(facts.spread > 0)
    if len(varied) < 2 or kind_of(facts):
        return None
    spread = facts.spread[varied]
    wide = varied[int(spread.argmax())]
    narrow = varied[int(spread.argmin())]
    if facts.spread[wide] <= UNSCALED * facts.spread[narrow]:
        return None

    def said(at: np.intp) -> str:
        name = repr(site.columns[at]) if site.columns else f"number {at}"
        return f"{name} varies by {facts.spread[at]:.3g}"

    return Finding(
        level="warning",
        what=f"columns are on very different scales: {said(wide)}, {said(narrow)}",
        remedy="this method takes columns as they are, so that the largest decide: divide each by one number, the same "
        "at all sites",
        sites=(site.name,),
        topic="scale",
    )


def _numbering(site: SiteData, facts: TableFacts) -> list[Finding]:
    """Find columns that number the rows."""
    if len(site) < ENOUGH_ROWS or not site.columns:
        return []
    found: list[str] = []
    if not facts.whole.any():
        return []
    # Distinct whole numbers without a gap span as many values as there are rows.
    span = np.where(np.isfinite(facts.high - facts.low), facts.high - facts.low, 0.0)
    candidates = np.flatnonzero(facts.whole & (facts.finite == len(site)) & (span >= len(site) - 1))
    for at in candidates.tolist():
        suspect = span[at] == len(site) - 1 or NUMBERING.search(site.columns[at])
        if suspect and len(np.unique(dense(site.table[:, [at]], site.name))) == len(site):
            found.append(site.columns[at])
    if not found:
        return []
    return [
        Finding(
            level="warning",
            what=f"these columns seem to number the rows, or the patients: {listed(found, 5)}",
            remedy="leave them out: name the columns to use, columns = […]",
            sites=(site.name,),
            topic="numbering",
        )
    ]


def _class_findings(site: SiteData) -> list[Finding]:
    counts = site.class_counts()
    found = []
    if len(counts) == 1:
        found.append(
            Finding(
                level="note",
                what=f"all labelled rows are of one class, {next(iter(counts))!r}",
                remedy="it can take part where other sites have more; it cannot tell classes apart by itself",
                sites=(site.name,),
                topic="classes",
            )
        )
    return found + spelling_findings({site.name: counts})


def spelling_findings(words: Mapping[str, Iterable[str]]) -> list[Finding]:
    """Find label names that differ only in case, spaces, signs or a plural; ``words`` has each site's."""
    alike: dict[str, dict[str, list[str]]] = {}
    for site, mine in words.items():
        for word in mine:
            alike.setdefault(_plain(word), {}).setdefault(word, []).append(site)
    found = []
    for spellings in alike.values():
        sites = {site for mine in spellings.values() for site in mine}
        by_one = any(all(site in mine for mine in spellings.values()) for site in sites)
        if len(spellings) < 2 or (
            by_one and len(words) > 1
        ):  # what one site writes in two ways is said of that site
            continue
        shown = ", ".join(f"{word!r} at {_some(mine)}" for word, mine in sorted(spellings.items()))
        found.append(
            Finding(
                level="warning",
                what=f"these label names look like one class: {shown}",
                remedy="if they are, write them alike; otherwise each is a class of its own",
                sites=tuple(sites) if len(words) == 1 else (),
                topic="words",
            )
        )
    return found


def _plain(word: str) -> str:
    """Return a label name without what spellings differ by.

    >>> _plain("CD4 T-Cells") == _plain("cd4_T cell")
    True
    """
    if re.fullmatch(r"[+-]?[\d.,]+", word):
        return word
    # Signs between two digits, and those at an edge (CD4+, CD4-), tell names apart.
    letters = re.sub(r"(?<=[^\W_])[\W_]+(?=[^\W\d_])|(?<=[^\W\d_])[\W_]+(?=\w)|\s+", "", word.casefold())
    return letters.removesuffix("s") if len(letters) > 3 else letters


def _some(sites: list[str]) -> str:
    return ", ".join(sites[:3]) + (f" and {len(sites) - 3} more" if len(sites) > 3 else "")


@dataclass(frozen=True)
class SiteSummary:
    """What one site's table has."""

    name: str
    rows: int
    columns: int
    classes: dict[str, int]
    """How many rows each class has, by its label."""
    unlabelled: int
    gaps: int
    """How many cells are no finite numbers."""

    @classmethod
    def of(cls, site: SiteData, facts: TableFacts | None = None) -> SiteSummary:
        """Count what a table has; ``facts`` on it, where they are known."""
        counts = site.class_counts()
        known = site.shape[0] * site.shape[1] - int(facts.finite.sum()) if facts is not None else None
        gaps = len(not_finite(site.table)) if known is None else known
        return cls(site.name, len(site), site.shape[1], counts, len(site) - sum(counts.values()), gaps)


@dataclass(frozen=True)
class Report:
    """What was found before a run."""

    method: str
    """The method that the tables were held against; "" where it was none."""
    sites: tuple[SiteSummary, ...]
    findings: tuple[Finding, ...]
    """Everything that was found, errors first."""

    @classmethod
    def of(cls, method: str, sites: Iterable[SiteSummary], findings: Iterable[Finding]) -> Report:
        """Put a report together; what is the same at several sites is said once."""
        return cls(method, tuple(sites), tuple(merged(findings)))

    @property
    def ready(self) -> bool:
        """Whether nothing was found that makes a run fail, or lose a site."""
        return not self.at("error")

    @property
    def errors(self) -> tuple[Finding, ...]:
        """What makes a run fail, or lose a site."""
        return self.at("error")

    @property
    def warnings(self) -> tuple[Finding, ...]:
        """What is likely to be a mistake."""
        return self.at("warning")

    def at(self, level: Level) -> tuple[Finding, ...]:
        """Return the findings of a level."""
        return tuple(one for one in self.findings if one.level == level)

    def raise_errors(self, *, but: tuple[str, ...] = ()) -> None:
        """Raise one `InputError` that lists all errors, if there are any on other topics than some."""
        errors = [one for one in self.errors if one.topic not in but]
        if len(errors) == 1:
            raise FaultsError(errors)
        if errors:
            raise FaultsError(errors, head=f"not ready, {len(errors)} faults:")

    def plain(self) -> dict[str, Any]:
        """Return the report as dictionaries and lists, for JSON."""
        return {
            "ready": self.ready,
            "method": self.method,
            "sites": [asdict(site) for site in self.sites],
            "findings": [asdict(one) for one in self.findings],
        }

    def __str__(self) -> str:
        lines = [f"{one.level}: {one}" for one in self.findings]
        return "\n".join([self._verdict(), *lines])

    def __repr__(self) -> str:
        return f"Report({self._verdict()})"

    def _repr_html_(self) -> str:
        items = "".join(f"<li><b>{one.level}</b> {escape(str(one))}</li>" for one in self.findings)
        return f"<b>{escape(self._verdict())}</b><ul>{items}</ul>"

    def _verdict(self) -> str:
        counts = [(len(self.at(level)), level) for level in LEVELS]
        said = ", ".join(f"{n} {level}{'s' if n > 1 else ''}" for n, level in counts if n)
        return f"{'ready' if self.ready else 'not ready'}{f': {said}' if said else ''}"


def summaries(sites: Sequence[SiteData], facts: Sequence[TableFacts] = ()) -> list[SiteSummary]:
    """Return what each site's table has; ``facts`` on each, where they are known."""
    return [SiteSummary.of(site, facts[at] if facts else None) for at, site in enumerate(sites)]
