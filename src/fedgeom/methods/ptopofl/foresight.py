"""How unevenly a run will weigh its sites, computed where one process has all tables: a sum of few hides nobody."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from fedgeom.data.checks import label_names
from fedgeom.data.sites import SiteData
from fedgeom.geometry.topology import site_clusters as topology
from fedgeom.methods.iterative import scaling
from fedgeom.methods.iterative.plain import scales
from fedgeom.methods.iterative.site import generator
from fedgeom.methods.ptopofl.settings import TopoSettings
from fedgeom.methods.ptopofl.shapes import describe_rows, judge_shapes


def mixtures(
    method: TopoSettings, sites: Sequence[SiteData], seed: int = 0
) -> list[tuple[tuple[str, ...], float]]:
    """Return the clusters of a run's first round, and how many sites each one's weighted sum mixes: (Σf)²/Σf².

    Empty where sums are open or sites are weighed alike, and where descriptors have noise, which nobody can foresee, or
    are of activations or of a later round.
    """
    if method.described != "rows" or method.first_described:
        return []
    if not (method.masked and method.weighs_sites and method.describes) or method.epsilon is not None:
        return []
    ordered = sorted(sites, key=lambda site: site.name)
    classes = method.classes or tuple(sorted(label_names(ordered)))
    given = []
    for site, (centre, spread) in zip(ordered, scales(method, ordered), strict=True):
        rows = scaling.scaled(site.X, centre, spread, np.float64)
        draw = partial(generator, seed, 0, site.name, purpose=2)
        given.append(describe_rows(method, rows, site.y, classes, draw))
    judged = judge_shapes(method, given, np.zeros(len(ordered), np.int64))
    cluster = np.zeros(len(ordered), np.int64) if judged.clusters is None else judged.clusters
    factors = np.ones(len(ordered)) if judged.closeness is None else judged.closeness
    factors = factors if judged.z is None else factors * topology.trust(judged.z)
    found = []
    for label in np.unique(cluster):
        f = factors[cluster == label]
        names = tuple(site.name for site, mark in zip(ordered, cluster == label, strict=True) if mark)
        found.append((names, float(f.sum() ** 2 / max(float((f**2).sum()), 1e-300))))
    return found
