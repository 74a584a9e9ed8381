"""The check that no sum of a run rests on few rows or sites: tables with something rare, and what is left out.

`fedgeom.testing.span` has the mathematics.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from fedgeom.arrays import Floats
from fedgeom.data.sites import SiteData
from fedgeom.errors import FedgeomError
from fedgeom.federation.method import Method
from fedgeom.federation.policy import StrictPolicy
from fedgeom.preparation.scale import Scale
from fedgeom.testing.rehearsal import HOLDOUT, Cases, CheckContext, example_sites, other_rows
from fedgeom.testing.span import RowChange, RowTerms, row_terms, small_groups, updated_terms

STRICT = StrictPolicy()
"""Whose floors are tried."""
ROWS = 40
"""How many rows the sites have at least on which `no_sum_rests_on_few` tries a method."""
PLANTED = 7
"""The row of the second site that has something rare."""
Preparing = Literal["", "table", "clipped"]


@dataclass(frozen=True)
class OddTable:
    """Sites of which one has something rare, and how raw rows are prepared where the method does not say it."""

    name: str
    sites: list[SiteData]
    prepare: Preparing = ""
    holdout: float = 0.0

    def method(self, method: Method) -> Method:
        """Return the method as it can take the table."""
        tested = method.predicts and method.takes_holdout
        changes: dict[str, Any] = {"holdout": self.holdout} if self.holdout and tested else {}
        if self.prepare and not method.preparing:
            changes["prepare"] = "table" if self.prepare == "table" else [Scale(max_value=3)]
            if hasattr(method, "space"):
                changes["space"] = "euclidean"  # prepared rows are no points of the disc
        return replace(method, **changes)


def odd_tables(given: Sequence[SiteData] | None = None) -> Iterator[OddTable]:
    """Yield tables with something rare in one row or at one site, made from some sites, or from `example_sites`."""
    sites = list(map(_grown, example_sites() if given is None else given))
    scale = max(float(np.abs(site.X).max()) for site in sites) / 4  # small enough to stay inside the unit disc
    place = np.arange(len(sites[1]))

    def flag(at: int, rows: int) -> Floats:
        found: Floats = scale * ((np.arange(rows) == PLANTED) & (at == 1))[:, None]
        return found

    def word(at: int, rows: int) -> Floats:
        found = np.random.default_rng(at).integers(0, 2, rows)
        found[PLANTED] = 2 if at == 1 else found[PLANTED]
        return found[:, None].astype(float)

    gap = sites[1].X.copy()
    gap[PLANTED, -1] = np.nan
    far = sites[1].X.copy()
    far[PLANTED, -1] += 6 * far[:, -1].std()
    rare = np.where(place < 5, "a rare class", sites[1].y.astype(str))
    yield OddTable("nothing rare", sites)
    yield OddTable("rows held out", sites, holdout=HOLDOUT)
    yield OddTable("one 1", [_with_column(site, "flag", flag(at, len(site))) for at, site in enumerate(sites)])
    yield OddTable("one rare class", _second(sites, y=rare))
    yield OddTable("one site of few rows", _second(sites, take=place < 4))
    yield OddTable("one gap", _second(sites, table=gap), "table")
    words = [_with_column(site, "word", word(at, len(site)), ("f", "m", "x")) for at, site in enumerate(sites)]
    yield OddTable("one rare word", words, "table")
    yield OddTable("one clipped outlier", _second(sites, table=far), "clipped")


def _grown(site: SiteData) -> SiteData:
    """Return a site with `ROWS` rows or more: the same ones, moved a little, come again."""
    if len(site) >= ROWS or site.categories or not np.isfinite(site.X).all():
        return site
    again = site.take(np.arange(ROWS) % len(site))
    moved = other_rows(again, np.random.default_rng(0))
    return replace(again, table=np.concatenate([site.X, moved.X[len(site) :]]))


def _second(
    sites: Sequence[SiteData], take: npt.NDArray[np.bool_] | None = None, **changes: npt.NDArray[Any]
) -> list[SiteData]:
    """Return the sites, of which the second one is another."""
    changed = replace(sites[1], **changes)  # type: ignore[arg-type]
    return [sites[0], changed if take is None else changed.take(take), *sites[2:]]


def _with_column(site: SiteData, name: str, cells: Floats, words: tuple[str, ...] = ()) -> SiteData:
    columns = (*(site.columns or (f"x{at}" for at in range(site.shape[1]))), name)
    categories = {**site.categories, **({name: words} if words else {})}
    return replace(site, table=np.column_stack([site.X, cells]), columns=columns, categories=categories)


@dataclass(frozen=True)
class OpenFinding:
    """A finding that is known and not mended: what `no_sum_rests_on_few` leaves out for it, and says so."""

    name: str
    what: str
    sums: tuple[str, ...] = ()
    """The kinds of sums that are left out."""
    tables: tuple[str, ...] = ()
    """The tables that are left out."""
    of: Callable[[Method], bool] = lambda method: True
    """Which methods it concerns."""


OPEN: tuple[OpenFinding, ...] = (
    OpenFinding("N3", "products of two columns that few rows have numbers in at once, most being 0"),
    OpenFinding(
        "N14",
        "class sums, in updates of Ridge, of columns that few changed rows of the class are not 0 in",
        of=lambda method: bool(getattr(method, "updatable", False)),
    ),
    OpenFinding(
        "N18",
        "sums, with Ridge, of columns that few rows of a fold are not 0 in",
        of=lambda method: getattr(method, "alpha", None) == "folds",
    ),
)
"""The findings that are open, with their names in tests/testing/test_span.py. The aim is none."""


def odd_updates(given: Sequence[SiteData] | None = None) -> dict[str, tuple[list[SiteData], list[RowChange]]]:
    """Return sites with a column of 0 and 1 and changes of their rows: of many rows, and with one 1 among them."""
    grown = map(_grown, example_sites() if given is None else given)
    sites = [_with_column(site, "flag", _every_third(site)) for site in grown]
    added = [_moved(site.take(np.arange(18)), at) for at, site in enumerate(sites)]
    gone = {site.name: tuple(range(at, at + 24)) for at, site in enumerate(sites)}
    single = [
        replace(site, table=np.column_stack([site.X[:, :-1], 0.1 * ((np.arange(18) == PLANTED) & (at == 1))]))
        for at, site in enumerate(added)
    ]
    return {
        "updates": (sites, [RowChange(tuple(added)), RowChange(removed=gone)]),
        "an update with one 1": (sites, [RowChange(tuple(single))]),
    }


def _every_third(site: SiteData) -> Floats:
    found: Floats = 0.1 * (np.arange(len(site)) % 3 == 0)[:, None]
    return found


def _moved(site: SiteData, seed: int) -> SiteData:
    """Move each row a little, but for the last column."""
    moved = other_rows(site, np.random.default_rng(seed))
    return replace(moved, table=np.column_stack([moved.X[:, :-1], site.X[:, -1]]))


def _first_reason(error: Exception) -> str:
    """Return an error's first line, and where that says which sites are missing, why the first one is."""
    lines = str(error).splitlines()
    return lines[1].strip() if len(lines) > 1 and lines[0].endswith("missing:") else lines[0]


