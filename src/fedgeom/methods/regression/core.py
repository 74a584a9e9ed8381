"""Generalised linear models from sums: what both halves compute.

Newton's steps with the expected information (Fisher scoring; McCullagh and Nelder 1989, section 2.5). For coefficients
b of standardised columns sites add up the deviance, the score U = Σ (y - μ)·μ'/V(μ)·x and the information
I = Σ μ'²/V(μ)·x·xᵀ; the next b is b + I⁻¹U. With "gamma" I is the observed
information behind the start, Σ y/μ·x·xᵀ: Fisher's scoring takes three times as many steps there. Errors are by the
expected one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
from scipy.special import expit, gammaln, xlogy

from fedgeom.arrays import Bools, Floats, Ints
from fedgeom.data.rows import dense
from fedgeom.federation.messages import Array
from fedgeom.methods.regression.settings import RegressionSettings

LEAST_SITES = 5
"""Sites are compared where so many have a column: sums over fewer would nearly show a site's own estimate."""
COLLINEAR = 1e-8
"""A column follows from others where they leave a smaller share of its variance."""
CONSTANT = 1e-12
"""A column is constant where its variance is a smaller share of its mean square."""
DIVERGED = 1e4
"""A coefficient runs away where its variance has become so many times what it was at the start."""
GROWING = 3
"""It does for good where that is so at so many steps in a row: a step that is too long makes it so for once."""
ENOUGH = 0.1
"""A step is too long where it lowers the deviance by less than this share of what was expected."""
SUSPECT = 1e2
LARGEST_SCORE = 30.0
"""Beyond, logits and logarithms are cut off: what they give there is 0 or 1, or no number."""
TERMS = 7
"""How many numbers of a sum of terms are of no coefficient."""
RESTS_ON = 12
"""A fit ends where its information rests on fewer rows than so many times the policies' floor."""
USUAL_STEPS = 6
ROWS_PER_NUMBER = 3
"""How many rows there are for each number of that many steps at least, where policies have floors."""
SAME_COLUMN = 1e-9
"""A direction of standardised columns whose variance is less follows from the others."""
USUAL_START = 2 * (math.log(3) + 4 / 3)
"""Weighted least squares from means of 3/4 and 1/4 have ±(log 3 + 4/3) for outcomes 1 and 0."""
GENERAL = 6
"""How many numbers of the first sum are of no column."""


@dataclass(frozen=True, eq=False)
class DesignRows:
    """A site's rows as the model sees them."""

    X: Floats
    """(rows, columns): as they are, or standardised."""
    y: Floats
    """(rows,)"""
    offset: Floats
    weights: Floats


def column_sums(rows: DesignRows, settings: RegressionSettings) -> Floats:
    """Return the numbers of the first sum: rows, weights, sums of the outcome, and of columns and their squares.

    Behind them, for each column and the intercept, 1 where the site's own rows determine its coefficient.
    """
    w = rows.weights
    y = _without_offset(rows, settings)
    general = [float(len(y)), w.sum(), w @ y, w @ y**2, w @ _constant_part(y, settings), w @ _exposure(rows)]
    return np.concatenate([general, w @ rows.X, w @ rows.X**2, determined(rows.X)])


def columns_length(columns: int) -> int:
    """Return how many numbers `column_sums` has."""
    return GENERAL + 3 * columns + 1


def determined(X: Floats) -> Floats:
    """Return which coefficients a site's own rows determine, (1 + columns,), 0 or 1: of the intercept first.

    With fewer than two rows for each, none: what a single row decides would tell of it.
    """
    if len(X) < 2 * (1 + X.shape[1]):
        return np.zeros(1 + X.shape[1])
    A = np.column_stack([np.ones(len(X)), X])
    length = np.linalg.norm(A, axis=0)
    A = A / np.where(length > 0, length, 1.0)
    _, sizes, right = np.linalg.svd(A, full_matrices=False)
    rank = int((sizes > 1e-7 * sizes[:1]).sum()) if len(sizes) else 0
    reached = (right[:rank] ** 2).sum(axis=0)
    return np.asarray((reached > 1 - 1e-8) & (length > 0), np.float64)


def _without_offset(rows: DesignRows, settings: RegressionSettings) -> Floats:
    return rows.y - rows.offset if settings.family == "gaussian" else rows.y


def _exposure(rows: DesignRows) -> Floats:
    return np.asarray(np.exp(np.clip(rows.offset, -LARGEST_SCORE, LARGEST_SCORE)))


