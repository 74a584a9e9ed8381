"""What can be worked out from all sums of a run together: the span test.

Every number of a secure sum is a sum over rows, Σᵢ tₖ(i). Whoever has the sums can add them up with any weights c, and
has Σᵢ vᵢ with v = Σₖ cₖ·tₖ. Where v is 0 in all rows but a few, that is a number of these few. So the terms of all sums
of a run, preparation, method and evaluation, are put into one matrix T (numbers, rows), and its row space is searched
for vectors that few rows, or the rows of few sites, support.

With Q an orthonormal basis of that space, (rows, rank), and H = Q·Qᵀ: a vector of the space lies in a set S of rows
if and only if the largest eigenvalue of H restricted to S is 1. That decides sets that are given: the rows of any few
sites, and those that have something rare. Others are searched for. A vector of s rows has a row i with Hᵢᵢ ≥ 1/s, so
from each such row the sparsest vector is sought by reweighted least squares, and what is found is decided as above.
Nothing is reported that is not there, or that the rounding of the numbers hides; sets of the first kind are never
missed.

In general position a space of rank r has no vector with fewer than rows - r + 1 entries, so that what is found has a
reason. Tables with few rows, beside the numbers that are summed, are therefore refused.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain, combinations
from typing import Any
from unittest import mock

import numpy as np
import numpy.typing as npt

from fedgeom.arrays import Floats, Ints
from fedgeom.data.sites import SiteData
from fedgeom.engines.run import change_of, prepared, run, update_method
from fedgeom.errors import FedgeomError, InputError
from fedgeom.federation.holdout import Parts, part_rows
from fedgeom.federation.method import Method
from fedgeom.federation.policy import Policy, StrictPolicy
from fedgeom.preparation.quantiles import from_deep
from fedgeom.protocols import evaluation
from fedgeom.protocols.fixed_point import from_wide
from fedgeom.protocols.secure_sum.messages import SumQuestion
from fedgeom.testing.rehearsal import RecordedExchange, Rehearsal, refused

SMALL = 1e-6
"""What is a smaller share of the rest is rounding: sums have 24 binary digits or more."""
INSIDE = 1e-8
"""How far the eigenvalue of a vector that a set supports may be from 1: the square of a share of rounding."""
ROUNDS = 40
"""How often least squares are weighted anew."""
MOST_PIVOTS = 200
"""From how many rows a vector is sought at most, those with the most influence first."""

DECODERS: dict[str, Callable[[Any], Floats]] = {
    "ridge.columns": from_wide,
    "prepare.moments": from_deep,
    "regression.columns": from_wide,
    "prepare.summaries": from_deep,
    "survival.columns": from_wide,
    "survival.risk-sets": from_wide,
    "survival.curvature": from_wide,
    "survival.strata": from_wide,
}
"""How numbers that take several words are read, by the question's kind. All others are whole multiples of one unit."""


@dataclass(frozen=True, eq=False)
class RowTerms:
    """What each row adds to each number of all sums of a run."""

    terms: Floats
    """(numbers, rows), f8."""
    numbers: tuple[str, ...]
    """What the numbers are: the kind of the sum, its round and the place in it."""
    rows: tuple[tuple[str, int], ...]
    """The site and the place in its table of each row."""
    uneven: Mapping[str, int] = field(default_factory=dict)
    """For each kind of sum, how many of its numbers are no sum over rows, and so not among the terms; 0: the question
    says so of all (`SumQuestion.over_rows`)."""
    rounding: Floats | None = None
    """By how much each number may be off, (numbers,), in the units of the terms; None: by nothing."""
    left_out: tuple[str, ...] = ()
    """Kinds of sums that were taken and are not among the terms because it was said so."""
    ended: str = ""
    """Why the run ended before its time, if it did: then the terms are those of the sums until there."""

    @property
    def sites(self) -> npt.NDArray[np.str_]:
        """The site of each row, (rows,)."""
        return np.array([name for name, _ in self.rows])

    def without(self, *kinds: str) -> RowTerms:
        """Return the terms of all sums but those of some kinds."""
        kept = [at for at, name in enumerate(self.numbers) if name.split(" ")[0] not in kinds]
        off = None if self.rounding is None else self.rounding[kept]
        return replace(self, terms=self.terms[kept], numbers=tuple(self.numbers[at] for at in kept), rounding=off)

    @cached_property
    def basis(self) -> Floats:
        """An orthonormal basis of the space that the terms span, (rows, rank), f8."""
        length = np.linalg.norm(self.terms, axis=1)
        some = self.terms[length > 0] / length[length > 0, None]
        if not len(some):
            return np.zeros((len(self.rows), 0))
        _, sizes, found = np.linalg.svd(some, full_matrices=False)
        return np.ascontiguousarray(found[sizes > SMALL * sizes[0]].T)


