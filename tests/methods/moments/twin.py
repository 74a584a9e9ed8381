"""Class moments written down once more from their definitions, on all rows in one place.

Nothing here knows how fedgeom does it: covariances are NumPy's, densities SciPy's, and the centroid of points in the
ball is searched for as the point with the least sum of cosh(√c·distance), which is what defines it (Law et al. 2019).
Sites are {name: (X, y)}. The ball of curvature -c has the distance of its model, arcosh(1 + 2c|x - y|²/(a(x)a(y)))/√c
with a(x) = 1 - c|x|²; the tangent vector at the origin is half as long as the way to x. No c: ordinary space.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize
from scipy.special import softmax
from scipy.stats import multivariate_normal


@dataclass(frozen=True)
class Found:
    """The classes' shares, means and covariances in the tangent space, and their centroids."""

    names: tuple[str, ...]
    shares: np.ndarray
    means: np.ndarray
    covariances: np.ndarray
    centroids: np.ndarray
    c: float | None

    def probabilities(self, X):
        """Bayes' rule with a Gaussian for each class."""
        V = tangent(X, self.c)
        scores = [
            np.log(share) + multivariate_normal(mean, covariance).logpdf(V)
            for share, mean, covariance in zip(self.shares, self.means, self.covariances, strict=True)
        ]
        return softmax(np.column_stack(scores), axis=1)

    def nearest(self, X):
        """Name the class whose centroid is nearest."""
        gaps = np.column_stack([distance(X, centroid, self.c) for centroid in self.centroids])
        return np.array(self.names)[gaps.argmin(axis=1)]

    def outlyingness(self, X):
        """Return the squared Mahalanobis distance to the nearest class."""
        V = tangent(X, self.c)
        gaps = []
        for mean, covariance in zip(self.means, self.covariances, strict=True):
            gaps.append([away @ np.linalg.solve(covariance, away) for away in V - mean])
        return np.min(gaps, axis=0)


def tangent(X, c):
    """The vector at the origin that points to x, half as long as the way there."""
    if c is None:
        return X
    ways = distance(X, np.zeros(X.shape[1]), c) / 2
    return X * (ways / np.linalg.norm(X, axis=1))[:, None]


def distance(X, point, c):
    """How far rows are from a point."""
    gap = ((X - point) ** 2).sum(axis=1)
    if c is None:
        return np.sqrt(gap)
    return np.arccosh(1 + 2 * c * gap / ((1 - c * (X**2).sum(axis=1)) * (1 - c * point @ point))) / np.sqrt(c)


def centroid(X, c):
    """The mean; in the ball the point with the least sum of cosh(√c·distance)."""
    if c is None:
        return X.mean(axis=0)

    def from_free(z):  # any z is a point inside
        return z / np.sqrt(c * (1 + z @ z))

    def cost(z):
        return np.cosh(np.sqrt(c) * distance(X, from_free(z), c)).mean()

    start = np.sqrt(c) * X.mean(axis=0)
    return from_free(minimize(cost, start / np.sqrt(1 - start @ start), method="BFGS", options={"gtol": 1e-9}).x)


def pool(sites):
    """All rows and labels."""
    return np.vstack([X for X, _ in sites.values()]), np.concatenate([y for _, y in sites.values()]).astype(str)


def frequent(sites, min_sites=1, min_rows=1):
    """The label names that enough sites and rows have, in order."""
    _, labels = pool(sites)
    found = []
    for name in sorted(set(labels)):
        at = sum(name in set(y.astype(str)) for _, y in sites.values())
        if at >= min_sites and (labels == name).sum() >= min_rows:
            found.append(name)
    return tuple(found)


def shrunk(scatters, counts, pull):
    """Covariances of classes, each with ``pull`` rows' worth of the covariance inside all classes."""
    inside = sum(scatters) / (sum(counts) - len(counts))
    return np.array([(s + pull * inside) / (n - 1 + pull) for s, n in zip(scatters, counts, strict=True)])


