"""Class prototypes for a ball: directions as far apart as can be (the Tammes problem), pulled inwards by a slope.

Equation numbers are HyperFed's (Liao et al. 2023). Directions are rows of W, (classes, dimension), f8, of norm 1. What
has a closed form is written down; the rest is searched for from several starts, and the same generator gives the same.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from fedgeom.arrays import Floats, Indices, Ints
from fedgeom.errors import InputError
from fedgeom.geometry.graphs.class_tree import ClassTree
from fedgeom.geometry.hyperbolic import poincare

STARTS = 16
"""How often a search begins anew."""
_SHARPNESS = 10.0 ** np.arange(1.0, 6.6, 0.5)
# The maximum of m cosines is their soft maximum up to ln(m)/sharpness; each search begins where the softer one ended.
_FIRST = 4
# Searches begin with different sharpness: the softest first maximum leads ten points on the sphere astray every time.
_EQUAL = 1e-6
# Largest cosines that differ by less are equally good: the searches are no sharper.


def tammes(count: int, dim: int, *, rng: np.random.Generator, starts: int = STARTS) -> Floats:
    """Return ``count`` unit vectors whose largest cosine is as small as possible (Eq. 4).

    There is a closed form for up to 2·dim vectors and in the plane (`closed_form`); otherwise the best of several
    searches is returned, which for three dimensions and few vectors is the known optimum.

    >>> W = tammes(4, 3, rng=np.random.default_rng(0))
    >>> round(largest_cosine(W), 12)
    -0.333333333333
    """
    _check_size(count, dim)
    found = closed_form(count, dim)
    if found is not None:
        return found
    if starts < 1:
        raise InputError(f"starts={starts} given; wanted at least 1")
    tried = [_search(random_directions(count, dim, rng=rng), start % _FIRST) for start in range(starts)]
    largest = np.array([largest_cosine(W) for W in tried])
    # Many searches end in the same arrangement, turned; which of them rounding favours must not decide.
    return tried[int(np.argmax(largest <= largest.min() + _EQUAL))]


def closed_form(count: int, dim: int) -> Floats | None:
    """Return an optimum of Eq. 4 where it can be written down, else None.

    Up to dim + 1 vectors are a regular simplex, with all cosines -1/(count - 1). Up to 2·dim vectors no arrangement
    has a largest cosine below 0 (Davenport and Hajós 1951), and count - dim simplices in orthogonal subspaces reach 0.
    In the plane the answer is a regular polygon.
    """
    from scipy.linalg import helmert  # slow to import

    _check_size(count, dim)
    if dim == 2 and count > 2:
        angle = 2.0 * math.pi * np.arange(count) / count
        return np.stack([np.cos(angle), np.sin(angle)], axis=1)
    if count > 2 * dim:
        return None
    W = np.zeros((count, dim))
    row = 0
    column = 0
    blocks = max(1, count - dim)
    for block in range(blocks):
        size = count // blocks + (block < count % blocks)
        if size == 1:  # a single class: any direction is as good
            W[row, column] = 1.0
        else:
            W[row : row + size, column : column + size - 1] = helmert(size).T * math.sqrt(size / (size - 1))
        row = row + size
        column = column + size - 1
    return W


def published(count: int, dim: int, *, rng: np.random.Generator, steps: int = 5000, rate: float = 0.1) -> Floats:
    """Return unit vectors by gradient descent on the mean of each vector's largest cosine (Eq. 5), as published.

    Only one cosine per vector moves at a time, so that the descent ends in a jitter above the optimum: for ten classes
    in twenty dimensions at about -0.093, where the simplex has -1/9.
    """
    W = random_directions(count, dim, rng=rng)
    if count < 2:
        return W
    everyone = np.arange(count)
    for _ in range(steps):
        nearest = (W @ W.T - 2.0 * np.eye(count)).argmax(axis=1)
        gradient = W[nearest] / count
        np.add.at(gradient, nearest, W[everyone] / count)
        W = _unit(W - rate * gradient)
    return W


def contract(W: ArrayLike, slope: float) -> Floats:
    """Return the prototypes s·W of a slope 0 < s ≤ 1, (classes, dimension).

    At s = 1 they are ideal points, infinitely far from every point of the ball; `distances` then gives the limit of
    what is left when the distance from the origin is taken off.
    """
    if not 0.0 < slope <= 1.0:
        raise InputError(
            f"slope={slope!r} given; wanted above 0 and at most 1, the share of the ball's radius at which "
            "the prototypes lie (the paper has 0.9)"
        )
    return float(slope) * np.asarray(W, np.float64)


def distances(points: ArrayLike, prototypes: ArrayLike) -> Floats:
    """Return how far points are from prototypes, (points, classes), f8: geodesics, for ideal points Busemann functions.

    The Busemann function b_w(x) = ln(‖x - w‖²/(1 - ‖x‖²)) of an ideal point w is the limit of d(x, s·w) - d(0, s·w)
    for s → 1. The difference of two of them, which is all that a triplet or a softmax looks at, is the limit of the
    difference of the distances; a mean distance to the own prototype has no such limit, and b_w is not bounded below.
    """
    points = np.asarray(points, np.float64)
    prototypes = np.asarray(prototypes, np.float64)
    ideal = is_ideal(prototypes)
    if not ideal.any():
        return poincare.pairwise_distance(points, prototypes)
    if not ideal.all():
        raise InputError("some prototypes lie on the edge of the ball and some inside; wanted all or none")
    norm = np.linalg.norm(points, axis=1)[:, None]
    square = ((points[:, None, :] - prototypes[None, :, :]) ** 2).sum(axis=2)
    return np.asarray(np.log(np.maximum(square, 1e-300) / ((1.0 - norm) * (1.0 + norm))))


def is_ideal(prototypes: Floats) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Say which prototypes lie on the edge of the ball, up to rounding."""
    found: np.ndarray[tuple[int], np.dtype[np.bool_]] = np.linalg.norm(prototypes, axis=1) >= 1.0 - 1e-12
    return found


