"""Several methods and settings on the same rows: one table, paired differences, and which to choose.

A comparison is a sweep in which each row has one setting.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from statistics import NormalDist
from typing import Any, Literal

import msgspec
import numpy as np

from fedgeom.evaluation.evaluation import COLUMNS, TITLES, Evaluation
from fedgeom.evaluation.metrics import Figure
from fedgeom.federation.ledger import as_frame

JUDGED = "balanced_accuracy"
"""The figure by which rows are ranked."""
AS_RUN = "as run"
"""What the row of the method that `fedgeom run` would take is called."""
EQUAL = 0.005
"""Rows that differ by no more, and not clearly, are equals: of these the one that sends much less is taken."""
MUCH_LESS = 0.5
"""How much of what the best sends is much less."""
MUCH = 2**20
"""Where the best sends no more bytes than this from each site, what others send does not matter."""
RIVALS = ("majority", "local", "pooled")
"""What methods are measured against, as far as it was scored."""
HEAD = ["stage", "row", "setting", "settings", "seed", "model", "metric", "value", "low", "high", "chosen"]
"""The columns of `Sweep.lines`."""


class MethodResult(msgspec.Struct, frozen=True, kw_only=True):
    """What came of one row's setting with one seed."""

    row: str
    seed: int
    method: str = ""
    setting: int = 0
    """Which of the row's settings, from 0."""
    stage: Literal["choosing", "tested"] = "tested"
    """Whether it was run to choose a setting, on rows set aside among those learnt from, or on the test rows."""
    chosen: bool = False
    """Whether it is the best of the row's settings with this seed."""
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

    @property
    def title(self) -> str:
        """The row, and while a setting is chosen which one."""
        return self.row if self.stage == "tested" else f"{self.row}, setting {self.setting + 1}"

    def figure(self, by: str) -> float | None:
        """Return a figure of what sites end with; None where the run failed or has none."""
        if self.evaluation is None or "own" not in self.evaluation:
            return None
        found = getattr(self.evaluation["own"], by)
        return None if found is None else float(found.value)


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


class Sweep(msgspec.Struct, frozen=True, kw_only=True):
    """All that came of a sweep, or of a comparison."""

    share: float
    """The share of rows kept aside, of all for the test and of the rest for the choice."""
    by: str = JUDGED
    """The figure that settings are chosen by."""
    settings: dict[str, list[dict[str, Any]]] = {}
    """For each row the settings that were tried."""
    entries: list[MethodResult]
    command: str = ""
    """What one types to have the same again."""

    @property
    def tried(self) -> list[MethodResult]:
        """The runs that settings were chosen by; none in a comparison."""
        return [one for one in self.entries if one.stage == "choosing"]

    @property
    def tested(self) -> list[MethodResult]:
        """The chosen settings of each row and seed, on the test rows."""
        return [one for one in self.entries if one.stage == "tested"]

    @property
    def seeds(self) -> list[int]:
        """The seeds that were tried."""
        return sorted({one.seed for one in self.entries})

    def scored(self, row: str) -> dict[int, Evaluation]:
        """Return a row's figures on the test rows, by seed."""
        return {one.seed: one.evaluation for one in self.tested if one.row == row and one.evaluation is not None}

    def with_setting(self, row: str, setting: int) -> list[MethodResult]:
        """Return the runs by which one setting of a row was judged."""
        return [one for one in self.tried if one.row == row and one.setting == setting]

    def frame(self) -> Any:
        """Return all figures as a pandas frame, or as records without pandas."""
        return as_frame(HEAD, self.lines())

    def lines(self) -> list[tuple[Any, ...]]:
        """Return every figure of every run: what `HEAD` says."""
        return [
            (
                one.stage,
                one.row,
                one.setting,
                self._settings_of(one),
                one.seed,
                score.model,
                metric,
                found.value,
                found.low,
                found.high,
                one.chosen,
            )
            for one in self.entries
            if one.evaluation is not None
            for score in one.evaluation.scores
            for metric in COLUMNS
            if (found := getattr(score, metric)) is not None
        ]

    def _settings_of(self, entry: MethodResult) -> str:
        """Return the settings in which a run differs from others of its row, as JSON."""
        tried = self.settings.get(entry.row, [])
        said = tried[entry.setting] if entry.setting < len(tried) else {}
        return msgspec.json.encode(said, order="sorted").decode()


