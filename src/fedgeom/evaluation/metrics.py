"""Figures from counts: accuracy and its relatives, AUC from histograms, and how sure they are.

All of it follows from the counts that sites add up (`fedgeom.protocols.evaluation`), so that no row is needed.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import msgspec
import numpy as np

from fedgeom.arrays import Floats, Ints
from fedgeom.protocols.evaluation import UNIT, Tally, bin_chances

DRAWS = 1000
"""How often counts are drawn anew for an interval."""
MOST_DRAWN = 2 * 10**7
"""The most numbers that are drawn for one interval: with many classes, fewer draws."""
Z = 1.959963984540054
"""Of a normal distribution, 95 % lie within so many deviations."""


class Figure(msgspec.Struct, frozen=True):
    """A number, with an interval that holds the true one in 95 of 100 cases."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.3f} [{self.low:.3f}, {self.high:.3f}]"


def wilson(right: int, rows: int, worth: float = 1.0) -> Figure:
    """Return a share with Wilson's interval; ``worth`` is how many independent rows each row is worth (`row_worth`).

    >>> print(wilson(9, 10))
    0.900 [0.596, 0.982]
    """
    return _wilson(right / rows, worth * rows)


def _wilson(share: float, n: float) -> Figure:
    spread = Z**2 / n
    middle = (share + spread / 2) / (1 + spread)
    half = Z * math.sqrt(share * (1 - share) / n + spread / (4 * n)) / (1 + spread)
    return Figure(share, max(middle - half, 0.0), min(middle + half, 1.0))


def row_worth(found: Tally) -> float:
    """Return how many independent rows each test row is worth, where rows come in groups such as patients: 1 at most.

    It is the variance of the share of right rows, were rows drawn one by one, divided by its variance where groups are
    drawn (that of a ratio of sums over groups), with Student's t for their number. Where all or no rows are right, rows
    of a group are taken to be alike.
    """
    if found.groups is None or not found.rows or found.groups[0] < 1:
        return 1.0
    from scipy.stats import t  # half a second, and only where rows have groups

    count, rr, rn, nn = (float(number) for number in found.groups)
    share = found.right / found.rows
    alike = found.rows / nn
    if count < 2:
        return 1 / found.rows
    between = (rr - 2 * share * rn + share**2 * nn) / found.rows**2 * count / (count - 1)
    alone = share * (1 - share) / found.rows
    worth = min(alone / between, 1.0) if between > 0 and alone > 0 else 1.0 if alone > 0 else alike
    return max(worth, alike) * (Z / float(t.ppf(0.975, count - 1))) ** 2


def recalls(confusion: Ints) -> Floats:
    """Return the share of each class's rows that are given it; NaN for a class without rows.

    confusion (…, classes + 1, classes + 1); returns (…, classes), f8.
    """
    return _ratio(_diagonal(confusion), confusion.sum(axis=-1)[..., :-1])


def precisions(confusion: Ints) -> Floats:
    """Return the share of the rows given a class that have it; NaN for a class that is never given."""
    return _ratio(_diagonal(confusion), confusion.sum(axis=-2)[..., :-1])


def f1_scores(confusion: Ints) -> Floats:
    """Return 2·hits/(rows of the class + rows given it); NaN for a class that no row has and none is given."""
    both = confusion.sum(axis=-1)[..., :-1] + confusion.sum(axis=-2)[..., :-1]
    return _ratio(2 * _diagonal(confusion), both)


def balanced_accuracy(confusion: Ints) -> Floats:
    """Return the mean recall of the classes that have rows."""
    return _mean(recalls(confusion))


def macro_f1(confusion: Ints) -> Floats:
    """Return the mean F1 of the classes that rows have or are given."""
    return _mean(f1_scores(confusion))


