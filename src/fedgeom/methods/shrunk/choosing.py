"""How a site chooses among candidates (α, λ): by its own held-out rows and everybody's."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedgeom.arrays import Floats, Ints
from fedgeom.methods.shrunk.core import intercept, personal, rank_quality


@dataclass(frozen=True)
class Evidence:
    """How well each candidate ranked rows that it had not seen, at one site or summed over sites."""

    quality: Floats
    """(ridges, strengths): AUC times weight, for each (α, λ)."""
    weight: float
    """Rows of the rarer class: an AUC cannot be better known than these are many."""
    intercepts: Floats
    """(ridges,): the site's intercept for each α, times its rows; 0 at a site with one class only."""
    rows: float
    """Rows of sites with both."""

    def flat(self) -> Floats:
        """Write it as one vector."""
        return np.concatenate([self.quality.ravel(), [self.weight], self.intercepts, [self.rows]])

    @classmethod
    def read(cls, flat: Floats, ridges: int, strengths: int) -> Evidence:
        """Read it back."""
        cut = ridges * strengths
        table = flat[:cut].reshape(ridges, strengths)
        return cls(table, float(flat[cut]), flat[cut + 1 : cut + 1 + ridges], float(flat[-1]))

    @classmethod
    def read_all(cls, flat: Floats, ridges: int, strengths: int) -> list[Evidence]:
        """Read that of all outcomes, one after the other."""
        return [cls.read(one, ridges, strengths) for one in flat.reshape(-1, evidence_length(ridges, strengths))]


def evidence_length(ridges: int, strengths: int) -> int:
    """Return how many numbers `Evidence.flat` has."""
    return ridges * strengths + ridges + 2


def gather_all(
    X: Floats, told: Ints, fold: Ints, directions: Floats, strengths: Floats
) -> tuple[list[Evidence], Floats]:
    """Return a site's evidence for each outcome, and how far held-out scores spread, (outcomes, ridges, s).

    X (n, d), told (outcomes, n), fold (n,), directions (outcomes·ridges, folds + 1, d), strengths (s,).
    """
    each = directions.reshape(len(told), -1, *directions.shape[1:])
    found = [gather(X, y, fold, mine, strengths) for y, mine in zip(told, each, strict=True)]
    return [evidence for evidence, _ in found], np.array([spread for _, spread in found])


def gather(X: Floats, y: Ints, fold: Ints, directions: Floats, strengths: Floats) -> tuple[Evidence, Floats]:
    """Return a site's evidence, and how far each candidate's held-out scores spread.

    X (n, d), y and fold (n,), directions (ridges, folds + 1, d), strengths (s,); the spread is (ridges, s), f8.
    """
    ridges, folds = directions.shape[0], directions.shape[1] - 1
    quality, spread = np.zeros((ridges, len(strengths))), np.ones((ridges, len(strengths)))
    for a in range(ridges):
        for s, strength in enumerate(strengths):
            scores = np.zeros(len(y))
            for f in range(folds):
                out = fold == f
                if out.any() and not out.all():
                    w, b = personal(X[~out], y[~out], directions[a, f], float(strength))
                    scores[out] = X[out] @ w + b
            quality[a, s], spread[a, s] = rank_quality(y, scores), float(scores.std()) + 1e-9
    weight = float(min(y.sum(), len(y) - y.sum()))
    rows = float(len(y)) if weight else 0.0  # where all rows are of one class, the intercept has no best place
    intercepts = np.array([intercept(X, y, directions[a, -1]) for a in range(ridges)]) * rows
    return Evidence(weight * quality, weight, intercepts, rows), spread


def shares(own: Evidence | None, everybody: Evidence, *, borrowed: float, temperature: float) -> Floats:
    """Return each candidate's share: a softmax of its quality here, with ``borrowed`` rows' worth of the others'.

    A small site follows the others, a large one itself.
    """
    weight = everybody.weight - (own.weight if own else 0.0)
    quality = everybody.quality - (own.quality if own else 0.0)
    others = quality / max(weight, 1.0)
    if own is None or own.weight <= 0:
        found = others
    else:
        rows, mine = own.rows, own.quality / own.weight
        found = (rows * mine + borrowed * others) / (rows + borrowed) if weight > 0 else mine
    powers = np.exp((found - found.max()) / temperature)
    return np.asarray(powers / powers.sum())


def blend(weights: Floats, spread: Floats, directions: Floats, intercepts: Floats) -> tuple[Floats, float]:
    """Mix linear models by their shares, each first brought to a common spread of scores.

    weights, spread and intercepts (ridges, s), directions (ridges, s, d); returns (d,), f8, and a number.

    Without that, models that hardly shrink, and so have large scores, would drown the others.
    """
    common = float((weights * spread).sum())
    scaled = weights * common / spread
    return np.tensordot(scaled, directions, axes=2), float((scaled * intercepts).sum())
