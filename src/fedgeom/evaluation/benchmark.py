"""Several methods and settings on the same rows: one table, paired differences, and which to choose."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
import numpy as np

from fedgeom.evaluation.evaluation import COLUMNS, Evaluation
from fedgeom.evaluation.metrics import Figure
from fedgeom.federation.ledger import as_frame

JUDGED = "balanced_accuracy"
"""The figure by which methods are ranked."""
NEAR = 0.02
"""A method so near the best that is not clearly worse may be taken where it sends much less."""
MUCH_LESS = 0.5
"""How much of what the best sends is much less."""
RIVALS = ("majority", "local", "pooled")
"""What methods are measured against, as far as it was scored."""


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """What came of one method with one seed."""

    method: str
    seed: int
    terms: dict[str, Any] = {}
    """The method's settings."""
    tables: str = ""
    """A hash of the sites' tables: what was computed from others is computed anew."""
    evaluation: Evaluation | None = None
    failure: str = ""
    """Why there are no figures."""
    seconds: float = 0.0
    sent: int = 0
    """How many bytes left each site, on average."""
    alone: bool = False
    """Whether sites train for themselves: then it is there to be measured against, and not to be taken."""


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the table: a method, or what methods are measured against."""

    name: str
    figures: dict[str, Figure] = {}
    """The mean over the seeds, of the interval's ends as well: the interval is that of one split."""
    difference: Figure | None = None
    """How far it is from the best method that is no training alone, seed by seed; from two seeds on."""
    worse: bool = False
    """Whether it is clearly worse than the best."""
    seconds: float = 0.0
    sent: int = 0
    alone: bool = False
    failure: str = ""


class Contest(msgspec.Struct, frozen=True, kw_only=True):
    """All that came of a comparison."""

    share: float
    """The share of rows that were kept aside."""
    entries: list[Entry]

    @property
    def seeds(self) -> list[int]:
        """The seeds that were tried."""
        return sorted({one.seed for one in self.entries})

    def scored(self, method: str) -> dict[int, Evaluation]:
        """Return a method's figures by seed."""
        return {
            one.seed: one.evaluation for one in self.entries if one.method == method and one.evaluation is not None
        }

    def frame(self) -> Any:
        """Return all figures as a pandas frame, or as records without pandas."""
        return as_frame(["method", "seed", "model", "metric", "value", "low", "high"], self.lines())

    def lines(self) -> list[tuple[str, int, str, str, float, float, float]]:
        """Return every figure of every method: method, seed, model, metric, value and interval."""
        return [
            (one.method, one.seed, score.model, metric, found.value, found.low, found.high)
            for one in self.entries
            if one.evaluation is not None
            for score in one.evaluation.scores
            for metric in COLUMNS
            if (found := getattr(score, metric)) is not None
        ]


def rival_rows(contest: Contest) -> list[Row]:
    """Return what methods are measured against: each rival is the same for all methods on the same rows."""
    rows = []
    for name in RIVALS:
        by_seed: dict[int, Evaluation] = {}
        for one in contest.entries:
            if one.evaluation is not None and name in one.evaluation:
                by_seed.setdefault(one.seed, one.evaluation)
        if by_seed:
            rows.append(Row(name=name, figures=_means(by_seed.values(), name)))
    return rows


def method_rows(contest: Contest) -> list[Row]:
    """Return a line for each method, the best first, those that failed last."""
    names = list(dict.fromkeys(one.method for one in contest.entries))
    figures = {name: _means(contest.scored(name).values(), "own") for name in names}
    ranked = sorted((name for name in names if JUDGED in figures[name]), key=lambda n: -figures[n][JUDGED].value)
    alone = {one.method for one in contest.entries if one.alone}
    best = next((name for name in ranked if name not in alone), ranked[0] if ranked else "")
    rows = []
    for name in [*ranked, *(name for name in names if name not in ranked)]:
        mine = [one for one in contest.entries if one.method == name]
        failures = [one.failure for one in mine if one.failure]
        beaten = name in ranked and name != best
        gap = _difference(contest, name, best) if beaten else None
        worse = beaten and _is_worse(gap, figures[name][JUDGED], figures[best][JUDGED])
        rows.append(
            Row(
                name=name,
                figures=figures[name],
                difference=gap,
                worse=worse,
                seconds=float(np.mean([one.seconds for one in mine])),
                sent=round(float(np.mean([one.sent for one in mine]))),
                alone=name in alone,
                failure=failures[0] if failures else "",
            )
        )
    return rows


