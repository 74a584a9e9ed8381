"""The plain twin: the same on pooled data, without messages."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fedgeom.data.sites import SiteData
from fedgeom.errors import InputError
from fedgeom.methods.iterative.aggregation import fixed_sum
from fedgeom.methods.iterative.plain import Simulation, scales
from fedgeom.methods.shrunk.choosing import Evidence, gather
from fedgeom.methods.shrunk.conversation import joint_as_model, joint_model
from fedgeom.methods.shrunk.fits import Floats, Terms, descend, site_terms
from fedgeom.methods.shrunk.method import Shrunk
from fedgeom.methods.shrunk.site import fold_of, own_model


def plain(method: Shrunk, sites: Sequence[SiteData], seed: int = 0) -> Simulation:
    """Return what a run yields when no site is lost."""
    sites = sorted(sites, key=lambda site: site.name)
    names = method.classes or tuple(sorted({str(label) for site in sites for label in site.classes.tolist()}))
    if len(names) != 2:
        raise InputError(f"Shrunk tells two classes apart; the sites have {len(names)}")
    scale = scales(method, sites)
    tables = [(site.X - centre) / spread for site, (centre, spread) in zip(sites, scale, strict=True)]
    outcomes = [(site.y.astype(str) == names[1]).astype(np.int64) for site in sites]
    parts = [fold_of(y, method.folds, seed, site.name) for y, site in zip(outcomes, sites, strict=True)]
    everyone = list(zip(tables, outcomes, parts, strict=True))
    ones, columns = np.ones(len(sites)), tables[0].shape[1]
    stack = (len(method.ridges), method.folds + 1)

    def summed(directions: Floats) -> Terms:
        flat = np.array([site_terms(X, y, fold, directions).flat() for X, y, fold in everyone])
        return Terms.read(fixed_sum(flat, ones), stack, columns)

    directions = descend(summed, method.ridges, method.folds + 1, columns, method.rounds)
    found = [gather(X, y, fold, directions, method.strengths) for X, y, fold in everyone]
    total = fixed_sum(np.array([evidence.flat() for evidence, _ in found]), ones)
    everybody = Evidence.read(total, len(method.ridges), len(method.strengths))
    w, b, _ = joint_model(method, directions[:, -1], everybody)
    joint = scale[0] if method.scale != "site" else (None, None)
    model = joint_as_model(method, names, w, b, *joint)
    personal = {}
    for at, site in enumerate(sites):
        X, y, _ = everyone[at]
        evidence, spread = found[at]
        own, c = own_model(method, X, y, directions[:, -1], evidence, everybody, spread)
        vector = np.concatenate([[c], own])
        personal[site.name] = model.at({"model": vector, "centre": scale[at][0], "spread": scale[at][1]})
    return Simulation(model, personal)