@dataclass(frozen=True, eq=False)
class SmallGroup:
    """Rows that some weighted sum of a run's numbers rests on alone, and that are too few."""

    rows: tuple[tuple[str, int], ...]
    """The site of each, and its place in the site's table."""
    numbers: tuple[str, ...]
    """The numbers that weigh most in the sum."""

    @property
    def sites(self) -> tuple[str, ...]:
        """The sites of the rows."""
        return tuple(sorted({name for name, _ in self.rows}))

    def __str__(self) -> str:
        shown = ", ".join(f"row {row} of {name!r}" for name, row in self.rows[:5])
        more = f" and {len(self.rows) - 5} more" if len(self.rows) > 5 else ""
        return f"{len(self.rows)} rows of {len(self.sites)} sites ({shown}{more}), by {', '.join(self.numbers)}"


def row_terms(
    method: Method,
    sites: Sequence[SiteData],
    policy: Policy | None = None,
    seed: int = 0,
    without: Collection[str] = (),
) -> RowTerms:
    """Return what each row adds to each number that an honest run over these sites sums, but for some kinds of sums.

    The run is held once. Then each site is asked again for what it adds to each sum, with all else as it was, but
    without one of its rows: the difference is what the row added. Numbers for which such differences do not add up, as
    how many sites have a column, are no sums over rows, and are counted only (`RowTerms.uneven`); where that is so of
    most numbers of a sum, as of parameters that are trained, the whole sum is. Sums that decide what is too rare
    (`SumQuestion.decides_floors`) are left out, and those of groups of rows
    (`SumQuestion.rounded`), which no row is a term of: they have tests of their own. So has what is counted of rows
    kept aside, which are in no other sum (`SumQuestion.counts_rows_aside`); of that sum, rows that are learnt from are
    judged. A run that is refused before the first sum raises why.
    """
    rules = policy or StrictPolicy()
    held = Rehearsal(method, sites, seed, rules)
    ended: FedgeomError | None = None
    try:
        held.conduct()
    except FedgeomError as error:
        ended = error
    places = [(site.name, row) for site in sites for row in range(len(site))]
    first = {site.name: at for at, site in reversed(list(enumerate_rows(sites)))}
    asked: dict[tuple[str, int], list[RecordedExchange]] = {}
    uneven: dict[str, int] = {}
    counts_aside: set[str] = set()
    for one in held.exchanges:
        question = held.question(one) if one.frame.kind in held.method.site.understands() else None
        if isinstance(question, SumQuestion) and not question.over_rows:
            uneven[one.frame.kind] = 0
        if isinstance(question, SumQuestion) and question.counts_rows_aside:
            counts_aside.add(one.frame.kind)
        if isinstance(question, SumQuestion) and _is_judged(question) and not refused(one.reply):
            if one.frame.kind in without or (ended is not None and one.step == held.steps):
                continue  # of the latter, the run ended before it was known
            asked.setdefault((one.frame.kind, question.ticket.round), []).append(one)
    replay = SumReplay(held, {site.name: site for site in sites})
    terms = []
    names: list[str] = []
    off: list[Floats] = []
    with mock.patch.object(evaluation, "train_baseline", _fixed_baseline(replay)):
        for (kind, round), exchanges in asked.items():
            added: Floats | None = None
            even = np.ones(0, bool)
            for one in exchanges:
                own, adds_up = replay.terms(one)
                if kind in counts_aside:
                    own[:, replay.aside(one.site)] = 0.0
                if added is None:
                    added = np.zeros((len(own), len(places)))
                    even = np.ones(len(own), bool)
                added[:, first[one.site] : first[one.site] + own.shape[1]] = own
                even &= adds_up
            assert added is not None
            terms.append(added[even])
            names += [f"{kind} {round} [{at}]" for at in np.flatnonzero(even).tolist()]
            off.append(np.full(even.sum(), replay.rounding.get(kind, 0.0) * np.sqrt(len(exchanges))))
            if not even.all():
                uneven[kind] = uneven.get(kind, 0) + int((~even).sum())
    if not terms and ended is not None:
        raise ended
    whole = np.concatenate([np.zeros((0, len(places))), *terms])
    found = {one.frame.kind for one in held.exchanges}
    return RowTerms(
        whole,
        tuple(names),
        tuple(places),
        uneven,
        np.concatenate([[], *off]),
        tuple(sorted(found & set(without))),
        str(ended or ""),
    )