def _constant_part(y: Floats, settings: RegressionSettings) -> Floats:
    """Return the part of each row's log likelihood that no coefficient changes."""
    if settings.family == "poisson":
        return np.asarray(xlogy(y, y) - y - gammaln(y + 1))
    return np.log(y) if settings.family == "gamma" else np.zeros(len(y))


class Standards(msgspec.Struct, frozen=True, kw_only=True):
    """What the first sum gave: how columns and the outcome are standardised."""

    centre: Array
    """(columns,)"""
    spread: Array
    """(columns,): 0 where a column is constant in all rows of all sites, or left out."""
    rows: float
    weight: float
    middle: float
    """What is taken from the outcome."""
    unit: float
    """By what it is divided."""
    start: float
    """The intercept of the model without columns."""
    constant: float
    """The constant part of the log likelihood."""
    mean: float
    determined: Array
    """(1 + columns,): at how many sites the rows determine each coefficient."""

    @classmethod
    def read(cls, total: Floats, settings: RegressionSettings, left_out: Sequence[int]) -> Standards:
        """Read the first sum."""
        general = total[:GENERAL]
        columns = (len(total) - GENERAL - 1) // 3
        sums, squares = total[GENERAL : GENERAL + 2 * columns].reshape(2, columns)
        rows, weight, y, yy, constant, exposure = general.tolist()
        if weight <= 0 or rows < 1:
            raise ValueError("no row of any site has a weight")
        centre = sums / weight
        variance = squares / weight - centre**2
        spread = np.sqrt(np.where(variance > CONSTANT * squares / weight, np.maximum(variance, 0.0), 0.0))
        spread[list(left_out)] = 0.0
        mean = y / weight
        middle, unit, start = 0.0, 1.0, 0.0
        if settings.family == "gaussian":
            middle = mean
            unit = math.sqrt(max(yy / weight - mean**2, 0.0)) or 1.0
        elif settings.family == "gamma":
            unit = mean
        elif settings.family == "poisson":
            start = math.log(y / exposure)
        else:
            start = math.log(mean / (1 - mean))
        return cls(
            centre=Array.of(centre),
            spread=Array.of(spread),
            rows=rows,
            weight=weight,
            middle=middle,
            unit=unit,
            start=start,
            constant=constant,
            mean=mean,
            determined=Array.of(np.rint(total[GENERAL + 2 * columns :])),
        )

    def standardised(self, rows: DesignRows, settings: RegressionSettings) -> DesignRows:
        """Return rows with standardised columns and outcome; constant columns, and those left out, become 0."""
        spread = self.spread.numpy()
        X = (rows.X - self.centre.numpy()) / np.where(spread > 0, spread, np.inf)
        y = (_without_offset(rows, settings) - self.middle) / self.unit
        offset = np.zeros(len(y)) if settings.family == "gaussian" else rows.offset
        return DesignRows(X, y, offset, rows.weights)

    def turned(self, settings: RegressionSettings) -> tuple[Floats, Floats]:
        """Return T and t, (1 + columns, 1 + columns) and (1 + columns,): coefficients of raw columns are T·b + t."""
        spread = self.spread.numpy()
        factor = self.unit if settings.family == "gaussian" else 1.0
        slopes = factor / np.where(spread > 0, spread, np.inf)
        T = np.diag(np.concatenate([[factor], slopes]))
        T[0, 1:] = -self.centre.numpy() * slopes
        t = np.zeros(len(T))
        t[0] = self.middle if settings.family == "gaussian" else 0.0
        if settings.family == "gamma":
            t[0] = math.log(self.unit)
        return T, t


@dataclass(frozen=True, eq=False)
class RowFit:
    """What a model says of rows: derivatives of each row's log likelihood, for a dispersion of 1."""

    mean: Floats
    residual: Floats
    """(rows,): the derivative by the linear predictor."""
    curvature: Floats
    """(rows,): minus the expected second derivative."""
    deviance: Floats
    pearson: Floats


