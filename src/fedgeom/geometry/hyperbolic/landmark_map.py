"""A Poincaré map of landmarks, and the place of any row on it.

Klimovskaia, Lopez-Paz, Bottou and Nickel (Poincaré maps for analyzing complex hierarchies in single-cell data, 2020)
embed all rows. Here the few landmarks are embedded, which stand for many rows each; a row is put between the landmarks
that it is near. The distance of two landmarks is that of random walks on their graph: with L its Laplacian, the
relative forest accessibilities are (I + γL)⁻¹, a matrix P with row sums 1. The points x minimise, by Riemannian
gradient descent,

    Σᵢ KL(Pᵢ, Qᵢ) + KL(Qᵢ, Pᵢ),   Qᵢⱼ ∝ exp(-d(xᵢ, xⱼ)/σ).

The descent begins with the classical scaling of distances along the graph. Nothing is drawn: whoever has the landmarks
comes to the same map.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from fedgeom.arrays import Floats
from fedgeom.errors import InputError
from fedgeom.geometry.hyperbolic.poincare import (
    exp0,
    exp_map,
    log0,
    lorentz_centroid,
    mobius_add,
    pairwise_distance,
)

START = 0.5
"""The root mean square of the first tangent vectors at the origin."""
RATE = 0.3
LONGEST = 1.0
"""No step of the descent is longer: far apart, gradients are steep."""
FARTHEST = 12.0
"""No landmark is farther from the origin, as hyperbolic distance: beyond, digits are lost."""
LEAST_SHARE = 1e-12
"""Accessibilities below are taken for this: landmarks of which no walk tells."""
MIDDLE_STEPS = 100
PIECE = 4096


@dataclass(frozen=True)
class MapSettings:
    """How landmarks are embedded."""

    n_components: int = 2
    """The dimension of the ball."""
    n_neighbors: int = 8
    """How many nearest landmarks each is tied to."""
    gamma: float = 4.0
    """γ: how far random walks go."""
    sigma: float = 1.0
    """σ: the unit of distances on the map."""
    n_steps: int = 600


def neighbour_graph(landmarks: ArrayLike, n_neighbors: int) -> tuple[Floats, Floats]:
    """Return the weights of the landmarks' graph, and its edges' lengths, (A, A) each; 0 where there is no edge.

    Each landmark is tied to its nearest ones, and a spanning tree holds all together. Weights are Gaussian; the unit is
    the median distance to the last of the nearest.
    """
    from scipy.sparse.csgraph import minimum_spanning_tree  # slow to import

    distances = _distances(landmarks)
    count = len(distances)
    near = min(n_neighbors, count - 1)
    if near < 1:
        return np.zeros((count, count)), np.zeros((count, count))
    order = np.argsort(distances + np.diag(np.full(count, np.inf)), axis=1, kind="stable")[:, :near]
    edges = np.zeros((count, count), bool)
    edges[np.arange(count)[:, None], order] = True
    # What lies in one place is tied, too: the tree knows no edges of length 0.
    edges |= minimum_spanning_tree(distances + 1e-9 * (1 + distances.max())).toarray() > 0
    edges |= edges.T
    np.fill_diagonal(edges, val=False)
    unit = float(np.median(np.sort(distances, axis=1)[:, near])) or 1.0
    return np.where(edges, np.exp(-((distances / unit) ** 2)), 0.0), np.where(edges, distances, 0.0)


def accessibility(weights: Floats, gamma: float) -> Floats:
    """Return the relative forest accessibilities (I + γL)⁻¹ of a graph with weights (A, A); rows sum to 1."""
    laplacian = np.diag(weights.sum(axis=1)) - weights
    found = np.linalg.inv(np.eye(len(weights)) + gamma * laplacian)
    found = np.maximum((found + found.T) / 2, LEAST_SHARE)
    return np.asarray(found / found.sum(axis=1, keepdims=True))


def embed_landmarks(landmarks: ArrayLike, sizes: ArrayLike, how: MapSettings) -> tuple[Floats, float]:
    """Return the landmarks' points of the ball, (A, dimension), and what the descent came down to, for each landmark.

    landmarks (A, columns); sizes (A,): how many rows each stands for. The middle of all rows is the origin.
    """
    rows = np.asarray(landmarks, np.float64)
    mass = np.asarray(sizes, np.float64)
    if rows.ndim != 2 or not len(rows) or not np.isfinite(rows).all() or mass.shape != (len(rows),):
        raise InputError(f"landmarks of shape {rows.shape} given; wanted finite ones, and a size for each")
    weights, lengths = neighbour_graph(rows, how.n_neighbors)
    wanted = accessibility(weights, how.gamma)
    points = _first_points(lengths, how.n_components)
    for _ in range(how.n_steps):
        points = _step(points, wanted, how.sigma)
    divergence, _ = _slopes(points, wanted, how.sigma)
    return _turned(mobius_add(-middle(points, mass), points), mass), divergence / len(rows)


def middle(points: Floats, weights: ArrayLike) -> Floats:
    """Return the point with the least mean squared distance from points, (n, d), the Fréchet mean, (d,).

    A Lorentz centroid weighs points by cosh of their distances: a few far out at the rim would draw it to them, and the
    most rows would be crowded at the other side. Each step is Newton's with the largest curvature there is, r coth r.
    """
    mass = np.asarray(weights, np.float64) / np.sum(weights)
    found = lorentz_centroid(points, weights=mass)
    for _ in range(MIDDLE_STEPS):
        away = log0(mobius_add(-found, points))
        far = np.maximum(2 * np.linalg.norm(away, axis=1), 1e-9)
        found = mobius_add(found, exp0(mass @ away / (mass @ (far / np.tanh(far)))))
    return found


def place(X: ArrayLike, landmarks: Floats, points: Floats, nearest: int) -> Floats:
    """Return the places of rows on a map: the Lorentz centroid of the points of their nearest landmarks.

    The weights are exp(-(d/d')²), with d' the distance of the farthest of these.

    X (n, columns), landmarks (A, columns), points (A, d); returns (n, d), f8.
    """
    rows = np.asarray(X, np.float64)
    many = min(nearest, len(landmarks))
    found = np.empty((len(rows), points.shape[1]))
    squares = np.einsum("ij,ij->i", landmarks, landmarks)
    for at in range(0, len(rows), PIECE):
        some = rows[at : at + PIECE]
        far = np.einsum("ij,ij->i", some, some)[:, None] + squares - 2 * some @ landmarks.T
        near = np.argsort(far, axis=1, kind="stable")[:, :many] if many < 2 else _smallest(far, many)
        gap = np.maximum(np.take_along_axis(far, near, axis=1), 0.0)
        last = gap.max(axis=1, keepdims=True)
        weights = np.exp(-gap / np.where(last > 0, last, 1.0))
        found[at : at + PIECE] = lorentz_centroid(points[near], weights=weights)
    return found


def _smallest(far: Floats, many: int) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    """Return the places of each row's smallest numbers, in the columns' order, so that a row is placed alone alike."""
    found: np.ndarray[tuple[int, ...], np.dtype[np.int64]] = np.sort(
        np.argpartition(far, many - 1, axis=1)[:, :many], axis=1
    )
    return found


def _distances(rows: ArrayLike) -> Floats:
    X = np.asarray(rows, np.float64)
    squares = np.einsum("ij,ij->i", X, X)
    found = np.sqrt(np.maximum(squares[:, None] + squares - 2 * X @ X.T, 0.0))
    np.fill_diagonal(found, 0.0)
    return np.asarray((found + found.T) / 2)


def _first_points(lengths: Floats, dim: int) -> Floats:
    """Return the classical scaling of the distances along a graph, (A, dim), inside the ball."""
    from scipy.sparse.csgraph import shortest_path  # slow to import

    count = len(lengths)
    if count == 1:
        return np.zeros((1, dim))
    least = 1e-9 * (1 + lengths.max())  # landmarks in one place are tied by what is not 0
    ways = shortest_path(np.where(lengths > 0, lengths, 0.0) + _tied(lengths, least), directed=False)
    ways = np.where(np.isfinite(ways), ways, ways[np.isfinite(ways)].max())
    squares = ways**2
    centred_squares = squares - squares.mean(axis=0) - squares.mean(axis=1)[:, None] + squares.mean()
    values, vectors = np.linalg.eigh(-centred_squares / 2)
    values = values[::-1][:dim]
    vectors = vectors[:, ::-1][:, :dim]
    signs = np.sign(vectors[np.abs(vectors).argmax(axis=0), np.arange(vectors.shape[1])])
    flat = np.zeros((count, dim))
    flat[:, : len(values)] = signs * vectors * np.sqrt(np.maximum(values, 0.0))
    size = np.sqrt(np.mean(np.sum(flat**2, axis=1)))
    tangents = START * flat / (size or 1.0)
    return exp_map(np.zeros((count, dim)), tangents)


def _tied(lengths: Floats, least: float) -> Floats:
    """Return short edges between landmarks in a row that nothing else ties: none, where the graph hangs together."""
    alone = np.flatnonzero(~(lengths > 0).any(axis=1))
    found = np.zeros(lengths.shape)
    found[alone, (alone + 1) % len(lengths)] = least
    return np.maximum(found, found.T)


def _slopes(points: Floats, wanted: Floats, sigma: float) -> tuple[float, Floats]:
    """Return the divergence, and its derivatives by the distances of two points, (A, A)."""
    scores = -pairwise_distance(points, points) / sigma
    np.fill_diagonal(scores, 0.0)
    shares = np.exp(scores - scores.max(axis=1, keepdims=True))
    shares /= shares.sum(axis=1, keepdims=True)
    ratio = np.log(np.maximum(shares, 1e-300)) - np.log(wanted)
    divergence = float(((shares - wanted) * ratio).sum())
    slopes = (shares - wanted) + shares * (ratio - (shares * ratio).sum(axis=1, keepdims=True))
    return divergence, -slopes / sigma


def _step(points: Floats, wanted: Floats, sigma: float) -> Floats:
    """Return the points after one step down the Riemannian gradient.

    With a(x) = 1 - ‖x‖², the distance is arcosh u, u = 1 + 2‖x - y‖²/(a(x)·a(y)).
    """
    _, slopes = _slopes(points, wanted, sigma)
    slopes = slopes + slopes.T
    gap = 1.0 - np.einsum("ij,ij->i", points, points)
    squares = _distances(points) ** 2
    ratio = 2 * squares / (gap[:, None] * gap)
    slopes = slopes / np.sqrt(np.maximum(ratio * (ratio + 2), 1e-12)) / (gap[:, None] * gap)
    np.fill_diagonal(slopes, 0.0)
    pull = 4 * (slopes.sum(axis=1)[:, None] * points - slopes @ points)
    gradient = pull + 4 * ((slopes * squares).sum(axis=1) / gap)[:, None] * points
    tangents = -RATE * gradient * (gap[:, None] ** 2 / 4)
    length = 2 * np.linalg.norm(tangents, axis=1) / gap
    tangents *= np.minimum(1.0, LONGEST / np.maximum(length, 1e-300))[:, None]
    moved = exp_map(points, tangents)
    norm = np.linalg.norm(moved, axis=1, keepdims=True)
    return np.asarray(moved * np.minimum(1.0, np.tanh(FARTHEST / 2) / np.maximum(norm, 1e-300)))


def _turned(points: Floats, mass: Floats) -> Floats:
    """Return the points turned so that they spread most along the first axis; on each, the farthest is positive."""
    _, axes = np.linalg.eigh((points * mass[:, None]).T @ points)
    turned = points @ axes[:, ::-1]
    signs = np.sign(turned[np.abs(turned).argmax(axis=0), np.arange(turned.shape[1])])
    return np.asarray(turned * np.where(signs == 0, 1.0, signs))
