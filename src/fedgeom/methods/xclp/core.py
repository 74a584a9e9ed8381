"""How labels spread and are read: settings of the variants, and what a site does with its own rows of Z.

The paper and its reference code disagree, and neither is the best that was measured, so there are three settings:

- ``paper``: Algorithm 1 to the letter. A point is one of its own k neighbours, weights are cosines, frequent
  classes weigh more;
- ``code``: the published program. No self-loops, cosines cubed, each class's labels sum to one;
- ``ours``: fewer neighbours, sharper weights, labels that count for less far away, classes balanced as far as
  their counts differ by chance, and a prior that each site finds by itself. papers/xclp compares them.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedgeom.arrays import Floats, Ints, Labels
from fedgeom.data.sites import SiteData
from fedgeom.data.validation import Collector, check_class_sizes, check_finite, check_known_labels
from fedgeom.errors import InputError
from fedgeom.federation.policy import Policy

ABSTAIN = -1
"""The label of a row that no label reaches."""

GRID = 4096
"""The largest confidence over all sites is found in steps of 1/4096, rounded up."""

_NO_LABEL = ("", "-1", "-1.0", "nan", "None")


def is_labelled(y: ArrayLike) -> NDArray[np.bool_]:
    """Say which rows have a label: not -1, None or NaN, nor one of these written as text, nor the empty text.

    >>> is_labelled(["b cell", None, "-1", ""]).tolist()
    [True, False, False, False]
    """
    given = np.asarray(y, object) if isinstance(y, (list, tuple)) else np.asarray(y)
    if given.ndim != 1:
        raise InputError(f"labels have shape {given.shape}; wanted one per row")
    if given.dtype.kind in "iub":
        return np.asarray(given.astype(np.int64) != -1) if given.dtype.kind == "i" else np.ones(given.shape, bool)
    if given.dtype.kind == "f":
        return np.asarray(~np.isnan(given) & (given != -1))
    return np.array([str(label).strip() not in _NO_LABEL for label in given.tolist()], bool)


def label_text(label: Any) -> str:
    """Write 3.0 like 3, so that a column with gaps (read as floats) agrees with one without."""
    return str(int(label)) if isinstance(label, float) and label.is_integer() else str(label)


def one_hot(codes: ArrayLike, C: int) -> Floats:
    """Return the zero-or-one-hot matrix Y (n, C) of class numbers, a row of zeros for -1."""
    y = np.asarray(codes, np.int64)
    if y.size and (y.min() < ABSTAIN or y.max() >= C):
        raise InputError(f"class numbers {y.min()}…{y.max()} given; wanted -1 … {C - 1}")
    Y = np.zeros((len(y), C))
    rows = np.flatnonzero(y >= 0)
    Y[rows, y[rows]] = 1.0
    return Y


def class_weights(counts: ArrayLike) -> Floats:
    """Return 1 / (labels of a class over all sites), 0 for a class without any.

    counts (classes,); returns (classes,), f8.

    Multiplying label columns by these makes each class sum to one, so that a frequent class does not drown a rare
    one. The paper's Algorithm 1 leaves it out, its code has it; it is the step that matters most.
    """
    n = np.asarray(counts, np.float64)
    if n.ndim != 1 or (n < 0).any():
        raise InputError(f"class counts {n.tolist()} given; wanted a number of at least 0 for each class")
    return np.where(n > 0, 1.0 / np.where(n > 0, n, 1.0), 0.0)


def normalise_classes(Z: ArrayLike, counts: ArrayLike) -> Floats:
    """Divide each class's column by the number of its labels over all sites.

    Z (n, classes), counts (classes,); returns (n, classes), f8.
    """
    return np.asarray(np.asarray(Z, np.float64) * class_weights(counts))


def shares(Z: ArrayLike, *, least: float = 0.0) -> Floats:
    """Scale rows to sum one; rows whose sum is at most ``least`` become rows of zeros."""
    scores = np.maximum(np.asarray(Z, np.float64), 0.0)
    if scores.ndim != 2 or not np.isfinite(scores).all():
        raise InputError(f"Z has shape {scores.shape}; wanted finite scores (n, C)")
    total = scores.sum(axis=1, keepdims=True)
    return np.asarray(np.where(total > least, scores / np.where(total > 0, total, 1.0), 0.0))


def labels_and_confidence(
    Z: ArrayLike,
    *,
    least: float = 0.0,
    largest: float | None = None,
    class_sizes: ArrayLike | None = None,
) -> tuple[Ints, Floats]:
    """Return each row's best class and the confidence 1 - entropy/log C of its scores.

    A row whose scores sum to at most ``least`` was reached by no label: it abstains (-1) with confidence 0. Of
    equal scores the smaller class number wins.

    The reference code does two more things, for training with pseudo-labels: it divides confidences by the
    largest over all sites (``largest``), and weights rows by n/(C·n_c) for the n_c points that got the same label
    anywhere (``class_sizes``, n_c for each class). Both need a further sum over sites and are off by default.
    """
    p = shares(Z, least=least)
    C = p.shape[1]
    reached = p.sum(axis=1) > 0
    labels = np.where(reached, p.argmax(axis=1) if C else ABSTAIN, ABSTAIN).astype(np.int64)
    entropy = -np.sum(p * np.log(np.where(p > 0, p, 1.0)), axis=1)
    confidence = np.where(reached, 1.0 - entropy / np.log(C) if C > 1 else 1.0, 0.0)
    confidence = np.clip(confidence, 0.0, 1.0)
    if largest is not None:
        if not largest > 0:
            raise InputError(f"largest={largest!r} given; wanted the largest confidence, a positive number")
        confidence = np.minimum(confidence / largest, 1.0)
    if class_sizes is not None:
        sizes: NDArray[Any] = np.asarray(class_sizes, np.float64)
        weight = sizes.sum() / C * class_weights(sizes)
        confidence = confidence * np.where(reached, weight[labels], 0.0)
    return labels, confidence


def confidence_level(confidence: ArrayLike) -> int:
    """Return the largest confidence in steps of 1/4096, rounded up; 0 where no row has any.

    >>> confidence_level([0.25, 0.5]), confidence_level([1e-9]), confidence_level([])
    (2048, 1, 0)
    """
    return int(np.ceil(np.max(np.asarray(confidence, np.float64), initial=0.0) * GRID))


def keep_known(codes: ArrayLike, known: ArrayLike) -> Ints:
    """Return labels, (rows,), of which rows that have one of their own, not -1 in ``known``, keep that."""
    own = np.asarray(known, np.int64)
    return np.where(own >= 0, own, np.asarray(codes, np.int64))


def code_confidence(scores: ArrayLike, level: int, sizes: ArrayLike, known: ArrayLike) -> Floats:
    """Return confidences as the reference code scales them; rows with a label of their own have 1.

    These are the rows whose entry of ``known``, (rows,), is not -1.

    ``level`` is the highest `confidence_level` of any site, ``sizes`` how many rows of all sites have each label. The
    weights n/(C·n_c) of rare labels are above 1, and so may be the result.
    """
    found = labels_and_confidence(scores, largest=level / GRID if level else None, class_sizes=sizes)[1]
    return np.where(np.asarray(known) >= 0, 1.0, found)


__all__ = ["Prior", "SitePrior", "base_shares", "em_prior", "own_prior", "site_prior", "skew_weight", "with_prior"]

Prior = Literal["em", "em-unchecked", "own", "none"]

SHARPENING = 2.0
STRENGTH = 2.0
"""A site's estimate starts as if it had seen this many rows distributed like the base."""
PER_CLASS = 2.0
PER_ROW = 0.2
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
    C = n.size
    N = n.sum()
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
    totals = np.asarray(counts, np.float64)
    codes = np.asarray(y, np.int64)
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