def best(entries: Sequence[MethodResult], by: str) -> int | None:
    """Return which of the runs is best, the first of those that are; None where all failed."""
    values = [entry.figure(by) for entry in entries]
    if all(value is None for value in values):
        return None
    return int(np.argmax([-np.inf if value is None else value for value in values]))


def rival_rows(swept: Sweep) -> list[Row]:
    """Return what methods are measured against: each rival is the same for all methods on the same rows."""
    rows = []
    for name in RIVALS:
        by_seed: dict[int, Evaluation] = {}
        for one in swept.tested:
            if one.evaluation is not None and name in one.evaluation:
                by_seed.setdefault(one.seed, one.evaluation)
        if by_seed:
            rows.append(Row(name=name, figures=_means(by_seed.values(), name)))
    return rows


def method_rows(swept: Sweep) -> list[Row]:
    """Return a line for each row of the sweep, the best first, those that failed last."""
    tested = swept.tested
    names = list(dict.fromkeys(one.row for one in tested))
    figures = {name: _means(swept.scored(name).values(), "own") for name in names}
    ranked = sorted((name for name in names if JUDGED in figures[name]), key=lambda n: -figures[n][JUDGED].value)
    alone = {one.row for one in tested if one.alone}
    first = next((name for name in ranked if name not in alone), ranked[0] if ranked else "")
    rows = []
    for name in [*ranked, *(name for name in names if name not in ranked)]:
        mine = [one for one in tested if one.row == name]
        failures = [one.failure for one in mine if one.failure]
        beaten = name in ranked and name != first
        gap = _difference(swept, name, first, len(ranked)) if beaten else None
        worse = beaten and _is_worse(gap, figures[name][JUDGED], of_many(figures[first][JUDGED], len(ranked)))
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


def of_many(figure: Figure, count: int) -> Figure:
    """Return the figure of the best of so many rows with an interval that allows for the choice (Bonferroni).

    All ``count`` intervals of this width hold the true figures together in 95 of 100 cases, so that of the best does,
    though it was chosen for its luck as well.

    >>> print(of_many(Figure(0.8, 0.7, 0.9), 1), of_many(Figure(0.8, 0.7, 0.9), 20))
    0.800 [0.700, 0.900] 0.800 [0.646, 0.954]
    """
    wider = NormalDist().inv_cdf(1 - 0.025 / max(count, 1)) / NormalDist().inv_cdf(0.975)
    low = figure.value - wider * (figure.value - figure.low)
    return Figure(figure.value, max(low, 0.0), min(figure.value + wider * (figure.high - figure.value), 1.0))


def _difference(swept: Sweep, name: str, first: str, count: int) -> Figure | None:
    """Return how far a row is from the best, seed by seed, with a 95 % interval; None with fewer than two seeds.

    Splits share rows, so their differences are not independent: their variance is multiplied by 1/n plus test rows
    over training rows (Nadeau and Bengio 2003), and Student's t is taken. ``count`` rows are compared, so the intervals
    hold for all differences together (Bonferroni).
    """
    own = {one.seed: one.figure(JUDGED) for one in swept.tested if one.row == name}
    theirs = {one.seed: one.figure(JUDGED) for one in swept.tested if one.row == first}
    pairs = [(value, theirs.get(seed)) for seed, value in own.items()]
    gaps = [mine - other for mine, other in pairs if mine is not None and other is not None]
    if len(gaps) < 2:
        return None
    from scipy.stats import t  # half a second, and only where seeds are compared

    mean = float(np.mean(gaps))
    spread = float(np.std(gaps, ddof=1))
    correction = math.sqrt(1 / len(gaps) + swept.share / (1 - swept.share))
    half = float(t.ppf(1 - 0.025 / max(count - 1, 1), len(gaps) - 1)) * spread * correction
    return Figure(mean, mean - half, mean + half)


def _is_worse(gap: Figure | None, own: Figure, best: Figure) -> bool:
    """Say whether a row is clearly worse: by its differences, or with one seed by intervals that do not meet."""
    return gap.high < 0 if gap is not None else own.high < best.low


