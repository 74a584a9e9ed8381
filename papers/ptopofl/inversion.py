"""Rebuilding rows from a gradient step and from a descriptor: the attacks of privacy.py."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment, minimize
from scipy.special import expit

from fedgeom.geometry.topology.descriptors import descriptor
from papers.common import Floats
from papers.ptopofl.scenarios import scenario_a


def rebuilt_cosine(true: Floats, guess: Floats) -> float:
    """Return the mean cosine of rows to their best partners among the guesses."""
    a = true / np.linalg.norm(true, axis=1, keepdims=True)
    b = guess / np.maximum(np.linalg.norm(guess, axis=1, keepdims=True), 1e-12)
    gains = a @ b.T
    left, right = linear_sum_assignment(-gains)
    return float(gains[left, right].mean())


def gradient_of(X: Floats, y: Floats, w: Floats) -> Floats:
    """Return the gradient of the mean logistic loss; the last entry is the intercept's."""
    rest = (expit(X @ w[:-1] + w[-1]) - y) / len(y)
    return np.append(X.T @ rest, rest.sum())


def invert_gradient(seen: Floats, y: Floats, w: Floats, columns: int, rng: np.random.Generator) -> Floats:
    """Find standardised rows that give this gradient, with labels known to the attacker (Zhu et al. 2019).

    Among the many solutions the likeliest is wanted: a small pull towards N(0, 1) rows picks one.
    """
    n = len(y)

    def value(flat: Floats) -> tuple[float, Floats]:
        X = flat.reshape(n, columns)
        chance = expit(X @ w[:-1] + w[-1])
        rest = (chance - y) / n
        miss = np.append(X.T @ rest, rest.sum()) - seen
        curve = chance * (1 - chance) / n
        inner = X @ miss[:-1] + miss[-1]
        slope = np.outer(rest, miss[:-1]) + np.outer(curve * inner, w[:-1])
        weight = 1e-6 / n
        return 1e3 * float(miss @ miss) + weight * float(flat @ flat), (2e3 * slope + 2 * weight * X).ravel()

    found = minimize(
        value, rng.standard_normal(n * columns), jac=True, method="L-BFGS-B", options={"maxiter": 2000}
    )
    return np.asarray(found.x).reshape(n, columns)


def rebuild_from_model(seeds: int) -> dict[str, Any]:
    """Return how near rebuilt rows come, from one gradient step of n rows, beside rows drawn at random."""
    found: dict[str, Any] = {}
    for n in (1, 2, 4, 8, 32, 128):
        ours, chance = [], []
        for seed in range(seeds):
            rng = np.random.default_rng([seed, 21])
            site = max(scenario_a(seed).train, key=len)
            X = (site.X - site.X.mean(axis=0)) / site.X.std(axis=0)
            at = rng.permutation(len(X))[:n]
            rows, y = X[at], site.y[at].astype(float)
            w = 0.1 * rng.standard_normal(X.shape[1] + 1)
            guess = invert_gradient(gradient_of(rows, y, w), y, w, X.shape[1], rng)
            ours.append(rebuilt_cosine(rows, guess))
            chance.append(rebuilt_cosine(rows, rng.standard_normal(rows.shape)))
        found[str(n)] = {"rebuilt": round(float(np.mean(ours)), 3), "chance": round(float(np.mean(chance)), 3)}
    return found


def aligned_distance(true: Floats, guess: Floats) -> float:
    """Return the root mean squared distance after the best of several rotations and matchings (Procrustes, Hungarian).

    A diagram is blind to isometries, so an attacker is granted the best one.
    """
    a, b = true - true.mean(axis=0), guess - guess.mean(axis=0)
    best = np.inf
    for start in range(8):
        rng = np.random.default_rng(start)
        turned = b @ np.linalg.qr(rng.standard_normal((b.shape[1], b.shape[1])))[0]
        for _ in range(30):
            left, right = linear_sum_assignment(((a[:, None] - turned[None]) ** 2).sum(axis=2))
            u, _, v = np.linalg.svd(turned[right].T @ a[left])
            turned = turned @ (u @ v)
        best = min(best, float(np.sqrt(((a[left] - turned[right]) ** 2).sum(axis=1).mean())))
    return best


def invert_descriptor(
    seen: Floats, n: int, columns: int, steps: int, rng: np.random.Generator
) -> tuple[Floats, float]:
    """Search a cloud with this descriptor by moving one point at a time and keeping what comes nearer."""
    scale = np.abs(seen) + 1.0
    cloud = rng.standard_normal((n, columns))

    def miss(X: Floats) -> float:
        return float(np.linalg.norm((descriptor(X, points=None, scale="none") - seen) / scale))

    now, size = miss(cloud), 0.5
    for _ in range(steps):
        trial = cloud.copy()
        trial[rng.integers(n)] += size * rng.standard_normal(columns)
        new = miss(trial)
        if new <= now:
            cloud, now, size = trial, new, min(size * 1.1, 1.0)
        else:
            size = max(size * 0.99, 0.02)
    return cloud, now


def rebuild_from_descriptor(seeds: int, steps: int) -> dict[str, Any]:
    """Return how well clouds with the same descriptor agree with the true one, beside clouds drawn at random."""
    n, columns = 30, 3
    fit, start, ours, chance = [], [], [], []
    for seed in range(seeds):
        rng = np.random.default_rng([seed, 22])
        true = rng.standard_normal((n, columns))
        true[: n // 2] += 2.0
        true = (true - true.mean(axis=0)) / true.std(axis=0)
        seen = descriptor(true, points=None, scale="none")
        cloud, now = invert_descriptor(seen, n, columns, steps, rng)
        other = rng.standard_normal((n, columns))
        fit.append(now)
        start.append(
            float(np.linalg.norm((descriptor(other, points=None, scale="none") - seen) / (np.abs(seen) + 1)))
        )
        ours.append(aligned_distance(true, cloud))
        chance.append(aligned_distance(true, other))
    return {
        "n_points": n,
        "columns": columns,
        "descriptor error of a random cloud": round(float(np.mean(start)), 3),
        "descriptor error after the search": round(float(np.mean(fit)), 3),
        "distance of a random cloud": round(float(np.mean(chance)), 3),
        "distance after the search": round(float(np.mean(ours)), 3),
    }
