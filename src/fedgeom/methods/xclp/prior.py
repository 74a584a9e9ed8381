"""Class priors: how often classes occur over all sites, and how often at one site.

Propagated scores that were divided by class counts are evidence: they say which class a row looks like if all
were equally frequent. They are too flat to be likelihoods, so evidence is raised to a power (sharpening). A site's
final scores are

    evidence^sharpening · base · (prior / base)^weight,

where ``base`` is what all sites' label counts say about the classes, shrunk towards equal shares as far as the
counts are compatible with them; ``prior`` is the site's own estimate, from its labels and by a step of expectation
maximisation on its own evidence; and ``weight`` is near 1 at sites whose rows the prior explains clearly better, 0
at sites like all others. Everything but the global counts is computed where the rows are, and nothing is sent.

Evidence can be wrong in one direction for a whole site: cells of another laboratory may all look like a class they are
not. The estimate then follows the error, and the labels follow the estimate. Only labels of the site itself can tell
this from skewed classes, so the estimate counts only where there are some and they bear it out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from fedgeom.arrays import Floats
from fedgeom.errors import InputError
from fedgeom.methods.xclp.scores import normalise_classes, shares

__all__ = ["Prior", "SitePrior", "base_shares", "em_prior", "own_prior", "site_prior", "skew_weight", "with_prior"]

Prior = Literal["em", "em-unchecked", "own", "none"]

SHARPENING = 2.0
STRENGTH = 2.0
"""A site's estimate starts as if it had seen this many rows distributed like the base."""
PER_CLASS, PER_ROW = 2.0, 0.2
"""What an adapted prior must gain before it counts. Twice the log likelihood grows by about one per class by
chance alone, and on sites without skew it was measured to grow by 0.00 to 0.15 per row more, because scores are
not quite likelihoods; with skew (Dirichlet 0.3) by 0.4 to 2.5."""
STEPS = 1
"""Steps of expectation maximisation. More of them fit the evidence better, its errors included: from 1 step to 30,
skewed sites (Dirichlet 0.3) lost a point, and sites of another laboratory without labels six."""
SUPPORT = 0.2
"""By how much, per label, the estimate from the other rows must raise the log likelihood of the site's labels."""


def base_shares(counts: ArrayLike) -> Floats:
    """Estimate the classes' shares from the labels of all sites: (1-w)/C + w·n_c/N, w = max(0, 1 - (C-1)/χ²).

    χ² measures how far the counts are from equal. Counts that differ by chance only give equal shares (w = 0);
    clearly unequal ones are believed. This is a James-Stein shrinkage.
    """
    n = np.asarray(counts, np.float64)
    if n.ndim != 1 or not n.size or (n < 0).any():
        raise InputError(f"class counts {n.tolist()} given; wanted a number of at least 0 for each class")
    C, N = n.size, n.sum()
    if N == 0 or C == 1:
        return np.full(C, 1.0 / C)
    distance = float(np.sum((n - N / C) ** 2) / (N / C))
    w = max(0.0, 1.0 - (C - 1) / distance) if distance > 0 else 0.0
    return np.asarray((1 - w) / C + w * n / N)


def own_prior(own_counts: ArrayLike, base: Floats, *, strength: float = STRENGTH) -> Floats:
    """Estimate a site's shares from its own labels: (n_c + strength·base_c) / (n + strength).

    own_counts and base (classes,); returns (classes,), f8.
    """
    n = np.asarray(own_counts, np.float64)
    return np.asarray((n + strength * base) / (n.sum() + strength))


def em_prior(
    evidence: ArrayLike,
    sharpening: float = SHARPENING,
    iterations: int = STEPS,
    *,
    base: Floats | None = None,
    own_counts: ArrayLike | None = None,
    strength: float = STRENGTH,
) -> Floats:
    """Estimate a site's shares from the evidence of its unlabelled rows, and its labels if it has any.

    Each step gives every row its posterior under the present shares and takes their mean (Saerens et al. 2002).
    Rows without evidence are left out; without any rows or labels the base comes back.
    """
    p = shares(evidence)
    p = p[p.sum(axis=1) > 0] ** sharpening
    C = p.shape[1]
    start = np.full(C, 1.0 / C) if base is None else np.asarray(base, np.float64)
    fixed = strength * start + (0.0 if own_counts is None else np.asarray(own_counts, np.float64))
    prior = fixed / fixed.sum()
    for _ in range(iterations):
        q = p * prior
        total = q.sum(axis=1, keepdims=True)
        mass = (q / np.where(total > 0, total, 1.0)).sum(axis=0) + fixed
        prior = mass / mass.sum()
    return np.asarray(prior)