def auc(scores: Ints) -> Floats:
    """Return the chance that a row of the second class has a higher score than one of the first; ties count half.

    scores (…, 2, bins): rows by class and bin of their score; returns (…), f8, NaN where a class has no rows.
    """
    first = scores[..., 0, :].astype(float)
    second = scores[..., 1, :].astype(float)
    below = np.cumsum(first, axis=-1) - first
    wins = (second * (below + first / 2)).sum(axis=-1)
    return _ratio(wins, first.sum(axis=-1) * second.sum(axis=-1))


def auc_error(scores: Ints) -> float:
    """Return how far the AUC from a histogram may be from that of the scores: half of the pairs that share a bin."""
    first, second = scores.astype(float)
    return float(_ratio((first * second).sum() / 2, first.sum() * second.sum()))


def score(found: Tally, seed: int = 0, worth: float | None = None) -> dict[str, Figure]:
    """Return accuracy, balanced accuracy, macro-F1 and, for two classes, AUC, each with its interval.

    Wilson's for accuracy; for the others the counts are drawn anew, seeded. Where rows come in groups, both are as of
    so many rows fewer as they are worth (`row_worth`), or as ``worth`` says. What cannot be said is not there.
    """
    worth = row_worth(found) if worth is None else worth
    if not found.rows:
        return {}
    rng = np.random.default_rng(seed)
    shape = found.confusion.shape
    draws = max(50, min(DRAWS, MOST_DRAWN // found.confusion.size))
    n = max(round(worth * found.rows), 2) if worth < 1 else found.rows
    cells = rng.multinomial(n, found.confusion.ravel() / found.rows, size=draws).reshape(draws, *shape)
    figures = {"accuracy": wilson(found.right, found.rows, worth)}
    figures |= _drawn("balanced_accuracy", balanced_accuracy, found.confusion, cells)
    figures |= _drawn("macro_f1", macro_f1, found.confusion, cells)
    if found.neighbours > 1:
        figures |= within_sites(found, worth)
    elif found.scores is not None and found.scores.sum(axis=1).all():
        rows = found.scores.sum(axis=1)
        some = np.asarray(found.scores.any(axis=0))  # what is drawn anew falls into bins that have rows
        some[-1] = True  # the last bin gets what is left over: with it, the same is drawn as from all bins
        bins = found.scores[:, some]
        drawn = [max(round(worth * n), 1) if worth < 1 else n for n in rows.tolist()]
        again = [
            rng.multinomial(fewer, one / n, size=draws) for fewer, n, one in zip(drawn, rows, bins, strict=True)
        ]
        figures |= _drawn("auc", auc, bins, np.stack(again, axis=1))
    return figures


def within_sites(found: Tally, worth: float = 1.0) -> dict[str, Figure]:
    """Return the mean AUC of the sites; the interval is Wilson's for as many rows as have its variance.

    Sites are weighted by the rows of both classes, m·n/(m + n). Nothing where no site has enough rows of both.
    """
    assert found.within is not None
    weight, wins, spread = (float(number) * UNIT for number in found.within[2:])
    if weight <= 0:
        return {}
    value = min(max(wins / weight, 0.0), 1.0)
    variance = spread / weight**2 / worth
    n = value * (1 - value) / variance if variance > 0 and 0 < value < 1 else worth * weight
    return {"auc": _wilson(value, n)}


class CalibrationBin(msgspec.Struct, frozen=True, kw_only=True):
    """Test rows with neighbouring probabilities of the second class: what was said, and what came."""

    rows: int
    predicted: float
    """The mean probability."""
    observed: Figure
    """The share of rows that have the second class."""


class ThresholdFigures(msgspec.Struct, frozen=True, kw_only=True):
    """What follows if rows are called by the second class from a probability on."""

    threshold: float
    called: float
    """The share of rows that are called so."""
    sensitivity: Figure
    """Of the rows that have the second class, the share that is called so."""
    specificity: Figure
    """Of the rows that have the first class, the share that is not."""
    ppv: Figure | None = None
    """Of the rows that are called so, the share that has the second class."""
    npv: Figure | None = None
    """Of the other rows, the share that has the first class."""


CALIBRATION_BINS = 10
LEAST_IN_BIN = 10
THRESHOLDS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
GROUPS_PER_SITE = 4
"""Where scores are means of neighbours, sites must have so many groups on average: fewer blur thresholds too much."""


def has_probabilities(found: Tally) -> bool:
    """Return whether the counts say how probabilities fare: of two classes, with enough rows at each site."""
    if found.scores is None or not found.scores.sum(axis=1).all():
        return False
    groups = found.scores.sum() / found.neighbours
    sites = int(found.within[0]) if found.within is not None else 0
    return bool(groups >= GROUPS_PER_SITE * sites)


def calibration(found: Tally, worth: float = 1.0) -> list[CalibrationBin]:
    """Return up to ten bins of as many rows each, by probability: nothing where `has_probabilities` says no."""
    if not has_probabilities(found) or found.scores is None:
        return []
    middle = bin_chances()[0]
    rows = found.scores.sum(axis=0)
    wanted = max(float(rows.sum()) / CALIBRATION_BINS, LEAST_IN_BIN)
    made: list[tuple[int, int, float]] = []
    count, second, said = 0, 0, 0.0
    left = int(rows.sum())
    for at in np.flatnonzero(rows).tolist():
        count += int(rows[at])
        left -= int(rows[at])
        second += int(found.scores[1, at])
        said += float(rows[at] * middle[at])
        if (count >= wanted and left >= LEAST_IN_BIN) or not left:
            made.append((count, second, said))
            count, second, said = 0, 0, 0.0
    return [
        CalibrationBin(rows=n, predicted=chance / n, observed=_wilson(hits / n, worth * n))
        for n, hits, chance in made
    ]


def thresholds(found: Tally, worth: float = 1.0) -> list[ThresholdFigures]:
    """Return sensitivity, specificity and predictive values at the ends of bins next to `THRESHOLDS`."""
    if not has_probabilities(found) or found.scores is None:
        return []
    ends = bin_chances()[1]
    made = []
    for wanted in THRESHOLDS:
        at = int(np.abs(ends[:-1] - wanted).argmin())
        (true_negative, missed), (false_positive, hit) = (
            found.scores[:, : at + 1].sum(axis=1).tolist(),
            found.scores[:, at + 1 :].sum(axis=1).tolist(),
        )
        called = hit + false_positive
        rest = missed + true_negative
        made.append(
            ThresholdFigures(
                threshold=float(ends[at]),
                called=called / (called + rest),
                sensitivity=_wilson(hit / (hit + missed), worth * (hit + missed)),
                specificity=_wilson(
                    true_negative / (true_negative + false_positive), worth * (true_negative + false_positive)
                ),
                ppv=_wilson(hit / called, worth * called) if called >= LEAST_IN_BIN else None,
                npv=_wilson(true_negative / rest, worth * rest) if rest >= LEAST_IN_BIN else None,
            )
        )
    return made


def _drawn(name: str, figure: Callable[[Ints], Floats], counts: Ints, again: Ints) -> dict[str, Figure]:
    value = float(figure(counts))
    if math.isnan(value):
        return {}
    low, high = np.nanquantile(figure(again), [0.025, 0.975])
    return {name: Figure(value, min(float(low), value), max(float(high), value))}


def _diagonal(confusion: Ints) -> Ints:
    return np.asarray(np.diagonal(confusion, axis1=-2, axis2=-1)[..., :-1])


def _ratio(above: Floats | Ints, below: Floats | Ints) -> Floats:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.where(np.asarray(below) > 0, above / np.asarray(below, float), np.nan))


def _mean(values: Floats) -> Floats:
    known = ~np.isnan(values)
    return _ratio(np.where(known, values, 0.0).sum(axis=-1), known.sum(axis=-1))
