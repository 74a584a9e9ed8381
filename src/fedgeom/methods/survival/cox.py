"""Cox: proportional hazards of all sites' rows, with intervals and tests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import msgspec
import numpy as np

from fedgeom.arrays import Bools, Floats, Ints
from fedgeom.data.sites import SiteData
from fedgeom.data.validation import Finding, check_columns
from fedgeom.errors import InputError, ProtocolError
from fedgeom.federation.coordinator import Coordinator
from fedgeom.federation.messages import LARGEST_MESSAGE
from fedgeom.federation.method import Method
from fedgeom.federation.model import Model
from fedgeom.federation.plan import Plan, Shape, Sum
from fedgeom.federation.policy import Policy
from fedgeom.federation.results import RunWarning
from fedgeom.federation.site import Memory, Site, answers
from fedgeom.methods.regression.core import columns_told_apart
from fedgeom.methods.regression.model import per_deviation
from fedgeom.methods.regression.site import left_out_of
from fedgeom.methods.survival import core
from fedgeom.methods.survival.cox_fit import (
    CoxFit,
    CoxSettings,
    SumCurvature,
    SumRiskSets,
    SumStrata,
    SumSurvivalColumns,
    columns_length,
    risk_length,
)
from fedgeom.methods.survival.model import CoxModel, made_cox
from fedgeom.methods.survival.times import (
    BOUND,
    MOST_CELLS,
    SumTimeBins,
    SumTimeCells,
    SurvivalMemory,
    SurvivalRows,
    SurvivalSite,
    check_events,
    rows_of,
    take_all,
)
from fedgeom.preparation import quantiles
from fedgeom.protocols.cohort import Cohort, join
from fedgeom.protocols.model_delivery import HandOut, hand_out
from fedgeom.protocols.secure_sum.messages import SumResult
from fedgeom.protocols.site import Contribution

SOON = "how soon the fit converges"


class CoxMemory(SurvivalMemory, kw_only=True):
    """What a site remembers: how far the fit has come."""

    fit: CoxFit = msgspec.field(default_factory=CoxFit)


class CoxSite(SurvivalSite):
    """Answers the questions of `Cox`."""

    memory_type: ClassVar[type[Memory]] = CoxMemory

    @property
    def rows(self) -> SurvivalRows:
        """The rows, without reference columns: these are 0."""
        known: SurvivalRows | None = self.scratch.get("rows")
        if known is None:
            X = self.data.X
            gone = left_out_of(self.preparing.preparation(), self.settings)
            if gone:
                X = X.copy()
                X[:, gone] = 0.0
            known = self.scratch["rows"] = rows_of(self.data, X)
        return known

    def _standardised(self) -> Floats:
        fit: CoxFit = self.memory.fit
        known: Floats | None = self.scratch.get("standardised")
        if known is None:
            assert fit.centre is not None
            assert fit.spread is not None
            spread = fit.spread.numpy()
            known = (self.rows.X - fit.centre.numpy()) / np.where(spread > 0, spread, np.inf)
            self.scratch["standardised"] = known
        return known

    @answers(SumSurvivalColumns)
    def sum_columns(self, ask: SumSurvivalColumns) -> Contribution:
        """Add up columns, events and ends."""
        self.come_to(ask, ask.last)
        rows = self.rows
        X = rows.X
        if scarce := list(self.fit.grid.left_out):
            X = X.copy()
            X[:, scarce] = 0.0
        if self.settings.by_site:
            until, count = np.ones(len(X), np.int64), 1
        else:
            until, count = self.fit.grid.until(rows, self.settings), self.fit.grid.count(self.settings)
        ones = np.ones((len(X), 1))
        events = core.by_interval(np.column_stack([ones, X])[rows.event], until[rows.event] - 1, count)
        others = ~rows.event & (until > 0)
        leaving = core.by_interval(ones[others], until[others] - 1, count)
        whole = [[float(len(X))], X.sum(axis=0), (X**2).sum(axis=0)]
        return self.wide(ask, np.concatenate([*whole, events[:, 0], leaving[:, 0], events[:, 1:].ravel()]))

    @answers(SumRiskSets)
    def sum_risk_sets(self, ask: SumRiskSets) -> Contribution:
        """Add up hazards and columns over risk sets."""
        self.come_to(ask, ask.last)
        X, b, until, event = self._at_step()
        count = self.fit.grid.count(self.settings)
        S, D = core.risk_sums(X, core.scores(X, b), until, event, count)
        return self.wide(ask, np.concatenate([S.ravel(), D.ravel()]))

    @answers(SumCurvature)
    def sum_curvature(self, ask: SumCurvature) -> Contribution:
        """Add up products of columns by the hazard that rows were exposed to."""
        self.come_to(ask, ask.last)
        fit: CoxFit = self.memory.fit
        return self.wide(ask, core.curvature_sums(*self._at_step(), fit.hazards(self.settings)))

    def _at_step(self) -> tuple[Floats, Floats, Ints, Bools]:
        """Return standardised columns, coefficients, in how many intervals each row is at risk, and events."""
        newton = self.memory.fit.newton
        until = self.fit.grid.until(self.rows, self.settings)
        return self._standardised(), newton.at.numpy(), until, self.rows.event

    @answers(SumStrata)
    def sum_strata(self, ask: SumStrata) -> Contribution:
        """Add up likelihood, slope and curvature of the site's own risk sets."""
        self.come_to(ask, ask.last)
        fit: CoxFit = self.memory.fit
        assert fit.newton.at is not None
        rows, ties = self.rows, self.settings.ties
        at = fit.newton.at.numpy()
        return self.wide(ask, core.stratum_step(self._standardised(), at, rows.time, rows.event, ties))

    def model_from(self, result: SumResult) -> CoxModel:
        """Make the model from the last sum."""
        self.follow(result)
        fit: CoxFit = self.memory.fit
        if not fit.newton.finished:
            raise ProtocolError("the fit has not come to its end yet")
        left_out = left_out_of(self.preparing.preparation(), self.settings)
        return made_cox(fit, self.settings, sites=len(result.sites), left_out=left_out)

    def result(self) -> dict[str, Any]:
        """Return how many rows and events the site has."""
        return {"rows": len(self.data), "events": int(self.rows.event.sum())} if self.handed.memory.model else {}


