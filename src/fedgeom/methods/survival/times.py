"""Times of all sites on one grid.

Who is at risk is counted at the ends of intervals. Where times are exact, each time at which somebody has the event is
an interval's end: times are whole multiples of a unit, and the sites count events and ends of follow-up at each
multiple. Otherwise intervals are found in two steps, so that no small number is shown:

1. Their ends are quantiles of the times of events, from counts in which no row counts by itself
   (`fedgeom.preparation.quantiles`): where policies have floors, each site counts means of groups of ``min_rows``
   neighbours.
2. Neighbours are put together until in each interval so many rows, at so many sites, have the event as floors ask
   for, or none (`fedgeom.federation.disclosure.merge_bins`). Of columns of 0 and 1 this holds for the rows with 1 and
   for those with 0. Rows that leave without the event have intervals of their own, of which the same holds: in a
   trial few leave early, and would leave hardly any interval of events. They count as at risk up to where most of
   theirs leave.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import msgspec
import numpy as np

from fedgeom.arrays import Bools, Floats, Ints
from fedgeom.crypto.keys import fingerprint
from fedgeom.data.sites import EVENT, TIME, SiteData
from fedgeom.data.validation import Collector, FaultsError, Finding, check_finite, fault
from fedgeom.errors import InputError, ProtocolError
from fedgeom.federation.disclosure import merge_bins
from fedgeom.federation.messages import Array
from fedgeom.federation.settings import Between, Settings
from fedgeom.federation.site import answers
from fedgeom.federation.steps import StepFit
from fedgeom.preparation import quantiles
from fedgeom.preparation.quantiles import SortedColumns
from fedgeom.protocols.cohort import Cohort
from fedgeom.protocols.fixed_point import to_wide
from fedgeom.protocols.secure_sum.messages import SumQuestion, SumResult
from fedgeom.protocols.site import Contribution, SecureMemory, SummingSite

MOST_CELLS = 20_000
"""So many multiples of the unit there are at most where times are exact."""
EXACT_BITS, GROUPED_BITS = 12, 20
"""How many bits of the longest time, and of quantiles, are found."""
SLACK = 1 + 2.0**-3
"""By how much the longest time may be above the middle of its bin."""
BOUND = "how long the times are, and how many rows have the event"


@dataclass(frozen=True, kw_only=True)
class TimeSettings(Settings):
    """How times become a grid."""

    exact: bool = False
    """Whether each time counts by itself: then it is shown, of all sites together, at which times there was an event,
    also where that was a single row's. Sites with floors refuse that."""
    unit: Annotated[float, Between(0, open_low=True)] = 1.0
    """With ``exact``: times are rounded up to multiples of it, at most 20,000 of them."""
    n_intervals: Annotated[int, Between(2, 500)] = 50
    """Without ``exact``: into how many intervals times are put, at most. Where floors ask for it, there are fewer."""
    level: Annotated[float, Between(0.5, 0.999)] = 0.95
    """The level of intervals."""
    min_sites: Annotated[int, Between(1)] = 2
    """The fewest sites that make a result."""

    def against_floors(self) -> str:
        """Say that exact times are told of single rows."""
        return "exact times tell when single rows had their event; leave out exact = true" if self.exact else ""

    @property
    def shares(self) -> tuple[float, ...]:
        """The quantiles of times that are counted, the longest time last."""
        if self.exact:
            return (1.0,)
        return tuple(at / self.n_intervals for at in range(1, self.n_intervals + 1))

    @property
    def bits(self) -> int:
        """How many bits of them are found."""
        return EXACT_BITS if self.exact else GROUPED_BITS


class SumTimeBins(SumQuestion, kind="survival.bins", checked=True, rounded=True):
    """Ask in which bins of a quantile of times rows lie; the first time, also which columns have 0 and 1 alone."""

    answer_reveals: ClassVar[str] = (
        "masked; with all others, to everybody: about at which times the intervals end; and at how many sites a "
        "column has more than 0 and 1"
    )
    last: SumResult | None = None
    """The sum before this one."""