def largest_cosine(W: Floats) -> float:
    """Return the largest cosine between two rows of norm 1; -1 for a single row."""
    if len(W) < 2:
        return -1.0
    return float((W @ W.T)[np.triu_indices(len(W), 1)].max())


def random_directions(count: int, dim: int, *, rng: np.random.Generator) -> Floats:
    """Return unit vectors drawn uniformly, (count, dim)."""
    _check_size(count, dim, crowded=True)
    return _unit(rng.normal(size=(count, dim)))


def _unit(W: Floats) -> Floats:
    return np.asarray(W / np.linalg.norm(W, axis=1, keepdims=True))


def _check_size(count: int, dim: int, crowded: bool = False) -> None:
    if count < 1 or dim < 1:
        raise InputError(f"{count} prototypes in {dim} dimensions given; wanted at least one of each")
    if dim == 1 and count > 2 and not crowded:
        raise InputError(f"{count} prototypes given; a line has two directions: take dim = 2 or more")


def _search(W: Floats, first: int) -> Floats:
    """Descend from W along ever sharper soft maxima of the cosines."""
    from scipy.optimize import minimize  # slow to import

    pairs = np.triu_indices(len(W), 1)
    for sharpness in _SHARPNESS[first:]:
        found = minimize(
            _soft_maximum, W.ravel(), (W.shape, sharpness, pairs), "L-BFGS-B", True, options={"maxiter": 300}
        )
        W = _unit(found.x.reshape(W.shape))
    return W


def _soft_maximum(
    flat: Floats, shape: tuple[int, int], sharpness: float, pairs: tuple[Indices, ...]
) -> tuple[float, Floats]:
    """Return ln Σ exp(sharpness·cosine)/sharpness over all pairs, and its gradient in vectors of any length."""
    vectors = flat.reshape(shape)
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    W = vectors / norms
    cosines = (W @ W.T)[pairs]
    top = float(cosines.max())
    powers = np.exp(sharpness * (cosines - top))
    total = float(powers.sum())
    shares = np.zeros((len(W), len(W)))
    shares[pairs] = powers / total
    pull = (shares + shares.T) @ W
    pull = (pull - (pull * W).sum(axis=1, keepdims=True) * W) / norms
    return top + math.log(total) / sharpness, pull.ravel()


FARTHEST = 36.0
"""No node may lie farther from the root, in hyperbolic length."""


