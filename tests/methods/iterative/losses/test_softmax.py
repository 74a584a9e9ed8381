"""Losses on scores, by hand."""

from __future__ import annotations

import numpy as np
import pytest

from fedgeom.methods.iterative import Balanced, Calibrated, CrossEntropy, SquaredError
from tests.methods.iterative.torching import batch_of, torch


def by_hand(scores, label):
    return -np.log(np.exp(scores[label]) / np.exp(scores).sum())


def test_cross_entropy_of_equal_scores_is_log_two():
    assert float(CrossEntropy()(batch_of([[0.0, 0.0], [3.0, 3.0]], [0, 1]))) == pytest.approx(np.log(2))


def test_balanced_raises_scores_by_the_log_of_the_counts():
    batch = batch_of([[1.0, 0.0]], [1], counts=(8.0, 2.0))
    assert float(Balanced()(batch)) == pytest.approx(by_hand(np.array([1 + np.log(8), np.log(2)]), 1), rel=1e-6)
    half = by_hand(np.array([1 + np.log(8) / 2, np.log(2) / 2]), 1)
    assert float(Balanced(0.5)(batch)) == pytest.approx(half, rel=1e-6)


def test_calibrated_lowers_scores_by_the_fourth_root_of_the_counts():
    batch = batch_of([[1.0, 0.0]], [1], counts=(16.0, 81.0))
    assert float(Calibrated(2.0)(batch)) == pytest.approx(by_hand(np.array([1 - 2 / 2, -2 / 3]), 1), rel=1e-6)


@pytest.mark.parametrize("loss", [Balanced(), Calibrated()])
def test_a_class_that_a_site_has_not_leaves_the_softmax(loss):
    batch = batch_of([[1.0, 0.0, 5.0]], [0], counts=(4.0, 4.0, 0.0))
    assert float(loss(batch)) == pytest.approx(by_hand(np.array([1.0, 0.0]), 0), rel=1e-6)
    scores = batch.inputs.requires_grad_()
    again = batch_of([[1.0, 0.0, 5.0]], [0], counts=(4.0, 4.0, 0.0))
    again.inputs = scores
    loss(again).backward()
    assert scores.grad is not None
    assert float(scores.grad[0, 2]) == 0.0
    assert torch.isfinite(scores.grad).all()


def test_the_squared_error_is_that_of_the_one_hot_label():
    assert float(SquaredError()(batch_of([[0.5, 0.25]], [0]))) == pytest.approx(0.5 * (0.25 + 0.0625))
    assert float(SquaredError(2.0)(batch_of([[0.5, 0.25]], [0]))) == pytest.approx(0.5 * 0.25)
