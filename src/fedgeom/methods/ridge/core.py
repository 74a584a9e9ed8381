"""From sums to a ridge classifier: what the coordinator computes, and what sites check.

With features scaled to unit mean square, targets ±1 and an intercept that is not held back,

    (Gᶜ + λ S²) w = bᶜ,  S² = diag(ΦᵀΦ)/n,

where Gᶜ and bᶜ are centred. That is scikit-learn's ``RidgeClassifier(alpha=λ)`` on Φ/S. Weights here are those of Φ
itself.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from fedgeom.arrays import Floats, Ints, Words, many_zeros
from fedgeom.errors import InputError
from fedgeom.protocols.fixed_point import from_fixed

Rows = tuple[int, int]
"""The first row of a part, and the one after its last."""

_BLOCK = 2048
_PANEL = 512


def starts(features: int, classes: int) -> Ints:
    """Return where each row begins in the whole vector, and at the end how long it is: (features + 2,)."""
    lengths = features + 1 - np.arange(features + 1) + classes
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)


def cuts(features: int, classes: int, part: int) -> list[Rows]:
    """Divide the rows into parts of at most ``part`` numbers each.

    >>> cuts(3, 2, 11)
    [(0, 2), (2, 4)]
    """
    at = starts(features, classes)
    found = []
    first = 0
    while first <= features:
        last = int(np.searchsorted(at, at[first] + part, side="right")) - 1
        last = max(last, first + 1)
        found.append((first, last))
        first = last
    return found


def fraction_bits(rows: float, mean_square: float, sites: int, heaviest: float = 1.0) -> int:
    """Return how many binary digits after the point the sum can have.

    By Cauchy and Schwarz no entry exceeds ``rows · mean_square · heaviest``; a factor of four is kept for rounding.
    """
    bound = max(rows * max(mean_square, 1.0) * heaviest * max(sites, 1), 1.0)
    return min(60 - math.ceil(math.log2(bound)), 44)


def packed_gram(
    features: Callable[[slice], npt.NDArray[Any]],
    codes: Ints,
    classes: int,
    width: int,
    weights: Floats | None = None,
) -> Floats:
    """Return this site's sums, all rows one after the other, f8.

    ``features(rows)`` gives the features of a range of rows, codes (n,) their classes, weights (classes,) what each row
    of a class counts. Products are summed over 2,048 rows at most in the features' own precision, and these sums in
    double: in single precision a sum is then off by 10⁻⁶ of what it could be at most (Cauchy and Schwarz).
    """
    at = starts(width, classes)
    total = many_zeros(int(at[-1]))
    room = np.empty(0)
    for block in _blocks(len(codes)):
        found = features(block)
        Y = np.zeros((len(found), classes), found.dtype)
        Y[np.arange(len(found)), codes[block]] = 1 if weights is None else weights[codes[block]]
        left = found if weights is None else found * Y.sum(axis=1, keepdims=True)
        sums = left.sum(axis=0, dtype=np.float64)
        total[: at[1]] += np.concatenate([[Y.sum(dtype=np.float64)], sums, Y.sum(axis=0, dtype=np.float64)])
        if room.dtype != found.dtype or not room.size:  # one for all: the system has to clear fresh memory
            room = np.empty((min(_PANEL, width), width), found.dtype)
        for first in range(0, width, _PANEL):
            last = min(first + _PANEL, width)
            own = left[:, first:last].T
            ties = found[:, first:last].T @ Y
            products = room[: last - first, : width - first]
            # Without weights, the first of these takes half the work of a product of two matrices.
            np.matmul(own, found[:, first:last], out=products[:, : last - first])
            np.matmul(own, found[:, last:], out=products[:, last - first :])
            for one in range(last - first):
                begin = at[first + one + 1]
                end = at[first + one + 2]
                total[begin : end - classes] += products[one, one:]
                total[end - classes : end] += ties[one]
    return total


def _blocks(rows: int) -> Iterator[slice]:
    return (slice(first, min(first + _BLOCK, rows)) for first in range(0, rows, _BLOCK))


def lines(
    vector: Floats, rows: Rows, features: int, classes: int
) -> Iterator[tuple[int, npt.NDArray[np.float64], npt.NDArray[np.float64]]]:
    """Yield each row of a part: its number, its products with itself and all later features, its ties to classes."""
    at = starts(features, classes)[rows[0] : rows[1] + 1]
    at = at - at[0]
    for row, (begin, end) in enumerate(zip(at[:-1].tolist(), at[1:].tolist(), strict=True), start=rows[0]):
        yield row, vector[begin : end - classes], vector[end - classes : end]


def trapezoid(vector: Floats, rows: Rows, features: int, classes: int) -> tuple[Floats, Floats]:
    """Return a part as a matrix over columns from its first row on, zeros below the diagonal, and its ties to classes.

    Returns (rows, features + 1 - first) and (rows, classes), f8.
    """
    first, last = rows
    gram = np.zeros((last - first, features + 1 - first))
    ties = np.empty((last - first, classes))
    for row, line, some in lines(vector, rows, features, classes):
        gram[row - first, row - first :] = line
        ties[row - first] = some
    return gram, ties


def fold_numbers(X: npt.NDArray[Any], folds: int) -> Ints:
    """Deal rows to folds by a checksum of what is in them: the same wherever a row is, and for rows that are alike.

    X (n, columns) of any dtype; returns (n,).
    """
    factors = _mixed(np.arange(1, X.shape[1] + 1, dtype=np.uint64))
    found = np.empty(len(X), np.uint64)
    for some in _blocks(len(X)):
        bits = (np.asarray(X[some], np.float64) + 0.0).view(np.uint64)  # -0.0 becomes 0.0
        found[some] = _mixed(np.add.reduce(bits * factors, axis=1, dtype=np.uint64))
    return (found % np.uint64(folds)).astype(np.int64)


def _mixed(words: Words) -> Words:
    """Return words whose every bit depends on all bits of those given (the last step of splitmix64), u8."""
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        words = (words ^ (words >> np.uint64(shift))) * np.uint64(factor)
    return words ^ (words >> np.uint64(31))


LEAST_LOG = -700.0
"""The logarithm of the share of a class that no row has."""


def summed_scores(
    vector: Floats | Words, rows: Rows, weights: Floats, bits: int | None = None
) -> tuple[Floats, Floats]:
    """Return what a part of the sums adds to the summed scores of each class, (classes, classes), and to their sizes.

    vector is the part, of these rows, in fixed point where ``bits`` are its digits; weights (features + 1, classes) are
    the ridge's.
    """
    first, last = rows
    wide, classes = weights.shape
    at = starts(wide - 1, classes)[first : last + 1]
    ties: Any = np.array([vector[end - at[0] - classes : end - at[0]] for end in at[1:].tolist()])
    ties = ties if bits is None else from_fixed(ties, fraction_bits=bits)
    return ties.T @ weights[first:last], ties[0] if first == 0 else np.zeros(classes)


def turn(scores: Floats, sizes: Floats, freedom: float) -> Floats:
    """Return what turns ridge scores into discriminants, (classes + 1, classes): constants, then K.

    scores (classes, classes) are each class's rows' scores added up, sizes (classes,) how much its rows count.
    """
    rows = max(float(sizes.sum()), 1e-300)
    share = min(freedom / rows, 0.9)
    present = sizes > 0
    classes = len(sizes)
    prior = np.where(present, sizes / rows, 1.0)
    mean = np.where(present[:, None], scores / np.where(present, sizes, 1.0)[:, None], 0.0)
    fresh = np.where(present[:, None], (mean - share * (2 * np.eye(classes) - 1)) / (1 - share), 0.0)
    middle = (sizes / rows) @ fresh
    spread = np.where(present[:, None], (fresh - middle) / 2, 0.0)
    K = np.linalg.inv(np.eye(classes) - spread) / (2 * prior)
    K[:, ~present] = 0.0
    logs = np.where(present, np.log(prior), LEAST_LOG)
    return np.vstack([logs - np.diag(spread @ K) - middle @ K, K])


def turn_of(vectors: Sequence[Floats], parts: Sequence[Rows], weights: Floats, freedom: float) -> Floats:
    """Return what turns the scores of a ridge into discriminants, from all parts of its sums."""
    scores = np.zeros((weights.shape[1],) * 2)
    sizes = np.zeros(weights.shape[1])
    for vector, rows in zip(vectors, parts, strict=True):
        more, counted = summed_scores(vector, rows, weights)
        scores = scores + more
        sizes = sizes + counted
    return turn(scores, sizes, freedom)


def turned_scores(scores: Floats, by: Floats | None) -> Floats:
    """Return discriminants from the scores of a ridge, (rows, classes); with nothing to turn by, the scores."""
    return scores if by is None else scores @ by[1:] + by[0]


def turned(weights: Floats, by: Floats | None) -> Floats:
    """Return weights whose scores are turned, (features + 1, classes); without anything to turn by, as they are."""
    if by is None:
        return weights
    found = weights @ by[1:]
    found[0] += by[0]
    return found


GRID: tuple[float, ...] = tuple(10.0 ** (step / 2) for step in range(-8, 13))
"""The λ among which one is chosen, 10⁻⁴ to 10⁶."""
_START = 10
_COARSE = 4
LEAST_LEFT = 0.05
"""What share of the rows must be left as degrees of freedom of the residuals."""
TEMPERATURES = tuple(10.0 ** (step / 12) for step in range(-30, 13))
"""The temperatures among which one is chosen, some 0.003 to 10."""


@dataclass(frozen=True)
class Solution:
    """The ridge of all sites' rows."""

    weights: Floats
    """(features + 1, classes), f8: the intercepts, and the weights of the features as they are."""
    alpha: float
    freedom: float
    """How many parameters the fit really has: the trace of the matrix that takes targets to fitted values."""
    scale: Floats
    """(features,), f8: the root of each feature's mean square; 1 for features that are always 0."""


