"""Proportional hazards from sums over risk sets: what both halves compute.

With e = exp(x·b) and intervals k, sites add up S⁰ₖ = Σ e and S¹ₖ = Σ e·x over the rows at risk, and D⁰ₖ, D¹ₖ over those
with the event. By Efron's rule the partial likelihood has for each of the dₖ events a denominator
S⁰ - (l/dₖ)·D⁰, l = 0 … dₖ - 1; by Breslow's it is S⁰ for all. Its slope follows from these sums. Of its curvature one
part does, too; the other is Σᵢ eᵢ·Λᵢ·xᵢxᵢᵀ, with the hazard Λᵢ that row i was exposed to, which follows from the sums,
so that sites add it up in a second one. Newton's steps take both.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import msgspec
import numpy as np

from fedgeom.arrays import Bools, Floats, Ints
from fedgeom.federation.messages import Array
from fedgeom.methods.regression.core import (
    CONSTANT,
    DIVERGED,
    GROWING,
    RESTS_ON,
    ROWS_PER_NUMBER,
    SUSPECT,
    USUAL_STEPS,
    independent,
)

LARGEST_SCORE = 15.0
"""Beyond, hazards are cut off: e¹⁵ is three million."""
STEPS_WITH_FLOORS = 4
"""So many steps are taken at most where policies have floors: each adds numbers of the rows of each interval."""
ROWS_PER_NUMBER_OF_INTERVAL = 2
"""So many rows of each site that floors ask for there are for each number of an interval: of numbers of two steps that
are nearly alike, differences nearly vanish for many rows."""
ENOUGH_WITH_FLOORS = 1e-3
"""Then a fit has converged where the last step, which is still taken, changes twice the log likelihood by less."""


def numbers_per_interval(columns: int, flags: int, *, of_flag: bool = False) -> int:
    """Return how many numbers of the rows that leave in an interval are summed at most, where policies have floors.

    With fewer rows, some weighted sum of these numbers would rest on few of them. Rows with 1 in a column of 0 and 1
    (``of_flag``) have one column less; and where all columns are such, rows of a kind are told by as many numbers as
    there are kinds.
    """
    free = columns - int(of_flag)
    found = STEPS_WITH_FLOORS * (1 + free)
    return min(found, 2**free) if flags == columns and free < 16 else found


def step_numbers(columns: int) -> int:
    """Return how many numbers `curvature_sums` has."""
    return 2 + columns * (columns + 1) // 2


def too_few_rows(rows: float, columns: int, floor: int) -> str:
    """Say why so many coefficients cannot be fitted from so few rows; "" where they can, or policies have no floors."""
    wanted = ROWS_PER_NUMBER * USUAL_STEPS * (step_numbers(columns) + columns)
    if floor <= 1 or rows >= wanted:
        return ""
    return (
        f"{rows:,.0f} rows of all sites and {columns} columns given; where policies have floors (min_rows), wanted "
        f"{wanted:,} rows, so that nothing that is summed rests on few: take fewer columns, or more sites"
    )


@dataclass(frozen=True)
class Denominators:
    """Sums over the denominators φ = S⁰ - (l/d)·D⁰ of each interval, (intervals,) each."""

    log: Floats
    first: Floats
    """Σ 1/φ: what is added to the hazard of a row at risk."""
    shared: Floats
    """Σ (l/d)/φ: by how much less for a row with the event."""
    square: Floats
    """Σ 1/φ²"""
    mixed: Floats
    """Σ (l/d)/φ²"""
    own: Floats
    """Σ (l/d)²/φ²"""


def denominators(at_risk: Floats, with_event: Floats, events: Ints, ties: str) -> Denominators:
    """Return sums over the denominators of the partial likelihood; all arrays are (intervals,)."""
    count = len(events)
    of = np.repeat(np.arange(count), events)
    order = np.arange(len(of)) - np.repeat(np.cumsum(events) - events, events)
    share = order / np.maximum(events[of], 1) if ties == "efron" else np.zeros(len(of))
    phi = at_risk[of] - share * with_event[of]
    if (phi <= 0).any():
        raise ArithmeticError("a risk set has no hazard left")

    def over(values: Floats) -> Floats:
        return np.bincount(of, values, minlength=count).astype(np.float64)

    inverse = 1 / phi
    square = inverse**2
    return Denominators(
        over(np.log(phi)),
        over(inverse),
        over(share * inverse),
        over(square),
        over(share * square),
        over(share**2 * square),
    )


def from_end(values: Floats) -> Floats:
    """Return sums from each interval to the last one, (intervals, …)."""
    return np.asarray(np.cumsum(values[::-1], axis=0)[::-1])


def by_interval(values: Floats, place: Ints, count: int) -> Floats:
    """Return sums of rows' values, (rows, n), by the interval that they are in, (count, n)."""
    found = np.zeros((count, values.shape[1]))
    np.add.at(found, place, values)
    return found


