"""From propagated scores to labels and confidences: what a site does with its own rows of Z (lines 15 and 16)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedgeom.arrays import Floats, Ints
from fedgeom.errors import InputError

__all__ = [
    "ABSTAIN",
    "GRID",
    "class_weights",
    "code_confidence",
    "confidence_level",
    "is_labelled",
    "keep_known",
    "label_text",
    "labels_and_confidence",
    "normalise_classes",
    "one_hot",
    "shares",
]


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
