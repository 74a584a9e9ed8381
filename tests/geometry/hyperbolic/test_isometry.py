"""Isometries keep distances; the one between two copies of the same points is found, also from a few landmarks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedgeom.errors import InputError
from fedgeom.geometry.hyperbolic import Isometry, procrustes
from fedgeom.geometry.hyperbolic.poincare import distance, exp0, pairwise_distance
from tests.tiers import examples

seeds = st.integers(0, 2**32 - 1)


def misfit(X: Any, Y: Any) -> float:
    """Return the largest distance between two lists of points, row by row."""
    return float(distance(X, Y).max())


def points(n: int, d: int, c: float, rng: np.random.Generator) -> np.ndarray:
    """Draw points whose hyperbolic radius is about √d/√c: farther out rounding hides where they are."""
    return exp0(0.5 * rng.normal(size=(n, d)) / np.sqrt(c), c=c)


def some_isometry(d: int, c: float, rng: np.random.Generator) -> Isometry:
    Q = np.linalg.qr(rng.normal(size=(d, d)))[0]
    start, end = points(2, d, c, rng)
    return Isometry(start, Q, end, c)


@given(seeds, st.integers(1, 4), st.sampled_from([0.25, 1.0, 3.0]))
@examples(25)
def test_an_isometry_keeps_distances_and_has_an_inverse(seed: int, d: int, c: float) -> None:
    rng = np.random.default_rng(seed)
    X, move = points(6, d, c, rng), some_isometry(d, c, rng)
    moved = move(X)
    np.testing.assert_allclose(
        pairwise_distance(moved, moved, c=c), pairwise_distance(X, X, c=c), rtol=1e-6, atol=1e-6
    )
    np.testing.assert_allclose(move.inverse()(moved), X, atol=1e-8)


@given(seeds, st.integers(1, 4), st.sampled_from([0.25, 1.0, 3.0]))
@examples(25)
def test_landmarks_bring_an_embedding_back(seed: int, d: int, c: float) -> None:
    """A site has its own copy of the ball; d + 1 shared points and more say how it lies."""
    rng = np.random.default_rng(seed)
    X, own = points(d + 8, d, c, rng), some_isometry(d, c, rng)(points(1, d, c, rng))
    move = some_isometry(d, c, rng)
    landmarks = slice(0, d + 2)
    back = procrustes(move(X)[landmarks], X[landmarks], weights=rng.uniform(0.1, 1, d + 2), c=c)
    np.testing.assert_allclose(back(move(X)), X, atol=1e-6)
    np.testing.assert_allclose(back(move(own)), own, atol=1e-6)


@given(seeds)
@examples(25)
def test_with_noise_no_other_turn_about_the_centroids_is_better(seed: int) -> None:
    rng = np.random.default_rng(seed)
    X = exp0(0.4 * rng.normal(size=(12, 2)))
    noisy = exp0(0.4 * rng.normal(size=(12, 2)) + 2 * X)
    found = procrustes(X, noisy)
    least = np.cosh(_row_distances(found(X), noisy)).sum()
    for angle in rng.uniform(0, 2 * np.pi, 20):
        turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
        other = Isometry(found.start, found.turn @ turn, found.end)
        assert np.cosh(_row_distances(other(X), noisy)).sum() >= least - 1e-9 * least


def _row_distances(X: np.ndarray, Y: np.ndarray) -> np.ndarray:
    return np.diag(pairwise_distance(X, Y))


def test_by_hand() -> None:
    """Three points about the origin, turned by a right angle: no shift, and that turn."""
    X = 0.5 * np.array([[1.0, 0.0], [np.cos(2.0), np.sin(2.0)], [np.cos(2.0), -np.sin(2.0)]])
    quarter = np.array([[0.0, 1.0], [-1.0, 0.0]])
    found = procrustes(X, X @ quarter)
    np.testing.assert_allclose(found.turn, quarter, atol=1e-12)
    np.testing.assert_allclose(found(found.start[None])[0], found.end, atol=1e-12)
    assert misfit(found(X), X @ quarter) < 1e-9


def test_mirror_images_are_recognised_unless_orientation_is_kept() -> None:
    X = points(6, 2, 1.0, np.random.default_rng(0))
    flipped = X * [1, -1]
    assert misfit(procrustes(X, flipped)(X), flipped) < 1e-8
    kept = procrustes(X, flipped, mirror=False)
    assert np.linalg.det(kept.turn) == pytest.approx(1)
    assert misfit(kept(X), flipped) > 0.1


@pytest.mark.parametrize(
    ("X", "Y", "options", "words"),
    [
        ([[0.1, 0.2]], [[0.1, 0.2], [0.3, 0.1]], {}, "wanted the same points twice"),
        (np.zeros((0, 2)), np.zeros((0, 2)), {}, "one or more"),
        ([[0.1, 0.2]], [[0.1, 0.2]], {"weights": [0.0]}, "not all 0"),
        ([[0.1, 0.2]], [[0.1, 0.2]], {"weights": [1.0, 2.0]}, "wanted 1 numbers"),
        ([[1.1, 0.2]], [[0.1, 0.2]], {}, "X"),
    ],
)
def test_what_cannot_be_aligned_is_refused(X: Any, Y: Any, options: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        procrustes(X, Y, **options)