@dataclass(frozen=True, kw_only=True)
class Cox(CoxSettings, Method):
    """For times until an event: hazard ratios with intervals and tests, as of all rows in one place.

    Cox's proportional hazards, by Newton's steps: sites add up hazards and columns over the rows at risk, so that how
    rows are spread over the sites makes no difference. ``run.model.summary()`` is a table of coefficients, errors,
    intervals and p values.
    """

    name: ClassVar[str] = "cox"
    site: ClassVar[type[Site[Any]]] = CoxSite
    model_type: ClassVar[type[Model]] = CoxModel
    column_floors: ClassVar[bool] = True
    standardises: ClassVar[bool] = True
    takes_holdout: ClassVar[bool] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.holdout is not None:
            raise InputError(f"holdout={self.holdout!r} given; rows kept aside are counted by class: leave it out")

    def check(self, sites: Sequence[SiteData], policy: Policy, seed: int = 0) -> list[Finding]:
        """Refuse tables that do not fit together, times and events that cannot be used, and too few events."""
        check_columns({site.name: site.shape[1] for site in sites})
        check_events(sites)
        return []

    def check_limits(self, sites: Sequence[SiteData], policy: Policy) -> None:
        """Refuse too few rows for the columns, and more columns than a message can hold products of."""
        columns = sites[0].shape[1]
        rows = sum(map(len, sites))
        floor = policy.class_floors[1]
        if core.too_few_rows(rows, columns, floor):  # columns that follow from others do not count
            said = core.too_few_rows(rows, columns_told_apart([site.X for site in sites]), floor)
            if said:
                raise InputError(said)
        size = 16 * (core.step_numbers(columns) + 2 * (1 + columns) * self._most_intervals(rows))
        limit = min(policy.max_message_bytes, LARGEST_MESSAGE)
        if size > limit:
            raise InputError(
                f"sums over risk sets of {columns:,} columns are a message of up to {size:,} bytes; the limit is "
                f"{limit:,} (max_message_bytes in the policy): take fewer columns, or fewer intervals (n_intervals)"
            )

    def _most_intervals(self, rows: int) -> int:
        if self.by_site:
            return 1
        return min(rows, MOST_CELLS) if self.exact else self.n_intervals

    def plan(self, shape: Shape) -> Plan:
        """Find the grid, sum columns, take Newton's steps, hand out the model."""
        columns = shape.columns
        count = self._most_intervals(shape.rows * shape.n_sites)
        work = 1e-9 * shape.rows * (columns + 1) ** 2
        last: Any = None
        if not self.by_site:
            for at in range(quantiles.rounds(self.bits)):
                length = quantiles.bins_length(2, self.shares) + (0 if at else columns)
                last = yield Sum(SumTimeBins(last=last), length, bound=BOUND if at else "")
            cells = 2 * (MOST_CELLS + 1) if self.exact else 4 * (1 + 2 * columns) * self.n_intervals
            last = yield Sum(SumTimeCells(last=last), cells, bound=BOUND)
        bound = "" if self.by_site else BOUND
        last = yield Sum(SumSurvivalColumns(last=last), 2 * columns_length(count, columns), work=work, bound=bound)
        for _ in range(self.n_rounds):
            if self.by_site:
                last = yield Sum(SumStrata(last=last), 2 * core.stratum_length(columns), work=work, bound=SOON)
            else:
                last = yield Sum(SumRiskSets(last=last), 2 * risk_length(count, columns), work=work, bound=SOON)
                last = yield Sum(SumCurvature(last=last), 2 * core.step_numbers(columns), work=work, bound=SOON)
        yield HandOut(result=last)

    def conduct(self, sites: Coordinator) -> CoxModel:
        """Hold the conversation: join, find the grid, sum columns, take steps, tell."""
        if self.reference and not self.preparing:
            raise InputError(
                f'reference={list(self.reference)!r} given without prepare; wanted prepare=["one-hot", …], which names '
                "the columns, or leave those columns out of the table"
            )
        cohort = join(sites, self)
        fit = CoxFit()
        last = take_all(cohort, fit, self, cohort.columns)
        left_out = left_out_of(cohort.preparation, self)
        model = made_cox(fit, self, sites=len(last.sites), left_out=left_out)
        sites.metrics |= {"sites": len(cohort.left), **model.statistics}
        self._say(cohort, model, fit.grid.left_out)
        return hand_out(cohort, model, last)

    def _say(self, cohort: Cohort, model: CoxModel, scarce: Sequence[int]) -> None:
        """Say what a reader of the table must know: separation, collinear columns, the grid's error."""
        preparation = cohort.preparation
        names = list(cohort.sites.columns if preparation is None else preparation.columns.names)

        def shown(places: Sequence[int]) -> str:
            some = [repr(names[at]) if names else f"number {at}" for at in places]
            return ", ".join(some[:8]) + (f" and {len(some) - 8} more" if len(some) > 8 else "")

        def of(state: int) -> list[int]:
            return [int(at) for at in np.flatnonzero(model.states == state)]

        notices = cohort.sites.notices
        free = self.by_site or cohort.class_floors == (1, 1)
        few_steps = 'policies with floors allow no more; take fewer columns, or stratify="site"'
        if scarce:
            notices.append(
                RunWarning(
                    f"columns are left out, since too few rows with the event have 1 there, or 0, for two intervals of "
                    f"time under the policies' floors: {shown(scarce)}",
                    remedy='put rare words together, or stratify="site", which needs no intervals',
                )
            )
        notices += per_deviation(self.preparing)
        if (model.states == 2).any():
            notices.append(
                RunWarning(
                    f"columns say for sure who has the event first, or nearly ({shown(of(2))}): their coefficients "
                    "grow without end, and the fit was ended",
                    remedy="no errors and p values are told; leave a column out, put rare words together, take more "
                    "rows, or ridge=1.0, which holds coefficients back",
                )
            )
        elif not model.facts["converged"]:
            notices.append(
                RunWarning(
                    f"the fit did not converge in {int(model.facts['steps']) + 1} steps: no errors, no p values",
                    remedy="coefficients are those of the last step: "
                    + ("allow more (n_rounds), or look for extreme values" if free else few_steps),
                )
            )
        if (model.states == 3).any():
            notices.append(
                RunWarning(
                    f"columns are constant, or follow from others ({shown(of(3))}); they have no coefficient",
                    remedy="leave them out; the other coefficients are as without them",
                )
            )
        if model.facts.get("grouping_error", 0.0) > LARGE_ERROR:
            notices.append(
                RunWarning(
                    f"times are in {int(model.facts['intervals'])} intervals; in half as many, coefficients would "
                    f"move by up to {model.facts['grouping_error']:.2g} standard errors",
                    remedy='take more rows or fewer columns, or stratify="site", which needs no common times',
                )
            )


LARGE_ERROR = 0.1
"""A larger error of the grouping, in standard errors, is warned of."""
