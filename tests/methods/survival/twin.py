"""Proportional hazards and survival curves of rows in one place, by loops over risk sets, as textbooks write them.

Therneau and Grambsch, "Modeling Survival Data" (2000): partial likelihood 3.1, Efron's rule 3.3, strata 3.2,
Schoenfeld residuals 4.6. Kalbfleisch and Prentice, "The Statistical Analysis of Failure Time Data" (2002): curves 1.4.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


def derivatives(
    X: Floats, time: Floats, event: Any, b: Floats, ties: str, strata: Any = None
) -> tuple[float, Floats, Floats, list[Floats]]:
    """Return log likelihood, slope, curvature, and Schoenfeld's residuals summed at each time of events."""
    p = X.shape[1]
    likelihood, U, information = 0.0, np.zeros(p), np.zeros((p, p))
    residuals = []
    groups = np.zeros(len(time), int) if strata is None else np.asarray(strata)
    for group in np.unique(groups):
        inside = groups == group
        for t in np.unique(time[inside & event]):
            at_risk = np.flatnonzero(inside & (time >= t))
            dying = np.flatnonzero(inside & (time == t) & event)
            e = np.exp(X[at_risk] @ b)
            own = np.exp(X[dying] @ b)
            here = X[dying].sum(axis=0)
            for place in range(len(dying)):
                share = place / len(dying) if ties == "efron" else 0.0
                phi = e.sum() - share * own.sum()
                mean = (e @ X[at_risk] - share * own @ X[dying]) / phi
                square = ((X[at_risk].T * e) @ X[at_risk] - share * (X[dying].T * own) @ X[dying]) / phi
                likelihood -= np.log(phi)
                here = here - mean
                information += square - np.outer(mean, mean)
            likelihood += float((X[dying] @ b).sum())
            U += here
            residuals.append(here)
    return likelihood, U, information, residuals


def cox(
    X: Floats, time: Floats, event: Any, ties: str = "efron", strata: Any = None
) -> tuple[Floats, Floats, float]:
    """Return coefficients, covariance and log likelihood."""
    centre, spread = X.mean(axis=0), X.std(axis=0)
    Z = (X - centre) / spread
    b = np.zeros(X.shape[1])
    for _ in range(30):
        likelihood, U, information, _ = derivatives(Z, time, event, b, ties, strata)
        step = np.linalg.solve(information, U)
        b = b + step
        if np.abs(step).max() < 1e-13:
            break
    likelihood, _, information, _ = derivatives(Z, time, event, b, ties, strata)
    return b / spread, np.linalg.inv(information) / np.outer(spread, spread), likelihood


def proportionality(X: Floats, time: Floats, event: Any, ties: str = "efron") -> Floats:
    """Return χ² of Grambsch and Therneau's test of each column, with the Kaplan-Meier curve of time."""
    b, V, _ = cox(X, time, event, ties)
    residuals = derivatives(X, time, event, b, ties)[3]
    g, curve, deaths = [], 1.0, []
    for t in np.unique(time[event]):
        g.append(1 - curve)
        d = int(((time == t) & event).sum())
        deaths.append(d)
        curve *= 1 - d / (time >= t).sum()
    n = sum(deaths)
    centred = np.array(g) - np.repeat(g, deaths).mean()
    scaled = n * np.array(residuals) @ V
    return (centred @ scaled) ** 2 / (n * np.diag(V) * (np.array(deaths) @ centred**2))


def baseline(X: Floats, time: Floats, event: Any, b: Floats, ties: str = "efron") -> Floats:
    """Return the cumulative hazard at each time of events, of a row whose columns are all at their means."""
    e = np.exp((X - X.mean(axis=0)) @ b)
    found, hazard = [], 0.0
    for t in np.unique(time[event]):
        at_risk, dying = e[time >= t].sum(), e[(time == t) & event]
        for place in range(len(dying)):
            share = place / len(dying) if ties == "efron" else 0.0
            hazard += 1 / (at_risk - share * dying.sum())
        found.append(hazard)
    return np.array(found)


def curve(time: Floats, event: Any) -> tuple[list[float], list[float], list[float]]:
    """Return the times of events, Kaplan and Meier's curve, and Greenwood's sums, from one subject to the next."""
    ends, curve, sums = [], [], []
    left, total = 1.0, 0.0
    for t in sorted({one for one, happened in zip(time, event, strict=True) if happened}):
        n = sum(1 for one in time if one >= t)
        d = sum(1 for one, happened in zip(time, event, strict=True) if happened and one == t)
        left *= 1 - d / n
        total += d / (n * (n - d)) if n > d else np.inf
        ends.append(t)
        curve.append(left)
        sums.append(total)
    return ends, curve, sums


def log_rank(time: Floats, event: Any, group: Any) -> float:
    """Return Mantel's χ² of two groups: observed less expected events, by the hypergeometric variance."""
    first = np.unique(group)[0]
    away, variance = 0.0, 0.0
    for t in np.unique(time[event]):
        N, n = (time >= t).sum(), ((time >= t) & (group == first)).sum()
        D, d = ((time == t) & event).sum(), ((time == t) & event & (group == first)).sum()
        away += d - D * n / N
        variance += D * (n / N) * (1 - n / N) * (N - D) / (N - 1) if N > 1 else 0.0
    return float(away**2 / variance)


def restricted_mean(time: Floats, event: Any, horizon: float, steps: int = 200_000) -> float:
    """Return the area under the curve up to a horizon, by a fine sum."""
    ends, values, _ = curve(time, event)
    at = (np.arange(steps) + 0.5) * horizon / steps
    heights = np.concatenate([[1.0], values])[np.searchsorted(ends, at, side="right")]
    return float(heights.mean() * horizon)
