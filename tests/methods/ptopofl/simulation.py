"""Algorithm 1 in one loop, line by line, for clusters, weights and trust by topology.

The steps are fedgeom's own functions; the order in which they are taken is written here once more.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fedgeom.arrays import Floats, Ints
from fedgeom.data.sites import SiteData
from fedgeom.federation.plain import Plain
from fedgeom.geometry.topology import clustering as topology
from fedgeom.geometry.topology.descriptors import descriptor
from fedgeom.methods.iterative.learners import Learner
from fedgeom.methods.iterative.setup import label_indices, scales
from fedgeom.methods.iterative.site import LAST, generator
from fedgeom.methods.iterative.summed import Summed, combined
from fedgeom.methods.iterative.task import Task
from fedgeom.methods.iterative.tree import Tree
from fedgeom.methods.ptopofl.model import CloudShape, TopoModel
from fedgeom.methods.ptopofl.settings import TopoSettings
from fedgeom.methods.ptopofl.shapes import merge_small
from tests.methods.iterative.simulation import model_of


def simulate(method: TopoSettings, sites: Sequence[SiteData], seed: int = 0) -> Plain:
    """Return the consensus after the last round, and each site's own model."""
    ordered = sorted(sites, key=lambda site: site.name)
    names = method.classes or tuple(sorted({str(label) for site in sites for label in site.classes.tolist()}))
    centre, spread = scales(method, ordered)[0]
    scaled = tables = [(site.X - centre) / spread for site in ordered]
    labels = [label_indices(site.y, names) for site in ordered]

    # Clients: the columns that are added to the table.
    learner = method.build_learner()
    shapes = [
        CloudShape.of(X, method.n_points, generator(seed, LAST, site.name, purpose=2), method.added)
        for X, site in zip(tables, ordered, strict=True)
    ]
    if method.extra_columns:
        tables = [shape.add_to(X) for shape, X in zip(shapes, tables, strict=True)]
    start = learner.start(tables[0].shape[1], len(names), np.random.default_rng([seed % 2**63, 0]))
    sizes = np.array([float(len(X)) if method.weights == "rows" else 1.0 for X in tables])
    cluster, weight = np.zeros(len(ordered), np.int64), sizes  # one cluster, until sites describe their shape

    first = consensus = Tree(start)
    models = {0: first}
    form, whole = Summed.of(method, Tree(model=first), ()), float(sizes.sum()) if method.counts_rows else 0.0

    def task(at: int, number: int) -> Task:
        effort = method.effort(method.learning_rate if number == LAST else method.rate_in(number))
        rng = generator(seed, number, ordered[at].name)
        return Task(learner, tables[at], labels[at], effort, rng, len(names), first, method.loss_of_rows)

    for number in range(method.n_rounds):
        if number == method.first_descriptor_round:  # Step 1
            clouds = _clouds(method, learner, consensus, scaled, tables, len(names))
            rngs = [generator(seed, number, site.name, purpose=2) for site in ordered]
            phi = np.array([_descriptor(method, X, rng) for X, rng in zip(clouds, rngs, strict=True)])
            cluster, weight = _clusters(method, phi, sizes)
            models = {j: models.get(j, consensus) for j in range(cluster.max() + 1)}
        local = [Tree(model=task(at, number).fit(models[int(cluster[at])])) for at in range(len(ordered))]
        theta = dict(models)
        for j in theta:  # Step 2, Eq. 6
            sent = [local[at] for at in np.flatnonzero(cluster == j)]
            given, counted = Tree(model=models[j]), weight[cluster == j]
            theta[j] = first.like(combined(method, form, sent, counted, given, whole).mean.flat())
        share = np.array([np.mean(cluster == j) for j in models])
        consensus = first.like(share @ np.array([theta[j].flat() for j in models]))
        models = {j: (1 - method.beta) * theta[j] + method.beta * consensus for j in models}  # Step 3, Eq. 7
    found_model = model_of(method, names, consensus, ordered[0].X.shape[1], (centre, spread))
    model = TopoModel(**vars(found_model), augmented=bool(method.extra_columns))
    own = {}
    for at, site in enumerate(ordered):
        mine = method.personalise(task(at, LAST), Tree(model=models[int(cluster[at])]), Tree())
        found: dict[str, Any] = {"model": mine.flat(), "centre": centre, "spread": spread, "classes": list(names)}
        if method.extra_columns:
            found |= {"shape centre": shapes[at].centre, "shape constants": shapes[at].constants}
        own[site.name] = found
    return Plain(model, own)


def _clouds(
    method: TopoSettings,
    learner: Learner,
    model: Tree,
    scaled: list[Floats],
    tables: Sequence[Floats],
    classes: int,
) -> list[Floats]:
    """Return what is described of each site: its rows, or what a model's body makes of its table, (rows, d), f8."""
    if method.descriptor_input == "rows":
        return scaled
    learner.bind(tables[0].shape[1], classes)
    return [np.asarray(learner.features(model, X), np.float64) for X in tables]


def _clusters(method: TopoSettings, phi: Floats, sizes: Floats) -> tuple[Ints, Floats]:
    """Return the server's clusters (Step 1), and the sites' weights (Eq. 6) with trust (Eq. 8)."""
    gaps = topology.descriptor_distances(phi)
    wanted = None if method.n_clusters is None else min(method.n_clusters, len(phi))
    cluster = topology.cluster_sites(gaps, wanted, most=min(method.max_clusters, len(phi)))
    if method.masked:
        cluster = merge_small(cluster, gaps, max(3, method.min_sites))
    close = topology.topology_closeness(phi, cluster) if method.closeness else np.ones(len(phi))
    if method.trust == "none":
        return cluster, sizes * close
    apart = topology.mean_distances(topology.descriptor_distances(phi, normalise=False))
    return cluster, sizes * close * topology.trust(topology.z_scores(apart))


def _descriptor(method: TopoSettings, X: Floats, rng: np.random.Generator) -> Floats:
    return descriptor(
        X,
        points=method.n_points,
        rng=rng,
        scale="unit box" if method.unit_box else "none",
        size_free=method.size_free,
        repeats=method.n_repeats,
    )
