"""What is likely to be a mistake, though it can be read: the warning that each gets, and that clean tables get none."""
# ruff: noqa: E501 - a case is one line of a table

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from fedgeom import Policy, check
from fedgeom.data.sites import SiteData
from fedgeom.engines.check import check_own
from fedgeom.methods.ridge.method import Ridge

SITES = ("north", "south", "east")
PLAIN = Ridge(features="linear")
TABLE = Ridge(features="linear", prepare="table")


@dataclass
class Raw:
    """A site's table before it is one."""

    X: Any
    y: Any
    columns: list[str]
    categories: dict[str, tuple[str, ...]]


def tables(change: Callable[[dict[str, Raw]], None] | None = None, rows: int = 80) -> list[SiteData]:
    """Return three sites of clean tables, changed."""
    rng = np.random.default_rng(3)
    found = {}
    for name in SITES:
        y = rng.integers(0, 2, rows)
        age = rng.normal(60 + 5 * y, 10).round()
        crp = rng.lognormal(1 + 0.3 * y, 0.5)
        bmi = rng.normal(26, 4, rows)
        found[name] = Raw(np.column_stack([age, crp, bmi]), np.where(y, "ill", "well"), ["age", "crp", "bmi"], {})
    if change is not None:
        change(found)
    return [
        SiteData(name, one.X, one.y, columns=one.columns, categories=one.categories) for name, one in found.items()
    ]


def at(site: str, where: Any, value: Any) -> Callable[[dict[str, Raw]], None]:
    """Return what writes a value into a site's table."""

    def change(found: dict[str, Raw]) -> None:
        found[site].X[where] = value

    return change


def column(
    name: str, values: Callable[[Raw], Any], words: tuple[str, ...] = ()
) -> Callable[[dict[str, Raw]], None]:
    """Return what adds a column at all sites."""

    def change(found: dict[str, Raw]) -> None:
        for one in found.values():
            one.X = np.column_stack([one.X, values(one)])
            one.columns = [*one.columns, name]
            one.categories = {name: words} if words else {}

    return change


def times(site: str, place: int, factor: float, plus: float = 0.0) -> Callable[[dict[str, Raw]], None]:
    def change(found: dict[str, Raw]) -> None:
        found[site].X[:, place] = found[site].X[:, place] * factor + plus

    return change


def labels(write: Callable[[str, Raw], Any], *sites: str) -> Callable[[dict[str, Raw]], None]:
    def change(found: dict[str, Raw]) -> None:
        for name in sites or SITES:
            found[name].y = np.asarray(write(name, found[name]))

    return change


def same_file(found: dict[str, Raw]) -> None:
    found["south"].X = found["north"].X.copy()
    found["south"].y = found["north"].y.copy()


def some_same(found: dict[str, Raw]) -> None:
    found["south"].X[:30] = found["north"].X[20:50]


def renamed(site: str, old: str, new: str) -> Callable[[dict[str, Raw]], None]:
    def change(found: dict[str, Raw]) -> None:
        found[site].columns = [new if name == old else name for name in found[site].columns]

    return change


def placeholder(word: str) -> Callable[[dict[str, Raw]], None]:
    return labels(lambda _, one: [word if row < 10 else name for row, name in enumerate(one.y)], "east")


def is_ill(one: Raw) -> Any:
    return (one.y == "ill").astype(float)


def noisy(one: Raw) -> Any:
    return is_ill(one) * 10 + np.random.default_rng(1).normal(size=len(one.y))


