"""Reading rows from the sums of honest runs: who sees all sums adds them up with any weights."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import fields, replace
from itertools import pairwise
from typing import Any
from unittest import mock

import numpy as np

import fedgeom
from fedgeom import SiteData
from fedgeom.errors import FedgeomError
from fedgeom.federation.method import METHODS
from fedgeom.federation.policy import Policy, StrictPolicy
from fedgeom.geometry.graphs.anchors import unit_rows
from fedgeom.methods.ridge.features import Binned
from fedgeom.methods.xclp.anchors import AnchorFit, AnchorPlan
from fedgeom.preparation import PCA, OneHot, Scale
from fedgeom.testing.span import row_terms, small_groups
from tests.attacks.playing import Attack, Floats, Learnt, refused

FLOORS = StrictPolicy()
PLANTED = 7
EUCLIDEAN: dict[str, Any] = {"space": "euclidean"}


def tables(rows: int = 60, columns: int = 3) -> list[SiteData]:
    """Return four sites of two classes, with numbers of which no two are the same."""
    found = []
    for at in range(4):
        rng = np.random.default_rng(at)
        y = np.array(["no", "yes"])[np.arange(rows) % 2]
        X = rng.normal(size=(rows, columns)) + 0.7 * (y == "yes")[:, None]
        found.append(SiteData(f"s{at}", X, y, columns=[f"x{place}" for place in range(columns)]))
    return found


def _words(codes: Callable[[int, Any], Any], words: tuple[str, ...]) -> list[SiteData]:
    """Return the sites with a column of words."""
    found = []
    for at, site in enumerate(tables()):
        cells = codes(at, (np.arange(len(site)) // 2 % 2).astype(float))
        table = np.column_stack([site.X, cells])
        found.append(replace(site, table=table, columns=(*site.columns, "word"), categories={"word": words}))
    return found


def one_gap() -> list[SiteData]:
    """Leave one cell of the second site empty."""
    sites = tables()
    X = sites[1].X.copy()
    X[PLANTED, 2] = np.nan
    return [sites[0], replace(sites[1], table=X), *sites[2:]]


def one_flag() -> list[SiteData]:
    """Add a column of 0 with a single 1."""
    found = []
    for at, site in enumerate(tables()):
        flag = (at == 1) & (np.arange(len(site)) == PLANTED)
        found.append(replace(site, table=np.column_stack([site.X, flag]), columns=(*site.columns, "flag")))
    return found


def one_rare_word() -> list[SiteData]:
    """Add a column of two frequent words and one that a single row has."""

    def codes(at: int, usual: Any) -> Any:
        usual[PLANTED] = 2.0 if at == 1 else usual[PLANTED]
        return usual

    return _words(codes, ("f", "m", "x"))


def one_gap_among_flags() -> list[SiteData]:
    """Add a column of 0 and 1, mostly 1, with one empty cell."""
    found = []
    for at, site in enumerate(tables()):
        flag = (np.random.default_rng(at).random(len(site)) < 0.7).astype(float)
        flag[PLANTED] = np.nan if at == 1 else flag[PLANTED]
        found.append(replace(site, table=np.column_stack([site.X, flag]), columns=(*site.columns, "flag")))
    return found


def rare_class() -> list[SiteData]:
    """Give one site a class of its own."""
    sites = tables()
    y = sites[1].y.astype("U8")
    y[:5] = "rare"
    return [sites[0], replace(sites[1], y=y), *sites[2:]]


def rare_cell() -> list[SiteData]:
    """Add a word that many rows of one class have, and a single row of the other."""

    def codes(at: int, usual: Any) -> Any:
        usual[[0, 2, 4, 6, 8]] = 2.0
        usual[1] = 2.0 if at == 1 else usual[1]
        return usual

    return _words(codes, ("f", "m", "x"))


def rare_number() -> list[SiteData]:
    """Add a column that is 0 in most rows, and of one class in all but a single row."""
    found = []
    for at, site in enumerate(tables()):
        place = np.arange(len(site))
        there = (place % 4 == 0) | ((at == 1) & (place == PLANTED))
        cells = np.where(there, 2 + site.X[:, 0], 0.0)
        found.append(replace(site, table=np.column_stack([site.X, cells]), columns=(*site.columns, "dose")))
    return found


def outlier() -> list[SiteData]:
    """Put one number far from all others."""
    sites = tables()
    X = sites[1].X.copy()
    X[PLANTED, 2] = 6.0
    return [sites[0], replace(sites[1], table=X), *sites[2:]]


def read_from(sites: Callable[[], list[SiteData]], ways: dict[str, Any]) -> Callable[..., Learnt]:
    """Return an attack: search all weighted sums of an honest run's numbers for some that rest on few rows or sites."""

    def play(method: str, policy: Policy, quick: bool) -> Learnt:
        data = sites()
        try:
            found = row_terms(ways[method], data, policy)
            groups = small_groups(found, data, FLOORS.min_rows, FLOORS.min_sites, most=5)
        except FedgeomError as error:
            return refused(error)
        if not groups:
            return Learnt(f"of {len(found.numbers)} numbers, no weighted sum rests on few rows", False)
        fewest = min(groups, key=lambda one: len(one.rows))
        return Learnt(f"a weighted sum of the numbers rests on {len(fewest.rows)} rows", True)

    return play