def updated_terms(
    method: Method,
    sites: Sequence[SiteData],
    changes: Sequence[RowChange],
    policy: Policy | None = None,
    seed: int = 0,
    without: Collection[str] = (),
) -> RowTerms:
    """Return what each row adds to each number that a run and its updates sum, all together (`Run.update`).

    A row that is taken out has the place that it had; rows that are added come after the site's others.
    """
    rules = policy or StrictPolicy()
    first: Method = replace(method, updatable=True)  # type: ignore[call-arg]
    found = [row_terms(first, sites, rules, seed, without)]
    finished = run(first, sites, seed, policy=rules)
    places = [list(found[0].rows)]
    sizes = {site.name: len(site) for site in sites}
    updating: Method = first
    for change in changes:
        updating = update_method(updating, finished)
        changed = change_of(*(prepared(finished.model, some) for some in (change.added, change.taken(sites))))
        found.append(row_terms(updating, changed, rules, seed, without))
        of: dict[str, tuple[int, ...]] = dict.fromkeys(sizes, ())
        for site in change.added:
            of[site.name] = tuple(range(sizes[site.name], sizes[site.name] + len(site)))
            sizes[site.name] += len(site)
        for name, gone in change.removed.items():
            of[name] = (*of[name], *gone)
        places.append([(site.name, row) for site in changed for row in of[site.name]])
        finished = run(updating, changed, seed, policy=rules)
    rows = [(name, row) for name, count in sizes.items() for row in range(count)]
    at = {row: number for number, row in enumerate(rows)}
    terms = []
    names: list[str] = []
    for number, (one, own) in enumerate(zip(found, places, strict=True)):
        spread = np.zeros((len(one.terms), len(rows)))
        spread[:, [at[row] for row in own]] = one.terms
        terms.append(spread)
        names += [f"{name} of update {number}" if number else name for name in one.numbers]
    rounding = np.concatenate([one.rounding for one in found if one.rounding is not None])
    left_out = tuple(sorted({kind for one in found for kind in one.left_out}))
    return RowTerms(np.concatenate(terms), tuple(names), tuple(rows), {}, rounding, left_out)


@dataclass(frozen=True)
class RowChange:
    """Rows that come to sites, and rows that go, by site and place."""

    added: tuple[SiteData, ...] = ()
    removed: Mapping[str, tuple[int, ...]] = field(default_factory=dict)

    def taken(self, sites: Sequence[SiteData]) -> list[SiteData]:
        """Return the rows that go."""
        return [site.take(np.array(self.removed[site.name])) for site in sites if site.name in self.removed]


def enumerate_rows(sites: Sequence[SiteData]) -> Iterator[tuple[int, SiteData]]:
    """Yield each site with the place of its first row among all rows."""
    at = 0
    for site in sites:
        yield at, site
        at += len(site)


def _is_judged(question: SumQuestion) -> bool:
    odd = question.decides_floors or question.row_sum or question.rounded
    return question.over_rows and not odd


