"""What survival methods yield: hazard ratios, survival curves, tests."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import stats

from fedgeom.arrays import Floats
from fedgeom.errors import InputError
from fedgeom.federation.model import Model
from fedgeom.methods.regression.model import (
    compare_nested,
    conclusion_of,
    indexed,
    interval,
    names_after,
    references_of,
)
from fedgeom.methods.survival import core
from fedgeom.methods.survival.cox_fit import CoxFit, CoxSettings


@dataclass(frozen=True, eq=False, repr=False)
class CoxModel(Model):
    """Proportional hazards: `summary` has the table, `statistics` the fit, `predict` relative hazards."""

    method = "cox"
    coefficients: Floats
    """(columns,): log hazard ratios per unit of each column as it came."""
    states: npt.NDArray[np.uint8]
    """(columns,): 1 where a coefficient is estimated, 2 where it grows without end, 3 where it follows from others or
    is constant, 0 where the column was left out (a reference)."""
    centre: Floats
    """(columns,): the columns' means."""
    spreads: Floats
    """(columns,): their standard deviations; 0 of those without a coefficient."""
    covariance: Floats
    """(columns, columns)"""
    times: Floats
    """(intervals,): the ends of the intervals, or the times of events; none where sites are strata."""
    events: npt.NDArray[np.int64]
    """(intervals,): how many rows have the event."""
    at_risk: npt.NDArray[np.int64]
    """(intervals,): how many rows are at risk."""
    hazard: Floats
    """(intervals,): by how much the cumulative hazard grows for a row whose columns are all at their means."""
    proportional: Floats
    """(1 + columns, 2): χ² and degrees of freedom of the test of proportionality, of all columns together first; empty
    where it was not made."""
    facts: Mapping[str, float]
    """What `statistics` tells."""
    ties: str
    stratify: str
    level: float
    treatment: str = ""

    family = "cox"
    errors = "model"

    @property
    def takes_holdout(self) -> bool:
        """No rows are kept aside: what is foretold is no class."""
        return False

    @property
    def width(self) -> int | None:
        """How many columns the model takes."""
        return len(self.coefficients)

    @property
    def terms(self) -> list[str]:
        """The names of all columns."""
        names: Sequence[str] = self.column_names
        if self.preparation is not None:
            names = self.preparation.columns.names or names_after(self)
        return list(names or (f"x{at}" for at in range(len(self.coefficients))))

    @property
    def references(self) -> dict[str, list[str]]:
        """By column of words, those that the others are compared to: more than one where floors left words out."""
        told = zip(self.terms, self.states.tolist(), strict=True)
        return references_of(self.preparation, [term for term, state in told if state in (1, 2)])

    @property
    def conclusion(self) -> str:
        """What the fit says, in a sentence: of the treatment, where there is one."""
        return conclusion_of(self)

    def summary(self, *, exponentiate: bool = False, level: float | None = None) -> Any:
        """Return a frame by term: coef, se, low, high, p; without pandas, records.

        Parameters
        ----------
        exponentiate: true or false; false if not given
            Tell hazard ratios and their intervals; se stays that of the logarithm.
        level: a number from 0.5 to 0.999 or None; None if not given
            The level of the intervals. None: that of the run.
        """
        rows = self.coefficient_rows(exponentiate=exponentiate, level=level)
        return indexed(["term", "coef", "se", "low", "high", "p"], rows, "term")

    def coefficient_rows(
        self, *, exponentiate: bool = False, level: float | None = None
    ) -> list[tuple[str, float, float, float, float, float]]:
        """Return the rows of `summary`: term, coef, se, low, high, p; the treatment first."""
        se = np.sqrt(np.maximum(np.diag(self.covariance), 0.0))
        low, high, p = interval(self.coefficients, se, level or self.level, math.inf)
        show = np.exp if exponentiate else np.asarray
        rows = []
        for at, term in enumerate(self.terms):
            state = int(self.states[at])
            if state == 0:
                continue
            with np.errstate(over="ignore"):  # of a coefficient that grows without end
                told = [float(show(one[at])) for one in (self.coefficients, low, high)]
            row = [told[0], float(se[at]), told[1], told[2], float(p[at])]
            if state == 3:
                row = [math.nan] * 5
            elif state == 2 or not self.facts["converged"]:
                row[1:] = [math.nan] * 4
            rows.append((term, *row))
        return sorted(rows, key=lambda row: row[0] != self.treatment)  # type: ignore[arg-type]

    @property
    def statistics(self) -> dict[str, float]:
        """What the fit is like: rows, events, sites, log likelihood, AIC, tests against the model without columns, the
        grouping's error."""
        return dict(self.facts)

    def likelihood_ratio(self, smaller: CoxModel) -> dict[str, float]:
        """Return the likelihood-ratio test against a fit of the same rows by fewer columns: chi2, df and p.

        With times in intervals, these may differ between the two fits where policies have floors; then take strata.
        """
        if not np.array_equal(self.times, smaller.times):
            raise InputError('the fits have different intervals of time; wanted exact times, or stratify="site"')
        return compare_nested(self, smaller)

    def proportionality(self) -> Any:
        """Return a frame by term: chi2, df and p of the test that its hazard ratio is the same at all times.

        Of scaled Schoenfeld residuals with the Kaplan-Meier curve of time (Grambsch and Therneau 1994). "(all)" is the
        test of all columns together.
        """
        return indexed(["term", "chi2", "df", "p"], self.proportionality_rows(), "term")

    def proportionality_rows(self) -> list[tuple[str, float, float, float]]:
        """Return the rows of `proportionality`."""
        if not self.proportional.size:
            raise InputError(
                'the test of proportionality needs a joint grid of times (stratify="none") and a fit that converges'
            )
        names = ["(all)", *self.terms]
        return [
            (names[at], chi2, df, float(stats.chi2.sf(chi2, df)))
            for at, (chi2, df) in enumerate(self.proportional.tolist())
            if df > 0
        ]

    def baseline(self) -> Any:
        """Return a frame by time: at_risk, events, hazard (cumulative) and survival, of a row at all columns' means."""
        if not len(self.times):
            raise InputError('each site has a baseline of its own, which it keeps; wanted stratify="none"')
        upto = np.cumsum(self.hazard)
        columns = (self.times, self.at_risk, self.events, upto, np.exp(-upto))
        rows = [tuple(row) for row in zip(*(one.tolist() for one in columns), strict=True)]
        return indexed(["time", "at_risk", "events", "hazard", "survival"], rows, "time")

    def _scores(self, X: npt.ArrayLike) -> Floats:
        # Row by row: what is said of a row must not depend on the others, not even by rounding.
        away = np.asarray(X, np.float64) - self.centre
        return np.asarray((away * self.coefficients).sum(axis=1))

    def predict(self, X: npt.ArrayLike) -> npt.NDArray[Any]:
        """Return each row's hazard, divided by that of a row whose columns are all at their means."""
        return np.exp(self._scores(X))

    def predict_survival(self, X: npt.ArrayLike) -> Floats:
        """Return the chance to be without the event at each of `times`, (rows, intervals)."""
        if not len(self.times):
            raise InputError('each site has a baseline of its own, which it keeps; wanted stratify="none"')
        return np.asarray(np.exp(-np.outer(self.predict(X), np.cumsum(self.hazard))))

    def line(self) -> str:
        """Return a line for people."""
        facts = self.facts
        estimated = int((self.states == 1).sum())
        return f"Cox, {estimated} coefficients, {int(facts['rows']):,} rows, {int(facts['events']):,} events"


