"""Algorithm 1 of pTopoFL written down once more from its paper, in one place, on gudhi and scikit-learn.

Nothing here knows how fedgeom does it, except how it draws points and batches: see the twin of iterative training,
whose clients and steps of descent are used. Where the paper contradicts itself the notes decide: the descriptor is
that of Appendix B, trust looks at descriptors as they are (Eq. 8), clusters and weights at normalised ones (Eq. 6).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from sklearn.cluster import AgglomerativeClustering
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import pairwise_distances

from tests.methods.iterative.twin import LAST, generator

L, POINTS, BETA, TAU, M = 20, 80, 0.3, 2.0, 2
"""Table 3, Scenarios A and B: thresholds of a Betti curve, n_sub, β_blend, τ, clusters."""


# The shape of a client's rows (Section 3.1, Appendix B).


def subsample(rows, rng):
    """Draw n_sub rows, or take all if there are no more."""
    return rows if len(rows) <= POINTS else rows[np.sort(rng.choice(len(rows), POINTS, replace=False))]


def diagrams(cloud):
    """Return the finite pairs (birth, death) of H0 and of H1 in the Vietoris–Rips filtration."""
    import gudhi  # takes a while, and may be missing

    tree = gudhi.RipsComplex(points=cloud).create_simplex_tree(max_dimension=2)
    tree.compute_persistence(homology_coeff_field=2)
    found = [tree.persistence_intervals_in_dimension(dimension).reshape(-1, 2) for dimension in (0, 1)]
    return [pairs[np.isfinite(pairs[:, 1])] for pairs in found]


def entropy(pairs):
    """Return −Σ p log p of the shares of persistence."""
    persistence = pairs[:, 1] - pairs[:, 0]
    p = persistence / persistence.sum()
    return -(p @ np.log(p))


def descriptor(cloud):
    """φ: two Betti curves, then entropies, amplitudes, pairs above the median, and pairs (Appendix B)."""
    both = diagrams(cloud)
    thresholds = np.linspace(0, np.percentile(both[0][:, 1], 95), L)
    curves = [np.sum((pairs[:, :1] <= thresholds) & (thresholds < pairs[:, 1:]), axis=0) for pairs in both]
    lengths = [pairs[:, 1] - pairs[:, 0] for pairs in both]
    scalars = [
        [entropy(pairs) for pairs in both],
        [np.sqrt(np.sum(length**2)) for length in lengths],
        [np.sum(length > np.median(length)) for length in lengths],
        [len(length) for length in lengths],
    ]
    return np.concatenate([*curves, *scalars]).astype(float)


def unit_box(X):
    """Move every column into [0, 1] by the client's own range, as the published program does."""
    return (X - X.min(axis=0)) / (X.max(axis=0) - X.min(axis=0))


def describe(client, seed):
    """Return φ_k of a client."""
    return descriptor(subsample(unit_box(client.X), generator(seed, 0, client.name, purpose=2)))


def augmented(client, seed):
    """Add the four columns of Section 3.2 to a client's rows.

    The paper gives them no units. Here the distance to the centre is over √d, and the Betti number, that of H0 at
    the median of the merges, is a share of the merges.
    """
    cloud = subsample(client.X, generator(seed, LAST, client.name, purpose=2))
    h0, h1 = diagrams(cloud)
    away = np.linalg.norm(client.X - cloud.mean(axis=0), axis=1) / np.sqrt(client.X.shape[1])
    constants = [entropy(h0), entropy(h1), np.mean(h0[:, 1] > np.median(h0[:, 1]))]
    return replace(client, X=np.column_stack([client.X, away, np.tile(constants, (len(client), 1))]))


# What the server makes of the shapes (Sections 3.3 and 3.4).


def normalised(phi):
    """Return φ̂ = φ/‖φ‖."""
    return phi / np.linalg.norm(phi, axis=1, keepdims=True)


def clustered(phi, clusters):
    """Step 1: average linkage on the distances of normalised descriptors."""
    D = pairwise_distances(normalised(phi))
    return AgglomerativeClustering(clusters, metric="precomputed", linkage="average").fit_predict(D)


def odd(phi):
    """Eq. 8: the z-score of each client's mean distance to the others."""
    delta = pairwise_distances(phi).sum(axis=1) / (len(phi) - 1)
    return (delta - delta.mean()) / delta.std()


def trusted(z):
    """Return t = exp(−max(z − 1, 0))."""
    return np.exp(-np.maximum(z - 1, 0))


def closeness(phi, cluster):
    """Return exp(−‖φ̂_k − φ̂_C‖), the middle factor of Eq. 6."""
    unit = normalised(phi)
    centres = np.array([unit[cluster == own].mean(axis=0) for own in cluster])
    return np.exp(-np.linalg.norm(unit - centres, axis=1))


# Rounds (Algorithm 1).


def optimum(client):
    """Refit scikit-learn's logistic regression, as the published program does in every round."""
    fitted = LogisticRegression(C=client.C, tol=1e-10, max_iter=100_000).fit(client.X, client.y)
    return np.concatenate([fitted.intercept_, fitted.coef_[0]])


@dataclass(frozen=True)
class Twin:
    """What Algorithm 1 ends with."""

    cluster: np.ndarray
    trust: np.ndarray
    flagged: list[str]
    consensus: np.ndarray
    models: list[np.ndarray]
    """The blended model of each client's cluster."""


def federate(clients, work, *, raw, exact=True, augment=True, clusters=M):
    """Algorithm 1 over clients in order of their names; ``raw`` are the same before their columns were standardised."""
    phi = np.array([describe(client, work.seed) for client in raw])
    if augment:
        clients = [augmented(client, work.seed) for client in clients]
    cluster, z = clustered(phi, clusters), odd(phi)
    weight = np.array([len(client) for client in clients]) * closeness(phi, cluster) * trusted(z)  # Eq. 6
    share = np.bincount(cluster) / len(clients)
    own = [clients[0].start] * len(clients)
    for t in range(work.n_rounds):
        if exact:
            local = np.array([optimum(client) for client in clients])
        else:
            draws = [generator(work.seed, t, client.name) for client in clients]
            local = np.array([work.visit(*each) for each in zip(clients, own, draws, strict=True)])
        theta = np.array(
            [np.average(local[cluster == j], axis=0, weights=weight[cluster == j]) for j in range(len(share))]
        )
        consensus = share @ theta
        own = list(((1 - BETA) * theta + BETA * consensus)[cluster])  # Eq. 7
    flagged = [client.name for client, score in zip(clients, z, strict=True) if score > TAU]
    return Twin(cluster, trusted(z), flagged, consensus, own)