@dataclass
class SumReplay:
    """Asks sites of a recorded run again what they add to a sum, without some of their rows."""

    held: Rehearsal
    sites: Mapping[str, SiteData]

    def __post_init__(self) -> None:
        self._classes: dict[str, tuple[type[Any], Ints, Ints]] = {}
        self.rounding: dict[str, float] = {}
        """For each kind of sum, by how much a site's number may be off: by half a unit, if it is no whole number."""

    def terms(self, exchange: RecordedExchange) -> tuple[Floats, npt.NDArray[np.bool_]]:
        """Return what each of a site's rows adds, (numbers, rows), and for which numbers that adds up, (numbers,)."""
        rows = len(self.sites[exchange.site])
        whole = self.contribution(exchange, np.ones(rows, bool))
        found = np.zeros((len(self._difference(whole, whole, exchange)), rows))
        try:
            left = self._later_half(whole, exchange)
            if left is None:
                return found, np.zeros(len(found), bool)
            for row in range(rows):
                kept = np.ones(rows, bool)
                kept[row] = False
                found[:, row] = self._difference(whole, self.contribution(exchange, kept), exchange)
        except (FedgeomError, ValueError, IndexError):  # what it remembers of its rows does not fit fewer of them
            return np.zeros(found.shape), np.zeros(len(found), bool)
        later = ~self._half(rows)
        size = np.abs(found).sum(axis=1)
        even = np.abs(found[:, later].sum(axis=1) - left) <= SMALL * size + self._unit(exchange, rows)
        return found, even & (size > 0) | (size == 0) & (left == 0)

    def _later_half(self, whole: Any, exchange: RecordedExchange) -> Floats | None:
        """Return what every second row adds, (numbers,); None where both halves do not add up to the whole."""
        rows = len(self.sites[exchange.site])
        first = self._half(rows)
        one = self.contribution(exchange, first)
        other = self.contribution(exchange, ~first)
        left = self._difference(whole, one, exchange)
        decode = DECODERS.get(exchange.frame.kind)
        own = decode(other) if decode is not None else np.asarray(other.view(np.int64), np.float64)
        size = np.abs(left) + np.abs(own)
        odd = np.abs(left - own) > SMALL * size + self._unit(exchange, rows)
        return None if odd.sum() > (size > 0).sum() / 2 else left

    def _half(self, rows: int) -> npt.NDArray[np.bool_]:
        """Return which rows are in the first half: drawn, so that both have all classes."""
        found: npt.NDArray[np.bool_] = np.random.default_rng(0).permutation(rows) % 2 == 0
        return found

    def _unit(self, exchange: RecordedExchange, rows: int) -> float:
        return 4.0 * rows if exchange.frame.kind not in DECODERS else 0.0  # each difference is rounded twice

    def _difference(self, whole: Any, part: Any, exchange: RecordedExchange) -> Floats:
        decode = DECODERS.get(exchange.frame.kind)
        if decode is not None:
            return decode(whole) - decode(part)
        return np.asarray((whole - part).view(np.int64), np.float64)

    def contribution(self, exchange: RecordedExchange, kept: npt.NDArray[np.bool_]) -> Any:
        """Return what the site adds to the sum with some of its rows, (words,), u8."""
        held = self.held
        runner = held.runner(exchange.site)
        question = held.question(exchange)
        memory = runner._remembered(held.run, exchange.before)
        kind, train, aside = self._class(exchange.site)
        data = self.sites[exchange.site]
        site = kind(data.take(kept), runner.identity, held.run, memory, runner.method)
        site.parts_kept = data.take(train[kept[train]]), data.take(aside[kept[aside]])
        found = np.asarray(site.handler(question)(question).vector).ravel()
        if not getattr(site, "whole", False) and exchange.frame.kind not in DECODERS:
            self.rounding[exchange.frame.kind] = 0.5
        return found

    def aside(self, name: str) -> Ints:
        """Return which rows a site keeps aside, by their places in its table."""
        return self._class(name)[2]

    def _class(self, name: str) -> tuple[type[Any], Ints, Ints]:
        """Return a class of sites that is told which rows it learns from and tests on, and which these are."""
        if name not in self._classes:
            base = self.held.method.site
            site = self.sites[name]
            numbered = replace(site, table=np.arange(float(len(site)))[:, None], columns=(), categories={})
            parts = part_rows(numbered, self.held.method, self.held.seed, self.held.policy)
            train, aside = (part.X[:, 0].astype(np.int64) for part in parts)
            told = {"raw_parts": property(_told_parts), "contribute": _noted_contribution(base)}
            made = type(f"Told{base.__name__}", (base,), told)
            self._classes[name] = made, train, aside
        return self._classes[name]


