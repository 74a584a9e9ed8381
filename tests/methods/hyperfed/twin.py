"""HyperFed from the paper's equations, in NumPy, with gradients by differences: full-batch steps."""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize
from scipy.special import logsumexp


def exp_o(z):
    """Eq. 6."""
    r = np.linalg.norm(z, axis=-1, keepdims=True)
    return np.tanh(r) * z / r


def d(x1, x2):
    """Eq. 1."""
    top = 2 * ((x1 - x2) ** 2).sum(-1)
    return np.arccosh(1 + top / ((1 - (x1**2).sum(-1)) * (1 - (x2**2).sum(-1))))


def busemann(x, w):
    """Ghadimi Atigh et al. 2021: what the distance becomes for prototypes on the edge, but for a constant."""
    return np.log(((x - w) ** 2).sum(-1) / (1 - (x**2).sum(-1)))


def features(theta, X):
    """A layer with a ReLU, and a linear one."""
    W1, b1, W2, b2 = theta
    return np.maximum(X @ W1.T + b1, 0) @ W2.T + b2


def distances(theta, X, prototypes):
    """How far rows are from prototypes, (rows, classes)."""
    x = exp_o(features(theta, X))[:, None]
    ideal = np.allclose(np.linalg.norm(prototypes, axis=1), 1)
    return (busemann if ideal else d)(x, prototypes[None])


# Losses: (rows, classes) of distances, and labels.


def triplet(m):
    """Eq. 7, the mean over all negatives and rows."""

    def loss(apart, y):
        own = apart[np.arange(len(y)), y]
        others = np.arange(apart.shape[1]) != y[:, None]
        return np.maximum(own[:, None] - apart + m, 0)[others].mean()

    return loss


def geodesic(apart, y):
    """The distance to the own prototype alone."""
    return apart[np.arange(len(y)), y].mean()


def softmax(temperature):
    """The cross-entropy of a softmax of minus the distances."""

    def loss(apart, y):
        logs = -apart / temperature
        return -(logs - logsumexp(logs, axis=1, keepdims=True))[np.arange(len(y)), y].mean()

    return loss


def tree_softmax(branches):
    """For each row, the mean of -ln P over those branches (sets of classes) that hold its class."""

    def loss(apart, y):
        chances = np.exp(-apart) / np.exp(-apart).sum(axis=1, keepdims=True)
        terms = []
        for p, k in zip(chances, y, strict=True):
            terms.append(np.mean([-np.log(p[sorted(branch)].sum()) for branch in branches if k in branch]))
        return np.mean(terms)

    return loss


def tree_targets(edges, softness):
    """Cross-entropy with targets that fall like exp(-edges/softness); edges (classes, classes)."""

    def loss(apart, y):
        targets = np.exp(-np.asarray(edges) / softness)
        targets = targets / targets.sum(axis=1, keepdims=True)
        logs = -apart - logsumexp(-apart, axis=1, keepdims=True)
        return -(targets[y] * logs).sum(axis=1).mean()

    return loss


def descend(flat, shapes, X, y, prototypes, loss, rate, steps=1):
    """Gradient steps by central differences; ``prototypes`` None: the last array has their tangent vectors."""
    sizes = np.cumsum([np.prod(shape, dtype=int) for shape in shapes])[:-1]

    def at(v):
        theta = [part.reshape(shape) for part, shape in zip(np.split(v, sizes), shapes, strict=True)]
        if prototypes is None:
            return loss(distances(theta[:-1], X, exp_o(theta[-1])), y)
        return loss(distances(theta, X, prototypes), y)

    eps = 1e-6
    for _ in range(steps):
        slope = np.array([(at(flat + eps * e) - at(flat - eps * e)) / (2 * eps) for e in np.eye(len(flat))])
        flat = flat - rate * slope
    return flat


def deviations(changes, raw):
    """The changes as they are, or of norm 1."""
    return changes if raw else changes / np.linalg.norm(changes, axis=1, keepdims=True)


def min_norm_weights(changes, least, raw=False):
    """Eq. 10, with 1/Σp² ≥ least, by a general solver."""
    V = deviations(changes, raw) @ deviations(changes, raw).T
    scale = np.trace(V)
    count = len(V)
    rules = [
        {"type": "eq", "fun": lambda p: p.sum() - 1},
        {"type": "ineq", "fun": lambda p: 1 / least - p @ p},
    ]
    start = np.full(count, 1 / count)
    options = {"ftol": 1e-14, "maxiter": 1000}
    found = minimize(
        lambda p: p @ V @ p / scale, start, bounds=[(0, 1)] * count, constraints=rules, options=options
    )
    return found.x


def line_search_weights(changes, least, steps, printed, raw=False, start=None):
    """Eq. 11 from equal weights, or others; the virtual client is the others' mean, or as printed their sum."""
    D = deviations(changes, raw)
    p = np.full(len(D), 1 / len(D)) if start is None else np.array(start) / np.sum(start)
    for _ in range(steps):
        toughest = int(np.argmin(D @ (p @ D)))
        others = np.where(np.arange(len(D)) == toughest, 0, p)
        if not printed:
            others = others / others.sum()
        virtual = others @ D
        gap = virtual - D[toughest]
        share = np.clip(gap @ virtual / (gap @ gap), 0, 1)
        p = (1 - share) * (p if printed else others)
        p[toughest] += share
    equal = 1 / len(D)
    if p @ p > 1 / least:  # on the line to equal weights, as far as it takes
        p = equal + (p - equal) * np.sqrt((1 / least - equal) / (p @ p - equal))
    return p