def made_cox(fit: CoxFit, settings: CoxSettings, *, sites: int, left_out: Sequence[int]) -> CoxModel:
    """Return the model that follows from all sums; coordinator and sites make it alike."""
    assert fit.centre is not None
    assert fit.spread is not None
    newton = fit.newton
    assert newton.kept is not None
    assert newton.information is not None
    centre, spread = fit.centre.numpy(), fit.spread.numpy()
    kept = newton.kept.numpy().astype(bool)
    runaway = np.zeros(len(kept), bool) if newton.runaway is None else newton.runaway.numpy().astype(bool)
    penalised = newton.information.numpy()[np.ix_(kept, kept)]
    bread = np.linalg.inv(penalised) if kept.any() else penalised
    T = np.diag(1 / np.where(spread > 0, spread, np.inf))
    V = np.zeros((len(kept), len(kept)))
    V[np.ix_(kept, kept)] = bread @ (penalised - settings.ridge * np.eye(int(kept.sum()))) @ bread
    states = np.where(runaway, 2, np.where(kept, 1, 3)).astype(np.uint8)
    states[[*left_out, *fit.grid.left_out]] = 0
    b = newton.coefficients
    estimated = int(kept.sum())
    best = newton.best + (newton.left / 2 if newton.converged else 0.0) + settings.ridge / 2 * float(b @ b)
    chi2 = 2 * (best - newton.start)
    facts = {
        "rows": fit.rows,
        "events": float(fit.counts.sum()),
        "sites": float(sites),
        "coefficients": float(estimated),
        "log_likelihood": best,
        "null_log_likelihood": newton.start,
        "aic": 2 * estimated - 2 * best,
        "lr_chi2": chi2,
        "lr_df": float(estimated),
        "lr_p": float(stats.chi2.sf(chi2, max(estimated, 1))),
        "score_chi2": newton.score_test,
        "converged": float(newton.converged),
        "steps": float(newton.taken - 1),
    }
    none = np.zeros(0)
    times, hazard, events, at_risk = none, none, none.astype(np.int64), none.astype(np.int64)
    proportional = np.zeros((0, 2))
    if not settings.by_site:
        assert fit.S is not None
        assert fit.D is not None
        assert fit.leaving is not None
        times, events = fit.grid.ends(settings), fit.counts.astype(np.int64)
        at_risk = core.from_end(events + fit.leaving.numpy()).astype(np.int64)
        found = fit.hazards(settings)
        hazard = found.first
        facts["intervals"] = float(len(times))
        if newton.converged:
            proportional = _proportionality(fit, found, V, kept)
            if not settings.exact:
                facts["grouping_error"] = _grouping_error(fit, settings, V)
    return CoxModel(
        T @ b,
        states,
        centre,
        spread,
        T @ V @ T,
        times,
        events,
        at_risk,
        hazard,
        proportional,
        facts,
        settings.ties,
        settings.stratify,
        settings.level,
        settings.treatment,
    )