def scores(X: Floats, b: Floats) -> Floats:
    """Return exp(x·b) of each row."""
    return np.asarray(np.exp(np.clip(X @ b, -LARGEST_SCORE, LARGEST_SCORE)))


def risk_sums(X: Floats, e: Floats, until: Ints, event: Bools, count: int) -> tuple[Floats, Floats]:
    """Return S and D, (count, 1 + columns) each: of rows at risk in each interval, and of those with the event."""
    weighted = e[:, None] * np.column_stack([np.ones(len(X)), X])
    there = until > 0
    leaving = by_interval(weighted[there], until[there] - 1, count)
    return from_end(leaving), by_interval(weighted[event], until[event] - 1, count)


def exposure(found: Denominators, until: Ints, event: Bools) -> Floats:
    """Return the hazard that each row was exposed to, (rows,)."""
    upto = np.append(0.0, np.cumsum(found.first))
    hazard = upto[until]
    hazard[event] -= found.shared[until[event] - 1]
    return np.asarray(hazard)


def slope(S: Floats, D: Floats, found: Denominators) -> Floats:
    """Return what is taken from the sum of the events' columns in each interval, (intervals, columns)."""
    return np.asarray(found.first[:, None] * S[:, 1:] - found.shared[:, None] * D[:, 1:])


def curvature_taken(S: Floats, D: Floats, found: Denominators) -> Floats:
    """Return the part of the curvature that follows from sums over risk sets, (columns, columns)."""
    first, own = S[:, 1:], D[:, 1:]
    mixed = (first * found.mixed[:, None]).T @ own
    whole = (first * found.square[:, None]).T @ first + (own * found.own[:, None]).T @ own
    return np.asarray(whole - mixed - mixed.T)


def curvature_sums(X: Floats, b: Floats, until: Ints, event: Bools, found: Denominators) -> Floats:
    """Return Σ v and Σ v² of v = e·Λ, and the upper triangle of Σ v·x·xᵀ, with the hazards of all sites' rows."""
    v = scores(X, b) * exposure(found, until, event)
    return _with_squares(v, (X.T * v) @ X)


def _with_squares(v: Floats, information: Floats) -> Floats:
    return np.concatenate([[v.sum(), v @ v], information[np.triu_indices(len(information))]])


def stratum_length(columns: int) -> int:
    """Return how many numbers a step has where each site is a stratum."""
    return 1 + columns + step_numbers(columns)


def stratum_step(X: Floats, b: Floats, time: Floats, event: Bools, ties: str) -> Floats:
    """Return log likelihood, slope, Σ v, Σ v² and curvature of one site's own partial likelihood, at exact times."""
    columns = len(b)
    ends = np.unique(time[event])
    if not len(ends):
        return np.zeros(stratum_length(columns))
    until = np.searchsorted(ends, time, side="right")
    events = np.bincount(until[event] - 1, minlength=len(ends))
    e = scores(X, b)
    S, D = risk_sums(X, e, until, event, len(ends))
    found = denominators(S[:, 0], D[:, 0], events, ties)
    v = e * exposure(found, until, event)
    information = (X.T * v) @ X - curvature_taken(S, D, found)
    gained = float((X[event] @ b).sum() - found.log.sum())
    U = X[event].sum(axis=0) - slope(S, D, found).sum(axis=0)
    return np.concatenate([[gained], U, _with_squares(v, information)])