@dataclass(frozen=True, eq=False)
class System:
    """The centred and scaled equations of some rows."""

    gram: Floats
    """(features, features), f8: the lower triangle; above it are zeros."""
    ties: Floats
    """(features, classes), f8"""
    rows: float
    sums: Floats
    """(features,), f8: of the features."""
    targets: Floats
    """(classes,), f8: sums of the targets."""
    scale: Floats
    """(features,), f8: the root of each feature's mean square."""
    fits: dict[float, tuple[Floats, float]] = field(default_factory=dict)
    """What `fit` found, by λ: the one that is chosen was tried before."""

    @classmethod
    def of(
        cls,
        vectors: Sequence[Floats],
        parts: Sequence[Rows],
        features: int,
        classes: int,
        scale: Floats | None = None,
    ) -> System:
        """Put the parts of a sum together; several times the same part is added up (folds).

        ``scale`` is given where it is that of other rows too.
        """
        first_row = np.zeros(features + 1)
        ties = np.zeros((features + 1, classes))
        inner = many_zeros((features, features), order="F")  # LAPACK's order: a row of the sum is a column of this
        for vector, (first, last) in zip(vectors, parts, strict=True):
            for row, line, some in lines(vector, (first, last), features, classes):
                (inner[row - 1 :, row - 1] if row else first_row)[...] += line
                ties[row] += some
        rows = max(float(first_row[0]), 1e-300)
        sums = first_row[1:]
        targets = 2 * ties[0] - rows
        signed = 2 * ties[1:] - sums[:, None]
        root = np.sqrt(np.maximum(np.diag(inner), 0.0) / rows)
        scale = np.where(root > 0, root, 1.0) if scale is None else scale
        shares = sums / rows
        for at in range(features):  # column by column, which stays in the processor's cache
            column = inner[at:, at]
            column -= sums[at:] * shares[at]
            column /= scale[at:]
            column /= scale[at]
        return cls(inner, (signed - np.outer(sums, targets / rows)) / scale[:, None], rows, sums, targets, scale)

    def fit(self, alpha: float, *, last: bool = False) -> tuple[Floats, float]:
        """Return the weights of scaled features, (features, classes), and the trace of (G + λ)⁻¹; raise LinAlgError.

        ``last``: the equations are not needed any more and are written over.
        """
        from scipy.linalg.lapack import dpotrf, dpotrs, dtrtri  # slow to import

        if alpha in self.fits:
            return self.fits[alpha]
        held = self.gram if last else self.gram.copy(order="F")
        held[np.diag_indices(len(held))] += alpha
        factor, failed = dpotrf(held, lower=1, clean=0, overwrite_a=1)  # above the diagonal are zeros already
        if failed:
            raise np.linalg.LinAlgError(f"no Cholesky factor with alpha={alpha:g}")
        found, _ = dpotrs(factor, self.ties, lower=1)
        inverse, failed = dtrtri(factor, lower=1, overwrite_c=1)
        if failed:
            raise np.linalg.LinAlgError(f"no inverse with alpha={alpha:g}")
        self.fits[alpha] = found, float(np.einsum("ij,ij->", inverse, inverse))
        return self.fits[alpha]

    def residual(self, found: Floats) -> float:
        """Return the sum of squared residuals of weights of scaled features, over all classes, after centring."""
        from scipy.linalg.blas import dsymm  # slow to import

        whole = float(self.rows * self.ties.shape[1]) - float((self.targets**2).sum()) / self.rows
        product = dsymm(1.0, self.gram, np.asfortranarray(found), lower=1)
        return whole + float((found * (product - 2 * self.ties)).sum())

    def solution(self, alpha: float, *, last: bool = False) -> Solution:
        """Return the ridge with this λ; ``last``: the equations are not needed any more and are written over."""
        try:
            found, trace = self.fit(alpha, last=last)
        except np.linalg.LinAlgError as error:
            raise InputError(
                f"alpha={alpha:g} given; the features are too much alike for it: take a larger one"
            ) from error
        weights = found / self.scale[:, None]
        intercept = (self.targets - self.sums @ weights) / self.rows
        freedom = 1.0 + len(found) - alpha * trace
        return Solution(np.ascontiguousarray(np.vstack([intercept, weights])), alpha, freedom, self.scale)

    def gcv(self, alpha: float) -> float:
        """Return the generalised cross-validation score, n·RSS/(n - freedom)².

        It is infinite where a fit has nearly as much freedom as there are rows: there both go to zero, and rounding
        would decide.
        """
        try:
            found, trace = self.fit(alpha)
        except np.linalg.LinAlgError:
            return math.inf
        left = self.rows - (1.0 + len(found) - alpha * trace)
        return float(self.rows * self.residual(found) / left**2) if left > LEAST_LEFT * self.rows else math.inf


