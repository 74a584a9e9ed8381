"""KaplanMeier: survival curves of all sites' rows, with intervals, numbers at risk and the log-rank test."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import msgspec
import numpy as np

from fedgeom.arrays import Floats
from fedgeom.data.sites import SiteData
from fedgeom.data.validation import Collector, FaultsError, Finding
from fedgeom.errors import InputError, ProtocolError
from fedgeom.federation.coordinator import Coordinator
from fedgeom.federation.messages import Array
from fedgeom.federation.method import Method
from fedgeom.federation.model import Model
from fedgeom.federation.plan import Plan, Shape, Sum
from fedgeom.federation.policy import Policy
from fedgeom.federation.preparation import Preparation
from fedgeom.federation.site import Memory, Site, answers
from fedgeom.methods.regression.model import blocks_of
from fedgeom.methods.survival import core
from fedgeom.methods.survival.curves import CurvesModel
from fedgeom.methods.survival.times import (
    BOUND,
    MOST_CELLS,
    SumTimeBins,
    SumTimeCells,
    SurvivalFit,
    SurvivalMemory,
    SurvivalRows,
    SurvivalSite,
    TimeSettings,
    check_events,
    check_times,
    few_events,
    rows_of,
    take_all,
)
from fedgeom.preparation import quantiles
from fedgeom.preparation.one_hot import OneHot
from fedgeom.protocols.cohort import join
from fedgeom.protocols.model_delivery import HandOut, hand_out
from fedgeom.protocols.secure_sum.messages import SumQuestion, SumResult
from fedgeom.protocols.site import Contribution
from fedgeom.registry import did_you_mean

REST = "another"
"""The group of all whose word is not among those that are told."""


@dataclass(frozen=True, kw_only=True)
class KaplanMeierSettings(TimeSettings):
    """Whose curves are drawn."""

    by: str = ""
    """The column whose words, or numbers, have a curve each, such as "arm". "": one curve of all rows."""


class SumCurves(SumQuestion, kind="survival.curves", checked=True):
    """Ask how many rows of each group have the event in each interval, and how many leave without it."""

    answer_reveals: ClassVar[str] = (
        "masked; with all others, to everybody: in each interval how many rows of each group have the event, and how "
        "many leave without it"
    )
    last: SumResult


class CurvesFit(SurvivalFit, kw_only=True):
    """How far the counts have come."""

    counts: Array | None = None
    """(groups, 2, intervals): events, and other ends; with exact times those before the first event are in neither."""

    def wanted(self, settings: KaplanMeierSettings) -> type[SumQuestion] | None:
        """Return what is summed next."""
        return self.grid_wanted() or (SumCurves if self.counts is None else None)

    def place(self, settings: KaplanMeierSettings) -> int:
        """Return which of the sums that is."""
        return self.grid_place(settings)

    def length(self, settings: KaplanMeierSettings, columns: int) -> int:
        """Return how many words it has."""
        if self.wanted(settings) is not SumCurves:
            return self.grid_length(settings, columns)
        return 2 * max(columns, 1) * self.grid.count(settings)

    def most(self, columns: int, floors: tuple[int, int]) -> tuple[int, int]:
        """Return how many events, or other ends, of one site count in an interval at most: of all, and of a group."""
        each = -(-floors[1] // floors[0])
        return each, each

    def take(
        self, kind: type[SumQuestion], result: SumResult, settings: Any, columns: int, floors: tuple[int, int]
    ) -> None:
        """Take a sum."""
        if kind in (SumTimeBins, SumTimeCells):
            self.take_grid(kind, result, settings, columns, floors)
            return
        counts = result.counts().reshape(max(columns, 1), 2, -1)
        said = few_events(int(counts[:, 0].sum()))
        if said:
            raise ValueError(said)
        self.counts = Array.of(counts)


class CurvesMemory(SurvivalMemory, kw_only=True):
    """What a site remembers: how far the counts have come."""

    fit: CurvesFit = msgspec.field(default_factory=CurvesFit)


class KaplanMeierSite(SurvivalSite):
    """Answers the questions of `KaplanMeier`."""

    memory_type: ClassVar[type[Memory]] = CurvesMemory

    def check(self, settings: TimeSettings) -> None:
        """Refuse times and events that cannot be used, naming the site."""
        faults = Collector(self.name)
        with faults.take():
            found = check_times(self.data)
            if found:
                raise FaultsError(found)
        faults.raise_all()

    @property
    def rows(self) -> SurvivalRows:
        """The rows, with a column of 0 and 1 for each group."""
        known: SurvivalRows | None = self.scratch.get("rows")
        if known is None:
            _, places = groups_of(self.preparing.preparation(), self.settings.by)
            known = self.scratch["rows"] = rows_of(self.data, in_groups(self.data, places))
        return known

    @answers(SumCurves)
    def sum_curves(self, ask: SumCurves) -> Contribution:
        """Count events and other ends of each group in each interval."""
        self.come_to(ask, ask.last)
        rows = self.rows
        grid = self.fit.grid
        until, count = grid.until(rows, self.settings), grid.count(self.settings)
        members = rows.X if rows.X.shape[1] else np.ones((len(rows.time), 1))
        ends = (rows.event & (until > 0), ~rows.event & (until > 0))
        found = [core.by_interval(members[some], until[some] - 1, count).T for some in ends]
        return self.contribute(ask, np.stack(found, axis=1).astype(np.int64).ravel())

    def model_from(self, result: SumResult) -> CurvesModel:
        """Make the model from the last sum."""
        self.follow(result)
        fit: CurvesFit = self.memory.fit
        if fit.counts is None:
            raise ProtocolError("the counts have not come to their end yet")
        names, _ = groups_of(self.preparing.preparation(), self.settings.by)
        return made_curves(fit, self.settings, names, len(result.sites))

    def result(self) -> dict[str, Any]:
        """Return how many rows and events the site has."""
        return {"rows": len(self.data), "events": int(self.rows.event.sum())} if self.handed.memory.model else {}


def groups_of(preparation: Preparation | None, by: str) -> tuple[tuple[str, ...], list[int]]:
    """Return the groups' names, and the places of their columns, -1 for the rows that are in no column.

    Where floors leave out the column of a word, as always of one of two words, its rows are those in no other.
    """
    if not by:
        return (), []
    start = f"{by} = "
    told = [] if preparation is None else list(preparation.columns.names)
    every = blocks_of(preparation).get(by, ())
    places = [at for at, name in enumerate(told) if name in every]
    gone = [name for name in every if name not in told]
    if not every or not places:
        raise ValueError(f"by={by!r} given, but no column of that name has two words that enough rows have")
    names = [told[at].removeprefix(start) for at in places]
    if gone:
        names.append(gone[0].removeprefix(start) if len(gone) == 1 else REST)
        places.append(-1)
    return tuple(names), places


def in_groups(table: SiteData, places: Sequence[int]) -> Floats:
    """Return which group each row is in, (rows, groups), 0 or 1."""
    columns = [at for at in places if at >= 0]
    found = np.asarray(table.X[:, columns] > 0.5, np.float64)
    return found if len(columns) == len(places) else np.column_stack([found, 1 - found.sum(axis=1)])


def made_curves(fit: CurvesFit, settings: KaplanMeierSettings, names: Sequence[str], sites: int) -> CurvesModel:
    """Return the model that follows from all sums; coordinator and sites make it alike."""
    assert fit.counts is not None
    counts = fit.counts.numpy()
    events, leaving = counts[:, 0], counts[:, 1]
    at_risk = np.ascontiguousarray((events + leaving)[:, ::-1].cumsum(axis=1)[:, ::-1])
    return CurvesModel(
        tuple(names) or ("all",),
        fit.grid.ends(settings),
        np.ascontiguousarray(events),
        at_risk,
        settings.exact,
        settings.level,
        sites,
    )


@dataclass(frozen=True, kw_only=True)
class KaplanMeier(KaplanMeierSettings, Method):
    """For times until an event: survival curves with intervals and numbers at risk, as of all rows in one place.

    The curves of Kaplan and Meier, of all rows or of each group, from secure sums of events and of rows at risk;
    ``run.model`` also has the log-rank test and restricted means.
    """

    name: ClassVar[str] = "kaplan-meier"
    site: ClassVar[type[Site[Any]]] = KaplanMeierSite
    model_type: ClassVar[type[Model]] = CurvesModel
    predicts: ClassVar[bool] = False
    takes_holdout: ClassVar[bool] = False

    def __post_init__(self) -> None:
        steps = (OneHot(columns=(self.by,) if self.by else None, min_rows=1),)
        given = self.prepare
        if given is None:
            object.__setattr__(self, "prepare", steps)
        super().__post_init__()
        if self.preparing and self.preparing != steps:
            raise InputError(f"prepare={given!r} given; curves are of raw tables, so leave it out")
        if self.holdout is not None:
            raise InputError(f"holdout={self.holdout!r} given; curves are of all rows, so leave it out")

    def check(self, sites: Sequence[SiteData], policy: Policy, seed: int = 0) -> list[Finding]:
        """Refuse times and events that cannot be used, and too few events."""
        check_events(sites)
        return []

    def check_limits(self, sites: Sequence[SiteData], policy: Policy) -> None:
        """Refuse a column of groups that no site has."""
        known = {name for site in sites for name in site.columns}
        if self.by and self.by not in known and not any(name.startswith(f"{self.by} = ") for name in known):
            raise InputError(f"by={self.by!r} given, but no column is called so.{did_you_mean(self.by, known)}")

    def plan(self, shape: Shape) -> Plan:
        """Find the grid, count events and other ends, hand out the curves."""
        groups = max(shape.columns, 1)
        last: Any = None
        for at in range(quantiles.rounds(self.bits)):
            length = quantiles.bins_length(2, self.shares) + (0 if at else groups)
            last = yield Sum(SumTimeBins(last=last), length, bound=BOUND)
        cells = 2 * (MOST_CELLS + 1) if self.exact else 4 * (1 + 2 * groups) * self.n_intervals
        last = yield Sum(SumTimeCells(last=last), cells, bound=BOUND)
        rows = shape.rows * shape.n_sites
        count = min(rows, MOST_CELLS) if self.exact else self.n_intervals
        last = yield Sum(SumCurves(last=last), 2 * groups * count, bound=BOUND)
        yield HandOut(result=last, bound=BOUND)

    def conduct(self, sites: Coordinator) -> CurvesModel:
        """Hold the conversation: join, find the grid, count, tell."""
        cohort = join(sites, self)
        fit = CurvesFit()
        try:
            names, places = groups_of(cohort.preparation, self.by)
        except ValueError as error:
            raise InputError(str(error)) from error
        last = take_all(cohort, fit, self, len(places))
        model = made_curves(fit, self, names, len(last.sites))
        sites.metrics |= {"sites": len(cohort.left), "rows": int(model.rows), "events": int(model.events.sum())}
        return hand_out(cohort, model, last)