class NewtonSteps(msgspec.Struct, kw_only=True):
    """Newton's steps to where a likelihood is highest; half of a step that was too long."""

    taken: int = 0
    at: Array | None = None
    """(columns,): where the next sum is taken."""
    good: Array | None = None
    """Where the likelihood was highest."""
    step: Array | None = None
    kept: Array | None = None
    """(columns,), 0 or 1: the coefficients that the data determine."""
    information: Array | None = None
    first: Array | None = None
    """(columns,): the variances at the start."""
    best: float = -math.inf
    start: float = 0.0
    """The log likelihood without columns."""
    score_test: float = 0.0
    left: float = math.inf
    """By how much a whole step is expected to raise the log likelihood, twice."""
    growing: int = 0
    runaway: Array | None = None
    finished: bool = False
    converged: bool = False

    def begin(self, columns: int) -> None:
        """Start at 0."""
        self.at = self.good = Array.of(np.zeros(columns))

    def take(
        self,
        gained: float,
        U: Floats,
        information: Floats,
        squares: tuple[float, float],
        limits: tuple[float, int, float, int],
    ) -> None:
        """Take log likelihood, slope and curvature where they were asked for.

        squares: Σ v and Σ v², which say on how many rows the curvature rests; limits: ridge, the most steps, the
        tolerance, and how many rows policies want.
        """
        assert self.at is not None
        ridge, most, tolerance, floor = limits
        at = self.at.numpy()
        gained -= ridge / 2 * float(at @ at)
        information = information + ridge * np.eye(len(at))
        self.taken += 1
        if self.kept is None:
            self.kept = Array.of(independent(information).astype(np.uint8))
            self.start = gained
        kept = self.kept.numpy().astype(bool)
        if gained >= self.best - 1e-9 * (abs(gained) + 1):
            self.best = gained
            self.good = self.at
            self.information = Array.of(information)
            some = information[np.ix_(kept, kept)]
            inverse = np.linalg.inv(some) if len(some) else some
            score = (U - ridge * at)[kept]
            step = np.zeros(len(at))
            step[kept] = inverse @ score
            self.left = float(score @ step[kept])
            variances = np.zeros(len(at))
            variances[kept] = np.maximum(np.diag(inverse), 0.0)
            if self.first is None:
                self.first = Array.of(variances)
                self.score_test = self.left
            first = self.first.numpy()
            self.growing = self.growing + 1 if (variances > DIVERGED * first).any() else 0
            self.converged = self.left <= tolerance
            few = squares[1] > 0 and squares[0] ** 2 / squares[1] < RESTS_ON * floor
            far = float(np.abs(at).max(initial=0.0)) > LARGEST_SCORE / 2
            ratios = variances / np.where(first > 0, first, 1.0)
            ends = few or far or self.growing == GROWING
            late = self.taken >= most and bool((ratios > SUSPECT).any())
            if not self.converged and (ends or late):
                self.runaway = Array.of((kept & (ratios >= min(SUSPECT, ratios.max() / 10))).astype(np.uint8))
                self.finished = True
        else:
            assert self.step is not None
            step = self.step.numpy() / 2
        assert self.good is not None
        self.step = Array.of(step)
        self.at = Array.of(self.good.numpy() + step)
        self.finished = self.finished or self.converged or self.taken >= most

    @property
    def coefficients(self) -> Floats:
        """The coefficients, with the last step where the fit has converged."""
        found = self.at if self.converged else self.good
        assert found is not None
        return found.numpy()


def spread_of(sums: Floats, squares: Floats, rows: float) -> tuple[Floats, Floats]:
    """Return mean and standard deviation of columns; the latter 0 where a column is constant."""
    centre = sums / rows
    variance = squares / rows - centre**2
    return centre, np.sqrt(np.where(variance > CONSTANT * squares / rows, np.maximum(variance, 0.0), 0.0))