DOUBTS = {
    "-9999 for nothing": (
        at("south", (slice(5), 1), -9999),
        r"-9999 in column 'crp' \(5 cells; .*missing = \[-9999\]",
        ("south",),
    ),
    "-9 for nothing": (at("south", (3, 2), -9), r"-9 in column 'bmi' \(1 cells", ("south",)),
    "999 for nothing": (
        at("east", (slice(4), 0), 999),
        r"999 in column 'age' \(4 cells; .*missing = \[999\]",
        ("east",),
    ),
    "two signs for nothing": (
        lambda found: [at("east", (slice(4), 0), 999)(found), at("north", (slice(3), 0), -99)(found)],
        r"missing = \[-99, 999\]",
        ("east", "north"),
    ),
    "months for years": (
        times("south", 0, 12),
        r"median of column 'age' is \d+, at the other sites \d+.*: a factor of 1\d.* \(months and years\?\).*units = \{ age = 0\.08",
        ("south",),
    ),
    "mg for g": (times("south", 2, 1000), r"column 'bmi'.*\(g and kg, or mg and g\?\)", ("south",)),
    "a smaller unit": (
        times("east", 2, 0.01),
        r"column 'bmi'.*a factor of .*units = \{ bmi = 9\d|units = \{ bmi = 10\d",
        ("east",),
    ),
    "one file at two sites": (same_file, "sites have the same rows: 80 at 'north' and 'south'", ()),
    "some rows at two sites": (some_same, "sites have the same rows: 30 at 'north' and 'south'", ()),
    "a copy of the label": (
        column("dead", is_ill),
        r"tell the classes apart all by themselves: 'dead'.*drop = \[\"dead\"\]",
        (),
    ),
    "a copy of the label with noise": (column("score", noisy), "all by themselves: 'score'", ()),
    "a copy of the label as text": (
        column("outcome", is_ill, ("fine", "not fine")),
        "all by themselves: 'outcome'",
        (),
    ),
    "time": (
        column("time", lambda one: np.random.default_rng(len(one.y)).exponential(300, len(one.y))),
        r"how long somebody was observed: 'time'.*drop = \[\"time\"\]",
        (),
    ),
    "follow-up": (
        column("FollowUp_days", lambda one: np.random.default_rng(7).exponential(300, len(one.y))),
        "'FollowUp_days'",
        (),
    ),
    "days to death": (
        column("days_to_death", lambda one: np.random.default_rng(7).exponential(300, len(one.y))),
        "'days_to_death'",
        (),
    ),
    "a quantity as the label": (
        labels(lambda _, one: one.X[:, 0].astype(int)),
        r"labels look like a quantity: \d+ different numbers from",
        (),
    ),
    "fractions as the label": (labels(lambda _, one: one.X[:, 2].round(1)), "labels look like a quantity", ()),
    "other spellings of a label": (
        labels(lambda _, one: np.char.upper(one.y), "east"),
        "look like one class: 'ILL' at east, 'ill' at north, south",
        (),
    ),
    "a class at one site": (
        labels(lambda _, one: np.where(np.arange(80) < 20, "dead", one.y), "east"),
        "1 of 3 label names occur at one site only: 'dead' at east",
        (),
    ),
    "one value at one site": (
        at("east", (slice(None), 2), 20.0),
        "one value in all rows that vary at all other sites: 'bmi' is 20",
        ("east",),
    ),
    "one value everywhere": (
        column("era", lambda one: np.ones(len(one.y))),
        "1 of 4 columns have the same value in all rows of all sites: 'era'",
        (),
    ),
    **{
        f"{word} as a label": (
            placeholder(word),
            rf"look like placeholders.*10 rows: '{re.escape(word)}'.*missing = \[\"{re.escape(word)}\"\] and drop_unlabelled",
            ("east",),
        )
        for word in ("?", "-", "unbekannt", "k.A.", "(none)", "Unknown", "-9", "keine Angabe", "n.a.")
    },
}


def words_at(**words: tuple[str, ...]) -> Callable[[dict[str, Raw]], None]:
    """Return what adds a column of two words, or of numbers where a site has none, with words of each site's own."""

    def change(found: dict[str, Raw]) -> None:
        column("sex", lambda one: np.arange(len(one.y)) % 2)(found)
        for name, one in found.items():
            one.categories = {"sex": words[name]} if name in words else {}

    return change


RAW_ONLY = {
    "other words at each site": (
        words_at(north=("f", "m"), south=("F", "M"), east=("female", "male")),
        r"no word of column 'sex' is at another site \(north: 'f', 'm'; south: 'F', 'M'; east: 'female', 'male'\); words "
        r"of column 'sex' differ in capital letters alone: 'F', 'M', 'f', 'm'.* rename_words",
        SITES,
    ),
    "a word in other letters": (
        words_at(north=("f", "m"), south=("F", "m"), east=("f", "m")),
        "words of column 'sex' differ in capital letters alone: 'F', 'f'",
        SITES,
    ),
    "words at two sites, numbers at one": (
        words_at(north=("f", "m"), east=("f", "m")),
        r"column 'sex' holds words \(north: 'f', 'm'; east: 'f', 'm'\) and at 'south' numbers, so it is left out",
        ("south",),
    ),
    "a column empty at one site": (
        at("south", (slice(None), 1), np.nan),
        "has columns without a single value that others have filled: 'crp'",
        ("south",),
    ),
    "infinite numbers": (
        at("north", (3, 1), np.inf),
        r"1 cells are infinite, the first in row 3, column 'crp'; .*missing = \[\"inf\"",
        ("north",),
    ),
    "another case for a column": (
        renamed("east", "crp", "CRP"),
        r"no columns 'crp', .*Is it 'CRP' for 'crp'\? Then rename it",
        ("east",),
    ),
    "a misspelt column": (renamed("east", "age", "agee"), r"Is it 'agee' for 'age'\?", ("east",)),
}


