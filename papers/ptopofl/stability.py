"""Theorem 3, whether clusters stay under noise: the example against it, and a condition that is enough."""

from __future__ import annotations

from typing import Any

import numpy as np

from fedgeom.geometry.topology import clustering as topology
from papers.common import Floats

POINTS, NOISE = (0.0, 1.0, 2.05, 3.05), (-0.1, 0.1, -0.1, 0.1)
"""Two clusters, 1.05 apart: more than 2·0.1 + γ. The noise brings the middle two together."""


def same(one: Any, other: Any) -> bool:
    """Say whether two clusterings are the same but for the clusters' numbers."""
    return bool(np.array_equal(np.equal.outer(one, one), np.equal.outer(other, other)))


def margins(points: Floats, labels: Any) -> tuple[float, float]:
    """Return the largest distance within a cluster and the smallest between two."""
    gaps = np.linalg.norm(points[:, None] - points[None], axis=2)
    together = np.equal.outer(labels, labels)
    return float(gaps[together].max()), float(gaps[~together].min())


def changes(points: Floats, noise: Floats, clusters: int) -> bool:
    """Say whether average linkage puts disturbed points into other clusters."""
    found = [
        topology.average_linkage(topology.pairwise_distances(one), clusters) for one in (points, points + noise)
    ]
    return not same(*found)


def stability(draws: int, seed: int = 0) -> dict[str, Any]:
    """Return the example, and how often random descriptors that meet a condition change clusters all the same."""
    points, noise = np.array(POINTS)[:, None], np.array(NOISE)[:, None]
    labels = topology.average_linkage(topology.pairwise_distances(points), 2)
    rng = np.random.default_rng(seed)
    met = {"Theorem 3's": [0, 0], "ours": [0, 0]}
    for _ in range(draws):
        centres = 3.0 * rng.normal(size=(3, 2))
        cloud = np.repeat(centres, 4, axis=0) + rng.uniform(0.1, 1.0) * rng.normal(size=(12, 2))
        found = topology.average_linkage(topology.pairwise_distances(cloud), 3)
        within, between = margins(cloud, found)
        eta = rng.uniform(0.05, 0.5)
        angle = rng.normal(size=cloud.shape)
        moved = changes(cloud, eta * angle / np.linalg.norm(angle, axis=1, keepdims=True), 3)
        for name, holds in (("Theorem 3's", between > 2 * eta), ("ours", within + 4 * eta < between)):
            met[name][0] += holds
            met[name][1] += holds and moved
    return {
        "points": list(POINTS),
        "noise": list(NOISE),
        "clusters before": labels.tolist(),
        "clusters after": topology.average_linkage(topology.pairwise_distances(points + noise), 2).tolist(),
        "smallest distance between clusters": round(margins(points, labels)[1], 6),
        "random": {name: {"met": int(a), "changed": int(b)} for name, (a, b) in met.items()},
    }
