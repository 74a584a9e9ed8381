"""What Cox asks for, and how far its fit has come: coordinator and sites follow it alike."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

import msgspec
import numpy as np

from fedgeom.arrays import Floats, Ints
from fedgeom.federation.messages import Array
from fedgeom.federation.settings import Between
from fedgeom.methods.regression.core import symmetric
from fedgeom.methods.regression.settings import check_treatment
from fedgeom.methods.survival import core
from fedgeom.methods.survival.times import SumTimeBins, SumTimeCells, SurvivalFit, TimeSettings, few_events
from fedgeom.protocols.fixed_point import from_wide
from fedgeom.protocols.secure_sum.messages import SumQuestion, SumResult


@dataclass(frozen=True, kw_only=True)
class CoxSettings(TimeSettings):
    """What is modelled."""

    ties: Literal["efron", "breslow"] = "efron"
    """How events at one time, or in one interval, are counted. "efron" is nearer to times that differ."""
    stratify: Literal["none", "site"] = "none"
    """"site": each site has a hazard of its own over time, which it keeps to itself. Then times need no grid, and count
    exactly, also where policies have floors; there is no joint baseline, and no test of proportionality."""
    reference: tuple[str, ...] = ()
    """Columns that are left out, such as "arm = placebo", to which the other words of a column are compared. Of a
    column of words without one, it is the first word."""
    treatment: str = ""
    """A column of 0 and 1, such as "arm = aspirin", that is told first. "": none."""
    ridge: Annotated[float, Between(0)] = 0.0
    """How strongly coefficients of standardised columns are held back: ridge/2 times the sum of their squares is taken
    from the log likelihood. 0: not at all."""
    tolerance: Annotated[float, Between(1e-14, 1e-2)] = 1e-12
    """Steps end where the next one would change the log likelihood by less."""
    n_rounds: Annotated[int, Between(1, 100)] = 25
    """The most steps: two sums each, with strata one. Well-behaved data need four to six. With a joint grid, where
    policies have floors, four are taken at most."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_treatment(self.treatment, self.reference)

    @property
    def by_site(self) -> bool:
        """Whether each site is a stratum."""
        return self.stratify == "site"

    def against_floors(self) -> str:
        """Say that exact times are told of single rows; of strata that are sites, none are told."""
        return "" if self.by_site else super().against_floors()


class SumSurvivalColumns(SumQuestion, kind="survival.columns", checked=True, words_per_number=2):
    """Ask for masked sums of columns and of their squares, and in each interval of events and other ends."""

    answer_reveals: ClassVar[str] = (
        "masked; with all others, to everybody: how many rows there are, and the mean and variance of each column; in "
        "each interval how many rows have the event or leave without it, and the sum of each column over those with "
        "the event"
    )
    last: SumResult | None = None


class SumRiskSets(SumQuestion, kind="survival.risk-sets", checked=True, words_per_number=2):
    """Ask for masked sums of hazards and of columns over risk sets, at some coefficients."""

    answer_reveals: ClassVar[str] = (
        "masked; with all others, to everybody: for each interval the sum of the model's hazards, and of columns by "
        "these, over the rows at risk, and over those with the event"
    )
    last: SumResult
    """The sum before this one, from which the coefficients follow."""


class SumCurvature(SumQuestion, kind="survival.curvature", checked=True, words_per_number=2):
    """Ask for masked products of columns, by the hazard that rows were exposed to."""

    answer_reveals: ClassVar[str] = (
        "masked; with all others, to everybody: part of the curvature of the likelihood, over all rows"
    )
    last: SumResult
    """The sums over risk sets, from which the hazards follow."""


class SumStrata(SumQuestion, kind="survival.strata", checked=True, words_per_number=2, over_rows=False):
    """Ask for masked likelihood, slope and curvature, where each site is a stratum."""

    answer_reveals: ClassVar[str] = (
        "masked; with all others, to everybody: the likelihood of the model so far, its slope and its curvature, over "
        "all sites"
    )
    last: SumResult


