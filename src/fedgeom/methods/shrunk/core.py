"""Logistic regression with a joint direction and an intercept of the site's own: the local halves.

More than two classes are as many outcomes, each class against all others; directions of all outcomes stand one after
the other, so that they are summed together.

A site's loss for a direction w is ℓ_k(w) = min_b Σ_i log(1 + exp(−y_i(w·x_i + b))) + τ/2·b². The intercept is profiled
out at the site and never sent, because how frequent an outcome is differs between hospitals more than what it
depends on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec
import numpy as np
from scipy.special import expit, log_expit, softmax
from scipy.stats import rankdata

from fedgeom.arrays import Floats, Ints
from fedgeom.federation.messages import Array
from fedgeom.methods.iterative.learners import Learner
from fedgeom.methods.iterative.model import TrainedModel
from fedgeom.methods.iterative.tree import Tree

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
    scores = X @ w
    b = 0.0
    outcomes = float(y.sum())
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
    mixed = X.T @ spread
    own = float(spread.sum()) + TAU
    return value, X.T @ (chance - y), (X.T * spread) @ X - np.outer(mixed, mixed) / own


def held_back(X: Floats, outcomes: int) -> Floats:
    """Return by how much each direction of a site's own model is held to the joint one, as a multiple of λ, (d,).

    X (n, d), f8. Of several outcomes it is the column's variance at the site: where sites measure differently, their
    own rows spread little on the joint scale, and λ alone would keep all sites' models near the joint one. A column
    that is constant here stays with the joint model.
    """
    variance = X.var(axis=0) if outcomes > 1 else np.ones(X.shape[1])
    return np.where(variance > TINY, variance, 1.0)


def personal(
    X: Floats, y: Ints, centre: Floats, strength: float, held: Floats | float = 1.0
) -> tuple[Floats, float]:
    """Return direction and intercept that minimise ℓ_k(w) + λ/2·Σ held·(w − centre)²; λ = ∞ keeps the centre.

    X (n, d), f8, y (n,), 0 or 1, centre (d,), f8; returns (d,), f8, and a number.
    """
    if np.isinf(strength):
        return centre.copy(), intercept(X, y, centre)
    rows = np.column_stack([X, np.ones(len(X))])
    middle = np.append(centre, 0.0)
    penalty = np.append(np.broadcast_to(strength * np.asarray(held), centre.shape), TAU)
    at = np.append(centre, intercept(X, y, centre))

    def value(v: Floats) -> float:
        scores = rows @ v
        away = v - middle
        return float(np.logaddexp(0, scores).sum() - y @ scores + 0.5 * (penalty * away) @ away)

    now = value(at)
    for _ in range(30):
        chance = expit(rows @ at)
        gradient = rows.T @ (chance - y) + penalty * (at - middle)
        if np.abs(gradient).max() < 1e-6:
            break
        hessian = (rows.T * (chance * (1 - chance))) @ rows + np.diag(penalty)
        step = np.linalg.solve(hessian, gradient)
        size = 1.0
        while (new := value(at - size * step)) > now and size > 1e-4:
            size /= 2
        at = at - size * step
        now = new
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
        hessians = np.zeros((*stack, columns, columns))
        upper = np.triu_indices(columns)
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
    values = np.zeros((stacked, folds))
    gradients = np.zeros(directions.shape)
    hessians = np.zeros((stacked, folds, columns, columns))
    each = np.repeat(told, stacked // len(told), axis=0)
    for f in range(folds):
        kept = fold != f
        for a, y in enumerate(each):
            values[a, f], gradients[a, f], hessians[a, f] = profile(X[kept], y[kept], directions[a, f])
    return Terms(values, gradients, hessians)


@dataclass(frozen=True)
class RankingEvidence:
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
    def read(cls, flat: Floats, ridges: int, strengths: int) -> RankingEvidence:
        """Read it back."""
        cut = ridges * strengths
        table = flat[:cut].reshape(ridges, strengths)
        return cls(table, float(flat[cut]), flat[cut + 1 : cut + 1 + ridges], float(flat[-1]))

    @classmethod
    def read_all(cls, flat: Floats, ridges: int, strengths: int) -> list[RankingEvidence]:
        """Read that of all outcomes, one after the other."""
        return [cls.read(one, ridges, strengths) for one in flat.reshape(-1, evidence_length(ridges, strengths))]


def evidence_length(ridges: int, strengths: int) -> int:
    """Return how many numbers `RankingEvidence.flat` has."""
    return ridges * strengths + ridges + 2


def gather_all(
    X: Floats, told: Ints, fold: Ints, directions: Floats, strengths: Floats
) -> tuple[list[RankingEvidence], Floats]:
    """Return a site's evidence for each outcome, and how far held-out scores spread, (outcomes, ridges, s).

    X (n, d), told (outcomes, n), fold (n,), directions (outcomes·ridges, folds + 1, d), strengths (s,).
    """
    each = directions.reshape(len(told), -1, *directions.shape[1:])
    held = held_back(X, len(told))
    found = [gather(X, y, fold, mine, strengths, held) for y, mine in zip(told, each, strict=True)]
    return [evidence for evidence, _ in found], np.array([spread for _, spread in found])


def gather(
    X: Floats, y: Ints, fold: Ints, directions: Floats, strengths: Floats, held: Floats | float = 1.0
) -> tuple[RankingEvidence, Floats]:
    """Return a site's evidence, and how far each candidate's held-out scores spread.

    X (n, d), y and fold (n,), directions (ridges, folds + 1, d), strengths (s,); the spread is (ridges, s), f8.
    """
    ridges = directions.shape[0]
    folds = directions.shape[1] - 1
    quality = np.zeros((ridges, len(strengths)))
    spread = np.ones((ridges, len(strengths)))
    for a in range(ridges):
        for s, strength in enumerate(strengths):
            scores = np.zeros(len(y))
            for f in range(folds):
                out = fold == f
                if out.any() and not out.all():
                    w, b = personal(X[~out], y[~out], directions[a, f], float(strength), held)
                    scores[out] = X[out] @ w + b
            quality[a, s] = rank_quality(y, scores)
            spread[a, s] = float(scores.std()) + 1e-9
    weight = float(min(y.sum(), len(y) - y.sum()))
    rows = float(len(y)) if weight else 0.0  # where all rows are of one class, the intercept has no best place
    intercepts = np.array([intercept(X, y, directions[a, -1]) for a in range(ridges)]) * rows
    return RankingEvidence(weight * quality, weight, intercepts, rows), spread


def shares(
    own: RankingEvidence | None, everybody: RankingEvidence, *, borrowed: float, temperature: float
) -> Floats:
    """Return each candidate's share: a softmax of its quality here, with ``borrowed`` rows' worth of the others'.

    A small site follows the others, a large one itself.
    """
    weight = everybody.weight - (own.weight if own else 0.0)
    quality = everybody.quality - (own.quality if own else 0.0)
    others = quality / max(weight, 1.0)
    if own is None or own.weight <= 0:
        found = others
    else:
        rows = own.rows
        mine = own.quality / own.weight
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


class Descent(msgspec.Struct, kw_only=True):
    """How far the minimisation of Σ_k ℓ_k(w) + α/2·‖w‖² has come, for each α and fold: a site remembers it."""

    at: Array
    """(ridges, folds, columns), f8: where the next sum is taken."""
    good: Array
    """The same shape: the best directions so far."""
    step: Array
    """The same shape: how far the last step went."""
    best: Array
    """(ridges, folds), f8: the penalised loss at the best directions."""
    taken: int = 0
    """How many sums were taken."""

    @classmethod
    def start(cls, ridges: int, folds: int, columns: int) -> Descent:
        """Begin at zero."""
        zero = Array.of(np.zeros((ridges, folds, columns)))
        return cls(at=zero, good=zero, step=zero, best=Array.of(np.full((ridges, folds), np.inf)))

    def take(self, terms: Terms, ridges: Floats) -> None:
        """Take the sum of all sites' terms at ``at``: one damped Newton step.

        ridges (r,), f8.
        """
        at = self.at.numpy()
        good = self.good.numpy()
        best = self.best.numpy()
        total = terms.values + 0.5 * ridges[:, None] * (at**2).sum(axis=2)
        better = total <= best + TINY * np.abs(best)
        gradients = terms.gradients + ridges[:, None, None] * at
        hessians = terms.hessians + ridges[:, None, None, None] * np.eye(at.shape[2])
        fresh = np.linalg.solve(hessians, gradients[..., None])[..., 0]
        good = np.where(better[..., None], at, good)
        step = np.where(
            better[..., None], fresh, self.step.numpy() / 2
        )  # one too far is halved, from where it began
        self.good = Array.of(good)
        self.best = Array.of(np.where(better, total, best))
        self.step = Array.of(step)
        self.at = Array.of(good - step)
        self.taken = self.taken + 1


class ShrunkModel(TrainedModel):
    """A classifier; `for_site` makes it a site's own."""

    def chances(self, learner: Learner, features: Floats) -> Floats:
        """Return probabilities; of more than two classes each against the others, brought to a sum of one."""
        if len(self.names) == 2:
            return super().chances(learner, features)
        return np.asarray(softmax(log_expit(learner.scores(self.parameters, features)), axis=1))


def as_model(
    classes: Sequence[str], w: Floats, b: Floats, centre: Floats | None, spread: Floats | None
) -> ShrunkModel:
    """Return directions and intercepts as a model.

    w (columns, outcomes), b (outcomes,), centre and spread (columns,), f8.
    """
    return ShrunkModel(
        method="shrunk",
        names=tuple(classes),
        learner="logistic",
        options={},
        parameters=Tree(intercept=b, weights=w),
        columns=len(w),
        centre=centre,
        spread=spread,
    )
