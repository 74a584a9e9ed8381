"""Gaussians of classes: sums that add across sites, similarity, mixtures and trees."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fedgeom.arrays import Floats, Indices
from fedgeom.errors import InputError
from fedgeom.geometry.graphs.class_tree import ROOT
from fedgeom.geometry.hyperbolic.poincare import from_hyperboloid, log0, to_hyperboloid

FAINT = 1e-9
"""The share of the mean variance that is added to each: a covariance of few rows has no inverse."""
FLAT = 1e-6
"""The least share of the mean variance that a direction has: below it are the digits that sums are rounded to, which
may be negative, as where columns add up to one another, or a class has two rows."""


@dataclass(frozen=True, eq=False)
class Gaussians:
    """Several Gaussians in one space."""

    counts: Floats
    """(k,): how many rows each stands for."""
    means: Floats
    """(k, d)"""
    covariances: Floats
    """(k, d, d)"""

    def __len__(self) -> int:
        return len(self.counts)

    def take(self, chosen: Indices) -> Gaussians:
        """Return some of them."""
        return Gaussians(self.counts[chosen], self.means[chosen], self.covariances[chosen])

    @property
    def squares(self) -> Floats:
        """The second moments about the origin, Σ + μμᵀ, (k, d, d)."""
        return np.asarray(self.covariances + self.means[:, :, None] * self.means[:, None, :])

    def merged(self, members: Indices, groups: int) -> Gaussians:
        """Return what the Gaussians of each group make together: the moments of all their rows; each has one or more.

        members (k,): the group of each.
        """
        weight = np.eye(groups)[members] * self.counts[:, None]
        total = weight.sum(axis=0)
        means = weight.T @ self.means / total[:, None]
        squares = np.einsum("kg,kij->gij", weight, self.squares) / total[:, None, None]
        return Gaussians(total, means, squares - means[:, :, None] * means[:, None, :])

    def shrunk(self, towards: Floats, rows: float) -> Gaussians:
        """Return the Gaussians with covariances pulled towards one with the weight of so many rows.

        towards (d, d). It matters for few rows only, and leaves every covariance with an inverse.
        """
        n = self.counts[:, None, None]
        ridge = FAINT * max(float(np.trace(towards)) / len(towards), FAINT) * np.eye(len(towards))
        pulled = (n * self.covariances + rows * towards) / np.maximum(np.maximum(n - 1, 0) + rows, FAINT) + ridge
        return Gaussians(self.counts, self.means, _with_inverses(pulled, float(np.trace(towards)) / len(towards)))


def _with_inverses(covariances: Floats, variance: float) -> Floats:
    """Raise the variance of directions that have next to none; all others stay to the last digit.

    covariances (k, d, d); variance: the mean one, of what all are pulled towards.
    """
    spread = np.maximum(np.trace(covariances, axis1=1, axis2=2) / covariances.shape[1], variance)
    least = FLAT * np.maximum(spread, FLAT)
    found = np.array(covariances)
    for at in np.flatnonzero(np.linalg.eigvalsh(covariances)[:, 0] < least).tolist():
        values, directions = np.linalg.eigh(covariances[at])
        found[at] = (directions * np.maximum(values, least[at])) @ directions.T
    return found


def bhattacharyya(ours: Gaussians, others: Gaussians) -> Floats:
    """Return the Bhattacharyya distance of each Gaussian to each other one, (len(ours), len(others)).

    (μ - ν)ᵀ S⁻¹ (μ - ν) / 8 + log(det S / √(det Σ det T)) / 2 with S = (Σ + T) / 2: it is 0 for equals, does not depend
    on units, and sees different breadth as well as different places.
    """
    volumes = [np.linalg.slogdet(some.covariances)[1] for some in (ours, others)]
    found = np.empty((len(ours), len(others)))
    for at in range(len(ours)):
        between = (ours.covariances[at] + others.covariances) / 2
        gap = (ours.means[at] - others.means)[:, :, None]
        far = (gap * np.linalg.solve(between, gap)).sum(axis=(1, 2)) / 8
        broad = np.linalg.slogdet(between)[1] - (volumes[0][at] + volumes[1]) / 2
        found[at] = far + broad / 2
    return np.maximum(found, 0.0)


PIECE = 8192
"""How many rows are added up at a time: they stay in the processor's cache, and no copy of a class is made."""