def row_fit(y: Floats, eta: Floats, weights: Floats, family: str) -> RowFit:
    """Return mean, derivatives, deviance and squared Pearson residual of each row."""
    if family == "gaussian":
        away = y - eta
        return RowFit(eta, weights * away, weights, weights * away**2, weights * away**2)
    eta = np.clip(eta, -LARGEST_SCORE, LARGEST_SCORE)
    if family == "binomial":
        mean = expit(eta)
        spread = mean * (1 - mean)
        deviance = 2 * (np.logaddexp(0, eta) - y * eta)
        return RowFit(
            mean, weights * (y - mean), weights * spread, weights * deviance, weights * (y - mean) ** 2 / spread
        )
    mean = np.exp(eta)
    if family == "poisson":
        deviance = 2 * (xlogy(y, y / mean) - (y - mean))
        return RowFit(
            mean, weights * (y - mean), weights * mean, weights * deviance, weights * (y - mean) ** 2 / mean
        )
    ratio = y / mean
    deviance = 2 * (ratio - 1 - np.log(ratio))
    return RowFit(mean, weights * (ratio - 1), weights, weights * deviance, weights * (ratio - 1) ** 2)


def own_intercept(rows: DesignRows, scores: Floats, family: str) -> float | None:
    """Return the best intercept of one site for given scores; None where there is none, as all outcomes are alike."""
    w, y = rows.weights, rows.y
    if family == "gaussian":
        return float(w @ (y - scores) / w.sum()) if w.sum() > 0 else None
    if (family != "gamma" and not float(w @ y) > 0) or (family == "binomial" and float(w @ (1 - y)) <= 0):
        return None
    b = 0.0
    for _ in range(100):
        fit = row_fit(y, scores + b, w, family)
        step = min(max(float(fit.residual.sum() / max(fit.curvature.sum(), 1e-300)), -2.0), 2.0)
        b += step
        if abs(step) < 1e-12:
            break
    return b


@dataclass(frozen=True, eq=False)
class ScoreTerms:
    """Deviance, score and information at some coefficients, of one site or of all."""

    general: Floats
    """(`TERMS`,): the deviance; Pearson's χ²; Σ v of the rows' curvatures v, and Σ v²; and with site effects how many
    sites have an intercept, their weight, and their intercepts by weight."""
    score: Floats
    """(coefficients,)"""
    information: Floats
    """(coefficients, coefficients)"""

    def flat(self) -> Floats:
        """Write them as one vector; of the symmetric information the upper triangle."""
        upper = self.information[np.triu_indices(len(self.score))]
        return np.concatenate([self.general, self.score, upper])

    @classmethod
    def read(cls, flat: Floats, count: int) -> ScoreTerms:
        """Read them back."""
        general, score, upper = np.split(flat, [TERMS, TERMS + count])
        return cls(general, score, symmetric(upper, count))

    @property
    def deviance(self) -> float:
        """Minus twice the log likelihood, up to a constant, for a dispersion of 1."""
        return float(self.general[0])

    @property
    def pearson(self) -> float:
        """Pearson's χ²."""
        return float(self.general[1])

    @property
    def rests_on(self) -> float:
        """On how many rows the information rests: (Σ v)² / Σ v²."""
        total, squares = self.general[2:4].tolist()
        return float(total**2 / squares) if squares > 0 else 0.0

    @property
    def with_intercept(self) -> int:
        """How many sites have an intercept of their own."""
        return round(float(self.general[4]))

    @property
    def intercept(self) -> float:
        """The mean of the sites' own intercepts, by their weight."""
        return float(self.general[6] / self.general[5]) if self.general[5] > 0 else 0.0


def symmetric(upper: Floats, count: int) -> Floats:
    """Return a symmetric matrix from its upper triangle."""
    found = np.zeros((count, count))
    at = np.triu_indices(count)
    found[at] = upper
    found[at[1], at[0]] = upper
    return found


def terms_length(count: int) -> int:
    """Return how many numbers `ScoreTerms.flat` has."""
    return TERMS + count + count * (count + 1) // 2


