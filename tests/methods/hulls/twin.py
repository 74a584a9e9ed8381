"""The hulls method written down once more from its paper, in one place and in the clear.

Nothing here knows how fedgeom does it: hulls are monotone chains in the Klein model, the cut of Eq. 14 is found
by trying all, the normal vector comes from LinearSVC, which the authors use, and Platt's sigmoid from a general
minimiser. Where the paper is silent its published figures decide: squared hinge instead of Eq. 7's hinge, and hulls
of more than three points that list the point they start from twice.

Equation numbers are those of "Federated Classification in Hyperbolic Spaces via Secure Aggregation of Convex Hulls".
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from math import ceil, floor, log, pi, sinh, sqrt

import numpy as np
from scipy.optimize import minimize
from sklearn.cluster import SpectralClustering
from sklearn.svm import LinearSVC

# The Poincaré disc of curvature -k (Section 3).


def mobius_add(x, y, k):
    """Eq. 3, for rows of points."""
    x, y = np.atleast_2d(x), np.atleast_2d(y)
    xy, xx, yy = ((a * b).sum(axis=1, keepdims=True) for a, b in ((x, y), (x, x), (y, y)))
    top = (1 + 2 * k * xy + k * yy) * x + (1 - k * xx) * y
    return top / (1 + 2 * k * xy + k**2 * xx * yy)


def log_map(p, x, k):
    """Eq. 1: the tangent vectors at p that point to the rows of x."""
    gap = mobius_add(-p, x, k)
    length = np.linalg.norm(gap, axis=1, keepdims=True)
    direction = gap / np.where(length > 0, length, 1)  # p itself is no way off
    return (1 - k * p @ p) / sqrt(k) * np.arctanh(sqrt(k) * length) * direction


def exp_map(p, v, k):
    """Eq. 2: the point to which the tangent vector v at p leads."""
    length = np.linalg.norm(v)
    direction = v / (length or 1)
    return mobius_add(p, np.tanh(sqrt(k) * length / (1 - k * p @ p)) * direction / sqrt(k), k)[0]


def distances(x, Y, k):
    """Eq. 4: how far the point x is from the rows of Y."""
    return 2 / sqrt(k) * np.arctanh(sqrt(k) * np.linalg.norm(mobius_add(-x, Y, k), axis=1))


# What a site does: hull, quantise, hull (Sections 5.1 and 5.2, Definition 3).


def hull(points, k):
    """Definition 1: the extreme points, by Andrew's monotone chain where geodesics are straight, in the Klein model."""
    klein = 2 * sqrt(k) * points / (1 + k * (points**2).sum(axis=1, keepdims=True))
    order = sorted(range(len(points)), key=lambda i: tuple(klein[i]))
    if len(points) < 3:
        return order

    def turns_left(a, b, c):
        (ux, uy), (vx, vy) = klein[b] - klein[a], klein[c] - klein[a]
        return ux * vy - uy * vx > 1e-14

    def chain(indices):
        kept = []
        for i in indices:
            while len(kept) > 1 and not turns_left(kept[-2], kept[-1], i):
                kept.pop()
            kept.append(i)
        return kept[:-1]

    return chain(order) + chain(order[::-1])


