"""Survival curves: the model of `KaplanMeier`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NoReturn

import numpy as np
import numpy.typing as npt
from scipy import stats

from fedgeom.arrays import Floats
from fedgeom.errors import InputError
from fedgeom.federation.model import Model
from fedgeom.methods.regression.model import indexed, told_chance

FEW_AT_RISK = 0.1
"""Shares are told where so many of a group's rows are still at risk."""


@dataclass(frozen=True, eq=False, repr=False)
class CurvesModel(Model):
    """Survival curves: `curves` has them with intervals, `log_rank` compares them; it predicts nothing."""

    method = "kaplan-meier"
    predicts: ClassVar[bool] = False
    names: tuple[str, ...]
    """The groups."""
    times: Floats
    """(intervals,): the ends of the intervals, or the times of events."""
    events: npt.NDArray[np.int64]
    """(groups, intervals): how many rows have the event."""
    at_risk: npt.NDArray[np.int64]
    """(groups, intervals): how many are at risk."""
    exact: bool
    level: float
    sites: int

    @property
    def everywhere(self) -> bool:
        """It predicts nowhere."""
        return False

    @property
    def width(self) -> None:
        """It takes no rows."""

    @property
    def rows(self) -> int:
        """How many rows are at risk at the start."""
        return int(self.at_risk[:, 0].sum())

    def predict(self, X: npt.ArrayLike) -> NoReturn:
        """Raise `InputError`: curves predict nothing."""
        raise InputError("survival curves predict nothing for a row; fedgeom.Cox() does")

    @property
    def survival(self) -> Floats:
        """The share without the event at the end of each interval, (groups, intervals)."""
        return np.asarray(np.cumprod(1 - self.events / np.maximum(self.at_risk, 1), axis=1), np.float64)

    def _greenwood(self) -> Floats:
        """Return Σ d/(n·(n - d)) up to each interval, (groups, intervals); infinite where nobody is left."""
        n, d = self.at_risk.astype(np.float64), self.events
        with np.errstate(divide="ignore", invalid="ignore"):
            terms = np.where(d > 0, d / (n * (n - d)), 0.0)
        return np.asarray(np.cumsum(terms, axis=1))

    def curves(self) -> Any:
        """Return a frame by group, with time, at_risk, events, survival, low and high.

        Intervals are by the logarithm of the hazard (log-log; Kalbfleisch and Prentice 2002, 1.4).
        """
        return indexed(
            ["group", "time", "at_risk", "events", "survival", "low", "high"], self.curve_rows(), "group"
        )

    def curve_rows(self) -> list[tuple[Any, ...]]:
        """Return the rows of `curves`."""
        S = self.survival
        reach = stats.norm.ppf((1 + self.level) / 2)
        with np.errstate(divide="ignore", invalid="ignore"):
            spread = np.exp(reach * np.sqrt(self._greenwood()) / np.log(S))
            low, high = S ** (1 / spread), S**spread
        inside = (S > 0) & (S < 1)
        low, high = np.where(inside, low, S), np.where(inside, high, S)
        return [
            (name, float(t), int(n), int(d), float(s), float(a), float(b))
            for at, name in enumerate(self.names)
            for t, n, d, s, a, b in zip(
                self.times, self.at_risk[at], self.events[at], S[at], low[at], high[at], strict=True
            )
        ]

    def at(self, times: npt.ArrayLike) -> npt.NDArray[np.int64]:
        """Return how many rows of each group are at risk at times, (groups, times).

        It is the number at the next event, and with intervals that at the beginning of the interval.
        """
        n = np.column_stack([self.at_risk, np.zeros(len(self.names), np.int64)])
        return np.asarray(n[:, np.searchsorted(self.times, np.asarray(times, np.float64), side="right")])

    def log_rank(self) -> dict[str, float]:
        """Return the log-rank test that all groups have one curve: chi2, df and p."""
        groups = len(self.names)
        if groups < 2:
            raise InputError('one group given; wanted two to compare: KaplanMeier(by="arm")')
        n, d = self.at_risk.astype(np.float64), self.events.astype(np.float64)
        N, D = n.sum(axis=0), d.sum(axis=0)
        share = n / np.maximum(N, 1)
        away = (d - share * D).sum(axis=1)
        left = np.where(N > 1, D * (N - D) / np.maximum(N - 1, 1), 0.0)
        V = np.diag((share * left).sum(axis=1)) - (share * left) @ share.T
        chi2 = float(away[1:] @ np.linalg.solve(V[1:, 1:], away[1:]))
        return {"chi2": chi2, "df": float(groups - 1), "p": float(stats.chi2.sf(chi2, groups - 1))}

    def restricted_means(self, horizon: float) -> Any:
        """Return a frame by group of the mean time without the event until a horizon: mean, se, low, high.

        With intervals a curve falls evenly within each; with exact times, at the events.
        """
        return indexed(["group", "mean", "se", "low", "high"], self.restricted_rows(horizon), "group")

    def restricted_rows(self, horizon: float) -> list[tuple[Any, ...]]:
        """Return the rows of `restricted_means`."""
        if not 0 < horizon <= float(self.times[-1]):
            raise InputError(f"horizon={horizon:g} given; wanted above 0, up to the last time, {self.times[-1]:g}")
        reach = float(stats.norm.ppf((1 + self.level) / 2))
        inside = self.times < horizon
        at = np.concatenate([[0.0], self.times[inside], [horizon]])
        found = []
        for place, name in enumerate(self.names):
            S = np.concatenate([[1.0], self.survival[place]])
            curve = S[: len(at)]
            if self.exact:
                areas = np.diff(at) * curve[:-1]
            else:
                known = np.concatenate([[0.0], self.times])
                curve = np.interp(at, known, S)
                areas = np.diff(at) * (curve[1:] + curve[:-1]) / 2
            rest = np.cumsum(areas[::-1])[::-1][1:]  # behind each time of events before the horizon
            n, d = self.at_risk[place, inside].astype(np.float64), self.events[place, inside]
            terms = np.where((d > 0) & (n > d), rest**2 * d / np.maximum(n * (n - d), 1), 0.0)
            mean, se = float(areas.sum()), float(np.sqrt(terms.sum()))
            found.append((name, mean, se, mean - reach * se, mean + reach * se))
        return found

    @property
    def conclusion(self) -> str:
        """What the curves say, in a sentence or two."""
        begin = f"{int(self.events.sum()):,} of {self.rows:,} rows had the event."
        if len(self.names) < 2:
            return begin
        test = self.log_rank()
        enough = (self.at_risk >= FEW_AT_RISK * self.at_risk[:, :1]).all(axis=0)  # the tail rests on few rows
        last = max(int(enough.sum()) - 1, 0)
        shares = ", ".join(f"{name} {s:.1%}" for name, s in zip(self.names, self.survival[:, last], strict=True))
        differ = "The groups' curves differ" if test["p"] < 1 - self.level else "The groups' curves may be one"
        return f"{begin} {differ} (log-rank {told_chance(test['p'])}); without it at {self.times[last]:.4g}: {shares}."

    def line(self) -> str:
        """Return a line for people."""
        return (
            f"survival curves of {len(self.names)} groups, {self.rows:,} rows, {int(self.events.sum()):,} events"
        )
