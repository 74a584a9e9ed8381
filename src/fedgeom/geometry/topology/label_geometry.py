"""How a site's labels lie on its points: what a flipped label changes and a descriptor of X cannot show.

Merges of H0 are the edges of a minimum spanning tree. Labelled by class, their share that joins different labels is
small where classes lie apart and grows with every wrong label. A site whose labels are *all* exchanged keeps its
share: against that only a comparison with other sites' models helps.

Shares depend on the balance of the classes. ``adjusted=True`` divides by the share that shuffled labels would have
on average, n/(n − 1) · (1 − Σ p_c²): 0 is order, 1 is chance, and sites of different balance become comparable.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.spatial.distance import cdist

from fedgeom.arrays import Floats
from fedgeom.errors import InputError
from fedgeom.geometry.topology.descriptors import check_labels
from fedgeom.geometry.topology.persistence import check_cloud, pairwise_distances, spanning_tree

__all__ = ["Kind", "class_distances", "mixed_merge_share", "neighbour_disagreement"]

Kind = Literal["energy", "centroid", "hausdorff"]


def mixed_merge_share(X: ArrayLike, y: ArrayLike, *, adjusted: bool = False) -> float:
    """Return the share of H0 merges (edges of a minimum spanning tree) that join points of different labels.

    X (n, d), y (n,).

    A site of fewer than two points, or with one label, has 0. Memory is n² distances; draw a subsample of a large
    site first. Where distances tie (duplicates), the tree and so the share depend on the order of the points.
    """
    cloud, labels = _labelled(X, y)
    if len(cloud) < 2:
        return 0.0
    edges, _ = spanning_tree(pairwise_distances(cloud))
    share = float(np.mean(labels[edges[:, 0]] != labels[edges[:, 1]]))
    return _against_chance(share, labels) if adjusted else share


def neighbour_disagreement(X: ArrayLike, y: ArrayLike, *, k: int = 5, adjusted: bool = False) -> float:
    """Return the mean share of a point's k nearest other points whose label differs from its own.

    X (n, d), y (n,).

    With n ≤ k points all n − 1 others are taken; fewer than two points give 0.
    """
    if k < 1:
        raise InputError(f"k is {k}, but at least one neighbour is wanted.")
    cloud, labels = _labelled(X, y)
    if len(cloud) < 2:
        return 0.0
    from sklearn.neighbors import NearestNeighbors  # slow to import

    # Asked without points, it leaves out each point itself by its index, so that duplicates count as neighbours.
    near = NearestNeighbors(n_neighbors=min(k, len(cloud) - 1)).fit(cloud).kneighbors(return_distance=False)
    share = float(np.mean(labels[near] != labels[:, None]))
    return _against_chance(share, labels) if adjusted else share


def class_distances(
    X: ArrayLike, y: ArrayLike, classes: Sequence[Any], *, kind: Kind = "energy", absent: float = 0.0
) -> Floats:
    """Return the distances between the class clouds, for the pairs (0, 1), (0, 2), … of ``classes``, in that order.

    ``energy``: (2E|a − b| − E|a − a'| − E|b − b'|)^½ over all pairs of points, which is 0 only for equal laws;
    ``centroid``: the distance of the means; ``hausdorff``: the largest distance of a point of one cloud to the other
    cloud. A pair of which a class has no rows has ``absent``.
    """
    cloud = check_cloud(X)
    labels = check_labels(y, len(cloud), classes)
    if kind not in ("energy", "centroid", "hausdorff"):
        raise InputError(f"kind is {kind!r}, but 'energy', 'centroid' or 'hausdorff' is wanted.")
    parts = [cloud[labels == place] for place in range(len(classes))]
    spreads = [float(cdist(p, p).mean()) if kind == "energy" and len(p) else 0.0 for p in parts]
    found = []
    for i, j in combinations(range(len(classes)), 2):
        a, b = parts[i], parts[j]
        if not (len(a) and len(b)):
            found.append(float(absent))
        elif kind == "centroid":
            found.append(float(np.linalg.norm(a.mean(axis=0) - b.mean(axis=0))))
        else:
            D = cdist(a, b)
            if kind == "hausdorff":
                found.append(float(max(D.min(axis=1).max(), D.min(axis=0).max())))
            else:
                found.append(float(np.sqrt(max(2.0 * D.mean() - spreads[i] - spreads[j], 0.0))))
    return np.array(found, np.float64)


def _labelled(X: ArrayLike, y: ArrayLike) -> tuple[Floats, NDArray[np.int64]]:
    cloud, labels = check_cloud(X), np.asarray(y)
    if labels.shape != (len(cloud),):
        raise InputError(
            f"y has shape {labels.shape}, but one label for each of the {len(cloud)} rows of X is wanted."
        )
    return cloud, np.unique(labels, return_inverse=True)[1].astype(np.int64)


def _against_chance(share: float, labels: NDArray[np.int64]) -> float:
    n, counts = len(labels), np.bincount(labels).astype(np.float64)
    chance = 1.0 - float(np.sum(counts * (counts - 1.0))) / (n * (n - 1.0))
    return share / chance if chance > 0.0 else 0.0