class SumTimeCells(SumQuestion, kind="survival.cells", checked=True, decides_floors=True):
    """Ask how many rows have the event in each interval, and how many leave without it, to put small ones together."""

    answer_reveals: ClassVar[str] = (
        "masked; with all others, to everybody: how many rows have the event in each interval, how many leave "
        "without it, and at how many sites; of a site as many as floors ask for at most. With exact times: how many at "
        "each time"
    )
    last: SumResult


@dataclass(frozen=True, eq=False)
class SurvivalRows:
    """A site's rows: columns, times and events."""

    X: Floats
    time: Floats
    event: Bools


def numbers_of(table: SiteData, name: str) -> Floats:
    """Return what rows come with beside columns, as numbers."""
    return np.asarray(table.extra[name], np.float64)


def rows_of(table: SiteData, X: Floats | None = None) -> SurvivalRows:
    """Return a table's rows, with its own columns or others."""
    return SurvivalRows(table.X if X is None else X, numbers_of(table, TIME), numbers_of(table, EVENT) > 0)


def check_times(table: SiteData) -> list[Finding]:
    """Return what does not fit of times and events."""
    found = []

    def say(what: str, remedy: str) -> None:
        found.append(fault(what, remedy, site=table.name, topic="times"))

    missing = [name for name in (TIME, EVENT) if name not in table.extra]
    if missing:
        say(f"has no {' and no '.join(missing)}", "name their columns: SiteData.from_frame(…, time=…, event=…)")
        return found
    try:
        time, event = numbers_of(table, TIME), numbers_of(table, EVENT)
    except (TypeError, ValueError):
        say("has times or events that are no numbers", "give times as numbers, and events as 0 and 1")
        return found
    bad = ~np.isfinite(time) | (np.abs(time) > 1e12)
    if bad.any():
        say(f"the time of {int(bad.sum()):,} rows is no number", "leave these rows out (drop_unlabelled = true)")
    if (time < 0).any():
        say(
            f"{int((time < 0).sum()):,} times are negative, the first of them {time[time < 0][0]:g}",
            "a time says how long a row was seen, 0 or longer: mend the dates, or leave these rows out",
        )
    odd = ~np.isin(event, (0.0, 1.0))
    if odd.any():
        say(
            f"the event of {int(odd.sum()):,} rows is neither 0 nor 1, the first of them {event[odd][0]:g}",
            "give 1 where the event happened at the time, 0 where the row was last seen without it",
        )
    return found


def check_events(sites: Sequence[SiteData]) -> None:
    """Refuse tables without two events, or with all events at one time, where one process sees them."""
    wrong = [one for site in sites for one in check_times(site)]
    if wrong:
        raise FaultsError(wrong)
    times = np.concatenate([rows.time[rows.event] for rows in map(rows_of, sites)])
    said = few_events(len(times))
    if said:
        raise InputError(said)
    if np.ptp(times) == 0:
        raise InputError(
            f"all {len(times):,} events are at the time {times[0]:g}; wanted two different times at least: for what "
            'happens by one time take Regression(family="binomial")'
        )


def few_events(events: float) -> str:
    """Say that there are too few events for any survival analysis; "" where there are two."""
    if events >= 2:
        return ""
    return (
        f"{'one row' if events == 1 else 'no row'} of all sites has the event; wanted two events at least: look at "
        "the column of events, where 1 is said to be an event and 0 none"
    )