def _means(evaluations: Iterable[Evaluation], model: str) -> dict[str, Figure]:
    scores = [one[model] for one in evaluations if model in one]
    found = {name: [getattr(one, name) for one in scores if getattr(one, name) is not None] for name in COLUMNS}
    return {
        name: Figure(*(float(np.mean([getattr(one, end) for one in figures])) for end in ("value", "low", "high")))
        for name, figures in found.items()
        if figures
    }


def _difference(contest: Contest, name: str, best: str) -> Figure | None:
    """Return how far a method is from the best, seed by seed, with a 95 % interval; None with fewer than two seeds.

    Splits share rows, so their differences are not independent: their variance is multiplied by 1/n plus test rows
    over training rows (Nadeau and Bengio 2003), and Student's t is taken.
    """
    here, there = contest.scored(name), contest.scored(best)
    pairs = [(here[seed]["own"], there[seed]["own"]) for seed in here if seed in there]
    gaps = [getattr(a, JUDGED).value - getattr(b, JUDGED).value for a, b in pairs if _judged(a) and _judged(b)]
    if len(gaps) < 2:
        return None
    from scipy.stats import t  # half a second, and only where seeds are compared

    mean, spread = float(np.mean(gaps)), float(np.std(gaps, ddof=1))
    half = (
        float(t.ppf(0.975, len(gaps) - 1))
        * spread
        * math.sqrt(1 / len(gaps) + contest.share / (1 - contest.share))
    )
    return Figure(mean, mean - half, mean + half)


def _judged(score: Any) -> bool:
    return getattr(score, JUDGED) is not None


def _is_worse(gap: Figure | None, own: Figure, best: Figure) -> bool:
    """Say whether a method is clearly worse: by its differences, or with one seed by intervals that do not meet."""
    return gap.high < 0 if gap is not None else own.high < best.low


def recommendation(contest: Contest) -> str:
    """Say in a sentence or two which method to take, and why."""
    good = [row for row in method_rows(contest) if JUDGED in row.figures and not row.alone]
    if not good:
        return "No method came through: the table says why."
    best, worth = good[0], good[0].figures[JUDGED].value
    near = [row for row in good if not row.worse and row.figures[JUDGED].value >= worth - NEAR]
    taken = min((row for row in near if row.sent <= MUCH_LESS * best.sent), key=lambda row: row.sent, default=best)
    value = taken.figures[JUDGED]
    others = [row.name for row in near if row is not taken]
    said = f"Take {taken.name}: its balanced accuracy, {value.value:.3f}, is "
    if taken is best:
        said += f"the best of {len(good)}" if len(good) > 1 else "all there is to go by"
        said += f"; {_listed(others)} {'is' if len(others) == 1 else 'are'} not clearly worse" if others else ""
        said += ": more seeds or rows might tell them apart" if len(others) > 2 else ""
    else:
        share = taken.sent / best.sent
        said += (
            f"within {NEAR} of the best ({best.name}, {worth:.3f}), and it sends {share:.0%} of what that sends"
        )
    return f"{said}.{_against(contest, taken)}"


def _against(contest: Contest, taken: Row) -> str:
    """Say where a rival without a federation does as well."""
    rivals, said = {row.name: row.figures for row in rival_rows(contest)}, ""
    own = taken.figures
    floor = rivals.get("majority", {}).get("accuracy")
    if floor is not None and own["accuracy"].low <= floor.value:
        said += (
            f" But the commonest class alone is right as often ({floor.value:.3f}): it has learnt next to nothing."
        )
    alone = rivals.get("local", {}).get(JUDGED)
    if alone is not None and own[JUDGED].low <= alone.value:
        better = "better" if alone.value > own[JUDGED].value else "nearly as good"
        said += (
            f" But on its own rows each site alone is {better} ({alone.value:.3f}): the federation pays off for sites "
            "that lack classes or rows, and for newcomers."
        )
    return said


