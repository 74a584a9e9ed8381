"""Linear discriminants from a ridge: one small matrix turns its scores into those of penalised discriminant analysis.

Scores that are fitted to targets ±1 put a class between two others into the shade of both. Discriminant analysis does
not; with the penalty of the ridge it needs no other sums (Hastie, Buja and Tibshirani 1995): with E the mean score of
each class, s̄ = πE and P = (E - s̄)/2,

    δ(x) = (s(x) - s̄) K - diag(P K) + log π,  K = (I - P)⁻¹ diag(π)⁻¹ / 2,

are the discriminants of features with the within-class covariance plus λ S²/n, which `test_discriminant` compares with
scikit-learn's. Rows that were learnt from have better scores than others would; E is what it would be without each row,
with the mean leverage for each one's, as in generalised cross-validation.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fedgeom.arrays import Floats, Words
from fedgeom.methods.ridge.gram import Rows, starts
from fedgeom.protocols.fixed_point import from_fixed

LEAST_LOG = -700.0
"""The logarithm of the share of a class that no row has."""


def summed_scores(
    vector: Floats | Words, rows: Rows, weights: Floats, bits: int | None = None
) -> tuple[Floats, Floats]:
    """Return what a part of the sums adds to the summed scores of each class, (classes, classes), and to their sizes.

    vector is the part, of these rows, in fixed point where ``bits`` are its digits; weights (features + 1, classes) are
    the ridge's.
    """
    (first, last), (wide, classes) = rows, weights.shape
    at = starts(wide - 1, classes)[first : last + 1]
    ties: Any = np.array([vector[end - at[0] - classes : end - at[0]] for end in at[1:].tolist()])
    ties = ties if bits is None else from_fixed(ties, fraction_bits=bits)
    return ties.T @ weights[first:last], ties[0] if first == 0 else np.zeros(classes)


def turn(scores: Floats, sizes: Floats, freedom: float) -> Floats:
    """Return what turns ridge scores into discriminants, (classes + 1, classes): constants, then K.

    scores (classes, classes) are each class's rows' scores added up, sizes (classes,) how much its rows count.
    """
    rows = max(float(sizes.sum()), 1e-300)
    share, present = min(freedom / rows, 0.9), sizes > 0
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
    scores, sizes = np.zeros((weights.shape[1],) * 2), np.zeros(weights.shape[1])
    for vector, rows in zip(vectors, parts, strict=True):
        more, counted = summed_scores(vector, rows, weights)
        scores, sizes = scores + more, sizes + counted
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