Variant = Literal["ours", "paper", "code"]


@dataclass(frozen=True)
class Setting:
    """How labels spread."""

    k: int
    """k: the neighbours that a point keeps (line 7)."""
    alpha: float
    """α: what is left of a label after one step (line 10)."""
    power: int
    """The power to which cosines are raised."""
    self_loops: bool
    """Whether a point is among its own k neighbours."""
    classes: Literal["as they are", "to sum one", "with priors"]
    """What becomes of class sizes: nothing, columns divided by counts, or that and shrunken priors."""


VARIANTS: dict[str, Setting] = {
    "paper": Setting(k=10, alpha=0.99, power=1, self_loops=True, classes="as they are"),
    "code": Setting(k=10, alpha=0.99, power=3, self_loops=False, classes="to sum one"),
    "ours": Setting(k=5, alpha=0.95, power=8, self_loops=False, classes="with priors"),
}


@dataclass(frozen=True)
class Labelled:
    """What one site has at the end (lines 15 and 16)."""

    codes: Ints
    """(rows,): the class number of each row, -1 where no label reaches."""
    confidence: Floats
    """(rows,): from 0 to 1."""
    scores: Floats
    """(rows, classes): final class scores."""
    prior: SitePrior | None


def setting_for(variant: Variant, k: int | None, alpha: float | None) -> Setting:
    """Return a variant's setting, with other neighbours or another α where they are given."""
    if variant not in VARIANTS:
        raise InputError(f"variant={variant!r} is unknown; wanted one of {', '.join(VARIANTS)}")
    chosen = VARIANTS[variant]
    return replace(chosen, k=chosen.k if k is None else k, alpha=chosen.alpha if alpha is None else alpha)