def choose(score: Callable[[float], float]) -> float:
    """Return the λ of the grid with the lowest score: from 10 on, every fourth while it is better, then neighbours.

    Scores are compared to four digits, and of equal ones the largest λ is taken: rounding then decides nothing.
    """
    known: dict[int, tuple[float, int]] = {}

    def at(place: int) -> tuple[float, int]:
        if place not in known:
            known[place] = (float(f"{score(GRID[place]):.3e}"), -place)
        return known[place]

    best = _START if math.isfinite(at(_START)[0]) else min(range(0, len(GRID), _COARSE), key=at)
    for step in (_COARSE, 1):
        while (better := min({best, max(best - step, 0), min(best + step, len(GRID) - 1)}, key=at)) != best:
            best = better
    if math.isinf(at(best)[0]):
        raise InputError(
            "no alpha fits these sums: there are fewer rows than the features need; give alpha as a number"
        )
    return GRID[best]


def held_out(systems: Sequence[System], alpha: float) -> float:
    """Return the squared error on each fold of the ridge of the others, added up; two folds: systems (2,)."""
    total = 0.0
    for learnt, other in ((systems[0], systems[1]), (systems[1], systems[0])):
        try:
            found, _ = learnt.fit(alpha)
        except np.linalg.LinAlgError:
            return math.inf
        intercept = (learnt.targets - learnt.sums @ (found / learnt.scale[:, None])) / learnt.rows
        there = (other.targets - other.sums @ (found / other.scale[:, None])) / other.rows
        total += other.residual(found) + other.rows * float(((intercept - there) ** 2).sum())
    return total


