"""Wasserstein barycentres of persistence diagrams (PTopoFL, Theorem 2), and how near sites are to them (Eq. 12).

A barycentre minimises Σ_k λ_k W_2²(D, D_k). It exists (Theorem 2) but need not be unique, and the sum has many local
minima; `barycentre` finds one of them as Turner, Mileyko, Mukherjee and Harer (2014) do: match every diagram with the
present mean, put every point where its partners want it, and again, until no match changes.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import cdist

from fedgeom.arrays import Floats, Ints
from fedgeom.errors import InputError
from fedgeom.geometry.topology.diagram_distances import site_distances, wasserstein
from fedgeom.geometry.topology.persistence import Diagrams

__all__ = ["barycentre", "barycentre_cost", "diagram_closeness", "site_barycentre"]

_ROUNDS = 100
"""Each round lowers the sum, and there are finitely many ways to match: it ends long before."""


def barycentre(diagrams: Sequence[ArrayLike], weights: ArrayLike | None = None) -> Floats:
    """Return a diagram, (m, 2), at which Σ λ_k W_2²(D, D_k) has a local minimum; its points may lie on few diagrams.

    ``weights`` are the λ_k, not negative, and are made to sum to one; None: equal ones. The search starts at that of
    the diagrams with the least sum, so that the result is never worse than the best of them.

    >>> barycentre([[[0.0, 2.0]], [[0.0, 4.0]]]).tolist()
    [[0.0, 3.0]]
    """
    given = [np.asarray(one, np.float64).reshape(-1, 2) for one in diagrams]
    lam = _check_weights(weights, len(given))
    found = min(given, key=lambda one: barycentre_cost(one, given, lam))
    before: list[Ints] = []
    for _ in range(_ROUNDS):
        matches = [_partners(found, one) for one in given]
        if len(before) == len(matches) and all(map(np.array_equal, matches, before)):
            break
        found, before = _moved(found, given, matches, lam), matches
    return found


def barycentre_cost(diagram: ArrayLike, diagrams: Sequence[ArrayLike], weights: ArrayLike | None = None) -> float:
    """Return Σ λ_k W_2²(D, D_k), which a barycentre minimises."""
    lam = _check_weights(weights, len(diagrams))
    return float(sum(w * wasserstein(diagram, one) ** 2 for w, one in zip(lam, diagrams, strict=True)))


def site_barycentre(sites: Sequence[Diagrams], weights: ArrayLike | None = None) -> Diagrams:
    """Return the barycentre of several sites' diagrams, H0 and H1 apart."""
    h0, h1 = (barycentre([getattr(site, name) for site in sites], weights) for name in ("h0", "h1"))
    return Diagrams(h0, h1, max(site.points for site in sites))


def diagram_closeness(sites: Sequence[Diagrams], labels: ArrayLike, temperature: float | None = None) -> Floats:
    """Return exp(−λ W_2(PD_k, PD_C)) for each site and its cluster's barycentre (Eq. 12, before it is normalised).

    labels (sites,); returns (sites,), f8. ``temperature`` is λ, for which the paper names no value. None: one over the
    mean of the distances, so that the weights do not depend on the data's units.
    """
    at, gaps = np.asarray(labels), np.zeros(len(sites))
    for cluster in np.unique(at):
        inside = np.flatnonzero(at == cluster).tolist()
        centre = site_barycentre([sites[k] for k in inside])
        gaps[inside] = [site_distances(sites[k], centre) for k in inside]
    if temperature is None:
        temperature = 1.0 / gaps.mean() if gaps.any() else 1.0
    return np.asarray(np.exp(-temperature * gaps), np.float64)


def _partners(found: Floats, other: Floats) -> Ints:
    """Return, for each point of ``other``, its partner in ``found`` under the best matching, -1 for the diagonal."""
    partner = np.full(len(other), -1, np.int64)
    if not (len(found) and len(other)):
        return partner
    # As in `wasserstein`: what is gained over sending both to the diagonal, never less than nothing.
    alone = _to_diagonal(other)[:, None] + _to_diagonal(found)
    gain = np.minimum(cdist(other, found, "sqeuclidean") - alone, 0.0)
    rows, columns = linear_sum_assignment(gain)
    kept = gain[rows, columns] < 0.0
    partner[rows[kept]] = columns[kept]
    return partner


def _to_diagonal(points: Floats) -> Floats:
    """Return the squared distances to the diagonal."""
    return np.asarray(0.5 * (points[:, 1] - points[:, 0]) ** 2)


def _moved(found: Floats, given: Sequence[Floats], matches: Sequence[Ints], lam: Floats) -> Floats:
    """Put every point where its partners want it; a point that the diagonal was best for starts one of its own."""
    mass, total = np.zeros(len(found)), np.zeros((len(found), 2))
    new: list[Floats] = []
    for weight, points, partner in zip(lam, given, matches, strict=True):
        if weight > 0:
            there = partner >= 0
            np.add.at(mass, partner[there], weight)
            np.add.at(total, partner[there], weight * points[there])
            new.append(_pulled(points[~there], np.full(int((~there).sum()), weight)))
    used = mass > 0
    return np.vstack([_pulled(total[used] / mass[used, None], mass[used]), *new])


def _pulled(points: Floats, mass: Floats) -> Floats:
    """Return m·x + (1 − m)·x′, x′ the nearest point of the diagonal: the rest of the weight is matched with that."""
    middle = points.mean(axis=1, keepdims=True)
    share = mass[:, None]
    return np.asarray(share * points + (1.0 - share) * middle)


def _check_weights(weights: ArrayLike | None, K: int) -> Floats:
    if not K:
        raise InputError("no diagrams given; a barycentre needs at least one.")
    lam = np.ones(K) if weights is None else np.asarray(weights, np.float64)
    if lam.shape != (K,) or not np.isfinite(lam).all() or (lam < 0).any() or not lam.any():
        raise InputError(f"weights are {lam.tolist()}; wanted {K} numbers, none negative, not all 0.")
    return np.asarray(lam / lam.sum())
