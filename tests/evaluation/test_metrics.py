"""Figures from counts are those that scikit-learn has from rows."""

from __future__ import annotations

import math

import numpy as np
import pytest
from sklearn import metrics as wanted

from fedgeom.evaluation import metrics
from fedgeom.protocols.evaluation import BINS, Tally, score_bins, summed, tally
from tests.evaluation.counting import counts


def drawn(classes: int, rows: int, seed: int) -> tuple[np.ndarray, np.ndarray, Tally]:
    rng = np.random.default_rng(seed)
    true, said = rng.integers(0, classes, rows), rng.integers(0, classes + 1, rows)
    return true, said, tally(said.astype(str), true.astype(str), said, true, classes)


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize(("classes", "rows"), [(2, 30), (5, 200), (12, 40)])
def test_they_are_scikit_learns(classes, rows, seed):
    true, said, found = drawn(classes, rows, seed)
    labels, confusion = list(range(classes)), found.confusion
    present = sorted({*true.tolist(), *(set(said.tolist()) - {classes})})
    assert metrics.score(found)["accuracy"].value == wanted.accuracy_score(true, said)
    with np.errstate(all="ignore"):
        each = wanted.recall_score(true, said, labels=labels, average=None, zero_division=np.nan)
    assert np.array_equal(metrics.recalls(confusion), each, equal_nan=True)
    each = wanted.precision_score(true, said, labels=labels, average=None, zero_division=np.nan)
    assert np.array_equal(metrics.precisions(confusion), each, equal_nan=True)
    macro = wanted.f1_score(true, said, labels=present, average="macro", zero_division=0)
    assert metrics.macro_f1(confusion) == pytest.approx(macro)
    known = np.isin(labels, true)
    assert metrics.balanced_accuracy(confusion) == pytest.approx(np.nanmean(metrics.recalls(confusion)[known]))


def test_balanced_accuracy_is_scikit_learns_where_every_word_is_known():
    rng = np.random.default_rng(0)
    true, said = rng.integers(0, 3, 50), rng.integers(0, 3, 50)
    found = tally(said.astype(str), true.astype(str), said, true, 3)
    assert metrics.balanced_accuracy(found.confusion) == pytest.approx(wanted.balanced_accuracy_score(true, said))


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("scale", [0.05, 1.0, 40.0])
def test_auc_from_bins_is_within_its_bound(seed, scale):
    rng = np.random.default_rng(seed)
    true = rng.integers(0, 2, 400)
    odds = scale * (rng.normal(size=400) + true)
    histogram = score_bins(odds, true == 1)
    exact, error = wanted.roc_auc_score(true, odds), metrics.auc_error(histogram)
    assert abs(float(metrics.auc(histogram)) - exact) <= error + 1e-12
    assert error < 0.02 or scale == 0.05


def test_by_hand():
    own = counts().models["own"]
    found = metrics.score(own)
    assert found["accuracy"].value == 14 / 20
    assert found["balanced_accuracy"].value == pytest.approx((9 / 12 + 5 / 8) / 2)
    assert found["macro_f1"].value == pytest.approx((18 / 23 + 10 / 16) / 2)
    assert found["auc"].value == pytest.approx((9 * 5 + (9 * 2 + 3 * 5) / 2) / (12 * 7))


def test_intervals_are_seeded_hold_the_value_and_narrow_with_rows():
    own = counts().models["own"]
    many = Tally(100 * own.right, 100 * own.confusion, 100 * own.scores)
    small, large = metrics.score(own, 1), metrics.score(many, 1)
    assert small == metrics.score(own, 1)
    assert small["macro_f1"] != metrics.score(own, 2)["macro_f1"]
    for name, one in small.items():
        assert one.low <= one.value <= one.high
        assert large[name].high - large[name].low < 0.3 * (one.high - one.low)


@pytest.mark.parametrize(("right", "rows"), [(0, 5), (9, 10), (50, 100), (100, 100)])
def test_wilson(right, rows):
    """It is where the distance to the share is 1.96 deviations of the bound itself."""
    found = metrics.wilson(right, rows)
    for bound in (found.low, found.high):
        if 0 < bound < 1:
            gap = abs(found.value - bound) / math.sqrt(bound * (1 - bound) / rows)
            assert gap == pytest.approx(metrics.Z)
    assert 0 <= found.low <= found.value <= found.high <= 1


