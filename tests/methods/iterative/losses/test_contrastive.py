"""MOON's comparison of features, by hand."""

from __future__ import annotations

import numpy as np
import pytest

from fedgeom.methods.iterative import Contrastive, CrossEntropy
from tests.methods.iterative.torching import Given, batch_of, torch

TURN = torch.tensor([[0.0, 1.0], [-1.0, 0.0]])


def test_near_the_joint_models_features_and_away_from_those_before():
    # The joint model has the same features, cosine 1; the one before turns them by a right angle, cosine 0.
    rows, labels = [[1.0, 0.0], [3.0, 4.0]], [0, 1]
    batch = batch_of(rows, labels, previous=Given(TURN))
    plain = float(CrossEntropy()(batch))
    contrast = -np.log(np.exp(1 / 0.5) / (np.exp(1 / 0.5) + np.exp(0)))
    assert float(Contrastive(mu=3.0, temperature=0.5)(batch)) == pytest.approx(plain + 3 * contrast, rel=1e-6)
    swapped = batch_of(rows, labels, joint=Given(TURN), previous=Given())
    contrast = -np.log(np.exp(0) / (np.exp(1 / 0.5) + np.exp(0)))
    assert float(Contrastive(mu=3.0)(swapped)) == pytest.approx(plain + 3 * contrast, rel=1e-6)


def test_in_the_first_round_there_is_nothing_to_compare_with():
    batch = batch_of([[1.0, 0.0]], [0])
    assert float(Contrastive(mu=9.0)(batch)) == float(CrossEntropy()(batch))
