"""The plain twin: Algorithm 1 in one process, line by line, for clusters, weights and trust by topology."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fedgeom.data.sites import SiteData
from fedgeom.errors import InputError
from fedgeom.geometry.topology import site_clusters as topology
from fedgeom.geometry.topology.descriptors import descriptor
from fedgeom.methods.iterative import scaling
from fedgeom.methods.iterative.aggregation import fixed_sum, mean
from fedgeom.methods.iterative.site import LAST, generator
from fedgeom.methods.iterative.task import Task
from fedgeom.methods.iterative.vectors import Layout, Vector
from fedgeom.methods.ptopofl.method import PTopoFL
from fedgeom.methods.ptopofl.model import Shape


def plain(method: PTopoFL, sites: Sequence[SiteData], seed: int = 0) -> dict[str, Vector]:
    """Return each site's own parameters after the last round, as one vector."""
    if (method.cluster_by, method.trust, method.scale) != ("topology", "topology", "joint") or method.masked:
        raise InputError("the plain twin follows Algorithm 1: topology throughout, a joint scale, secure=False")
    sites = sorted(sites, key=lambda site: site.name)
    names = sorted({str(label) for site in sites for label in site.classes.tolist()})
    total = fixed_sum(
        np.array([scaling.column_sums(site.X) for site in sites]),
        np.ones(len(sites)),
        fraction_bits=scaling.FRACTION_BITS,
    )
    centre, spread = scaling.scale_from(total)
    tables = [(site.X - centre) / spread for site in sites]
    labels = [np.array([names.index(str(label)) for label in site.y.tolist()]) for site in sites]

    # Clients: the descriptor φ_k, and the columns that are added to the table.
    box = "unit box" if method.unit_box else "none"
    phi = np.array(
        [
            descriptor(
                X,
                points=method.points,
                rng=generator(seed, 0, site.name, purpose=2),
                scale=box,  # type: ignore[arg-type]
                size_free=method.size_free,
                repeats=method.repeats,
            )
            for X, site in zip(tables, sites, strict=True)
        ]
    )
    if method.augment:
        shapes = [
            Shape.of(X, method.points, generator(seed, LAST, s.name, purpose=2))
            for X, s in zip(tables, sites, strict=True)
        ]
        tables = [shape.add_to(X) for shape, X in zip(shapes, tables, strict=True)]

    # Server: clusters (Step 1), weights (Eq. 6) and trust (Eq. 8).
    most = min(method.most_clusters, len(sites))
    cluster = topology.cluster_sites(topology.descriptor_distances(phi), method.clusters, most=most)
    close = topology.topology_closeness(phi, cluster) if method.closeness else np.ones(len(sites))
    apart = topology.mean_distances(topology.descriptor_distances(phi, normalise=False))
    weight = np.array([float(len(X)) for X in tables]) * close * topology.trust(topology.z_scores(apart))

    learner = method.build_learner()
    first = learner.start(tables[0].shape[1], len(names), np.random.default_rng([seed % 2**63, 0]))
    layout = Layout.of(first)
    w = layout.pack(first)
    models = dict.fromkeys(range(cluster.max() + 1), w)
    for round in range(method.rounds):
        local = []
        for at, site in enumerate(sites):
            rng, effort = generator(seed, round, site.name), method.effort(method.rate_in(round))
            task = Task(learner, layout, tables[at], labels[at], effort, rng, len(names), w)
            local.append(task.fit(models[int(cluster[at])]))
        theta = {j: mean(np.array(local)[cluster == j], weight[cluster == j]) for j in models}  # Step 2, Eq. 6
        share = {j: float(np.mean(cluster == j)) for j in models}
        consensus = np.sum([share[j] * theta[j] for j in models], axis=0)
        models = {j: (1 - method.beta) * theta[j] + method.beta * consensus for j in models}  # Step 3, Eq. 7
    return {site.name: models[int(cluster[at])] for at, site in enumerate(sites)}