def _told_parts(site: Any) -> Parts:
    found: Parts = site.parts_kept
    return found


def _noted_contribution(base: type[Any]) -> Callable[..., Any]:
    """Return what notes, of a site of some class, whether it adds whole numbers, which nothing rounds."""

    def contribute(site: Any, ask: SumQuestion, values: npt.ArrayLike, **options: Any) -> Any:
        site.whole = np.asarray(values).dtype.kind in "ib"
        return base.contribute(site, ask, values, **options)

    return contribute


def _fixed_baseline(replay: SumReplay) -> Callable[[Floats, Any], evaluation.Baseline]:
    """Return what takes the place of training a site's own model for comparison: that of all its rows, once.

    The model stays at the site. What it says of a row that is tested on is a term of that row; how it would change
    with a row that it was trained on is no sum over rows.
    """
    train = evaluation.train_baseline
    known: list[tuple[frozenset[bytes], evaluation.Baseline]] = []

    def found(X: Floats, words: Any) -> evaluation.Baseline:
        some = frozenset(row.tobytes() for row in np.ascontiguousarray(X))
        for rows, model in known:
            if some <= rows:
                return model
        known.append((some, train(X, words)))
        return known[-1][1]

    return found


def small_groups(
    found: RowTerms, sites: Sequence[SiteData], min_rows: int, min_sites: int, most: int = 20
) -> list[SmallGroup]:
    """Return groups of fewer rows or sites that some weighted sum of the numbers rests on, up to ``most``, each once.

    sites: those of the run, in which rows with rare values, gaps and labels are looked for; none: only the terms are.
    """
    Q = found.basis
    count, rank = Q.shape
    where = found.sites
    names = sorted(set(where.tolist()))
    few = [list(some) for some in combinations(names, min(min_sites - 1, len(names) - 1))] if min_sites > 1 else []
    largest = max([min_rows - 1, *(int(np.isin(where, some).sum()) for some in few)])
    if rank > count - largest:
        raise InputError(
            f"{count:,} rows given, whose terms span {rank:,} dimensions; wanted more than {rank + largest:,} rows, or "
            "fewer columns: with fewer rows every set of rows has a weighted sum of its own, by chance"
        )
    groups: dict[tuple[int, ...], SmallGroup] = {}
    by_sites = (np.flatnonzero(np.isin(where, some)) for some in few)
    for chosen in chain(by_sites, _candidates(found, sites, min_rows), _sparse(Q, min_rows)):
        if len(groups) == most:
            break
        _add(groups, found, chosen)
    return [group for _, group in sorted(groups.items(), key=lambda one: one[0])]


def _add(groups: dict[tuple[int, ...], SmallGroup], found: RowTerms, chosen: Ints) -> None:
    """Keep the rows of a vector that the chosen rows support, where there is one that rounding does not hide."""
    Q = found.basis
    values, vectors = np.linalg.eigh(Q[chosen] @ Q[chosen].T)
    if values[-1] < 1 - INSIDE:
        return
    own = vectors[:, -1]
    support = chosen[np.abs(own) > np.sqrt(SMALL) * np.abs(own).max()]
    vector = np.zeros(len(Q))
    vector[chosen] = own
    key = tuple(support.tolist())
    if key not in groups:
        group = _described(found, key, vector)
        if group is not None:
            groups[key] = group


def _candidates(found: RowTerms, sites: Sequence[SiteData], min_rows: int) -> Iterator[Ints]:
    """Yield sets of fewer rows than ``min_rows`` that have something of their own.

    Single rows; rows in which a number's term is not the usual one; rows in which two terms of 0 and 1 differ; and in
    the raw tables, rows with a rare value, gap or label, and those in which the gaps of two columns differ.
    """
    sets = _all_candidates(found, sites)
    yield from (one for one in sets if 0 < len(one) < min_rows)