@dataclass(frozen=True)
class Grid:
    """Section 5.2: rings of equal hyperbolic breadth, cut into sectors; bins are counted from 1, innermost first."""

    epsilon: float
    radius: float
    k: float = 1.0

    def height(self, r):
        """Eq. 9, left: the hyperbolic radius."""
        s = 1 / sqrt(self.k)
        return s * log((s + r) / (s - r))

    @property
    def sectors(self):
        """N_Θ = 2 Cir(R_H)/ε with the circumference of Eq. 10, a whole number."""
        s = 1 / sqrt(self.k)
        return ceil(2 * (2 * pi * s * sinh(self.height(self.radius) / s)) / self.epsilon)

    @property
    def rings(self):
        """N_R = 2 R_H/ε, a whole number."""
        return ceil(2 * self.height(self.radius) / self.epsilon)

    def bin(self, x):
        """Return the number of the bin that holds the point x."""
        turn = np.arctan2(x[1], x[0]) / (2 * pi) % 1.0
        ring = floor(self.height(np.hypot(*x)) / self.height(self.radius) * self.rings)
        return ring * self.sectors + floor(turn * self.sectors) + 1

    def centre(self, number):
        """Eq. 11 to 13: the middle of a bin."""
        ring, sector = divmod(number - 1, self.sectors)
        h, phi = (ring + 0.5) / self.rings * self.height(self.radius), (sector + 0.5) / self.sectors * 2 * pi
        s = 1 / sqrt(self.k)
        alpha = s * (np.exp(h / s) - 1) / (np.exp(h / s) + 1)
        return np.array([alpha * np.cos(phi), alpha * np.sin(phi)])

    def centres(self, numbers):
        """Return the middles of bins, one row each."""
        return np.array([self.centre(number) for number in numbers])


def quantised_hull(points, grid):
    """Definition 3: the bins of the ε-minimal hull, ascending."""
    bins = sorted({grid.bin(points[i]) for i in hull(points, grid.k)})
    return tuple(sorted(bins[i] for i in hull(grid.centres(bins), grid.k)))


def site_hulls(X, y, grid):
    """Return the quantised hull of each class of a site."""
    return {label: quantised_hull(X[y == label], grid) for label in sorted(set(y.tolist()))}


# What the coordinator does with the hulls, of which it knows which ones came from the same site (Section 5.6).


def listed(points):
    """List the point farthest from the origin, where the published scan starts and ends, twice if there are over 3.

    Points of one ring are equally far, and which of them it is nobody says: let nothing depend on it.
    """
    if len(points) <= 3:
        return points
    return np.vstack([points, points[np.argmax(np.linalg.norm(points, axis=1))]])


def mean_distance(one, other, k):
    """Eq. 8."""
    return np.mean([distances(x, listed(other), k) for x in listed(one)])


def weights_of(hulls, k):
    """Give the weights 1/d_G of the graph of hulls."""
    n = len(hulls)
    W = np.zeros((n, n))
    for u, v in combinations(range(n), 2):
        W[u, v] = W[v, u] = 1 / mean_distance(hulls[u], hulls[v], k)
    return W