def solve(
    vectors: Sequence[Floats], parts: Sequence[Rows], features: int, classes: int, alpha: float | str
) -> Solution:
    """Return the ridge of all rows; λ as the settings say."""
    whole = System.of(vectors, parts, features, classes)
    if alpha == "gcv":
        return whole.solution(choose(whole.gcv), last=True)
    if alpha == "folds":
        half = len(parts) // 2
        folds = [
            System.of(vectors[some], parts[some], features, classes, whole.scale)
            for some in (slice(half), slice(half, None))
        ]
        return whole.solution(choose(lambda one: held_out(folds, one)), last=True)
    return whole.solution(float(alpha), last=True)


def class_weights(counts: Floats) -> Floats:
    """Return what a row of each class counts so that all classes count the same: (classes,); 0 where none has any."""
    present = counts > 0
    return np.where(present, counts.sum() / (max(int(present.sum()), 1) * np.where(present, counts, 1.0)), 0.0)


def calibration_nll(
    scores: Floats, codes: Ints, freedom: float, rows: float, by: Floats | None = None, least: int = 1
) -> Floats:
    """Return the summed negative log-probabilities of the rows' classes at each temperature, (temperatures,).

    scores (n, classes) are those of the ridge, codes (n,); ``by`` is what turns scores into discriminants. A row that
    was learnt from is nearer to its target than a new one would be. Left out, its score would be (s - h·y)/(1 - h),
    where h is its leverage; the mean leverage, freedom ÷ rows, stands for it, as in generalised cross-validation.

    Where policies have floors, each row has the mean scores of at least ``least`` neighbours in its place
    (`neighbours_means`), and to the rows of all sites one comes that is called as wrongly as the mean row is called
    rightly: with groups in which nobody is called wrongly, no temperature would be too small.
    """
    share = min(freedom / max(rows, 1.0), 0.9)
    targets = np.full(scores.shape, -1.0)
    targets[np.arange(len(scores)), codes] = 1.0
    fresh = (scores - share * targets) / (1 - share)
    fresh = turned_scores(fresh, by)
    if least > 1:
        behind = neighbours_means(_behind(fresh, codes), least)
        mirrored = -behind[:, :1].mean(axis=0, keepdims=True) if len(behind) else np.zeros((0, 1))
        return _nll(behind) + len(behind) / max(rows, 1.0) * _nll(mirrored)
    fresh = fresh - fresh.max(axis=1, keepdims=True)
    own = fresh[np.arange(len(fresh)), codes]
    found = [np.log(np.exp(fresh / t).sum(axis=1)).sum() - own.sum() / t for t in TEMPERATURES]
    return np.array(found)


