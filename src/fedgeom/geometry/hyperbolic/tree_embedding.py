"""A tree in the ball: nodes near in the tree lie near in the ball, with little distortion (after Sarkar 2011).

The root is at the origin. Around every node its parent and its children lie in directions as far apart as can be (a
spherical code, `prototypes.tammes`), all at the same hyperbolic distance: the length of an edge. The longer the edges,
the nearer are all distances to multiples of those in the tree; an edge's length is bounded by float64, which knows no
points farther than about 36 from the origin.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from fedgeom.arrays import Floats, Ints
from fedgeom.errors import InputError
from fedgeom.geometry.graphs.class_tree import ClassTree
from fedgeom.geometry.hyperbolic import poincare
from fedgeom.geometry.hyperbolic.prototypes import random_directions, tammes

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
    low, high = 0.0, FARTHEST / max(int(tree.depths.max()), 1)
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