def skew_weight(
    evidence: ArrayLike,
    prior: Floats,
    base: Floats,
    sharpening: float = SHARPENING,
    *,
    own_counts: ArrayLike | None = None,
) -> float:
    """Return the weight of a site's prior: 1 - (2(C-1) + 0.2 n)/gain, at least 0.

    The gain is twice the log likelihood ratio of prior to base, over n rows with evidence and the site's labels.
    """
    p = shares(evidence)
    p = p[p.sum(axis=1) > 0] ** sharpening
    n = float(len(p))
    gain = 2.0 * float(np.sum(np.log(np.maximum(p @ prior, 1e-300)) - np.log(np.maximum(p @ base, 1e-300))))
    if own_counts is not None:
        own = np.asarray(own_counts, np.float64)
        seen = own > 0
        gain += 2.0 * float(np.sum(own[seen] * np.log(prior[seen] / np.maximum(base[seen], 1e-300))))
        n += float(own.sum())
    cost = PER_CLASS * (len(base) - 1) + PER_ROW * n
    return max(0.0, 1.0 - cost / gain) if gain > 0 else 0.0


def with_prior(
    evidence: ArrayLike, prior: Floats, base: Floats, weight: float, sharpening: float = SHARPENING
) -> Floats:
    """Return a site's final scores, rows summing to one; rows without evidence stay rows of zeros."""
    safe = np.maximum(base, 1e-300)
    return shares(shares(evidence) ** sharpening * base * (np.maximum(prior, 1e-300) / safe) ** weight)


@dataclass(frozen=True)
class SitePrior:
    """What a site knows about its classes after a run; good for its later rows too."""

    counts: Floats
    """The labels of each class over all sites."""
    prior: Floats
    weight: float
    sharpening: float = SHARPENING

    def scores(self, Z: ArrayLike) -> Floats:
        """Turn rows of Z as they come from the propagation into final scores."""
        base = base_shares(self.counts)
        return with_prior(normalise_classes(Z, self.counts), self.prior, base, self.weight, self.sharpening)


def site_prior(
    Z: ArrayLike, y: ArrayLike, counts: ArrayLike, *, kind: Prior = "em", sharpening: float = SHARPENING
) -> SitePrior:
    """Find a site's prior from its rows of Z, its own labels y (class numbers, -1 for none) and all sites' counts.

    "em": labels and expectation maximisation on the unlabelled rows, if the labels bear out what the latter finds by
    itself; "em-unchecked": that also at sites without labels, where nothing can speak against it; "own": labels
    only; "none": as everywhere.
    """
    totals, codes = np.asarray(counts, np.float64), np.asarray(y, np.int64)
    base = base_shares(totals)
    if kind == "none":
        return SitePrior(totals, base, 0.0, sharpening)
    own = np.bincount(codes[codes >= 0], minlength=len(totals)).astype(np.float64)
    if kind == "own":
        prior = own_prior(own, base)
        return SitePrior(
            totals, prior, skew_weight(np.zeros((0, len(base))), prior, base, own_counts=own), sharpening
        )
    if kind not in ("em", "em-unchecked"):
        raise InputError(f'prior={kind!r} is unknown; wanted "em", "em-unchecked", "own" or "none"')
    evidence = normalise_classes(Z, totals)[codes < 0]
    if not _borne_out(em_prior(evidence, sharpening, base=base), base, own, unchecked=kind == "em-unchecked"):
        return SitePrior(totals, base, 0.0, sharpening)
    prior = em_prior(evidence, sharpening, base=base, own_counts=own)
    return SitePrior(totals, prior, skew_weight(evidence, prior, base, sharpening, own_counts=own), sharpening)


def _borne_out(estimate: Floats, base: Floats, own: Floats, *, unchecked: bool) -> bool:
    """Say whether a site's labels are clearly likelier under the estimate from its other rows than under the base."""
    if not own.any():
        return unchecked
    seen = own > 0
    gain = float(np.sum(own[seen] * np.log(estimate[seen] / np.maximum(base[seen], 1e-300))))
    return gain >= SUPPORT * float(own.sum())