def _behind(scores: Floats, codes: Ints) -> Floats:
    """Return by how much a row's class is behind each other class, the one that is most ahead first.

    scores (n, classes), codes (n,); returns (n, classes - 1), each row falling.
    """
    places = np.arange(len(scores))
    found = scores - scores[places, codes][:, None]
    found[places, codes] = -np.inf
    return np.asarray(-np.sort(-found, axis=1)[:, :-1])


def neighbours_means(behind: Floats, least: int) -> Floats:
    """Put in each row's place the mean of a group of at least so many neighbours (microaggregation).

    Rows are in order of their first number, the largest first; rows of a table with fewer than ``least`` are in no
    group and left out.
    """
    ordered = behind[np.argsort(-behind[:, 0], kind="stable")]
    first, sizes = neighbour_groups(len(behind), least)
    if not len(first):
        return behind[:0]
    means = np.add.reduceat(ordered, first, axis=0) / sizes[:, None]
    return np.asarray(np.repeat(means, sizes, axis=0))


def neighbour_groups(rows: int, least: int) -> tuple[Ints, Ints]:
    """Return where groups of at least so many rows begin, and how many each has: the last has what is left over."""
    first = least * np.arange(rows // least)
    return first, np.diff(np.append(first, rows)) if len(first) else first


def _nll(behind: Floats) -> Floats:
    """Return the negative log-probabilities of classes that are behind by so much, added up, (temperatures,)."""
    most = np.maximum(behind.max(axis=1, initial=0.0), 0.0)[:, None]
    return np.array(
        [
            (most / t + np.log(np.exp(-most / t) + np.exp((behind - most) / t).sum(axis=1, keepdims=True))).sum()
            for t in TEMPERATURES
        ]
    )


UNKNOWN = TEMPERATURES[24]
"""The temperature where no site has rows enough to try some on: that of a usual ridge, some 0.3."""


def best_temperature(nll: Floats) -> float:
    """Return the temperature with the least negative log-likelihood, (temperatures,) over all sites."""
    return float(TEMPERATURES[int(np.argmin(nll))] if nll.any() else UNKNOWN)
