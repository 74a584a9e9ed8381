"""Sites in groups, by distances that the coordinator sees (PTopoFL, Sections 3.3 to 3.5).

Every function takes and gives arrays: descriptors (K, m), one row per site, distance matrices (K, K), and cluster
numbers 0 … M − 1 given out in the order of each cluster's first site. What the rows are (descriptors of X, of
classes, or model updates) is the caller's choice.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.cluster.hierarchy import linkage
from scipy.spatial.distance import squareform

from fedgeom.arrays import Floats, Ints
from fedgeom.errors import InputError
from fedgeom.geometry.topology.persistence import check_cloud, pairwise_distances

__all__ = [
    "average_linkage",
    "choose_clusters",
    "cluster_centres",
    "cluster_sites",
    "cluster_weights",
    "cosine_distances",
    "descriptor_distances",
    "drift",
    "mean_distances",
    "silhouette",
    "topology_closeness",
    "trust",
    "unit_rows",
    "z_scores",
]

SUBSTANTIAL = 0.25
"""The mean silhouette below which clusters count as none (Kaufman and Rousseeuw's bound)."""


def unit_rows(phi: ArrayLike) -> Floats:
    """Return φ̂ = φ / ‖φ‖₂ for each row (Eq. 6); a zero row stays zero."""
    rows = check_cloud(phi, "phi")
    # The largest entry first, so that squares neither overflow nor vanish.
    largest = np.abs(rows).max(axis=1, keepdims=True)
    rows = rows / np.where(largest > 0.0, largest, 1.0)
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(rows / np.where(norms > 0.0, norms, 1.0), np.float64)


def descriptor_distances(phi: ArrayLike, *, normalise: bool = True) -> Floats:
    """Return D_ij = ‖φ̂_i − φ̂_j‖₂ (Algorithm 1), or of the raw φ, as Eq. 8 is written, without ``normalise``.

    phi (sites, m); returns (sites, sites), f8.
    """
    return pairwise_distances(unit_rows(phi) if normalise else phi)


def cosine_distances(updates: ArrayLike) -> Floats:
    """Return 1 − cos(u_i, u_j) in [0, 2] for model updates u; a zero update is at 1 from every other."""
    unit = unit_rows(updates)
    D = np.clip(1.0 - unit @ unit.T, 0.0, 2.0)
    D = 0.5 * (D + D.T)
    np.fill_diagonal(D, 0.0)
    return np.asarray(D, np.float64)


def average_linkage(distances: ArrayLike, M: int) -> Ints:
    """Return the cluster of each site when average linkage stops at M clusters (Section 3.3, Step 1).

    Exactly min(M, K) clusters come back, also among sites at distance 0, where ties are broken by order.
    """
    D = _check_distances(distances)
    K = len(D)
    if M < 1:
        raise InputError(f"M is {M}, but at least one cluster is wanted.")
    if K == 0:
        return np.empty(0, np.int64)
    if M >= K:
        return np.arange(K)
    # Merges are replayed rather than cut by height: equal heights would give fewer than M clusters.
    members: dict[int, list[int]] = {k: [k] for k in range(K)}
    for step, merge in enumerate(linkage(squareform(D, checks=False), "average")[: K - M]):
        members[K + step] = members.pop(int(merge[0])) + members.pop(int(merge[1]))
    labels = np.empty(K, np.int64)
    for number, group in enumerate(sorted(members.values(), key=min)):
        labels[group] = number
    return labels


def silhouette(distances: ArrayLike, labels: ArrayLike) -> float:
    """Return the mean over sites of (b − a) / max(a, b): a the mean distance within, b to the nearest other cluster.

    A site alone in its cluster counts 0, as does a site with a = b = 0; with a single cluster the value is 0.
    """
    D = _check_distances(distances)
    at = np.asarray(labels, np.int64)
    numbers = np.unique(at)
    if len(numbers) < 2:
        return 0.0
    member = (at[:, None] == numbers).astype(np.float64)
    sizes = member.sum(axis=0)
    own = np.searchsorted(numbers, at)
    sums = D @ member
    sites = np.arange(len(D))
    inside = sums[sites, own] / np.maximum(sizes[own] - 1.0, 1.0)
    means = sums / sizes
    means[sites, own] = np.inf
    outside = means.min(axis=1)
    widest = np.maximum(inside, outside)
    scores = np.where(widest > 0.0, (outside - inside) / np.where(widest > 0.0, widest, 1.0), 0.0)
    return float(np.mean(np.where(sizes[own] > 1.0, scores, 0.0)))


def choose_clusters(distances: ArrayLike, *, most: int | None = None, least: float = SUBSTANTIAL) -> int:
    """Return the number of clusters M with the largest mean `silhouette`, of 2 … min(most, K − 1).

    The silhouette is not defined for M = 1, so that one cluster has a rule of its own: it is chosen when no M
    reaches ``least``. The smaller M wins a tie. Up to two sites are one cluster.
    """
    D = _check_distances(distances)
    K = len(D)
    if most is not None and most < 1:
        raise InputError(f"most is {most}, but at least one cluster is wanted.")
    numbers = range(2, min(K - 1, K if most is None else most) + 1)
    scores = {M: silhouette(D, average_linkage(D, M)) for M in numbers}
    best = max(scores, key=scores.__getitem__, default=1)
    return best if scores.get(best, -1.0) >= least else 1


def cluster_sites(distances: ArrayLike, M: int | None = None, *, most: int | None = None) -> Ints:
    """Return the cluster of each site by average linkage, M given or chosen by silhouette (`choose_clusters`).

    distances (sites, sites); returns (sites,), whole numbers.
    """
    return average_linkage(distances, choose_clusters(distances, most=most) if M is None else M)


def cluster_centres(phi: ArrayLike, labels: ArrayLike) -> Floats:
    """Return φ̂_C, the mean of the normalised descriptors of each cluster's sites (Eq. 6), one row per cluster.

    phi (sites, m), labels (sites,); returns (clusters, m), f8.
    """
    unit = unit_rows(phi)
    at = _check_labels(labels, len(np.asarray(phi)))
    member = (at == np.arange(int(at.max(initial=-1)) + 1)[:, None]).astype(np.float64)
    return np.asarray(member @ unit / np.maximum(member.sum(axis=1, keepdims=True), 1.0), np.float64)


def topology_closeness(phi: ArrayLike, labels: ArrayLike) -> Floats:
    """Return exp(−‖φ̂_k − φ̂_C‖) for each site and its own cluster C (Eq. 6): 1 at the centre, never below e⁻².

    phi (sites, m), labels (sites,); returns (sites,), f8.
    """
    unit = unit_rows(phi)
    at = _check_labels(labels, len(np.asarray(phi)))
    gaps = np.linalg.norm(unit - cluster_centres(phi, at)[at], axis=1)
    return np.asarray(np.exp(-gaps), np.float64)


def cluster_weights(
    labels: ArrayLike, sizes: ArrayLike, *, closeness: ArrayLike | None = None, trust: ArrayLike | None = None
) -> Floats:
    """Return w_k ∝ n_k · closeness_k · t_k (Eq. 6), summing to 1 within each cluster.

    All (sites,); returns (sites,), f8.

    A factor that is left out counts 1 for all sites, which is how an ablation switches it off. A cluster whose
    weights are all 0 (only empty sites) is weighted evenly.
    """
    n = np.asarray(sizes, np.float64)
    at = _check_labels(labels, len(n))
    weights = n.copy()
    for factor in (closeness, trust):
        if factor is not None:
            weights = weights * np.asarray(factor, np.float64)
    if weights.shape != n.shape or not np.isfinite(weights).all() or (weights < 0.0).any():
        raise InputError("sizes, closeness and trust must be finite, not negative, and one number per site.")
    totals = np.bincount(at, weights)
    even = 1.0 / np.bincount(at)[at]
    return np.where(totals[at] > 0.0, weights / np.where(totals > 0.0, totals, 1.0)[at], even)


def mean_distances(distances: ArrayLike) -> Floats:
    """Return δ_k, each site's mean distance to all others (Eq. 8); 0 for a site alone.

    distances (sites, sites); returns (sites,), f8.
    """
    D = _check_distances(distances)
    return np.asarray(D.sum(axis=1) / max(len(D) - 1, 1), np.float64)


def z_scores(delta: ArrayLike) -> Floats:
    """Return z_k = (δ_k − μ) / σ, σ the deviation over the sites (divided by K); all 0 where σ is 0 (Eq. 8).

    delta (sites,); returns (sites,), f8.

    No z of K sites exceeds √(K − 1): a threshold τ = 2 flags nobody among five sites or fewer.
    """
    values = np.asarray(delta, np.float64)
    if not values.size:
        return values.copy()
    gaps = values - values.mean()
    spread = float(np.sqrt(np.mean(gaps**2)))
    # Equal distances summed in different order differ in the last digits; that is no deviation.
    if spread <= 1e-12 * float(np.abs(values).max()):
        return np.zeros_like(values)
    return np.asarray(gaps / spread, np.float64)


def trust(z: ArrayLike) -> Floats:
    """Return t_k = exp(−max(z_k − 1, 0)) in (0, 1] (below Eq. 8); the threshold τ of a flag does not enter."""
    return np.asarray(np.exp(-np.maximum(np.asarray(z, np.float64) - 1.0, 0.0)), np.float64)


def drift(history: ArrayLike) -> float:
    """Return Δ = (1/R) Σ_r ‖φ^(r) − φ^(1)‖₂ of one site's descriptors (R, m), oldest first (Eq. 9).

    The first term is 0 by definition, so that a site seen once has no drift.
    """
    rows = check_cloud(history, "history")
    if not len(rows):
        raise InputError("history has no rows; the drift starts from a site's first descriptor.")
    return float(np.mean(np.linalg.norm(rows - rows[0], axis=1)))


def _check_distances(distances: ArrayLike) -> Floats:
    D = np.asarray(distances, np.float64)
    if D.ndim != 2 or D.shape[0] != D.shape[1]:
        raise InputError(f"distances have shape {D.shape}, but a square matrix is wanted, one row per site.")
    if not np.isfinite(D).all() or (D < 0.0).any() or not np.allclose(D, D.T) or np.diagonal(D).any():
        raise InputError("distances must be finite, symmetric, not negative, and 0 on the diagonal.")
    return D


def _check_labels(labels: ArrayLike, K: int) -> Ints:
    at = np.asarray(labels)
    if at.shape != (K,) or at.dtype.kind not in "iu" or (at < 0).any():
        raise InputError(f"labels have shape {at.shape}; wanted are {K} cluster numbers from 0, one per site.")
    return at.astype(np.int64)