def steps_towards_anchors(method: str, policy: Policy, quick: bool) -> Learnt:
    """Take the sums over clusters of two steps from each other: where one row changed clusters, that is the row."""
    way = fedgeom.XCLP(graph="anchors", n_anchors=12, n_rounds=8)
    sites = tables(80 if quick else 200)
    steps: list[tuple[Floats, Floats]] = []
    take = AnchorFit.take

    def noted(fit: AnchorFit, values: Floats, plan: AnchorPlan) -> None:
        if fit.taken and fit.taken % 2 == 0:
            counts, sums = np.split(values, [fit.sums()])
            steps.append((np.rint(counts), sums.reshape(len(counts), -1)))
        take(fit, values, plan)

    with mock.patch.object(AnchorFit, "take", noted):
        try:
            fedgeom.run(way, sites, policy=policy)
        except FedgeomError as error:
            return refused(error)
    rows = unit_rows(np.concatenate([site.X for site in sites]))
    read = np.zeros(len(rows), bool)
    for (counts, sums), (later, others) in pairwise(steps):
        for at, to in np.argwhere(np.abs(counts[:, None] - later) == 1).tolist():
            apart = (sums[at] - others[to]) * (counts[at] - later[to])
            read |= np.linalg.norm(rows - apart, axis=1) < 1e-3
    return Learnt(f"the directions of {int(read.sum())} of {len(rows)} rows", bool(read.any()))


def infinite_terms(method: str, policy: Policy, quick: bool) -> Learnt:
    """Settings that are infinite or no number: a steward's page would show other terms than are hashed."""
    taken = []
    tried = 0
    for name in METHODS:
        kind = METHODS[name]
        for field in fields(kind):
            for bad in (math.inf, -math.inf, math.nan):
                try:
                    terms = kind.from_terms({field.name: bad}).terms()
                except (FedgeomError, TypeError, ValueError):
                    tried += 1
                    continue
                tried += 1
                if "inf" in repr(terms.get(field.name)) or "nan" in repr(terms.get(field.name)):
                    taken.append(f"{name}.{field.name}")
    return Learnt(f"{len(taken)} of {tried} such settings are taken", bool(taken))


def _both(**settings: Any) -> dict[str, Any]:
    return {
        "ridge": fedgeom.Ridge(**{"features": "linear"} | settings),
        "moments": fedgeom.Moments(**EUCLIDEAN, **settings),
    }


BINNED = {"ridge, binned": fedgeom.Ridge(features=Binned(n_bins=16, group_size=1))}
READ: dict[str, tuple[Callable[[], list[SiteData]], dict[str, Any], str]] = {
    "a column with one gap": (one_gap, _both(prepare="table"), "all 7 other numbers of 3 of 3 patients, exactly"),
    "a column with one 1": (one_flag, _both(), "the row and its label, exactly"),
    "a word that one row has": (one_rare_word, _both(prepare=[OneHot()]), "the row, with Moments its label too"),
    "a rare class in the sums of preparation": (
        rare_class,
        _both(prepare=[Scale(), PCA(2)]),
        "count and exact mean of a class that one site has",
    ),
    "bins that few rows have": (lambda: tables(80, 1), BINNED, "113 of 600 rows with labels"),
    "a gap in a column of 0 and 1": (
        one_gap_among_flags,
        _both(prepare="table"),
        "with Ridge a weighted sum of the numbers rests on the one row",
    ),
    "a word that one row of a class has": (
        rare_cell,
        {"moments": fedgeom.Moments(prepare=[OneHot()], **EUCLIDEAN)},
        "4 of 125 rows of the rarer class, with label and word",
    ),
    "a number that one row of a class has": (
        rare_number,
        {"ridge": fedgeom.Ridge(features="linear"), "moments": fedgeom.Moments(**EUCLIDEAN)},
        "with Ridge a weighted sum of the numbers rests on the one row",
    ),
    "numbers as they are and clipped": (
        outlier,
        _both(prepare=[Scale(max_value=3)]),
        "6 of 6 clipped cells exactly",
    ),
}
ATTACKS = (
    *(Attack(name, tuple(ways), before, read_from(sites, ways)) for name, (sites, ways, before) in READ.items()),
    Attack(
        "two steps towards anchors",
        ("xclp through anchors",),
        "the directions of 146 of 10,052 cells (hipc, 300 anchors)",
        steps_towards_anchors,
    ),
    Attack("terms that are no numbers", ("all",), "12 settings were taken, and shown as null", infinite_terms),
)