class Distortion(NamedTuple):
    """How far distances in the ball are from a multiple of those in the tree; 1 and 0 are perfect."""

    worst: float
    """The largest ratio of a distance in the ball to that in the tree, over the smallest."""
    mean: float
    """The mean of |ratio/mean ratio - 1|."""


def embed_tree(tree: ClassTree, dim: int, edge: float, *, rng: np.random.Generator) -> Floats:
    """Return a point of the ball for every node, (nodes, dim); ``edge`` is the hyperbolic length of an edge.

    The generator turns each node's code around the edge to its parent, so that cousins do not all lean the same way.
    """
    if dim < 2:
        raise InputError(f"dim={dim} given; a tree needs the plane or more")
    if not 0.0 < edge * max(int(tree.depths.max()), 1) <= FARTHEST:
        raise InputError(
            f"edge={edge} given; wanted above 0, and at most {FARTHEST / max(int(tree.depths.max()), 1):.3g} "
            f"for a tree of depth {tree.depths.max()}: float64 resolves no points farther out"
        )
    codes: dict[int, Floats] = {}
    points = np.zeros((len(tree.nodes), dim))
    step = math.tanh(edge / 2)
    for node, parent in enumerate(tree.parents.tolist()):
        below = tree.children(node)
        if not len(below):
            continue
        wanted = len(below) + (parent >= 0)
        if wanted not in codes:
            codes[wanted] = tammes(wanted, dim, rng=np.random.default_rng(wanted))
        code = codes[wanted] @ random_rotation(dim, rng=rng)
        if parent >= 0:
            back = poincare.log_map(points[node], points[parent])
            code = _turned(code, back / np.linalg.norm(back))[1:]
        points[below] = poincare.mobius_add(points[node], step * code)
    return points


def tree_prototypes(tree: ClassTree, dim: int, slope: float, *, rng: np.random.Generator) -> Floats:
    """Return a prototype for every class, (classes, dim): the edge is so long that the outermost has norm ``slope``."""
    if not 0.0 < slope < 1.0:
        raise InputError(
            f"slope={slope!r} given; prototypes of a tree lie at different depths, which takes a slope above 0 and "
            "below 1: on the edge of the ball all are equally far"
        )
    state = rng.bit_generator.state

    def placed(edge: float) -> Floats:
        rng.bit_generator.state = state
        return embed_tree(tree, dim, edge, rng=rng)[tree.classes]

    # The outermost class has the depth as its distance at most, and grows with the edge.
    low = 0.0
    high = FARTHEST / max(int(tree.depths.max()), 1)
    for _ in range(60):
        middle = (low + high) / 2
        if np.linalg.norm(placed(middle), axis=1).max() < slope:
            low = middle
        else:
            high = middle
    return placed(high)


def distortion(points: ArrayLike, tree_distances: Ints) -> Distortion:
    """Return how much of the tree is lost: points (nodes, dim) against numbers of edges, (nodes, nodes)."""
    found = poincare.pairwise_distance(points, points)
    pairs = np.triu_indices(len(found), 1)
    if not len(pairs[0]):
        return Distortion(1.0, 0.0)
    ratios = found[pairs] / tree_distances[pairs]
    return Distortion(float(ratios.max() / ratios.min()), float(np.abs(ratios / ratios.mean() - 1).mean()))


def random_rotation(dim: int, *, rng: np.random.Generator) -> Floats:
    """Return an orthogonal matrix, (dim, dim): reflections that carry unit vectors to random ones."""
    found = np.eye(dim)
    for axis in range(dim - 1):  # Householder's way: the reflections' product is uniformly distributed
        target = np.zeros(dim)
        target[axis:] = random_directions(1, dim - axis, rng=rng)[0]
        found = _turned(found, target, np.eye(dim)[axis])
    return found


def _turned(code: Floats, target: Floats, source: Floats | None = None) -> Floats:
    """Reflect rows so that ``source`` (the first row where nothing is said) becomes ``target``; both have norm 1."""
    mirror = (code[0] if source is None else source) - target
    square = float(mirror @ mirror)
    return code if square < 1e-24 else code - np.outer(code @ mirror, mirror) * (2.0 / square)
