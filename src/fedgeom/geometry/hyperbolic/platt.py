"""Platt scaling turns the score of a binary classifier into a probability.

A score ``s`` has no unit. Platt's sigmoid ``P(y = 1 | s) = 1 / (1 + exp(A·s + B))`` gives it one, with
``A`` and ``B`` fitted by maximum likelihood to the scores of the training points. One-vs-rest classifiers
need this: only after it can the scores of two different hyperplanes be compared (hulls paper, Appendix H).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit

from fedgeom.arrays import Floats
from fedgeom.errors import InputError

MAX_STEPS = 100
MIN_STEP = 1e-10
# Keeps the 2×2 Hessian invertible when all scores are equal or the two classes are perfectly apart.
RIDGE = 1e-12
# A step that gains less than this share of the loss cannot be judged by the loss: rounding is as large.
FLAT = 1e-13


def fit_sigmoid(scores: ArrayLike, targets: ArrayLike, *, weights: ArrayLike | None = None) -> tuple[float, float]:
    """Fit the slope A and the offset B of Platt's sigmoid.

    scores, targets and weights (n,).

    Targets above zero are the positive class, all others the negative one. The likelihood is taken against
    softened targets, (n₊ + 1)/(n₊ + 2) and 1/(n₋ + 2), so that A stays finite on separable data. With
    ``weights`` a point counts as that many copies of itself, in n₊ and n₋ too.

    The problem is convex with two unknowns; Newton's method with backtracking solves it.
    """
    s = _vector(scores, "scores")
    labels = np.asarray(targets)
    w = np.ones_like(s) if weights is None else _vector(weights, "weights")
    if labels.shape != s.shape or w.shape != s.shape:
        raise InputError(
            f"scores, targets and weights must have one length, not {s.shape}, {labels.shape} and {w.shape}"
        )
    if np.any(w < 0):
        raise InputError("weights must not be negative")
    positive = labels > 0
    n_pos, n_neg = float(w[positive].sum()), float(w[~positive].sum())
    if n_pos + n_neg == 0:
        raise InputError("Platt scaling needs at least one point of positive weight")
    wanted = np.where(positive, (n_pos + 1) / (n_pos + 2), 1 / (n_neg + 2))

    # Scores of size 1e6 or 1e-6 would leave the two directions of the Hessian on very different scales.
    unit = float(np.abs(s).max()) or 1.0
    scaled = s / unit
    theta = np.array([0.0, np.log((n_neg + 1) / (n_pos + 1))])
    design = np.stack([scaled, np.ones_like(scaled)], axis=1)
    value = _loss(design @ theta, wanted, w)
    for _ in range(MAX_STEPS):
        p, gradient = _gradient(design, theta, wanted, w)
        if float(np.abs(gradient).max()) <= 1e-10 * (n_pos + n_neg):
            break
        hessian = (design.T * (w * p * (1 - p))) @ design + RIDGE * np.eye(2)
        direction = -np.linalg.solve(hessian, gradient)
        slope = float(gradient @ direction)
        if -slope <= FLAT * value:  # so near to the optimum Newton's step needs no search; the gradient judges it
            after = _gradient(design, theta + direction, wanted, w)[1]
            if float(np.abs(after).max()) >= float(np.abs(gradient).max()):
                break
            theta = theta + direction
            value = _loss(design @ theta, wanted, w)
            continue
        step = 1.0
        while step >= MIN_STEP:
            candidate = theta + step * direction
            reached = _loss(design @ candidate, wanted, w)
            if reached <= value + 1e-4 * step * slope:
                theta, value = candidate, reached
                break
            step /= 2
        else:  # no step makes the loss smaller: rounding is all that is left
            break
    return float(theta[0]) / unit, float(theta[1])


def sigmoid(scores: ArrayLike, A: Any, B: Any) -> Floats:
    """Give Platt's probability 1 / (1 + exp(A·s + B)), without overflow for scores of any size.

    scores (…), A and B that broadcast with them; returns the common shape, f8.

    ``A`` and ``B`` may be arrays, one entry per column of ``scores``. ``A = 0, B = ∞`` is the sigmoid of a
    class that is never chosen.
    """
    exponent = np.asarray(A) * np.asarray(scores, dtype=np.float64) + np.asarray(B)
    return np.asarray(expit(-exponent), dtype=np.float64)


def _gradient(design: Floats, theta: Floats, wanted: Floats, weights: Floats) -> tuple[Floats, Floats]:
    """Give the fitted probabilities, and the gradient of the loss in A and B."""
    p = np.asarray(expit(-(design @ theta)), dtype=np.float64)
    return p, np.asarray(design.T @ (weights * (wanted - p)))


def _loss(exponent: Floats, wanted: Floats, weights: Floats) -> float:
    """Give the cross entropy of the fitted probabilities, written so that it cannot overflow."""
    return float(weights @ (np.logaddexp(0.0, exponent) - (1 - wanted) * exponent))


def _vector(values: ArrayLike, name: str) -> Floats:
    """Read a finite one-dimensional array."""
    out = np.asarray(values, dtype=np.float64)
    if out.ndim != 1:
        raise InputError(f"{name} must be one-dimensional, not of shape {out.shape}")
    bad = int(np.sum(~np.isfinite(out)))
    if bad:
        raise InputError(f"{name} must be finite numbers; {bad} of {out.size} are not")
    return out
