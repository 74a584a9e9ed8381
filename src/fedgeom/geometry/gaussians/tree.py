"""A tree over Gaussians: the nearest two are joined, again and again, until one is left."""

from __future__ import annotations

from collections.abc import Sequence

from scipy.cluster.hierarchy import linkage
from scipy.spatial.distance import squareform

from fedgeom.errors import InputError
from fedgeom.geometry.gaussians.bundles import Gaussians, bhattacharyya
from fedgeom.geometry.graphs.class_tree import ROOT


def joined_tree(classes: Gaussians, names: Sequence[str]) -> dict[str, str]:
    """Return ``{child: parent}`` for Gaussians, one for each name, by average linkage of Bhattacharyya distances.

    Inner nodes are called "group 1", "group 2", … in the order in which they are joined, the nearest first; the root
    has a name of its own. It is a class tree as `HyperFed` takes it.
    """
    words = [str(name) for name in names]
    if len(words) != len(classes) or len(set(words)) < len(words) or len(words) < 2:
        raise InputError(
            f"{len(words)} names given for {len(classes)} classes; wanted two or more, one for each and all different"
        )
    steps = linkage(squareform(bhattacharyya(classes, classes), checks=False), method="average")
    nodes, parents = list(words), dict[str, str]()
    for at, (one, other, *_) in enumerate(steps):
        group = ROOT if at == len(steps) - 1 else f"group {at + 1}"
        for child in (nodes[int(one)], nodes[int(other)]):
            parents[child] = group
        nodes.append(group)
    return parents