def _listed(names: Sequence[str], most: int = 4) -> str:
    shown = list(names[:most])
    more = len(names) - len(shown)
    if more:
        return f"{', '.join(shown)} and {more} more"
    return " and ".join([", ".join(shown[:-1]), shown[-1]]) if len(shown) > 1 else shown[0]


HEAD = ["stage", "row", "number", "settings", "seed", "model", "metric", "value", "low", "high", "chosen"]
"""The columns of `Sweep.lines`."""


class Tried(msgspec.Struct, frozen=True, kw_only=True):
    """What came of one row's setting with one seed, on rows set aside among those learnt from."""

    row: str
    number: int
    """Which of the row's settings, from 0."""
    entry: Entry
    chosen: bool = False
    """Whether it is the best of the row with this seed."""


class Sweep(msgspec.Struct, frozen=True, kw_only=True):
    """All that came of a sweep."""

    share: float
    """The share of rows kept aside, of all for the test and of the rest for the choice."""
    by: str = JUDGED
    """The figure that settings are chosen by."""
    settings: dict[str, list[dict[str, Any]]]
    """For each row the settings that were tried."""
    tried: list[Tried]
    tested: list[Entry]
    """The chosen settings of each row and seed, on the test rows."""

    @property
    def contest(self) -> Contest:
        """The rows beside each other, each with what was chosen for it."""
        return Contest(share=self.share, entries=self.tested)

    def judged(self, row: str, number: int) -> list[float]:
        """Return the figures that a row's setting was judged by, for the seeds with which it came through."""
        mine = [one.entry for one in self.tried if (one.row, one.number) == (row, number)]
        return [value for entry in mine if (value := figure(entry, self.by)) is not None]

    def times_chosen(self, row: str, number: int) -> int:
        """Return with how many seeds a row's setting was chosen."""
        return sum(one.chosen for one in self.tried if (one.row, one.number) == (row, number))

    def frame(self) -> Any:
        """Return all figures as a pandas frame, or as records without pandas."""
        return as_frame(HEAD, self.lines())

    def lines(self) -> list[tuple[Any, ...]]:
        """Return every figure of every run: first those that settings were chosen by, then those of the test."""
        found = []
        for one in self.tried:
            found += self._figures("choosing", one.row, one.number, one.entry, one.chosen)
        for entry in self.tested:
            numbers = [
                one.number
                for one in self.tried
                if one.chosen and (one.row, one.entry.seed) == (entry.method, entry.seed)
            ]
            found += self._figures("tested", entry.method, numbers[0] if numbers else 0, entry, True)
        return found

    def _figures(self, stage: str, row: str, number: int, entry: Entry, chosen: bool) -> list[tuple[Any, ...]]:
        if entry.evaluation is None:
            return []
        said = msgspec.json.encode(self.settings[row][number], order="sorted").decode()
        return [
            (
                stage,
                row,
                number,
                said,
                entry.seed,
                score.model,
                metric,
                found.value,
                found.low,
                found.high,
                chosen,
            )
            for score in entry.evaluation.scores
            for metric in COLUMNS
            if (found := getattr(score, metric)) is not None
        ]


def figure(entry: Entry, by: str) -> float | None:
    """Return what a run is judged by: a figure of what sites end with; None where it failed or has none."""
    if entry.evaluation is None or "own" not in entry.evaluation:
        return None
    found = getattr(entry.evaluation["own"], by)
    return None if found is None else float(found.value)


def best(entries: Sequence[Entry], by: str) -> int | None:
    """Return which of the runs is best, the first of those that are; None where all failed."""
    values = [figure(entry, by) for entry in entries]
    if all(value is None for value in values):
        return None
    return int(np.argmax([-np.inf if value is None else value for value in values]))