class CoxFit(SurvivalFit, kw_only=True):
    """How far the fit has come."""

    remedy: ClassVar[str] = 'Take more rows or fewer columns, or Cox(stratify="site"), which needs no common times'
    rows: float = 0.0
    events: Array | None = None
    """(intervals,): how many rows have the event; where sites are strata, one number for all."""
    leaving: Array | None = None
    """(intervals,): how many leave without it."""
    event_sums: Array | None = None
    """(intervals, columns): sums of standardised columns over rows with the event."""
    centre: Array | None = None
    spread: Array | None = None
    """(columns,): 0 where a column is constant, or left out."""
    S: Array | None = None
    """(intervals, 1 + columns): the sums over risk sets of the last step."""
    D: Array | None = None
    half: bool = False
    """Whether the sums over risk sets of a step are known, and its curvature is not."""
    newton: core.NewtonSteps = msgspec.field(default_factory=core.NewtonSteps)

    def wanted(self, settings: CoxSettings) -> type[SumQuestion] | None:
        """Return what is summed next."""
        if not settings.by_site and (grid := self.grid_wanted()) is not None:
            return grid
        if self.centre is None:
            return SumSurvivalColumns
        if self.newton.finished:
            return None
        if settings.by_site:
            return SumStrata
        return SumCurvature if self.half else SumRiskSets

    def place(self, settings: CoxSettings) -> int:
        """Return which of the sums that is."""
        if settings.by_site:
            return int(self.centre is not None) + self.newton.taken
        taken = int(self.centre is not None) + 2 * self.newton.taken + int(self.half)
        return self.grid_place(settings) + taken

    def length(self, settings: CoxSettings, columns: int) -> int:
        """Return how many words it has."""
        wanted = self.wanted(settings)
        if wanted in (SumTimeBins, SumTimeCells):
            return self.grid_length(settings, columns)
        count = 1 if settings.by_site else self.grid.count(settings)
        lengths = {
            SumStrata: core.stratum_length(columns),
            SumSurvivalColumns: columns_length(count, columns),
            SumRiskSets: risk_length(count, columns),
            SumCurvature: core.step_numbers(columns),
        }
        return 2 * lengths[wanted]  # type: ignore[index]

    def most(self, columns: int, floors: tuple[int, int]) -> tuple[int, int]:
        """Return how many events, or other ends, of one site count in an interval at most: of all, and of a flag's."""
        if floors == (1, 1):
            return 1, 1
        assert self.grid.flags is not None
        flags = int(self.grid.flags.numpy().sum())
        of_all = core.numbers_per_interval(columns, flags)
        return (
            core.ROWS_PER_NUMBER_OF_INTERVAL * of_all,
            core.ROWS_PER_NUMBER_OF_INTERVAL * core.numbers_per_interval(columns, flags, of_flag=True),
        )

    def take(
        self, kind: type[SumQuestion], result: SumResult, settings: Any, columns: int, floors: tuple[int, int]
    ) -> None:
        """Take a sum."""
        if kind in (SumTimeBins, SumTimeCells):
            self.take_grid(kind, result, settings, columns, floors)
            return
        total = from_wide(result.total.numpy())
        if kind is SumSurvivalColumns:
            self._take_columns(total, columns, floors[1])
            return
        if kind is SumRiskSets:
            self.S, self.D = (Array.of(one.reshape(-1, 1 + columns)) for one in np.split(total, 2))
            self.half = True
            return
        floored = floors != (1, 1)
        most, tolerance = settings.n_rounds, settings.tolerance
        if floored and not settings.by_site:
            most = min(most, core.STEPS_WITH_FLOORS)
            tolerance = max(tolerance, core.ENOUGH_WITH_FLOORS)
        limits = (settings.ridge, most, tolerance, floors[1] if floored else 0)
        if kind is SumStrata:
            gained, U, squares, upper = np.split(total, [1, 1 + columns, 3 + columns])
            few = (float(squares[0]), float(squares[1]))
            self.newton.take(float(gained[0]), U, symmetric(upper, columns), few, limits)
            return
        self._take_step(total, settings, limits)

    def _take_columns(self, total: Floats, columns: int, floor: int) -> None:
        rows, sums, squares, rest = np.split(total, [1, 1 + columns, 1 + 2 * columns])
        count = (len(rest)) // (2 + columns)
        events, leaving, event_sums = np.split(rest, [count, 2 * count])
        self.rows = float(np.rint(rows[0]))
        centre, spread = core.spread_of(sums, squares, self.rows)
        varying = int((spread > 0).sum())  # columns that others are compared to are 0 in all rows
        said = few_events(float(np.rint(events.sum()))) or core.too_few_rows(self.rows, varying, floor)
        if said:
            raise ValueError(said)
        self.centre, self.spread = Array.of(centre), Array.of(spread)
        self.events = Array.of(np.rint(events).astype(np.int64))
        self.leaving = Array.of(np.rint(leaving).astype(np.int64))
        standardised = event_sums.reshape(count, columns) - events[:, None] * centre
        self.event_sums = Array.of(standardised / np.where(spread > 0, spread, np.inf))
        self.newton.begin(columns)

    def _take_step(self, total: Floats, settings: CoxSettings, limits: tuple[float, int, float, int]) -> None:
        assert self.S is not None
        assert self.D is not None
        assert self.event_sums is not None
        assert self.newton.at is not None
        found = self.hazards(settings)
        S, D, E = self.S.numpy(), self.D.numpy(), self.event_sums.numpy()
        gained = float(E.sum(axis=0) @ self.newton.at.numpy() - found.log.sum())
        U = (E - core.slope(S, D, found)).sum(axis=0)
        information = symmetric(total[2:], len(U)) - core.curvature_taken(S, D, found)
        self.half = False
        self.newton.take(gained, U, information, (float(total[0]), float(total[1])), limits)

    @property
    def counts(self) -> Ints:
        """How many rows have the event in each interval."""
        assert self.events is not None
        return self.events.numpy()

    def hazards(self, settings: CoxSettings) -> core.Denominators:
        """Return what follows from the sums over risk sets of a step."""
        assert self.S is not None
        assert self.D is not None
        return core.denominators(self.S.numpy()[:, 0], self.D.numpy()[:, 0], self.counts, settings.ties)


def columns_length(count: int, columns: int) -> int:
    """Return how many numbers the sum of columns has, of so many intervals."""
    return 1 + 2 * columns + count * (2 + columns)


def risk_length(count: int, columns: int) -> int:
    """Return how many numbers the sums over risk sets have, of so many intervals."""
    return 2 * count * (1 + columns)