def recommendation(swept: Sweep) -> str:
    """Say in a few sentences which row to take, and why: by its figure, and only between equals by what it sends."""
    good = [row for row in method_rows(swept) if JUDGED in row.figures and not row.alone]
    if not good:
        return "No method came through: the table says why."
    first = good[0]
    worth = first.figures[JUDGED].value
    near = [row for row in good if not row.worse]
    equals = [row for row in near if row.figures[JUDGED].value >= worth - EQUAL]
    lean = [row for row in equals if first.sent > MUCH and row.sent <= MUCH_LESS * first.sent]
    taken = min(lean, key=lambda row: row.sent, default=first)
    others = [row.name for row in near if row is not taken]
    said = f"Take {taken.name}: its balanced accuracy, {taken.figures[JUDGED].value:.3f}, is "
    if taken is first:
        said += f"the best of {len(good)}" if len(good) > 1 else "all there is to go by"
    else:
        said += (
            f"that of the best ({first.name}, {worth:.3f}) but for {EQUAL}, and it sends "
            f"{taken.sent / first.sent:.0%} of what that sends"
        )
    said += f"; {_listed(others)} {'is' if len(others) == 1 else 'are'} not clearly worse" if others else ""
    said += ": more seeds or rows might tell them apart." if len(others) > 2 else "."
    if len(good) > 1:
        wide = of_many(taken.figures[JUDGED], len(good))
        said += (
            f" Chosen among {len(good)} on {_rows_tested(swept)} test rows, it is partly lucky: allowing for that, its "
            f"figure lies between {wide.low:.3f} and {wide.high:.3f}."
        )
    return f"{said}{_against(swept, taken)}{_uneven(swept)}"


def _rows_tested(swept: Sweep) -> str:
    """Return how many rows were tested with each seed."""
    found = sorted({one.evaluation.rows for one in swept.tested if one.evaluation is not None})
    return f"{found[0]:,}" if len(found) == 1 else f"{found[0]:,} to {found[-1]:,}"


def _uneven(swept: Sweep) -> str:
    """Say which rows were tested on fewer rows than others with the same seed."""
    tested = [one for one in swept.tested if one.evaluation is not None]
    most: dict[int, int] = {}
    for one in tested:
        most[one.seed] = max(most.get(one.seed, 0), one.evaluation.rows)  # type: ignore[union-attr]
    fewer = list(dict.fromkeys(one.row for one in tested if one.evaluation.rows < most[one.seed]))  # type: ignore[union-attr]
    return f" Not on all of these rows: {_listed(fewer)}." if fewer else ""


def uneven_effort(swept: Sweep) -> str:
    """Say which rows that train in rounds train for longer than others, or tried more settings; "" where none does."""
    found: dict[str, tuple[int, ...]] = {}
    for one in swept.tested:
        if "n_rounds" in one.terms and "epochs" in one.terms:
            epochs = one.terms["epochs"] if one.terms.get("steps") is None else one.terms["steps"]
            found.setdefault(one.row, (one.terms["n_rounds"], epochs, len(swept.settings.get(one.row, [{}]))))
    if len(set(found.values())) < 2:
        return ""
    by_effort: dict[tuple[int, ...], list[str]] = {}
    for row, effort in found.items():
        by_effort.setdefault(effort, []).append(row)
    said = "; ".join(
        f"{_listed(rows)}: {rounds} rounds of {epochs}, {tries} setting{'' if tries == 1 else 's'}"
        for (rounds, epochs, tries), rows in by_effort.items()
    )
    return f"Not the same effort for all: {said}"


def _against(swept: Sweep, taken: Row) -> str:
    """Say where a rival without a federation does as well: the gravest alone."""
    rivals = {row.name: row.figures for row in rival_rows(swept)}
    own = taken.figures
    floor = rivals.get("majority", {}).get("accuracy")
    if floor is not None and own["accuracy"].low <= floor.value:
        return (
            f" It is no better than always naming the majority class, which is right as often ({floor.value:.3f}): do "
            "not use it as it is. More rows or sites, or other columns, may help."
        )
    without = [row.figures for row in method_rows(swept) if row.alone and row.name.startswith(TITLES["local"])]
    local = [one[JUDGED] for one in (rivals.get("local", {}), *without) if JUDGED in one]
    alone = max(local, key=lambda one: one.value, default=None)
    if alone is not None and own[JUDGED].low <= alone.value:
        better = "better" if alone.value > own[JUDGED].value else "nearly as good"
        return (
            f" On its own rows each site alone is {better} ({alone.value:.3f}): the federation pays off for sites that "
            "lack classes or rows, and for newcomers."
        )
    return ""


def _listed(names: Sequence[str], most: int = 4) -> str:
    shown = list(names[:most])
    more = len(names) - len(shown)
    if more:
        return f"{', '.join(shown)} and {more} more"
    return " and ".join([", ".join(shown[:-1]), shown[-1]]) if len(shown) > 1 else shown[0]