def _all_candidates(found: RowTerms, sites: Sequence[SiteData]) -> Iterator[Ints]:
    yield from (np.array([row]) for row in range(len(found.rows)))
    flags = []
    for term in found.terms:
        values, back, sizes = np.unique(
            np.round(term / max(np.abs(term).max(), 1e-300), 9), return_inverse=True, return_counts=True
        )
        yield np.flatnonzero(back != sizes.argmax())
        if len(values) == 2:
            flags.append(back == 1)
    flags += _raw_flags(sites)
    for one in flags:
        yield np.flatnonzero(one)
        yield np.flatnonzero(~one)
    for one, other in combinations(_distinct(flags), 2):
        yield np.flatnonzero(one != other)
        yield np.flatnonzero(one == other)


def _distinct(flags: Sequence[npt.NDArray[np.bool_]]) -> list[npt.NDArray[np.bool_]]:
    """Return each set once, and of a set and its complement one."""
    return list({(one != one[0]).tobytes(): one for one in flags}.values())


def _raw_flags(sites: Sequence[SiteData]) -> list[npt.NDArray[np.bool_]]:
    """Return which rows of all sites have each gap, each rare value and each label, (rows,) each."""
    if not sites:
        return []
    labels = np.concatenate([site.y.astype(str) for site in sites])
    found = [labels == name for name in np.unique(labels)]
    for at in range(min(site.shape[1] for site in sites)):
        cells = np.concatenate([_cells(site, at) for site in sites])
        found += [
            cells == value for value, many in zip(*np.unique(cells, return_counts=True), strict=True) if many > 1
        ]
    return found


def _cells(site: SiteData, at: int) -> npt.NDArray[np.str_]:
    """Return a column of a raw table as text; "nan" where a cell is empty."""
    numbers = np.asarray(site.table[:, [at]].toarray() if hasattr(site.table, "toarray") else site.table[:, [at]])
    words = site.categories.get(site.columns[at]) if site.columns else None
    cells = numbers[:, 0].astype(np.float64)
    if words is None:
        return cells.astype(str)
    return np.array(["nan" if np.isnan(cell) else words[int(cell)] for cell in cells])


def _sparse(Q: Floats, min_rows: int) -> Iterator[Ints]:
    """Yield the rows of vectors of a space that are 0 in most rows, sought from rows of much influence."""
    influence = np.einsum("ij,ij->i", Q, Q)
    pivots = [row for row in np.argsort(-influence).tolist() if influence[row] >= 1 / max(min_rows - 1, 1)]
    seen = set[int]()
    for row in pivots[:MOST_PIVOTS]:
        if row in seen:
            continue
        vector = _sparsest(Q, row)
        chosen = np.flatnonzero(np.abs(vector) > 1e-4 * np.abs(vector).max())
        if len(chosen) < min_rows:
            seen |= set(chosen.tolist())
            yield chosen


def _sparsest(Q: Floats, row: int) -> Floats:
    """Return the vector of a space, with 1 in one row, that reweighted least squares come to: most entries are 0.

    They minimise Σ log(v² + e²), with e ever smaller (Candès, Wakin and Boyd 2008, with squares).
    """
    vector = Q @ Q[row]
    vector = vector / vector[row]
    blur = 1.0
    for _ in range(ROUNDS):
        weights = 1 / (vector**2 + blur**2)
        A = Q.T @ (weights[:, None] * Q)
        try:
            z = np.linalg.solve(A, Q[row])
        except np.linalg.LinAlgError:
            break
        vector = Q @ (z / (Q[row] @ z))
        blur = max(0.6 * blur, 1e-7)
    return np.asarray(vector)


def _described(found: RowTerms, group: tuple[int, ...], vector: Floats) -> SmallGroup | None:
    """Say which numbers weigh most in the sum that has a vector's weights; None where rounding hides what it shows."""
    length = np.linalg.norm(found.terms, axis=1)
    scale = np.where(length > 0, length, 1.0)
    weights = np.linalg.lstsq((found.terms / scale[:, None]).T, vector, rcond=SMALL)[0]
    if found.rounding is not None and np.linalg.norm(weights / scale * found.rounding) > np.abs(vector).max() / 2:
        return None
    order = np.argsort(-np.abs(weights))[:4]
    shown = tuple(found.numbers[at] for at in order.tolist() if abs(weights[at]) > 1e-3 * np.abs(weights).max())
    return SmallGroup(tuple(found.rows[row] for row in group), shown)