def label_numbers(y: ArrayLike, names: Sequence[Any]) -> Ints:
    """Return the place of every label among the names, -1 for a row without label; labels are compared as text.

    y (n,); returns (n,), whole numbers.
    """
    given = np.asarray(y, object) if isinstance(y, (list, tuple)) else np.asarray(y)
    there = is_labelled(given)
    place = {label_text(name): i for i, name in enumerate(names)}
    words = [
        label_text(label) if known else "" for label, known in zip(given.tolist(), there.tolist(), strict=True)
    ]
    unknown = sorted({word for word, known in zip(words, there.tolist(), strict=True) if known} - set(place))
    if unknown:
        raise InputError(f"labels outside the agreed classes: {', '.join(unknown[:8])}")
    return np.array([place[w] if known else ABSTAIN for w, known in zip(words, there, strict=True)], np.int64)


def check_sparse_labels(data: SiteData, classes: Sequence[str] | None, policy: Policy) -> None:
    """Refuse a table of which some rows have labels: cells that are no numbers, unknown words, classes too small."""
    faults = Collector(data.name)
    counts = own_label_counts(data.y)
    with faults.take():
        check_finite(data)
    with faults.take():
        check_known_labels(data.name, sorted(counts), classes)
    labelled = [name for name, rows in counts.items() for _ in range(rows)]
    with faults.take():
        check_class_sizes(data.name, labelled, policy.min_rows_per_class, key="min_rows_per_class")
    faults.raise_all()


def own_label_counts(y: ArrayLike) -> dict[str, int]:
    """Return how many rows have each of the label names in use, rows without a label aside.

    y (n,).
    """
    given = np.asarray(y)
    return dict(Counter(label_text(label) for label in given[is_labelled(given)].tolist()))


def without_labels(y: ArrayLike, rare: Sequence[str]) -> Labels:
    """Return labels as text, "" for those that are rare and for rows without a label; both (n,)."""
    given = np.asarray(y)
    words = np.array([label_text(label) for label in given.tolist()], object)
    kept = is_labelled(given) & ~np.isin(words, list(rare))
    return np.asarray(np.where(kept, words, "").astype(str))


def mark_unlabelled(site: SiteData) -> SiteData:
    """Return the site with its labels as text, "" where the label is -1, None or NaN."""
    names = [label_text(label) for label in site.y.tolist()]
    return replace(site, y=np.where(is_labelled(site.y), names, ""))


def at_site(Z: Floats, y: Ints, setting: Setting, counts: Floats, prior: Prior) -> Labelled:
    """Do what a site does with its own rows of Z, its own labels and all sites' class counts."""
    own = site_prior(Z, y, counts, kind=prior) if setting.classes == "with priors" else None
    return finish(Z, setting, counts, own)


def finish(Z: Floats, setting: Setting, counts: Floats, prior: SitePrior | None) -> Labelled:
    """Turn a site's rows of Z into labels and confidences, at the site (lines 15 and 16)."""
    if prior is not None:
        scores = prior.scores(Z)
    else:
        scores = normalise_classes(Z, counts) if setting.classes == "to sum one" else Z
    codes, confidence = labels_and_confidence(scores)
    return Labelled(codes, confidence, scores, prior)


def shared_seed(seed: bytes | int) -> bytes:
    """Return the 32-byte seed of the projection that belongs to a run's seed."""
    if isinstance(seed, bytes):
        return seed
    return hashlib.sha256(f"fedgeom xclp {seed}".encode()).digest()