def no_sum_rests_on_few(context: CheckContext) -> Cases:
    """At strict sites, no weighted sum of all numbers that are added up rests on fewer rows or sites than allowed.

    Runs over `odd_tables` are judged, and where a run can be updated, a run and its updates together. Sums that are
    none over rows, as those of trained parameters, are not judged; nor are those that rest on few by the method's
    nature (`Method.sums_of_few`), nor `OPEN` findings. What was left out, and which tables the strict sites refuse, is
    in the result's reason.
    """
    method = context.method
    known = [one for one in OPEN if one.of(method)]
    few = {kind: f"by nature: {shows}" for kind, shows in method.sums_of_few().items()}
    few |= {kind: f"open finding {one.name}: {one.what}" for one in known for kind in one.sums}
    without = {table: f"open finding {one.name}: {one.what}" for one in known for table in one.tables}
    notes: dict[str, None] = {}
    tried = 0
    for name, sites, take in _cases(context, set(few)):
        tried += 1
        if name in without:
            notes[f"{name!r} is left out ({without[name]})"] = None
            continue
        try:
            found = take()
            groups = small_groups(found, sites, STRICT.min_rows, STRICT.min_sites, most=5)
        except FedgeomError as error:
            notes[f"{name!r} is refused: {_first_reason(error)}"] = None
            continue
        kinds = {number.split(" ")[0] for number in found.numbers}
        notes |= {f"sums of {kind!r} are left out ({few[kind]})": None for kind in found.left_out}
        notes |= {f"{kind!r} is no sum over rows": None for kind in sorted(set(found.uneven) - kinds)}
        if not kinds:
            notes[f"{name!r}: no sum over rows was judged"] = None
        shown = "\n".join(map(str, groups))
        assert not groups, (
            f"{name}: weighted sums of what a run adds up rest on fewer than {STRICT.min_rows} rows or "
            f"{STRICT.min_sites} sites:\n{shown}\nLeave out what is rare before it is summed, or refuse in words; what "
            "cannot be helped by the method's nature is stated in Method.sums_of_few and on its page"
        )
    return Cases(tried, "; ".join(notes))


def _cases(
    context: CheckContext, without: Collection[str]
) -> Iterator[tuple[str, Sequence[SiteData], Callable[[], RowTerms]]]:
    """Yield each table, or series of updates, by name, and what returns the terms of its sums but for some kinds."""
    method = context.method
    given = None if context.tables is None else context.sites
    for odd in odd_tables(given):

        def take(odd: OddTable = odd) -> RowTerms:
            return row_terms(odd.method(method), odd.sites, STRICT, context.seed, without)

        yield odd.name, odd.sites, take
    if not hasattr(method, "updatable") or not method.name:
        return
    for name, (sites, changes) in odd_updates(given).items():

        def both(sites: list[SiteData] = sites, changes: list[RowChange] = changes) -> RowTerms:
            return updated_terms(method, sites, changes, STRICT, context.seed, without)

        yield name, (), both
