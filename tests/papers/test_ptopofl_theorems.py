"""The script on pTopoFL's theorems: the example against Theorem 3, by hand, and what the bounds say."""

from __future__ import annotations

import numpy as np
import pytest

from papers.ptopofl.stability import NOISE, POINTS, changes, margins, same, stability
from papers.ptopofl.theorems import bounds, page, spread_of

pytestmark = pytest.mark.full


def test_the_example_meets_theorem_3s_condition_and_changes_clusters() -> None:
    points, noise = np.array(POINTS)[:, None], np.array(NOISE)[:, None]
    eta = np.abs(noise).max()
    assert margins(points, [0, 0, 1, 1])[1] >= 2 * eta + 0.8  # γ = 0.8
    assert changes(points, noise, 2)
    assert not changes(points, 0 * noise, 2)


def test_the_condition_that_is_enough_is() -> None:
    found = stability(300, seed=5)["random"]
    assert found["ours"]["met"] > 50
    assert found["ours"]["changed"] == 0
    assert found["Theorem 3's"]["changed"] > 0


def test_clusterings_are_compared_whatever_their_numbers() -> None:
    assert same([0, 0, 1], [1, 1, 0])
    assert not same([0, 0, 1], [0, 1, 1])


def test_adversaries_may_weigh_more_than_their_share_squared() -> None:
    for epsilon in (0.1, 0.25, 0.4):
        honest, bad = 1 - epsilon, epsilon
        suppressed = bad / honest  # e^{-λΔ} at λΔ = log((1 - ε)/ε)
        weight = bad * suppressed / (honest + bad * suppressed)
        assert bounds(epsilon)["weight"] == pytest.approx(weight, abs=1e-6)
        assert weight > epsilon**2


def test_the_spread_of_gradients_is_theorem_6s_left_side() -> None:
    rng = np.random.default_rng(0)
    g, alpha = rng.normal(size=(5, 3)), rng.dirichlet(np.ones(5))
    mean = g.mean(axis=0)
    right = (
        sum(a * ((row - mean) ** 2).sum() for a, row in zip(alpha, g, strict=True))
        - ((alpha @ g - mean) ** 2).sum()
    )
    assert spread_of(g, alpha) == pytest.approx(right)


def test_a_page_has_the_parts_that_were_computed() -> None:
    text = page({"stability": stability(20)})
    assert "does not hold as stated" in text
    assert "Theorem 5" not in text
