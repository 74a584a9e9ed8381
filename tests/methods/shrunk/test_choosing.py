"""Choosing among candidates: evidence from rows held out, borrowed from others, and models mixed on one spread."""

from __future__ import annotations

import numpy as np
import pytest

from fedgeom.methods.shrunk.core import RankingEvidence, blend, gather, intercept, personal, rank_quality, shares
from fedgeom.methods.shrunk.site import fold_of
from tests.methods.shrunk.making import outcomes


def test_a_small_site_follows_the_others_and_a_large_one_itself() -> None:
    one, none = np.array([[1.0, 0.0]]), np.zeros(1)

    def weights(rows: float) -> np.ndarray:
        own = RankingEvidence(one * 10, 10.0, none, rows)
        everybody = RankingEvidence(one * 10 + np.array([[0.0, 1.0]]) * 90, 100.0, none, rows + 500)
        return shares(own, everybody, borrowed=100.0, temperature=0.05)[0]

    assert weights(1.0)[1] > 0.99
    assert weights(1e5)[0] > 0.99
    assert weights(100.0) == pytest.approx([0.5, 0.5])
    equal = shares(None, RankingEvidence(one, 1.0, none, 1.0), borrowed=1.0, temperature=1e9)
    assert equal == pytest.approx(np.full((1, 2), 0.5))


def test_models_are_mixed_on_a_common_spread() -> None:
    weights, spread = np.array([[0.5, 0.5]]), np.array([[1.0, 3.0]])
    directions = np.array([[[1.0, 0.0], [0.0, 3.0]]])
    w, b = blend(weights, spread, directions, np.array([[1.0, 3.0]]))
    assert w == pytest.approx([1.0, 1.0])
    assert b == pytest.approx(2.0)


def test_evidence_is_from_rows_that_were_held_out() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 30)), rng.integers(0, 2, 60)  # nothing to learn, and enough columns to learn it
    fold = fold_of(y, 5, 0, "h0")
    assert sorted(set(fold.tolist())) == [0, 1, 2, 3, 4]
    evidence, _ = gather(X, y, fold, np.zeros((1, 6, 30)), np.array([0.1]))
    assert abs(evidence.quality[0, 0] / evidence.weight - 0.5) < 0.2
    w, b = personal(X, y, np.zeros(30), 0.1)
    assert rank_quality(y, X @ w + b) > 0.95


def test_evidence_is_written_and_read_back() -> None:
    evidence = RankingEvidence(np.arange(6.0).reshape(2, 3), 5.0, np.array([7.0, 8.0]), 9.0)
    again = RankingEvidence.read(evidence.flat(), 2, 3)
    np.testing.assert_array_equal(again.quality, evidence.quality)
    np.testing.assert_array_equal(again.intercepts, evidence.intercepts)
    assert (again.weight, again.rows) == (5.0, 9.0)


def test_evidence_is_weighed_by_the_rarer_class_and_intercepts_by_rows() -> None:
    X, y = outcomes()
    fold, direction = fold_of(y, 3, 0, "h0"), np.array([1.0, -1.0, 0.0])
    evidence, spread = gather(X, y, fold, np.broadcast_to(direction, (1, 4, 3)), np.array([np.inf]))
    assert evidence.weight == min(y.sum(), len(y) - y.sum())
    assert evidence.rows == len(y)
    assert evidence.intercepts[0] == pytest.approx(len(y) * intercept(X, y, direction))
    assert 0.5 < evidence.quality[0, 0] / evidence.weight < 1
    assert spread.shape == (1, 1)
    assert spread[0, 0] > 0


def test_a_site_without_its_own_evidence_takes_everybodys() -> None:
    one = np.array([[1.0, 0.0]])
    everybody = RankingEvidence(one * 10, 10.0, np.zeros(1), 50.0)
    silent = RankingEvidence(one * 0, 0.0, np.zeros(1), 5.0)
    alone = shares(None, everybody, borrowed=100.0, temperature=0.1)
    np.testing.assert_array_equal(shares(silent, everybody, borrowed=100.0, temperature=0.1), alone)
    np.testing.assert_allclose(alone, [[1 / (1 + np.exp(-10)), 1 / (1 + np.exp(10))]])
