"""Trees in the ball: edges have one length, distortion falls as they grow, and matches hand-computed cases."""

from __future__ import annotations

import math

import numpy as np
import pytest

from fedgeom.errors import InputError
from fedgeom.geometry.graphs.class_tree import ClassTree
from fedgeom.geometry.hyperbolic import poincare
from fedgeom.geometry.hyperbolic.prototypes import distortion, embed_tree, random_rotation, tree_prototypes


def rng(seed=0):
    return np.random.default_rng(seed)


def full_tree(branches, depth):
    """A tree in which every inner node has the same number of children."""
    names, parents = [""], {}
    for _ in range(depth):
        below = [f"{name}{letter}" for name in names for letter in "abcdefgh"[:branches]]
        parents |= {name: name[:-1] or "root" for name in below}
        names = below
    return ClassTree.read(parents)


@pytest.mark.parametrize("dim", [2, 3, 5, 20])
@pytest.mark.parametrize("edge", [0.5, 2.0, 6.0])
def test_every_edge_has_its_length(dim, edge):
    tree = full_tree(3, 3)
    points = embed_tree(tree, dim, edge, rng=rng())
    lengths = poincare.distance(points[1:], points[tree.parents[1:]])
    np.testing.assert_allclose(lengths, edge, rtol=1e-6)
    np.testing.assert_array_equal(points[0], 0.0)


@pytest.mark.parametrize("dim", [2, 3, 10])
def test_distortion_falls_to_one_as_edges_grow(dim):
    tree = full_tree(3, 3)
    worst = [
        distortion(embed_tree(tree, dim, edge, rng=rng()), tree.node_distances()).worst for edge in (1, 3, 6, 11)
    ]
    assert worst == sorted(worst, reverse=True)
    assert worst[-1] < 1.12


def test_a_path_and_a_star_by_hand():
    path = ClassTree.read({"a": "root", "b": "root"})
    points = embed_tree(path, 2, 1.0, rng=rng())
    assert distortion(points, path.node_distances()).worst == pytest.approx(1.0)  # two edges make a straight line
    star = ClassTree.read({"a": "root", "b": "root", "c": "root"})
    points = embed_tree(star, 2, 1.0, rng=rng())
    # The hyperbolic law of cosines with an angle of 120 degrees: cosh d = cosh²(1) + sinh²(1)/2.
    apart = math.acosh(math.cosh(1) ** 2 + math.sinh(1) ** 2 / 2)
    found = distortion(points, star.node_distances())
    assert found.worst == pytest.approx(1 / (apart / 2))
    ratios = np.array([1, 1, 1, apart / 2, apart / 2, apart / 2])
    assert found.mean == pytest.approx(np.abs(ratios / ratios.mean() - 1).mean())


def test_prototypes_reach_the_slope_and_siblings_are_nearest():
    tree = full_tree(3, 2)
    points = tree_prototypes(tree, 10, 0.9, rng=rng())
    assert np.linalg.norm(points, axis=1).max() == pytest.approx(0.9, abs=1e-9)
    found = poincare.pairwise_distance(points, points)
    siblings = tree.distances() == 2
    assert found[siblings].max() < found[tree.distances() == 4].min()
    np.testing.assert_array_equal(points, tree_prototypes(tree, 10, 0.9, rng=rng()))


def test_classes_of_less_depth_lie_nearer_to_the_origin():
    tree = ClassTree.read({"deep": "mid", "deeper": "mid", "mid": "root", "flat": "root"})
    norms = np.linalg.norm(tree_prototypes(tree, 3, 0.8, rng=rng()), axis=1)
    assert norms[2] < norms[:2].min()


def test_rotations_keep_lengths_and_angles():
    turn = random_rotation(6, rng=rng(4))
    np.testing.assert_allclose(turn @ turn.T, np.eye(6), atol=1e-12)
    assert np.abs(turn - np.eye(6)).max() > 0.1


@pytest.mark.parametrize("dim", [2, 5])
def test_a_tree_of_a_hundred_nodes_keeps_its_order_of_distances(dim):
    tree = full_tree(4, 3)
    found = distortion(embed_tree(tree, dim, 11.0, rng=rng()), tree.node_distances())
    assert found.worst < 1.25
    assert found.mean < 0.06


@pytest.mark.parametrize(
    "made",
    [
        lambda: embed_tree(full_tree(2, 1), 1, 1.0, rng=rng()),
        lambda: embed_tree(full_tree(2, 1), 2, 0.0, rng=rng()),
        lambda: embed_tree(full_tree(2, 3), 2, 20.0, rng=rng()),
        lambda: tree_prototypes(full_tree(2, 1), 2, 1.0, rng=rng()),
    ],
)
def test_what_has_no_place_in_the_ball_is_refused(made):
    with pytest.raises(InputError):
        made()


def test_a_single_node_has_no_distortion():
    assert distortion(np.zeros((1, 2)), np.zeros((1, 1), np.int64)) == (1.0, 0.0)
