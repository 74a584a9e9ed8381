"""Wasserstein distances between persistence diagrams (PTopoFL, Eq. 3), exact, with the diagonal included.

A point of one diagram is matched to a point of the other or to its nearest point on the diagonal birth = death. The
sum over pairs grows with the number of pairs, so that diagrams of clouds of different size are far apart for that
reason alone: compare subsamples of equal size.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite, sqrt
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import linear_sum_assignment
from scipy.sparse import csr_array
from scipy.sparse.csgraph import maximum_bipartite_matching
from scipy.spatial.distance import cdist

from fedgeom.arrays import Floats, Ints
from fedgeom.errors import InputError
from fedgeom.geometry.topology.persistence import Diagrams

__all__ = ["Ground", "site_distance_matrix", "site_distances", "wasserstein", "wasserstein_matrix"]

Ground = Literal["l2", "linf"]
"""The norm in which two points of the half plane are compared: Eq. 3 leaves it open, stability uses L∞."""


def wasserstein(A: ArrayLike, B: ArrayLike, *, p: float = 2.0, ground: Ground = "l2") -> float:
    """Return W_p(A, B) = (inf_γ Σ ‖u − γ(u)‖^p)^(1/p) over matchings γ with the diagonal (Eq. 3), 1 ≤ p ≤ ∞.

    p = ∞ is the bottleneck distance: the largest ‖u − γ(u)‖ of the best matching. Points must be finite.
    """
    a = _check_diagram(A, "A")
    b = _check_diagram(B, "B")
    if not p >= 1.0:
        raise InputError(f"p is {p!r}, but a number of at least 1 is wanted; p = ∞ is the bottleneck distance.")
    if ground not in ("l2", "linf"):
        raise InputError(f"ground is {ground!r}, but 'l2' or 'linf' is wanted.")
    # The nearest point of the diagonal is the middle, at half the persistence in L∞ and 1/√2 of it in L2.
    to_diagonal = 0.5 if ground == "linf" else sqrt(0.5)
    da = to_diagonal * (a[:, 1] - a[:, 0])
    db = to_diagonal * (b[:, 1] - b[:, 0])
    if not (len(a) and len(b)):
        between = np.empty((len(a), len(b)))
    else:
        between = cdist(a, b, "chebyshev" if ground == "linf" else "euclidean")
    largest = _bottleneck(da, db, between)
    return largest if not isfinite(p) or largest == 0.0 else _assignment(da, db, between, p, largest)


def wasserstein_matrix(diagrams: Sequence[ArrayLike], *, p: float = 2.0, ground: Ground = "l2") -> Floats:
    """Return the symmetric matrix of W_p between all pairs of diagrams."""
    K = len(diagrams)
    D = np.zeros((K, K))
    for i in range(K):
        for j in range(i + 1, K):
            D[i, j] = D[j, i] = wasserstein(diagrams[i], diagrams[j], p=p, ground=ground)
    return D


def site_distances(one: Diagrams, other: Diagrams) -> float:
    """Return W_2 between two sites, H0 and H1 matched apart."""
    return float(np.hypot(wasserstein(one.h0, other.h0), wasserstein(one.h1, other.h1)))


def site_distance_matrix(sites: Sequence[Diagrams], *, p: float = 2.0, ground: Ground = "l2") -> Floats:
    """Return distances between sites: H0 and H1 matched apart, W_p(H0, H1) = (W_p(H0)^p + W_p(H1)^p)^(1/p)."""
    h0 = wasserstein_matrix([site.h0 for site in sites], p=p, ground=ground)
    h1 = wasserstein_matrix([site.h1 for site in sites], p=p, ground=ground)
    larger = np.maximum(h0, h1)
    smaller = np.minimum(h0, h1)
    if not isfinite(p):
        return larger
    ratio = smaller / np.where(larger > 0.0, larger, 1.0)
    return np.asarray(larger * (1.0 + ratio**p) ** (1.0 / p), np.float64)


def _assignment(da: Floats, db: Floats, between: Floats, p: float, bottleneck: float) -> float:
    """Solve the matching as an assignment of m rows to k columns, without copies of the diagonal.

    Sending everything to the diagonal costs Σ da^p + Σ db^p; matching i with j instead changes that by
    between^p − da^p − db^p. Where the change is not a gain it is set to 0, which then means "both to the diagonal",
    so that forcing all rows (or columns) into the assignment does no harm.

    In units of the bottleneck distance the best sum lies between 1 and the number of points N: whatever costs more
    than N is never part of it and is cut at 2N. So a large p neither overflows nor drowns the small terms, which
    decide, in the large ones.
    """
    highest = 2.0 * (len(da) + len(db))
    ca, cb, cost = (np.minimum(x / bottleneck, highest ** (1.0 / p)) ** p for x in (da, db, between))
    if cost.size:
        rows, columns = linear_sum_assignment(np.minimum(cost - ca[:, None] - cb, 0.0))
        gained = cost[rows, columns] < ca[rows] + cb[columns]
        rows = rows[gained]
        columns = columns[gained]
        ca[rows] = 0.0
        cb[columns] = 0.0
        matched = float(cost[rows, columns].sum())
    else:
        matched = 0.0
    # Summed afresh from the matching: a difference of large terms would not be exact.
    return float(bottleneck * (matched + ca.sum() + cb.sum()) ** (1.0 / p))


def _bottleneck(da: Floats, db: Floats, between: Floats) -> float:
    """Find the least t at which all points farther than t from the diagonal can be matched within t.

    A matching that covers the far points of A and one that covers those of B combine to one that covers both
    (Mendelsohn and Dulmage), so that each side is asked alone.
    """
    values = np.unique(np.concatenate([[0.0], da, db, between.ravel()]))

    def possible(t: float) -> bool:
        near = between <= t
        return _covered(near[da > t]) and _covered(near[:, db > t].T)

    low = -1
    high = len(values) - 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if possible(float(values[middle])) else (middle, high)
    return float(values[high])


def _covered(near: np.ndarray[tuple[int, ...], np.dtype[np.bool_]]) -> bool:
    if not len(near):
        return True
    if not near.any(axis=1).all():
        return False
    return bool((maximum_bipartite_matching(csr_array(near), perm_type="column") >= 0).all())


def _check_diagram(diagram: ArrayLike, name: str) -> Floats:
    pairs = np.asarray(diagram, np.float64)
    if pairs.size == 0:
        return np.empty((0, 2))
    if pairs.ndim != 2 or pairs.shape[1] != 2:
        raise InputError(f"{name} has shape {pairs.shape}, but a diagram is (m, 2), rows of birth and death.")
    if not np.isfinite(pairs).all() or (pairs[:, 1] < pairs[:, 0]).any():
        raise InputError(f"{name} must have finite rows with birth ≤ death; leave out features that never die.")
    return pairs


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
        found = _moved(found, given, matches, lam)
        before = matches
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
    at = np.asarray(labels)
    gaps = np.zeros(len(sites))
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
    mass = np.zeros(len(found))
    total = np.zeros((len(found), 2))
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
