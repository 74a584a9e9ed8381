"""HyperFed from the paper's equations, in NumPy, with gradients by differences: one full-batch step per round."""

from __future__ import annotations

import itertools

import numpy as np


def exp_o(z):
    """Eq. 6."""
    r = np.linalg.norm(z, axis=-1, keepdims=True)
    return np.tanh(r) * z / r


def d(x1, x2):
    """Eq. 1."""
    top = 2 * ((x1 - x2) ** 2).sum(-1)
    return np.arccosh(1 + top / ((1 - (x1**2).sum(-1)) * (1 - (x2**2).sum(-1))))


def features(theta, X):
    """A layer with a ReLU, and a linear one."""
    W1, b1, W2, b2 = theta
    return np.maximum(X @ W1.T + b1, 0) @ W2.T + b2


def loss(theta, X, y, prototypes, m):
    """Eq. 7, the mean over all negatives and rows."""
    x = exp_o(features(theta, X))
    apart = np.array([[d(row, w) for w in prototypes] for row in x])
    terms = [
        max(apart[i, y[i]] - apart[i, c] + m, 0)
        for i in range(len(y))
        for c in range(len(prototypes))
        if c != y[i]
    ]
    return np.mean(terms)


def step(theta, X, y, prototypes, m, rate):
    """One gradient step, by central differences."""
    flat = np.concatenate([a.ravel() for a in theta])
    sizes = np.cumsum([a.size for a in theta])[:-1]

    def at(v):
        return loss(
            [p.reshape(a.shape) for p, a in zip(np.split(v, sizes), theta, strict=True)], X, y, prototypes, m
        )

    eps = 1e-6
    slope = np.array([(at(flat + eps * e) - at(flat - eps * e)) / (2 * eps) for e in np.eye(len(flat))])
    return flat - rate * slope


def min_norm_weights(changes, least):
    """Eq. 10 for deviations of norm 1, with 1/Σp² ≥ least, on a fine grid of the simplex of three sites."""
    unit = changes / np.linalg.norm(changes, axis=1, keepdims=True)
    best, found = np.inf, None
    n = 200
    for i, j in itertools.product(range(n + 1), repeat=2):
        if i + j > n:
            continue
        p = np.array([i, j, n - i - j]) / n
        if 1 / (p @ p) < least:
            continue
        value = np.linalg.norm(p @ unit)
        if value < best:
            best, found = value, p
    return found
