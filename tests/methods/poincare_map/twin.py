"""A joint Poincaré map from all rows in one place, on the hyperboloid, with loops: a twin of the step."""

from __future__ import annotations

import itertools

import numpy as np
from scipy.sparse.csgraph import dijkstra


def cells(X, most, least):
    """Return the number of each row's cell: all rows, cut at means along the columns that vary most within cells."""
    labels = np.zeros(len(X), int)
    for at_once in [4] + [2] * 20:
        count = labels.max() + 1
        if count >= most:
            break
        means = np.array([X[labels == cell].mean(axis=0) for cell in range(count)])
        within = np.round(
            ((X - means[labels]) ** 2).mean(axis=0) / ((X - means[labels]) ** 2).mean(axis=0).max(), 6
        )
        order = sorted(range(X.shape[1]), key=lambda column: -within[column])
        order = [column for column in order if within[column] > 0]
        sizes = np.bincount(labels)
        room = most - count
        cuts = {}
        for cell in sorted(range(count), key=lambda cell: -sizes[cell]):
            parts = min(sizes[cell] // least, room + 1)
            many = 0
            while many < min(at_once, len(order)) and 2 ** (many + 1) <= parts:
                many += 1
            cuts[cell] = order[:many]
            room -= 2**many - 1
        new = np.zeros(len(X), int)
        found = 0
        for cell in range(count):
            rows = np.flatnonzero(labels == cell)
            corners = [bits[::-1] for bits in itertools.product([0, 1], repeat=len(cuts[cell]))]
            sides = (X[rows][:, cuts[cell]] > means[cell][cuts[cell]] + 1e-6 * X.std(axis=0)[cuts[cell]]).astype(
                int
            )
            groups = [[corner] for corner in corners]
            held = [rows[[tuple(side) == corner for side in sides.tolist()]] for corner in corners]
            while len(groups) > 1 and min(map(len, held)) < least:
                small = int(np.argmin([len(one) for one in held]))
                own = np.mean(groups[small], axis=0)
                away = [float(within[cuts[cell]] @ (np.mean(group, axis=0) - own) ** 2) for group in groups]
                away[small] = np.inf
                other = int(np.argmin(away))
                groups[other] += groups[small]
                held[other] = np.concatenate([held[other], held[small]])
                del groups[small], held[small]
            for one in held:
                new[one] = found
                found += 1
        if found == count:
            break
        labels = new
    return labels


def walk(landmarks, k, gamma):
    """Return the accessibilities of the landmarks' graph, and the distances along it."""
    n = len(landmarks)
    far = np.array([[np.linalg.norm(a - b) for b in landmarks] for a in landmarks])
    edges = {(i, j) for i in range(n) for j in sorted(set(range(n)) - {i}, key=lambda j: (far[i, j], j))[:k]}
    inside = {0}
    while len(inside) < n:  # Prim's spanning tree
        i, j = min(((i, j) for i in inside for j in range(n) if j not in inside), key=lambda pair: far[pair])
        edges.add((i, j))
        inside.add(j)
    unit = np.median([sorted(row)[k] for row in far])
    weights = np.zeros((n, n))
    lengths = np.full((n, n), np.inf)
    for i, j in edges:
        weights[i, j] = weights[j, i] = np.exp(-((far[i, j] / unit) ** 2))
        lengths[i, j] = lengths[j, i] = far[i, j]
    P = np.maximum(np.linalg.inv(np.eye(n) + gamma * (np.diag(weights.sum(axis=1)) - weights)), 1e-12)
    ways = dijkstra(np.where(np.isfinite(lengths), lengths, 0.0), directed=False)
    return P / P.sum(axis=1, keepdims=True), ways


def minkowski(a, b):
    """Return the Lorentz product."""
    return -a[..., 0] * b[..., 0] + (a[..., 1:] * b[..., 1:]).sum(axis=-1)


def embedded(landmarks, dim=2, k=8, gamma=4.0, sigma=1.0, steps=600):
    """Return the landmarks' points of the ball up to an isometry, by gradient descent on the hyperboloid."""
    P, ways = walk(landmarks, k, gamma)
    n = len(P)
    J = np.eye(n) - 1 / n
    values, vectors = np.linalg.eigh(-J @ ways**2 @ J / 2)
    flat = np.zeros((n, dim))
    for at in range(dim):
        vector = vectors[:, -1 - at]
        flat[:, at] = vector * np.sign(vector[np.argmax(np.abs(vector))]) * np.sqrt(max(values[-1 - at], 0))
    flat *= 0.5 / np.sqrt((flat**2).sum(axis=1).mean())
    radius = 2 * np.linalg.norm(flat, axis=1, keepdims=True)  # a tangent vector of the disc at 0 is half as long
    x = np.hstack([np.cosh(radius), np.sinh(radius) * flat / np.maximum(radius / 2, 1e-300)])
    for _ in range(steps):
        gradient = np.zeros_like(x)
        away = np.arccosh(np.maximum(-minkowski(x[:, None], x[None]), 1.0))
        np.fill_diagonal(away, 0.0)
        Q = np.exp(-away / sigma)
        Q /= Q.sum(axis=1, keepdims=True)
        ratio = np.log(Q / P)
        slope = -((Q - P) + Q * (ratio - (Q * ratio).sum(axis=1, keepdims=True))) / sigma
        slope = slope + slope.T
        for i, j in itertools.permutations(range(n), 2):
            if away[i, j] > 0:  # the gradient of d(x, y) by x is minus the unit vector towards y
                towards = x[j] + minkowski(x[i], x[j]) * x[i]
                gradient[i] -= slope[i, j] * towards / np.sqrt(minkowski(towards, towards))
        step = -0.3 * gradient
        length = np.sqrt(np.maximum(minkowski(step, step), 0))[:, None]
        step *= np.minimum(1.0, 1.0 / np.maximum(length, 1e-300))
        length = np.minimum(length, 1.0)
        x = np.cosh(length) * x + np.where(length > 0, np.sinh(length) / np.maximum(length, 1e-300), 1.0) * step
        x /= np.sqrt(-minkowski(x, x))[:, None]
    return x[:, 1:] / (1 + x[:, :1])


def placed(X, landmarks, points, nearest=5):
    """Return the places of rows: normalised sums on the hyperboloid of the points of their nearest landmarks."""
    found = []
    for row in X:
        far = ((landmarks - row) ** 2).sum(axis=1)
        near = np.argsort(far)[:nearest]
        squares = (points[near] ** 2).sum(axis=1, keepdims=True)
        lifted = np.hstack([1 + squares, 2 * points[near]]) / (1 - squares)
        middle = np.exp(-far[near] / far[near].max()) @ lifted
        middle /= np.sqrt(-minkowski(middle, middle))
        found.append(middle[1:] / (1 + middle[0]))
    return np.array(found)
