"""How the shapes of rows are described, and what follows from it: clusters, closeness and trust (Section 3).

The run uses these, and whoever looks ahead at what the weights of a run will be.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import msgspec
import numpy as np
import numpy.typing as npt

from fedgeom.arrays import Floats, Ints
from fedgeom.federation.messages import Array, Key, Message, Question
from fedgeom.geometry.topology import clustering as topology
from fedgeom.geometry.topology.descriptors import class_descriptors, descriptor, mixed_merge_share
from fedgeom.geometry.topology.distances import diagram_closeness, site_distance_matrix
from fedgeom.geometry.topology.persistence import Diagrams, rips_diagrams, subsample
from fedgeom.methods.iterative.messages import Leaves, RoundNumber
from fedgeom.methods.ptopofl.settings import TopoSettings


class ShapeDescription(Message, kind="topo.description"):
    """The shape of a site's rows; empty arrays stand for what was not asked for."""

    reveals: ClassVar[str] = "a summary of the shape of this site's rows"
    descriptor: Array
    """(48,), f8: φ_k, the numbers of Appendix B, of all rows."""
    by_class: Array
    """(48·classes,), f8: the 48 numbers of each class, one class after the other."""
    h0: Array
    """(pairs, 2), f8: the persistence diagram of H0 itself, for Wasserstein distances."""
    h1: Array
    """(pairs, 2), f8: that of H1."""
    merges: Annotated[float, msgspec.Meta(ge=0, le=1)] = 0.0
    """The share of the spanning tree's edges that join rows of different labels."""


class DescribeShape(Question, kind="topo.describe", answer=ShapeDescription):
    """Ask for the descriptor."""

    answer_reveals: ClassVar[str] = (
        "the shape of this site's rows (where the terms say activations: of what an untrained network makes of them), "
        "not hidden from the coordinator: 48 numbers (Betti curves, entropies, amplitudes and counts of H0 and H1), "
        "for each class where the method asks for classes, with diagrams where it compares diagrams, with "
        "the share of tree edges between labels where it judges by that"
    )
    round: RoundNumber


class DescribeActivations(Question, kind="topo.describe.activations", answer=ShapeDescription):
    """Give a site the joint model and ask for the shape of what its body makes of the rows."""

    answer_reveals: ClassVar[str] = (
        "the shape of this site's activations, not hidden from the coordinator: 48 numbers as of rows, but of a "
        "function of the rows that the coordinator chose with the model it gave; a trained one tells classes apart, so "
        "that the shape tells which classes the site has and how well they are told apart"
    )
    round: RoundNumber
    given: Leaves
    agreed: Key
    """A hash of the classes and the scale that all sites were told (`Agreed.hash`)."""


class DescribePrivately(Question, kind="topo.describe.private", answer=ShapeDescription):
    """Ask for a differentially private descriptor."""

    answer_reveals: ClassVar[str] = (
        "48 numbers on the shape of this site's rows with noise: (ε, δ)-differentially private for one row more or "
        "less, with the ε and δ of the run's terms"
    )
    round: RoundNumber


NOTHING = Array.of(np.empty((0, 2)))
NONE = Array.of(np.empty(0))
"""What is sent for diagrams and for descriptors that nobody asked for."""
CONSENSUS = "consensus"
"""The branch of what sites are given last that has the joint model, beside their cluster's."""


def describe_rows(
    method: TopoSettings,
    X: Floats,
    y: npt.NDArray[Any],
    classes: Sequence[str],
    rng: Callable[[], np.random.Generator],
) -> ShapeDescription:
    """Describe a site's scaled rows X, (rows, columns), f8, with labels y, (rows,), as the settings say.

    ``rng`` gives the same generator anew for each part.
    """
    options: dict[str, Any] = {
        "points": method.n_points,
        "scale": "unit box" if method.unit_box else "none",
        "size_free": method.size_free,
        "repeats": method.n_repeats,
    }
    whole = by_class = NONE
    if method.by_rows:
        whole = Array.of(descriptor(X, rng=rng(), **options))
    if method.by_class:
        by_class = Array.of(class_descriptors(X, y.astype(str), classes, rng=rng(), **options))
    h0 = h1 = NOTHING
    if method.cluster_by == "diagrams":
        cloud = rips_diagrams(X[subsample(len(X), method.n_points, rng())])
        h0 = Array.of(cloud.h0)
        h1 = Array.of(cloud.h1)
    merges = mixed_merge_share(X, y.astype(str)) if method.trust == "merges" else 0.0
    return ShapeDescription(descriptor=whole, by_class=by_class, h0=h0, h1=h1, merges=merges)


@dataclass(frozen=True)
class Judged:
    """What follows from the sites' descriptions, in their order; None where the settings do not ask for it."""

    clusters: Ints | None
    """(sites,), i8"""
    closeness: Floats | None
    """(sites,), f8: how near a site is to its cluster's centre (Eq. 6)."""
    z: Floats | None
    """(sites,), f8: how odd a site is (Eq. 8)."""


def judge_shapes(method: TopoSettings, given: Sequence[ShapeDescription], clusters: Ints) -> Judged:
    """Cluster, weigh and judge sites by their descriptions; ``clusters``, (sites,), i8, are those so far."""
    phi = {key: np.vstack([getattr(one, key).numpy() for one in given]) for key in ("descriptor", "by_class")}
    seen = phi["by_class" if method.cluster_by == "classes" else "descriptor"]
    new = close = z = None
    if method.cluster_by == "diagrams":
        shapes = [Diagrams(one.h0.numpy(), one.h1.numpy(), method.n_points) for one in given]
        new = cluster_by_distance(method, site_distance_matrix(shapes))
        close = diagram_closeness(shapes, new, method.temperature) if method.closeness else None
    elif method.cluster_by in ("topology", "classes"):
        new = cluster_by_distance(method, topology.descriptor_distances(seen))
    if method.cluster_by != "diagrams" and method.closeness and seen.shape[1]:
        close = topology.topology_closeness(seen, clusters if new is None else new)
    if method.trust == "merges":
        z = topology.z_scores(np.array([one.merges for one in given]))
    elif method.trust in ("topology", "classes"):
        # Eq. 8 takes the descriptors as they are; the normalised ones are for clusters and weights.
        judged = phi["by_class" if method.trust == "classes" else "descriptor"]
        apart = topology.descriptor_distances(judged, normalise=False)
        z = topology.z_scores(topology.mean_distances(apart))
    return Judged(new, close, z)


def cluster_by_distance(method: TopoSettings, distances: Floats) -> Ints:
    """Return the sites' clusters by their distances, (sites, sites), f8; where sums hide sites, none is small."""
    wanted = method.n_clusters if method.n_clusters is None else min(method.n_clusters, len(distances))
    labels = topology.cluster_sites(distances, wanted, most=min(method.max_clusters, len(distances)))
    return merge_small(labels, distances, method.least_cluster) if method.masked else labels


def merge_small(labels: Ints, distances: Floats, least: int) -> Ints:
    """Join clusters of fewer than ``least`` sites to the nearest other one: a secure sum of few hides nobody.

    labels (sites,), i8, distances (sites, sites), f8; returns (sites,), i8.
    """
    found = labels.copy()
    while True:
        values, counts = np.unique(found, return_counts=True)
        if len(values) == 1 or counts.min() >= least:
            return np.unique(found, return_inverse=True)[1].astype(np.int64)
        small = values[int(np.argmin(counts))]
        inside = found == small
        others = [value for value in values if value != small]
        nearest = min(others, key=lambda value: float(distances[np.ix_(inside, found == value)].mean()))
        found[inside] = nearest