def balanced_cut(W):
    """Eq. 14, by trying all halves."""
    n = len(W)
    halves = (np.isin(range(n), (0, *chosen)) for chosen in combinations(range(1, n), n // 2 - 1))
    return min(halves, key=lambda S: W[S][:, ~S].sum()).astype(int)


def spectral_cut(W, owners, J):
    """Appendix I.2: spectral clustering, with tiny weights between the hulls of one site."""
    same = np.equal.outer(owners, owners)
    tiny = 0.01 * W[~np.eye(len(W), dtype=bool)].min()
    W = np.where(same, tiny, W) * (1 - np.eye(len(W)))
    return SpectralClustering(J, affinity="precomputed", assign_labels="cluster_qr").fit_predict(W)


def group_hulls(hulls, owners, J, grid):
    """Give every hull (its bins) a group; the group with the smallest bins comes first."""
    W = weights_of([grid.centres(bins) for bins in hulls], grid.k)
    found = balanced_cut(W) if J == 2 else spectral_cut(W, owners, J)
    unions = {
        g: sorted({b for bins, m in zip(hulls, found, strict=True) if m == g for b in bins}) for g in set(found)
    }
    rank = {g: at for at, g in enumerate(sorted(unions, key=unions.get))}
    return [rank[g] for g in found]


# The classifier (Sections 3 and 5.7, Appendices H and I.2).


@dataclass(frozen=True)
class Plane:
    """A Poincaré hyperplane (Eq. 5) and Platt's sigmoid of its scores."""

    reference: np.ndarray
    normal: np.ndarray
    A: float
    B: float
    k: float

    def scores(self, X):
        """Return ⟨log_p(x), w⟩."""
        return log_map(self.reference, X, self.k) @ self.normal

    def probabilities(self, X):
        """Return the probability 1/(1 + exp(A s + B)) of the positive side."""
        return 1 / (1 + np.exp(self.A * self.scores(X) + self.B))


def reference_points(inside, outside, k):
    """Return the geodesic midpoints of the three closest pairs of extreme points, nearest first (Appendix I.2)."""
    here, there = (listed(points[sorted(hull(points, k))]) for points in (inside, outside))
    pairs = sorted((d, i, j) for i, x in enumerate(here) for j, d in enumerate(distances(x, there, k)))
    return [exp_map(here[i], log_map(here[i], there[j], k)[0] / 2, k) for _, i, j in pairs[:3]]


def normal_vector(rows, signs, C):
    """Minimise ½‖w‖² + λ Σ max(0, 1 - y⟨v, w⟩)²: Eq. 7 with the hinge squared, as LinearSVC has it."""
    solver = LinearSVC(C=C, fit_intercept=False, dual=False, tol=1e-12, max_iter=100_000)
    return solver.fit(rows, signs).coef_[0]


def platt(scores, positive):
    """Fit Platt's A and B by maximum likelihood against his targets (n₊ + 1)/(n₊ + 2) and 1/(n₋ + 2)."""
    above, below = positive.sum(), (~positive).sum()
    target = np.where(positive, (above + 1) / (above + 2), 1 / (below + 2))

    def surprise(AB):
        f = AB[0] * scores + AB[1]
        p = 1 / (1 + np.exp(f))
        slope = np.array([(target - p) @ scores, (target - p).sum()])
        return np.sum(np.log1p(np.exp(f)) - (1 - target) * f), slope

    start = [0.0, log((below + 1) / (above + 1))]
    return minimize(surprise, start, jac=True, method="BFGS", options={"gtol": 1e-9}).x


def fit_plane(inside, outside, C, k):
    """Fit the hyperplane between two sets of points: of the three references the one that gets most points right."""
    X, positive = np.vstack([inside, outside]), np.arange(len(inside) + len(outside)) < len(inside)
    best = None
    for p in reference_points(inside, outside, k):
        rows = log_map(p, X, k)
        w = normal_vector(rows, np.where(positive, 1, -1), C)
        right = np.sum((rows @ w > 0) == positive)
        if best is None or right > best[0]:
            best = right, p, w, rows @ w
    _, p, w, scores = best
    return Plane(p, w, *platt(scores, positive), k)


def fit_planes(groups, C, k):
    """Fit a hyperplane for each group against the rest (Appendix H); two groups share the one of the second."""
    targets = [1] if len(groups) == 2 else range(len(groups))
    rest = [np.vstack([points for at, points in enumerate(groups) if at != target]) for target in targets]
    return [fit_plane(groups[target], others, C, k) for target, others in zip(targets, rest, strict=True)]


def predict(planes, X):
    """Return the side of a single hyperplane, or the group of the largest probability."""
    if len(planes) == 1:
        return (planes[0].scores(X) > 0).astype(int)
    return np.argmax([plane.probabilities(X) for plane in planes], axis=0)


# All of it.


@dataclass(frozen=True)
class Twin:
    """What the paper's federation has at the end."""

    at_sites: list[dict[str, tuple[int, ...]]]
    """The bins of each class's quantised hull at each site."""
    groups: list[dict[str, int]]
    """The group of each class of each site."""
    planes: list[Plane]


def federate(sites, grid, J, C=0.1):
    """Learn from the sites' (X, y), whatever they call their classes."""
    at_sites = [site_hulls(X, y, grid) for X, y in sites]
    hulls = [bins for found in at_sites for bins in found.values()]
    owners = [site for site, found in enumerate(at_sites) for _ in found]
    member = group_hulls(hulls, owners, J, grid)
    unions = [sorted({b for bins, m in zip(hulls, member, strict=True) if m == g for b in bins}) for g in range(J)]
    names = iter(member)
    groups = [{label: next(names) for label in found} for found in at_sites]
    return Twin(at_sites, groups, fit_planes([grid.centres(bins) for bins in unions], C, grid.k))