def test_the_interval_of_balanced_accuracy_holds_the_true_one_in_most_cases():
    rng, chances, held = np.random.default_rng(0), np.array([[0.35, 0.15], [0.1, 0.4]]), 0
    true = (0.35 / 0.5 + 0.4 / 0.5) / 2
    for seed in range(200):
        table = np.zeros((3, 3), np.int64)
        table[:2, :2] = rng.multinomial(120, chances.ravel()).reshape(2, 2)
        found = metrics.score(Tally(int(np.trace(table)), table, None), seed)["balanced_accuracy"]
        held += found.low <= true <= found.high
    assert 0.90 <= held / 200 <= 0.99


def test_nothing_is_said_of_nothing():
    assert metrics.score(Tally.blank(2)) == {}
    one = Tally(2, np.array([[2, 0, 0], [0, 0, 0], [0, 0, 0]]), np.array([[2] + [0] * (BINS - 1), [0] * BINS]))
    assert set(metrics.score(one)) == {"accuracy", "balanced_accuracy", "macro_f1"}


def grouped(sizes, right) -> Tally:
    """Return the tally of groups with so many rows, so many of them called rightly."""
    n, r = np.array(sizes), np.array(right)
    table = np.zeros((3, 3), np.int64)
    table[0, 0], table[0, 1] = r.sum(), (n - r).sum()
    return Tally(int(r.sum()), table, None, np.array([len(n), (r * r).sum(), (r * n).sum(), (n * n).sum()]))


def test_a_row_is_worth_less_where_rows_of_a_group_are_alike():
    """By hand: 40 groups of 10 alike rows are 40 rows; Student's t of 39 takes the rest."""
    t39 = 2.0226909
    half = [10, 0] * 20
    alike = metrics.row_worth(grouped([10] * 40, half))
    assert alike == pytest.approx(0.1 * (metrics.Z / t39) ** 2, rel=1e-5)
    # each group has half of its rows right: groups agree, and a row is worth no more than a row
    assert metrics.row_worth(grouped([10] * 40, [5] * 40)) == pytest.approx((metrics.Z / t39) ** 2, rel=1e-5)
    assert metrics.row_worth(grouped([10] * 40, [10] * 40)) == pytest.approx(alike)  # nobody can tell
    assert metrics.row_worth(grouped([10], [7])) == 0.1
    assert metrics.row_worth(Tally.blank(2)) == metrics.row_worth(Tally.blank(2, grouped=True)) == 1.0


def test_the_interval_of_groups_holds_the_true_share_in_most_cases():
    rng, held, naive = np.random.default_rng(0), 0, 0
    for _ in range(300):
        p = rng.beta(4, 1, size=25)  # each patient's own share; their mean is 0.8
        found = grouped([20] * 25, rng.binomial(20, p))
        one = metrics.score(found)["accuracy"]
        held += one.low <= 0.8 <= one.high
        one = metrics.wilson(found.right, found.rows)
        naive += one.low <= 0.8 <= one.high
    assert 0.92 <= held / 300 <= 0.99
    assert naive / 300 < 0.85


def scored(rng: np.random.Generator, sites: int, rows: int, least: int) -> tuple[np.ndarray, np.ndarray, Tally]:
    """Return log-odds, classes and the summed counts of sites, whose probabilities are right."""
    odds = rng.normal(0, 1.6, (sites, rows))
    true = (rng.random((sites, rows)) < 1 / (1 + np.exp(-odds))).astype(int)
    parts = []
    for one, own in zip(odds, true, strict=True):
        chances = np.column_stack([1 / (1 + np.exp(one)), 1 / (1 + np.exp(-one))])
        said = (one > 0).astype(int)
        parts.append(tally(said.astype(str), own.astype(str), said, own, 2, chances, least=least))
    return odds, true, summed(parts, 2)