def said(report: Any, pattern: str) -> list[Any]:
    return [one for one in report.findings if re.search(pattern, f"{one.what}; {one.remedy}")]


@pytest.mark.parametrize("method", [PLAIN, TABLE], ids=["as they are", "prepared"])
@pytest.mark.parametrize("case", DOUBTS)
def test_a_doubt_is_told_whether_or_not_rows_are_prepared(case, method):
    change, pattern, sites = DOUBTS[case]
    if "text" in case and method is PLAIN:
        pytest.skip("columns of text are prepared")
    report = check(method, tables(change), Policy())
    (found,) = said(report, pattern)
    assert set(found.sites) == set(sites)
    assert not said(check(method, tables(), Policy()), pattern)


@pytest.mark.parametrize("case", RAW_ONLY)
def test_a_doubt_about_rows_that_are_prepared(case):
    change, pattern, sites = RAW_ONLY[case]
    (found,) = said(check(TABLE, tables(change), Policy()), pattern)
    assert found.sites == sites
    assert found.level == ("error" if case == "infinite numbers" else "warning")


@pytest.mark.parametrize("method", [PLAIN, TABLE], ids=["as they are", "prepared"])
def test_clean_tables_raise_no_doubts(method):
    assert check(method, tables(), Policy()).warnings == ()
    assert check_own(method, tables()[0], Policy(), sites=3).warnings == ()


@pytest.mark.parametrize(
    "case", ["-9999 for nothing", "a copy of the label", "time", "a quantity as the label", "k.A. as a label"]
)
@pytest.mark.parametrize("method", [None, TABLE], ids=["without a job", "with one"])
def test_a_steward_is_told_of_the_site_s_own_table(case, method):
    change, pattern, sites = DOUBTS[case]
    own = next(site for site in tables(change) if site.name in (sites or SITES))
    assert said(check_own(method, own, Policy(), sites=3), pattern)


@pytest.mark.parametrize(("top", "told"), [(5.0, True), (900.0, False)])
def test_logarithms_are_not_taken_for_counts(top, told):
    rng = np.random.default_rng(0)
    sites = []
    for name in SITES:
        X = np.minimum(rng.poisson(0.7, (40, 60)), 3) * (top / 3)
        X[:, 0] += 0.25
        sites.append(SiteData(name, X, ["a", "b"] * 20, columns=[f"g{at}" for at in range(60)]))
    report = check(Ridge(features="linear", prepare="counts"), sites, Policy())
    assert bool(said(report, "has no raw counts: its numbers have fractions and are at most 5.25")) == told


def test_whole_years_of_many_patients_are_no_leak():
    """Of many rows with the same value each, neighbours in order are mostly alike, whatever the column says."""
    rng = np.random.default_rng(0)
    age = rng.integers(20, 100, 20_000).astype(float)
    worse = rng.random(len(age)) < age / 120
    rows = np.column_stack([age, rng.normal(size=len(age))])
    y = np.where(worse, "dead", "alive")
    sites = [SiteData(f"s{at}", rows[at::2], y[at::2], columns=["age", "other"]) for at in range(2)]
    assert not said(check(Ridge(features="linear"), sites, Policy()), "all by themselves")


def test_easy_classes_are_no_leak():
    rng = np.random.default_rng(0)
    y = np.repeat(["a", "b"], 50)
    X = rng.normal(size=(100, 4)) + 20 * (y == "a")[:, None]
    site = SiteData("s", X, y, columns=["u", "v", "w", "x"])
    assert not said(check_own(None, site, Policy()), "all by themselves")


def test_numbered_classes_are_no_quantity():
    y = np.tile(np.arange(25), 24)
    site = SiteData("s", np.random.default_rng(0).normal(size=(600, 2)), y, columns=["u", "v"])
    assert not said(check_own(None, site, Policy()), "quantity")