def fit(sites, c=None, shrinkage=None, names=None):
    """The moments of all rows; without ``shrinkage`` the pull is one more than there are columns."""
    X, labels = pool(sites)
    names = names or frequent(sites)
    parts = [tangent(X[labels == name], c) for name in names]
    counts = [len(part) for part in parts]
    scatters = [np.cov(part.T, ddof=0) * len(part) for part in parts]
    pull = X.shape[1] + 1 if shrinkage is None else shrinkage
    return Found(
        names,
        np.array(counts) / sum(counts),
        np.array([part.mean(axis=0) for part in parts]),
        shrunk(scatters, counts, pull),
        np.array([centroid(X[labels == name], c) for name in names]),
        c,
    )


# Medians over groups of sites.


def digest(*parts):
    """SHA-256 of byte strings, each after its length in eight bytes."""
    return hashlib.sha256(b"".join(len(part).to_bytes(8, "big") + part for part in parts)).digest()


def groups(names, count, seed):
    """Sites in the order of a hash of the seed and their names, cut into arcs that are as equal as can be."""
    drawn = digest(b"groups", str(seed).encode())
    order = sorted(names, key=lambda name: digest(b"ring", drawn, name.encode()))
    return np.array_split(order, count)


def geometric_median(points):
    """The point with the least sum of distances to these."""
    scale = max(np.abs(points - points.mean(axis=0)).max(), 1e-12)
    at = (points - points.mean(axis=0)) / scale

    def cost(z):
        return np.sqrt(((at - z) ** 2).sum(axis=1) + 1e-18).sum()

    # From two starts, as the cost has a kink at each of the points.
    tried = [
        minimize(cost, start, method="Powell", options={"xtol": 1e-12, "ftol": 1e-16})
        for start in (0 * at[0], at[0])
    ]
    return min(tried, key=lambda one: one.fun).x * scale + points.mean(axis=0)


def lifted(X, c):
    """Points as (1 + c|x|², 2√c·x)/(1 - c|x|²) on the hyperboloid."""
    square = c * (X**2).sum(axis=1, keepdims=True)
    return np.hstack([1 + square, 2 * np.sqrt(c) * X]) / (1 - square)


def fit_medians(sites, count, seed, c=None, typical=lambda points: np.median(points, axis=0)):
    """Means, covariances and centroids, each ``typical`` of the groups that have the class; those in tangent space."""
    names = frequent(sites)
    columns = next(iter(sites.values()))[0].shape[1]
    counts = []
    means = []
    scatters = []
    centroids = []
    for name in names:
        parts = []
        for group in groups(list(sites), count, seed):
            X, y = pool({site: sites[site] for site in group})
            if (y == name).any():
                parts.append(X[y == name])
        n = round(np.median([len(part) for part in parts]) * len(parts))
        flat = [tangent(part, c) for part in parts]
        middle = typical(np.array([part.mean(axis=0) for part in flat]))
        upper = np.triu_indices(columns)
        entries = typical(np.array([np.cov(part.T, ddof=0)[upper] for part in flat]))
        matrix = np.zeros((columns, columns))
        matrix[upper] = entries
        matrix = matrix + matrix.T - np.diag(np.diag(matrix))
        values, vectors = np.linalg.eigh(matrix)
        counts.append(n)
        means.append(middle)
        scatters.append(n * sum(max(v, 0) * np.outer(u, u) for v, u in zip(values, vectors.T, strict=True)))
        if c is None:
            centroids.append(middle)
        else:
            each = []
            for part in parts:
                time, *space = lifted(part, c).mean(axis=0)
                away = np.array(space) / np.sqrt(time**2 - np.dot(space, space))
                each.append(away / (1 + np.sqrt(1 + away @ away)) / np.sqrt(c))
            centre = typical(tangent(np.array(each), c))
            far = np.linalg.norm(centre)
            centroids.append(np.tanh(np.sqrt(c) * far) * centre / far / np.sqrt(c))
    shares = np.array(counts) / sum(counts)
    return Found(names, shares, np.array(means), shrunk(scatters, counts, columns + 1), np.array(centroids), c)


# Rows of bounded length.


def shortened(sites, clip, c=None):
    """Rows no longer than ``clip`` in the tangent space: longer ones keep their direction."""
    found = {}
    for name, (X, y) in sites.items():
        V = tangent(X, c)
        V = V * np.minimum(1, clip / np.linalg.norm(V, axis=1))[:, None]
        found[name] = (V, y)
    return found
