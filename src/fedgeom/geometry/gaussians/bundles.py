"""Gaussians by count, mean and covariance: how alike two are, what several make together, which parts one has."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedgeom.arrays import Floats, Indices

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


def part_shares(whole: Gaussians, parts: Gaussians) -> Floats:
    """Return for each Gaussian which shares of the parts make up its moments best, (len(whole), len(parts)).

    Non-negative least squares of (1, μ, Σ + μμᵀ): moments of a mixture are the mixture of moments. Moments are taken in
    the parts' common scale, about their common mean, so that no column outweighs the others; rows sum to 1.
    """
    from scipy.optimize import nnls  # slow to import

    together = parts.merged(np.zeros(len(parts), np.intp), 1)
    root = np.linalg.cholesky(together.covariances[0])

    def moments(some: Gaussians) -> Floats:
        means = np.linalg.solve(root, (some.means - together.means[0]).T).T
        inner = np.linalg.solve(root, some.covariances)
        spread = np.linalg.solve(root, inner.transpose(0, 2, 1))
        upper = np.triu_indices(len(root))
        squares = (spread + means[:, :, None] * means[:, None, :])[:, upper[0], upper[1]]
        return np.column_stack([np.ones(len(some)), means, squares])

    matrix, wanted = moments(parts).T, moments(whole)
    shares = np.array([nnls(matrix, one)[0] for one in wanted])
    return np.asarray(shares / np.maximum(shares.sum(axis=1, keepdims=True), 1e-12))