class TimeGrid(msgspec.Struct, kw_only=True):
    """How far the grid has come; coordinator and sites follow it alike, from the same sums."""

    bins: StepFit = msgspec.field(default_factory=StepFit)
    rounds: int = 0
    """How many sums of bins were taken."""
    settled: bool = False
    events_binned: int = 0
    """How many events count in bins: with floors, those of sites with as many as a group has."""
    flags: Array | None = None
    """(columns,): 1 where a column has 0 and 1 alone, at all sites."""
    top: float = 0.0
    """About the longest time."""
    edges: Array | None = None
    """The ends of all intervals but the last; with exact times, the multiples of the unit at which there are events."""
    fine: Array | None = None
    """The ends of cells before neighbours were put together."""
    leaves: Array | None = None
    """(cells,): in how many intervals rows are at risk that leave in each cell without the event."""
    left_out: tuple[int, ...] = ()
    """The columns of 0 and 1 that are left out: too few rows with the event have 1 there, or 0, for two intervals."""
    done: bool = False

    def take_bins(self, total: Ints, settings: TimeSettings, columns: int, floors: tuple[int, int]) -> None:
        """Take the next sum of bins."""
        counts = total
        if self.rounds == 0:
            counts, more = np.split(total, [len(total) - columns])
            self.flags = Array.of((more == 0).astype(np.uint8))
            self.events_binned = int(counts.reshape(2, -1, quantiles.BINS)[0, 0].sum())
            if int(counts.reshape(2, -1, quantiles.BINS)[1, 0].sum()) < 1:
                raise ValueError(
                    "no site has as many rows as floors ask for in a group, so that no interval can be found"
                )
        quantiles.take_bins(self.bins, counts, self.rounds, floors, settings.shares)
        self.rounds += 1
        if not quantiles.is_settled(self.bins, settings.bits, self.rounds):
            return
        found = quantiles.quantiles(self.bins, settings.bits)
        self.settled = True
        self.top = float(found[1, -1])
        if settings.exact:
            self.top *= SLACK
            if self.top / settings.unit > MOST_CELLS:
                raise ValueError(
                    f"times are up to {self.top:,.4g}, which is more than {MOST_CELLS:,} units of {settings.unit:g}; "
                    "give a larger unit, or leave out exact"
                )
            return
        self.edges = Array.of(np.unique(found[0 if self.events_binned else 1, :-1]))

    def thin(self, most: tuple[int, int], floors: tuple[int, int]) -> None:
        """Leave out quantiles between which there would hardly be as many events as an interval has to have.

        At how many sites a cell has rows is known best where cells are not put together.
        """
        assert self.edges is not None
        least, of_flag = needed(most, floors)
        fits = int(max(self.events_binned, 1) // max(least, 2 * of_flag))
        every = -(-(self.edges.shape[0] + 1) // max(fits, 2))
        self.edges = Array.of(self.edges.numpy()[every - 1 :: every])

    def n_cells(self, settings: TimeSettings) -> int:
        """Return in how many cells rows are counted before neighbours are put together."""
        if settings.exact:
            return int(np.ceil(self.top / settings.unit)) + 1
        assert self.edges is not None
        return self.edges.shape[0] + 1

    def cells_length(self, settings: TimeSettings) -> int:
        """Return how many numbers the sum of cells has."""
        assert self.flags is not None
        kinds = 1 if settings.exact else 2 * (1 + 2 * int(self.flags.numpy().sum()))
        return 2 * kinds * self.n_cells(settings)

    def cells(self, rows: SurvivalRows, settings: TimeSettings, most: tuple[int, int]) -> Ints:
        """Return a site's counts: of events and of other ends, in each cell, ``most`` of all rows, and of a flag's."""
        count = self.n_cells(settings)
        ends = (rows.event, ~rows.event)
        if settings.exact:
            at = np.minimum(_multiples(rows.time, settings.unit), count - 1)
            return np.concatenate([np.bincount(at[some], minlength=count) for some in ends])
        assert self.edges is not None
        assert self.flags is not None
        at = np.searchsorted(self.edges.numpy(), rows.time, side="left")
        flagged = rows.X[:, self.flags.numpy() > 0]
        groups = [np.ones(len(at), bool), *(flagged == 1).T, *(flagged == 0).T]
        found = np.array([np.bincount(at[one & some], minlength=count) for one in groups for some in ends])
        caps = np.full(len(found), most[1])
        caps[:2] = most[0]
        return np.concatenate([np.minimum(found, caps[:, None]).ravel(), (found > 0).ravel().astype(np.int64)])

    def take_cells(
        self, total: Ints, settings: TimeSettings, most: tuple[int, int], floors: tuple[int, int], remedy: str
    ) -> None:
        """Take the sum of cells, and put small ones together; ``remedy``: what to do where nothing is left."""
        count = self.n_cells(settings)
        self.done = True
        if settings.exact:
            self.edges = Array.of(np.flatnonzero(total.reshape(2, count)[0]))
            if not self.edges.shape[0]:
                raise ValueError(few_events(0))
            return
        counts = total.reshape(2, -1, count)
        assert self.edges is not None
        wanted = needed(most, floors)
        if floors != (1, 1):
            assert self.flags is not None
            flags = np.flatnonzero(self.flags.numpy())
            with_event = counts[0, 2::2].reshape(2, len(flags), count).sum(axis=2).min(axis=0)
            scarce = with_event < 2 * wanted[1]
            self.left_out = tuple(flags[scarce].tolist())
            stay = np.concatenate([[True], ~scarce, ~scarce]).repeat(2)
            counts = counts[:, stay]

        def merged(kind: int) -> Ints:
            """Return the first of the cells that stand together, for each cell; kind: 0 of events, 1 of other ends."""
            tables = [
                ([0], some, (floors[0], least))
                for some, least in zip((counts[:, [kind]], counts[:, 2 + kind :: 2]), wanted, strict=True)
                if some.size and floors != (1, 1)
            ]
            return np.asarray(merge_bins(tables, 1, count)[0])

        starts = np.unique(merged(0))
        if len(starts) < 2 and floors != (1, 1):
            raise ValueError(
                f"where policies have floors, each interval has to have {wanted[0]} events at {floors[0]} sites, or "
                f"none, and of each column of 0 and 1 {wanted[1]} with both: fewer than two intervals are left. "
                f"{remedy}"
            )
        self.leaves = Array.of(np.searchsorted(starts, _usual(merged(1), counts[0, 1]), side="right"))
        self.fine = self.edges
        self.edges = Array.of(self.edges.numpy()[starts[1:] - 1])

    def count(self, settings: TimeSettings) -> int:
        """Return how many intervals there are; with exact times, how many times of events."""
        assert self.edges is not None
        return self.edges.shape[0] + (not settings.exact)

    def until(self, rows: SurvivalRows, settings: TimeSettings) -> Ints:
        """Return how many intervals each row is at risk in, (rows,): its event is in the last of these."""
        assert self.edges is not None
        edges = self.edges.numpy()
        if settings.exact:
            return np.searchsorted(edges, _multiples(rows.time, settings.unit), side="right")
        assert self.fine is not None
        assert self.leaves is not None
        found = np.searchsorted(edges, rows.time, side="left") + 1
        leaving = ~rows.event
        found[leaving] = self.leaves.numpy()[np.searchsorted(self.fine.numpy(), rows.time[leaving], side="left")]
        return found

    def ends(self, settings: TimeSettings) -> Floats:
        """Return the ends of all intervals; of the last one about the longest time."""
        assert self.edges is not None
        edges = self.edges.numpy()
        if settings.exact:
            return edges * settings.unit
        return np.append(edges, max(self.top, float(edges[-1]) if len(edges) else 0.0)).astype(np.float64)


def needed(most: tuple[int, int], floors: tuple[int, int]) -> tuple[int, int]:
    """Return how many events, or other ends, an interval has to have: of all rows, and of a flag's.

    So many that without any sites that are too few there are as many as one site counts at most.
    """
    of_all, of_flag = (max(floors[1], floors[0] * one) for one in most)
    return of_all, of_flag


def _usual(stands: Ints, counts: Ints) -> Ints:
    """Return the cell with the most rows of those that stand together, the last of equals, for each cell.

    >>> _usual(np.array([0, 0, 0, 3, 4, 4]), np.array([1, 0, 9, 3, 2, 2])).tolist()
    [2, 2, 2, 3, 5, 5]
    """
    found = np.zeros(len(stands), np.int64)
    for start in np.unique(stands):
        there = np.flatnonzero(stands == start)
        found[there] = there[len(there) - 1 - int(np.argmax(counts[there][::-1]))]
    return found


def _multiples(time: Floats, unit: float) -> Ints:
    """Return times in whole units, rounded up."""
    return np.ceil(time / unit - 1e-9).astype(np.int64)


class SurvivalFit(msgspec.Struct, kw_only=True):
    """How far a conversation about times has come; coordinator and sites follow it alike."""

    remedy: ClassVar[str] = "Take more rows"
    """What to do where floors leave no two intervals."""
    grid: TimeGrid = msgspec.field(default_factory=TimeGrid)

    def wanted(self, settings: Any) -> type[SumQuestion] | None:
        """Return what is summed next; None where everything was."""
        raise NotImplementedError

    def place(self, settings: Any) -> int:
        """Return which of the method's own sums that is, counted from 0."""
        raise NotImplementedError

    def length(self, settings: Any, columns: int) -> int:
        """Return how many words that sum has."""
        raise NotImplementedError

    def take(
        self, kind: type[SumQuestion], result: SumResult, settings: Any, columns: int, floors: tuple[int, int]
    ) -> None:
        """Take it."""
        raise NotImplementedError

    def most(self, columns: int, floors: tuple[int, int]) -> tuple[int, int]:
        """Return how many events, or other ends, of one site count in an interval at most: of all, and of a flag's.

        An interval has to have so many for each site that floors ask for, and ``min_rows``.
        """
        return floors[1], floors[1]

    def grid_wanted(self) -> type[SumQuestion] | None:
        """Return what the grid wants next; None where it is done."""
        if not self.grid.settled:
            return SumTimeBins
        return None if self.grid.done else SumTimeCells

    def grid_place(self, settings: TimeSettings) -> int:
        """Return which of the sums the grid's next one is; behind them, how many there are."""
        last = quantiles.rounds(settings.bits)
        if not self.grid.settled:
            return self.grid.rounds
        return last + int(self.grid.done)

    def grid_length(self, settings: TimeSettings, columns: int) -> int:
        """Return how many words the grid's next sum has."""
        if self.grid.settled:
            return self.grid.cells_length(settings)
        return quantiles.bins_length(2, settings.shares) + (0 if self.grid.rounds else columns)

    def take_grid(
        self, kind: type[SumQuestion], result: SumResult, settings: Any, columns: int, floors: tuple[int, int]
    ) -> None:
        """Take a sum of the grid."""
        if kind is SumTimeBins:
            self.grid.take_bins(result.counts(), settings, columns, floors)
            if self.grid.settled and not settings.exact and floors != (1, 1):
                self.grid.thin(self.most(columns, floors), floors)
        else:
            self.grid.take_cells(result.counts(), settings, self.most(columns, floors), floors, self.remedy)


class SurvivalMemory(SecureMemory, kw_only=True):
    """What a site remembers of its conversation; methods add how far it has come."""

    last: bytes = b""
    """A hash of the sum that was taken last."""


class SurvivalSite(SummingSite[Any]):
    """Finds the grid of times with the others; methods say what is summed on it."""

    def check(self, settings: TimeSettings) -> None:
        """Refuse times and events that cannot be used, naming the site."""
        faults = Collector(self.name)
        with faults.take():
            check_finite(self.data)
        with faults.take():
            found = check_times(self.data)
            if found:
                raise FaultsError(found)
        faults.raise_all()

    @property
    def rows(self) -> SurvivalRows:
        """The rows as the method sees them."""
        return rows_of(self.data)

    @property
    def fit(self) -> SurvivalFit:
        """How far the conversation has come."""
        found: SurvivalFit = self.memory.fit
        return found

    def come_to(self, ask: SumQuestion, last: SumResult | None) -> None:
        """Take the sum that came before; refuse a question that does not come next."""
        if last is not None:
            self.follow(last)
        steps = self.sums.steps()
        here = self.sums.step_of(ask.ticket.round) - self._first(steps)
        if type(ask) is not self.fit.wanted(self.settings) or here != self.fit.place(self.settings):
            raise ProtocolError("this sum does not come next")
        self.check_size(self.fit.length(self.settings, self.rows.X.shape[1]))

    def _first(self, steps: Sequence[str]) -> int:
        return next(at for at, kind in enumerate(steps) if kind.startswith("survival."))

    def follow(self, last: SumResult) -> SurvivalFit:
        """Take the sum that came before, once, if it is the one that the sites added up."""
        stamp = fingerprint(b"last", msgspec.msgpack.encode(last))
        if self.memory.last == stamp:
            return self.fit
        kind = self.fit.wanted(self.settings)
        here = self.sums.step_of(last.round) - self._first(self.sums.steps())
        if kind is None or here != self.fit.place(self.settings):
            raise ProtocolError("the sum that came is not the one that was taken last")
        self.sums.check_result(last, kind)
        try:
            self.fit.take(kind, last, self.settings, self.rows.X.shape[1], self.joining.class_floors)
        except (ValueError, ArithmeticError, np.linalg.LinAlgError) as error:  # by the sum alone
            raise ProtocolError(f"nothing follows from the sum that came: {error}") from error
        self.memory.last = stamp
        return self.fit

    def wide(self, ask: SumQuestion, values: Floats) -> Contribution:
        """Return numbers as a contribution of two words each."""
        return self.contribute(ask, to_wide(values, sites=len(ask.ticket.participants)), fresh=True)

    @answers(SumTimeBins)
    def count_bins(self, ask: SumTimeBins) -> Contribution:
        """Count rows in bins of quantiles, or their groups' means."""
        self.come_to(ask, ask.last)
        rows = self.rows
        columns: SortedColumns | None = self.scratch.get("sorted")
        if columns is None:
            both = np.column_stack([np.where(rows.event, rows.time, np.nan), rows.time])
            columns = SortedColumns.of([both], both.shape, self.joining.class_floors[1])
            self.scratch["sorted"] = columns
        grid = self.fit.grid
        found = columns.count(grid.bins, grid.rounds, shares=self.settings.shares)
        if grid.rounds == 0:
            more = ~np.isin(rows.X, (0.0, 1.0)).all(axis=0)
            found = np.concatenate([found, more.astype(np.int64)])
        return self.contribute(ask, found)

    @answers(SumTimeCells)
    def count_cells(self, ask: SumTimeCells) -> Contribution:
        """Count events and other ends in each cell."""
        self.come_to(ask, ask.last)
        rows = self.rows
        floors = self.joining.class_floors
        most = self.fit.most(rows.X.shape[1], floors)
        return self.contribute(ask, self.fit.grid.cells(rows, self.settings, most))


def take_all(cohort: Cohort, fit: SurvivalFit, settings: Any, columns: int) -> SumResult:
    """Ask for all sums that a conversation wants, and return the last one."""
    last: SumResult | None = None
    while (kind := fit.wanted(settings)) is not None:
        question: Any = kind(last=last)  # type: ignore[call-arg]
        last = cohort.sum_checked(question, length=fit.length(settings, columns))
        try:
            fit.take(kind, last, settings, columns, cohort.class_floors)
        except (ValueError, ArithmeticError, np.linalg.LinAlgError) as error:
            raise InputError(f"no result follows from the sums of all rows: {error}") from error
    assert last is not None
    return last
