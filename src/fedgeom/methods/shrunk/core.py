"""Logistic regression with a joint direction and an intercept of the site's own: the local halves.

More than two classes are as many outcomes, each class against all others; directions of all outcomes stand one after
the other, so that they are summed together.

A site's loss for a direction w is ℓ_k(w) = min_b Σ_i log(1 + exp(−y_i(w·x_i + b))) + τ/2·b². The intercept is profiled
out at the site and never sent, because how frequent an outcome is differs between hospitals more than what it
depends on.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import expit
from scipy.stats import rankdata

from fedgeom.arrays import Floats, Ints

TAU = 1e-2
"""A trace of a penalty on intercepts, for sites that have one class only."""
TINY = 1e-9


def told_apart(y: Ints, classes: int) -> Ints:
    """Return what is told apart, (outcomes, n), 0 or 1: the second of two classes, or each of more against the others.

    >>> told_apart(np.array([0, 2, 1]), 3).tolist()
    [[1, 0, 0], [0, 0, 1], [0, 1, 0]]
    """
    return y[None] if classes == 2 else (y == np.arange(classes)[:, None]).astype(np.int64)


def intercept(X: Floats, y: Ints, w: Floats) -> float:
    """Return the best intercept b for a direction, by Newton's steps that never overshoot.

    X (n, d), f8, y (n,), 0 or 1, w (d,), f8.
    """
    scores, b, outcomes = X @ w, 0.0, float(y.sum())
    for _ in range(50):
        chance = expit(scores + b)
        expected = float(chance.sum())
        step = (expected - outcomes + TAU * b) / (expected - float(chance @ chance) + TAU)
        step = min(max(step, -2.0), 2.0)
        b -= step
        if abs(step) < 1e-9:
            break
    return b


def profile(X: Floats, y: Ints, w: Floats) -> tuple[float, Floats, Floats]:
    """Return ℓ_k(w), its gradient and its Hessian (a Schur complement, as b is profiled out)."""
    b = intercept(X, y, w)
    scores = X @ w + b
    chance = expit(scores)
    value = float((np.logaddexp(0, scores) - y * scores).sum() + 0.5 * TAU * b * b)
    spread = chance * (1 - chance)
    mixed, own = X.T @ spread, float(spread.sum()) + TAU
    return value, X.T @ (chance - y), (X.T * spread) @ X - np.outer(mixed, mixed) / own


def personal(X: Floats, y: Ints, centre: Floats, strength: float) -> tuple[Floats, float]:
    """Return direction and intercept that minimise ℓ_k(w) + λ/2·‖w − centre‖²; λ = ∞ keeps the centre.

    X (n, d), f8, y (n,), 0 or 1, centre (d,), f8; returns (d,), f8, and a number.
    """
    if np.isinf(strength):
        return centre.copy(), intercept(X, y, centre)
    rows = np.column_stack([X, np.ones(len(X))])
    middle = np.append(centre, 0.0)
    penalty = np.append(np.full(len(centre), strength), TAU)
    at = np.append(centre, intercept(X, y, centre))

    def value(v: Floats) -> float:
        scores, away = rows @ v, v - middle
        return float(np.logaddexp(0, scores).sum() - y @ scores + 0.5 * (penalty * away) @ away)

    now = value(at)
    for _ in range(30):
        chance = expit(rows @ at)
        gradient = rows.T @ (chance - y) + penalty * (at - middle)
        if np.abs(gradient).max() < 1e-6:
            break
        hessian = (rows.T * (chance * (1 - chance))) @ rows + np.diag(penalty)
        step, size = np.linalg.solve(hessian, gradient), 1.0
        while (new := value(at - size * step)) > now and size > 1e-4:
            size /= 2
        at, now = at - size * step, new
    return at[:-1], float(at[-1])


def rank_quality(y: Ints, scores: Floats) -> float:
    """Return the AUC: how often a row with the outcome scores above one without; ½ if there is one class only.

    y (n,), 0 or 1, scores (n,), f8.
    """
    with_it = int(y.sum())
    without = len(y) - with_it
    if not with_it or not without:
        return 0.5
    return float((rankdata(scores)[y == 1].sum() - with_it * (with_it + 1) / 2) / (with_it * without))


@dataclass(frozen=True)
class Terms:
    """Σ_k of ℓ_k, its gradient and its Hessian, for each of a stack of directions."""

    values: Floats
    """(ridges, folds + 1)"""
    gradients: Floats
    """(ridges, folds + 1, columns)"""
    hessians: Floats
    """(ridges, folds + 1, columns, columns)"""

    def flat(self) -> Floats:
        """Write them as one vector; of the symmetric Hessians the upper triangles."""
        upper = np.triu_indices(self.gradients.shape[-1])
        parts = (self.values[..., None], self.gradients, self.hessians[..., upper[0], upper[1]])
        return np.concatenate(parts, axis=-1).ravel()

    @classmethod
    def read(cls, flat: Floats, stack: tuple[int, ...], columns: int) -> Terms:
        """Read them back."""
        table = flat.reshape(*stack, -1)
        hessians, upper = np.zeros((*stack, columns, columns)), np.triu_indices(columns)
        hessians[..., upper[0], upper[1]] = table[..., 1 + columns :]
        hessians[..., upper[1], upper[0]] = table[..., 1 + columns :]
        return cls(table[..., 0], table[..., 1 : 1 + columns], hessians)


def terms_length(stack: tuple[int, ...], columns: int) -> int:
    """Return how many numbers `Terms.flat` has."""
    return int(np.prod(stack)) * (1 + columns + columns * (columns + 1) // 2)


def site_terms(X: Floats, told: Ints, fold: Ints, directions: Floats) -> Terms:
    """Return a site's terms for directions[α, f]: fold f is left out; the last f leaves nothing out.

    X (n, d), f8, told (outcomes, n), fold (n,), directions (outcomes·ridges, folds, d), f8.
    """
    stacked, folds, columns = directions.shape
    values, gradients = np.zeros((stacked, folds)), np.zeros(directions.shape)
    hessians = np.zeros((stacked, folds, columns, columns))
    each = np.repeat(told, stacked // len(told), axis=0)
    for f in range(folds):
        kept = fold != f
        for a, y in enumerate(each):
            values[a, f], gradients[a, f], hessians[a, f] = profile(X[kept], y[kept], directions[a, f])
    return Terms(values, gradients, hessians)