def columns_told_apart(tables: Sequence[Any]) -> int:
    """Return how many columns of all sites' tables do not follow from the others and a constant."""
    whole = np.vstack([dense(table, "the table") for table in tables]).astype(np.float64)
    spread = whole.std(axis=0)
    whole = (whole - whole.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    return int((np.linalg.eigvalsh(whole.T @ whole / max(len(whole), 1)) > SAME_COLUMN).sum())


def too_few_rows(rows: float, count: int, floor: int) -> str:
    """Say why so many coefficients cannot be fitted from so few rows; "" where they can, or policies have no floors.

    Each step adds numbers of which every weighted sum is one over rows. With nearly as many numbers as rows, some of
    these sums would rest on few rows. Columns that follow from others, such as the last of a column's words, add none.
    """
    wanted = ROWS_PER_NUMBER * USUAL_STEPS * terms_length(count)
    if floor <= 1 or rows >= wanted:
        return ""
    return (
        f"{rows:,.0f} rows of all sites and {count} coefficients given; where policies have floors (min_rows), wanted "
        f"{wanted:,} rows, so that nothing that is summed rests on few: take fewer columns, or more sites"
    )


def site_terms(rows: DesignRows, b: Floats, settings: RegressionSettings, *, observed: bool = False) -> ScoreTerms:
    """Return a site's terms at coefficients of standardised columns: with site effects, of columns alone.

    ``observed``: with "gamma", the information that follows from the outcomes, by which steps converge sooner; that
    which is expected is the same at all coefficients. The other families have but one.

    With site effects the site's own intercept is where the likelihood is highest for b, and what it takes from the
    information is a Schur complement: the sums are those of the profile likelihood.
    """
    family = settings.family
    if settings.site_effects == "none":
        A = np.column_stack([np.ones(len(rows.X)), rows.X])
        fit = row_fit(rows.y, A @ b + rows.offset, rows.weights, family)
        v = fit.curvature + fit.residual if observed and family == "gamma" else fit.curvature
        general = np.array([fit.deviance.sum(), fit.pearson.sum(), v.sum(), v @ v, 0.0, 0.0, 0.0])
        return ScoreTerms(general, A.T @ fit.residual, (A.T * v) @ A)
    scores = rows.X @ b + rows.offset
    own = own_intercept(rows, scores, family)
    count = len(b)
    if own is None:
        return ScoreTerms(np.zeros(TERMS), np.zeros(count), np.zeros((count, count)))
    fit = row_fit(rows.y, scores + own, rows.weights, family)
    v = fit.curvature + fit.residual if observed and family == "gamma" else fit.curvature
    mixed = rows.X.T @ v
    information = (rows.X.T * v) @ rows.X - np.outer(mixed, mixed) / v.sum()
    weight = float(rows.weights.sum())
    general = np.array([fit.deviance.sum(), fit.pearson.sum(), v.sum(), v @ v, 1.0, weight, weight * own])
    return ScoreTerms(general, rows.X.T @ fit.residual, information)


def independent(information: Floats) -> Bools:
    """Return which coefficients the data determine, in order: a column that follows from those before does not."""
    size = np.sqrt(np.maximum(np.diag(information), 0.0))
    count = len(size)
    R = information / np.where(size > 0, size, np.inf)[:, None] / np.where(size > 0, size, np.inf)
    kept: list[int] = []
    L = np.zeros((count, count))
    for at in range(count):
        if size[at] == 0:
            continue
        for order, before in enumerate(kept):
            L[at, order] = (R[at, before] - L[at, :order] @ L[before, :order]) / L[before, order]
        left = R[at, at] - float(L[at] @ L[at])
        if left > COLLINEAR:
            L[at, len(kept)] = math.sqrt(left)
            kept.append(at)
    found = np.zeros(count, bool)
    found[kept] = True
    return found


class NewtonFit(msgspec.Struct, kw_only=True):
    """How far the fit has come; coordinator and sites follow it alike, from the same sums."""

    taken: int = 0
    """How many sums were taken, the first one included."""
    scale: Standards | None = None
    kept: Array | None = None
    """(coefficients,), 0 or 1: those that the data determine."""
    at: Array | None = None
    """(coefficients,): where the next sum is taken."""
    good: Array | None = None
    """Where the deviance was lowest."""
    step: Array | None = None
    terms: Array | None = None
    """The sum there (`ScoreTerms.flat`)."""
    first: Array | None = None
    """(coefficients,): the variances at the start."""
    at_start: Array | None = None
    """(coefficients, coefficients): the information at the start."""
    best: float = math.inf
    start_deviance: float = 0.0
    left: float = math.inf
    """By how much a whole step is expected to lower the deviance."""
    expected: float = 0.0
    """By how much the step that was taken is."""
    growing: int = 0
    """At how many steps in a row a variance was beyond all measure."""
    runaway: Array | None = None
    """(coefficients,), 0 or 1: those that grow without end."""
    finished: bool = False
    converged: bool = False
    squares: Array | None = None
    """The sum of products of the rows' scores."""
    between: Array | None = None
    """The sum that compares sites."""

    def begin(self, total: Floats, settings: RegressionSettings, left_out: Sequence[int]) -> None:
        """Take the first sum."""
        self.scale = Standards.read(total, settings, left_out)
        columns = self.scale.centre.shape[0]
        start = np.zeros(columns + (settings.site_effects == "none"))
        if settings.site_effects == "none":
            start[0] = self.scale.start
        self.at = self.good = Array.of(start)
        self.taken = 1

    def take(self, flat: Floats, settings: RegressionSettings, floor: int) -> None:
        """Take the sum of all sites' terms: a step, or half of the last one where that was too long.

        Where columns separate the outcome, ever fewer rows near the border make up the sums. So a fit ends before
        these rest on few: ``floor`` is how many rows policies want.
        """
        assert self.at is not None
        at = self.at.numpy()
        terms = ScoreTerms.read(flat, len(at))
        intercept = settings.site_effects == "none"
        penalty = np.full(len(at), settings.ridge)
        if intercept:
            penalty[0] = 0.0
        total = terms.deviance + float(penalty @ at**2)
        information = terms.information + np.diag(penalty)
        self.taken += 1
        if self.kept is None:
            self.kept = Array.of(independent(information).astype(np.uint8))
            self.start_deviance = terms.deviance
            self.at_start = Array.of(terms.information)
        kept = self.kept.numpy().astype(bool)
        wanted = self.best - ENOUGH * self.expected
        if self.best == math.inf or total <= wanted + 1e-9 * (abs(self.best) + 1):
            self.best = total
            self.good = self.at
            self.terms = Array.of(flat)
            score = (terms.score - penalty * at)[kept]
            some = information[np.ix_(kept, kept)]
            step = np.zeros(len(at))
            inverse = np.linalg.inv(some) if len(some) else some
            step[kept] = inverse @ score
            self.left = self.expected = float(score @ step[kept])
            variances = np.zeros(len(at))
            variances[kept] = np.maximum(np.diag(inverse), 0.0)
            if self.first is None:
                self.first = Array.of(variances)
                caution = self._caution(settings)
                step *= caution
                self.expected = self.left * caution
            grown = bool((variances > DIVERGED * self.first.numpy()).any())
            self.growing = self.growing + 1 if grown else 0
            self.converged = self.left <= settings.tolerance * max(1.0, abs(self.best))
            few = terms.rests_on < RESTS_ON * floor
            if (
                not self.converged
                and settings.family in ("binomial", "poisson")
                and (few or self.growing == GROWING)
            ):
                ratios = variances / np.where(self.first.numpy() > 0, self.first.numpy(), 1.0)
                self.runaway = Array.of((ratios >= min(SUSPECT, ratios.max() / 10)).astype(np.uint8))
                self.finished = True
        else:
            assert self.step is not None
            step = self.step.numpy() / 2
            self.expected /= 2
        assert self.good is not None
        self.step = Array.of(step)
        self.at = Array.of(self.good.numpy() + step)
        self.finished = self.finished or self.converged or self.taken > settings.n_rounds

    def _caution(self, settings: RegressionSettings) -> float:
        """Return how much of the first step is taken: where events are rare, it is too long for strong columns.

        So that it comes to what weighted least squares give from means (y + 1/2)/2, the usual start.
        """
        assert self.scale is not None
        mean = self.scale.mean
        return min(1.0, USUAL_START * mean * (1 - mean)) if settings.family == "binomial" else 1.0

    @property
    def coefficients(self) -> Floats:
        """The coefficients of standardised columns, with the last step where the fit has converged."""
        assert self.at is not None
        assert self.good is not None
        return self.at.numpy() if self.converged else self.good.numpy()


def squares_length(count: int) -> int:
    """Return how many numbers `row_squares` has."""
    wide = count + 3
    return wide * (wide + 1) // 2 + 2 * count + 2


def row_squares(
    rows: DesignRows,
    b: Floats,
    settings: RegressionSettings,
    at: int = -1,
    values: tuple[float, float] = (0.0, 0.0),
) -> Floats:
    """Return the sums of products of rows' scores, of the means had a column been 1, and 0, and their gradients.

    at: that column, -1 for none, of which the means are 0; values: what 1 and 0 are among its standardised numbers.
    """
    A = np.column_stack([np.ones(len(rows.X)), rows.X])
    count = A.shape[1]
    fit = row_fit(rows.y, A @ b + rows.offset, rows.weights, settings.family)
    stacked = np.zeros((len(A), count + 3))
    stacked[:, :count] = A * fit.residual[:, None]
    stacked[:, -1] = rows.weights
    gradients = np.zeros((2, count))
    means = np.zeros(2)
    for number, value in enumerate(values if at >= 0 else ()):
        B = A.copy()
        B[:, 1 + at] = value
        mean = row_fit(rows.y, B @ b + rows.offset, np.ones(len(B)), settings.family).mean
        stacked[:, count + number] = rows.weights * mean
        means[number] = rows.weights @ mean
        gradients[number] = (rows.weights * slope(mean, settings.family)) @ B
    products = stacked.T @ stacked
    return np.concatenate([products[np.triu_indices(len(products))], gradients.ravel(), means])


def slope(mean: Floats, family: str) -> Floats:
    """Return the derivative of the mean by the linear predictor."""
    if family == "binomial":
        return mean * (1 - mean)
    return np.ones(len(mean)) if family == "gaussian" else mean


def between_length(count: int) -> int:
    """Return how many numbers `between_sites` has."""
    return count * (count + 1) + 3 * count


def between_sites(terms: ScoreTerms, counted: Bools, own: Bools) -> Floats:
    """Return what a site adds to the sums that compare sites, from its score s and its information I.

    I and s·sᵀ at the end, for errors by site; and for each coefficient that enough sites' rows determine, ``counted``,
    and this site's ``own`` rows do, with the step d = I⁻¹s from the joint estimate to the site's and its weight
    w = 1/(I⁻¹)ⱼⱼ:
    w, w·d and w·d².
    """
    count = len(terms.score)
    upper = np.triu_indices(count)
    squares = terms.information[upper], np.outer(terms.score, terms.score)[upper]
    found = np.zeros((3, count))
    size = np.sqrt(np.maximum(np.diag(terms.information), 0.0))
    unit = np.where(size > 0, size, 1.0)
    inverse = np.linalg.pinv(terms.information / np.outer(unit, unit), rcond=1e-10, hermitian=True)
    inverse = inverse / np.outer(unit, unit)
    away = inverse @ terms.score
    variance = np.diag(inverse)
    use = counted & own & (variance > 0) & (size > 0)
    weight = np.where(use, 1 / np.where(use, variance, 1.0), 0.0)
    found[:] = weight, weight * away, weight * away**2
    return np.concatenate([*squares, found.ravel()])


def enough_sites(scale: Standards, count: int, least: int) -> Bools:
    """Return which coefficients enough sites' rows determine, (coefficients,)."""
    return np.asarray(scale.determined.numpy()[-count:] >= max(least, LEAST_SITES))


def places_left_out(
    names: Sequence[str], blocks: Sequence[Sequence[str]], reference: Sequence[str], treatment: str = ""
) -> Ints:
    """Return the places of reference columns: those named, or the first of each block, unless floors left one out.

    A treatment's column is none of them.

    Where floors left out words of a block, the others are compared to these. No block is left without a column.

    >>> places_left_out(["age", "arm = a", "arm = b"], [["arm = a", "arm = b"]], ()).tolist()
    [1]
    >>> places_left_out(["age", "arm = a", "arm = b"], [["arm = a", "arm = b"]], ["arm = b"]).tolist()
    [2]
    >>> places_left_out(["age", "arm = a", "arm = b"], [["arm = a", "arm = b"]], (), "arm = a").tolist()
    [2]
    >>> places_left_out(["age", "arm = a"], [["arm = a", "arm = b"]], ["arm = a"]).tolist()
    []
    """
    words = {word for block in blocks for word in block}
    found = [at for at, name in enumerate(names) if name in reference and name not in words]
    for block in blocks:
        present = [at for at, name in enumerate(names) if name in block]
        named = [at for at in present if names[at] in reference]
        if named and len(present) > len(named):
            found += named
        elif not named and len(present) == len(block) > 1:
            found.append(next(at for at in present if names[at] != treatment))
    return np.array(sorted(found), np.int64)


def as_floats(values: npt.ArrayLike) -> Floats:
    """Return values as numbers, NaN where they are none."""
    cells = np.asarray(values)
    if cells.dtype.kind in "biuf":
        return cells.astype(np.float64)
    found = np.full(cells.shape, np.nan)
    for at, cell in enumerate(cells.tolist()):
        try:
            found[at] = float(cell)
        except (TypeError, ValueError):
            continue
    return found