@pytest.mark.parametrize("seed", range(5))
def test_auc_with_floors_is_the_mean_of_the_sites(seed):
    """Means of neighbours of a class tell the classes apart better than rows do: 0.91 came of 0.86."""
    odds, true, found = scored(np.random.default_rng(seed), 4, 50, 10)
    own = [wanted.roc_auc_score(y, x) for x, y in zip(odds, true, strict=True)]
    weights = [y.sum() * (1 - y).sum() / len(y) for y in true]
    figure = metrics.score(found)["auc"]
    assert found.neighbours == 10
    assert figure.value == pytest.approx(np.average(own, weights=weights), abs=1e-6)
    assert figure.value == pytest.approx(wanted.roc_auc_score(true.ravel(), odds.ravel()), abs=0.03)
    assert figure.low < figure.value < figure.high
    apart = metrics.score(scored(np.random.default_rng(seed), 4, 50, 1)[2])["auc"]
    assert figure.high - figure.low == pytest.approx(apart.high - apart.low, rel=0.25)


def test_the_interval_of_the_mean_auc_holds_the_true_one_in_most_cases():
    rng, held, count = np.random.default_rng(0), 0, 300
    odds, true, _ = scored(rng, 1, 100_000, 10)
    exact = wanted.roc_auc_score(true[0], odds[0])
    for _ in range(count):
        figure = metrics.score(scored(rng, 3, 40, 10)[2])["auc"]
        held += figure.low <= exact <= figure.high
    assert 0.91 <= held / count <= 0.99


def test_auc_of_sites_without_enough_rows_is_not_told_and_a_perfect_one_has_an_interval():
    assert "auc" not in metrics.score(scored(np.random.default_rng(0), 3, 15, 10)[2])
    odds, true = np.arange(-20.0, 20.0), np.repeat([0, 1], 20)
    chances = np.column_stack([1 / (1 + np.exp(odds)), 1 / (1 + np.exp(-odds))])
    found = tally(true.astype(str), true.astype(str), true, true, 2, chances, least=10)
    figure = metrics.score(found)["auc"]
    assert figure.value == 1
    assert 0.6 < figure.low < 0.9


@pytest.mark.parametrize("least", [1, 10])
def test_probabilities_that_are_right_lie_on_the_diagonal(least):
    _, true, found = scored(np.random.default_rng(1), 4, 500, least)
    curve = metrics.calibration(found)
    assert 8 <= len(curve) <= 10
    assert sum(one.rows for one in curve) == true.size
    assert sum(one.observed.low <= one.predicted <= one.observed.high for one in curve) >= len(curve) - 2
    assert sum(one.rows * one.observed.value for one in curve) == pytest.approx(true.sum())
    assert min(one.rows for one in curve) >= 10


@pytest.mark.parametrize(("least", "off"), [(1, 1e-9), (10, 0.03)])
def test_thresholds_are_those_of_the_rows(least, off):
    odds, true, found = scored(np.random.default_rng(2), 4, 200, least)
    rows, chances = true.ravel() == 1, 1 / (1 + np.exp(-odds.ravel()))
    for one in metrics.thresholds(found):
        called = chances >= one.threshold
        assert one.called == pytest.approx(called.mean(), abs=off)
        assert one.sensitivity.value == pytest.approx(called[rows].mean(), abs=off)
        assert one.specificity.value == pytest.approx(1 - called[~rows].mean(), abs=off)
        assert one.ppv.value == pytest.approx(rows[called].mean(), abs=2 * off)
        assert one.npv.value == pytest.approx(1 - rows[~called].mean(), abs=2 * off)
    assert [round(one.threshold, 1) for one in metrics.thresholds(found)] == list(metrics.THRESHOLDS)


def test_thresholds_that_means_of_few_groups_would_blur_are_not_told():
    found = scored(np.random.default_rng(0), 4, 30, 10)[2]
    assert metrics.thresholds(found) == metrics.calibration(found) == []
    assert metrics.thresholds(scored(np.random.default_rng(0), 4, 30, 1)[2])
    assert not metrics.has_probabilities(Tally.blank(2))
    assert not metrics.has_probabilities(Tally.blank(3))
