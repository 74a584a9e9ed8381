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
from numpy.typing import ArrayLike

from fedgeom.arrays import Floats, Ints, Labels
from fedgeom.data.checks import check_class_sizes, check_finite, check_known_labels
from fedgeom.data.findings import Collector
from fedgeom.data.sites import SiteData
from fedgeom.errors import InputError
from fedgeom.federation.policy import Policy
from fedgeom.methods.xclp.prior import Prior, SitePrior, site_prior
from fedgeom.methods.xclp.scores import (
    ABSTAIN,
    code_confidence,
    is_labelled,
    keep_known,
    label_text,
    labels_and_confidence,
    normalise_classes,
)

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
    there, place = is_labelled(given), {label_text(name): i for i, name in enumerate(names)}
    words = [
        label_text(label) if known else "" for label, known in zip(given.tolist(), there.tolist(), strict=True)
    ]
    unknown = sorted({word for word, known in zip(words, there.tolist(), strict=True) if known} - set(place))
    if unknown:
        raise InputError(f"labels outside the agreed classes: {', '.join(unknown[:8])}")
    return np.array([place[w] if known else ABSTAIN for w, known in zip(words, there, strict=True)], np.int64)


def check_sparse_labels(data: SiteData, classes: Sequence[str] | None, policy: Policy) -> None:
    """Refuse a table of which some rows have labels: cells that are no numbers, unknown words, classes too small."""
    faults, counts = Collector(data.name), own_label_counts(data.y)
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


def rescale_confidence(found: Labelled, joint: tuple[int, Floats] | None, known: Ints) -> Labelled:
    """Label and weigh rows as the reference code does, by the largest confidence of all sites and the labels' counts.

    joint: a number and (classes,), f8; None: rows stay as they are. known (rows,): the label of those that have one,
    which they keep, else -1.
    """
    if joint is None:
        return found
    confidence = code_confidence(found.scores, *joint, known)
    return replace(found, codes=keep_known(found.codes, known), confidence=confidence)


def shared_seed(seed: bytes | int) -> bytes:
    """Return the 32-byte seed of the projection that belongs to a run's seed."""
    if isinstance(seed, bytes):
        return seed
    return hashlib.sha256(f"fedgeom xclp {seed}".encode()).digest()