def length(classes: int, columns: int, *, squares: bool = True) -> int:
    """Return how many numbers a site contributes: per class 1 + d + d(d+1)/2 + (d+1), or without squares 2(d+1)."""
    return classes * (2 * (columns + 1) + (columns * (columns + 1) // 2 if squares else 0))


def class_moments(
    X: Floats, y: npt.NDArray[Any], classes: Sequence[str], *, c: float | None, squares: bool = True
) -> Floats:
    """Return, for each class: count, Σv, the upper triangle of Σvvᵀ if wanted, and Σ of hyperboloid coordinates.

    In the ball (``c`` given) v = log_0(x), twice the half-distance direction of Eq. 1 at the origin; in
    Euclidean space (``c`` None) v = x and the last block is (count, Σx).
    """
    d = X.shape[1]
    tangent = X if c is None else np.asarray(log0(X, c=c))
    labels = y.astype(str)
    upper = np.triu_indices(d if squares else 0)
    rows = []
    for name in classes:
        inside = np.flatnonzero(labels == name)
        count, sums, products = len(inside), *_sums(tangent, inside, squares=squares)
        last = np.append(count, sums) if c is None else np.asarray(to_hyperboloid(X[inside], c=c)).sum(axis=0)
        rows.append(np.concatenate([[count], sums, products[upper], last]))
    return np.concatenate(rows)


def _sums(X: Floats, at: npt.NDArray[np.intp], *, squares: bool) -> tuple[Floats, Floats]:
    """Return the sums and, if wanted, the products of the columns over these rows."""
    d = X.shape[1]
    sums = np.zeros(d)
    products = np.zeros((d, d) if squares else (0, 0))
    room = np.empty((min(PIECE, len(at)), d)) if X.flags.c_contiguous and X.dtype == np.float64 else None
    for start in range(0, len(at), PIECE):
        rows = at[start : start + PIECE]
        # Into the same memory each time takes half as long; of columns side by side that would copy the whole table.
        some = X[rows] if room is None else np.take(X, rows, axis=0, out=room[: len(rows)], mode="clip")
        sums += some.sum(axis=0)
        if squares:
            products += some.T @ some
    return sums, products


class ClassSums:
    """The added moments, taken apart again; without squares there are no covariances."""

    def __init__(
        self, total: Floats, classes: Sequence[str], columns: int, *, min_rows: int = 1, squares: bool = True
    ):
        table = total.reshape(len(classes), -1)
        d = columns
        wide = columns if squares else 0
        pairs = wide * (wide + 1) // 2
        self.counts = np.rint(table[:, 0])
        few = [name for name, n in zip(classes, self.counts, strict=True) if n < min_rows]
        if few:
            raise InputError(
                f"classes with fewer than {min_rows} rows at all sites together: {', '.join(few)}; leave them out of "
                "`classes`, or merge them"
            )
        self.sums = table[:, 1 : 1 + d]
        self.squares = np.zeros((len(classes), wide, wide))
        upper = np.triu_indices(wide)
        self.squares[:, upper[0], upper[1]] = table[:, 1 + d : 1 + d + pairs]
        self.squares[:, upper[1], upper[0]] = table[:, 1 + d : 1 + d + pairs]
        self.lifted = table[:, 1 + d + pairs :]

    def priors_and_means(self) -> tuple[Floats, Floats]:
        """Return the classes' log priors and means."""
        return np.log(self.counts / self.counts.sum()), self.sums / self.counts[:, None]

    def gaussians(self, shrinkage: float) -> tuple[Floats, Floats, Floats]:
        """Return log priors, means and covariances of a Gaussian per class.

        A class's covariance is pulled to the pooled one with the weight of ``shrinkage`` rows, which
        matters for small classes only.
        """
        n = self.counts[:, None, None]
        means = self.sums / self.counts[:, None]
        scatter = self.squares - n * means[:, :, None] * means[:, None, :]
        pooled = scatter.sum(axis=0) / max(self.counts.sum() - len(means), 1)
        ridge = 1e-9 * max(float(np.trace(pooled)), 1e-12) * np.eye(pooled.shape[0])
        covariances = (scatter + shrinkage * pooled) / (n - 1 + shrinkage) + ridge
        return np.log(self.counts / self.counts.sum()), means, covariances

    def centroids(self, *, c: float | None) -> Floats:
        """Return the class means; in the ball, the Lorentz centroids (the normalised sums)."""
        if c is None:
            return self.sums / self.counts[:, None]
        time = self.lifted[:, :1]
        space = self.lifted[:, 1:]
        norm = np.sqrt(np.maximum(time**2 - np.sum(space**2, axis=1, keepdims=True), 1e-300))
        point = self.lifted / norm / np.sqrt(c)  # back on the hyperboloid of curvature -c
        return np.asarray(from_hyperboloid(point, c=c))


REGULAR = 1e-6
"""The share of the mean variance that the fit adds to each: a component may be flat."""


def find_components(X: Floats, most: int, min_rows: int, seed: int = 0) -> Indices:
    """Return for each row in which component it is, (n,): up to ``most``, each of at least so many rows.

    X (n, d), f8. Of the mixtures with 1, 2, … Gaussians the one with the least BIC is taken; one with a component
    of fewer rows does not count.
    """
    whole = np.zeros(len(X), np.intp)
    if most < 2 or len(X) < 2 * min_rows:
        return whole
    from sklearn.mixture import GaussianMixture  # 2 s, and only for classes of several components

    regular = REGULAR * max(float(X.var(axis=0).mean()), 1e-12)
    best = whole
    least = np.inf
    for count in range(1, min(most, len(X) // min_rows) + 1):
        mixture = GaussianMixture(count, reg_covar=regular, random_state=seed).fit(X)
        found = np.asarray(mixture.predict(X), np.intp)
        if np.bincount(found, minlength=count).min() < min_rows:
            continue
        bic = float(mixture.bic(X))
        if bic < least:
            best = found
            least = bic
    return best


def joined_tree(classes: Gaussians, names: Sequence[str]) -> dict[str, str]:
    """Return ``{child: parent}`` for Gaussians, one for each name, by average linkage of Bhattacharyya distances.

    Inner nodes are called "group 1", "group 2", … in the order in which they are joined, the nearest first; the root
    has a name of its own. It is a class tree as `HyperFed` takes it.
    """
    from scipy.cluster.hierarchy import linkage  # slow to import, as is the next
    from scipy.spatial.distance import squareform

    words = [str(name) for name in names]
    if len(words) != len(classes) or len(set(words)) < len(words) or len(words) < 2:
        raise InputError(
            f"{len(words)} names given for {len(classes)} classes; wanted two or more, one for each and all different"
        )
    steps = linkage(squareform(bhattacharyya(classes, classes), checks=False), method="average")
    nodes = list(words)
    parents = dict[str, str]()
    for at, (one, other, *_) in enumerate(steps):
        group = ROOT if at == len(steps) - 1 else f"group {at + 1}"
        for child in (nodes[int(one)], nodes[int(other)]):
            parents[child] = group
        nodes.append(group)
    return parents