def _proportionality(fit: CoxFit, found: core.Denominators, V: Floats, kept: npt.NDArray[np.bool_]) -> Floats:
    """Return χ² and degrees of freedom of the test of proportionality: of all columns, and of each."""
    assert fit.S is not None
    assert fit.D is not None
    assert fit.event_sums is not None
    assert fit.leaving is not None
    residuals = fit.event_sums.numpy() - core.slope(fit.S.numpy(), fit.D.numpy(), found)
    d = fit.counts.astype(np.float64)
    there = core.from_end(d + fit.leaving.numpy())
    curve = np.cumprod(1 - d / np.maximum(there, 1))
    g = 1 - np.append(1.0, curve[:-1])  # just before the interval's events
    away = g - d @ g / d.sum()
    size = float(d @ away**2)
    if size <= 0:
        return np.zeros((0, 2))
    z = away @ residuals
    turned = V @ z
    single = d.sum() * turned**2 / (np.where(np.diag(V) > 0, np.diag(V), 1.0) * size)
    whole = d.sum() * float(z @ turned) / size
    return np.column_stack([np.append(whole, single), np.append(kept.sum(), kept.astype(float))])


def _grouping_error(fit: CoxFit, settings: CoxSettings, V: Floats) -> float:
    """Return by how many standard errors a coefficient would move if each two intervals were one, by one step.

    The sums over risk sets of the wider intervals follow from those that there are.
    """
    assert fit.S is not None
    assert fit.D is not None
    assert fit.event_sums is not None

    def in_pairs(values: Any) -> Any:
        return np.add.reduceat(values, np.arange(0, len(values), 2), axis=0)

    S, D = fit.S.numpy()[::2], in_pairs(fit.D.numpy())
    found = core.denominators(S[:, 0], D[:, 0], in_pairs(fit.counts), settings.ties)
    U = (in_pairs(fit.event_sums.numpy()) - core.slope(S, D, found)).sum(axis=0)
    se = np.sqrt(np.maximum(np.diag(V), 0.0))
    return float(np.abs((V @ U)[se > 0] / se[se > 0]).max(initial=0.0))
