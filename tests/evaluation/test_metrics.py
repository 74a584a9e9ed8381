"""Figures from counts are those that scikit-learn has from rows."""

from __future__ import annotations

import math

import numpy as np
import pytest
from sklearn import metrics as wanted

from fedgeom.evaluation import metrics
from fedgeom.protocols.evaluation import BINS, Tally, score_bins, tally
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
    p = 1 / (1 + np.exp(-odds))
    histogram = np.zeros((2, BINS), np.int64)
    for at in (0, 1):
        np.add.at(histogram[at], score_bins(np.column_stack([1 / (1 + np.exp(odds)), p])[true == at])[0], 1)
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
