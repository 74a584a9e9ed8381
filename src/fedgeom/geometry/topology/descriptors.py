"""The topological descriptor of a site: 48 numbers from its H0 and H1 diagrams (PTopoFL, Eq. 5 and Appendix B).

Eq. 5, the text and the listing of the paper disagree; Appendix B is followed here, in its order (`NAMES`):

- Betti curves: how many finite pairs are alive (birth ≤ t < death) at 20 equally spaced thresholds t from 0 to the
  95th percentile of the H0 deaths, the same thresholds for H0 and for H1;
- persistence entropy −Σ pᵢ log pᵢ with pᵢ = persᵢ / Σ pers;
- amplitude (Σ persᵢ²)^½;
- the number of pairs with persistence above the median;
- the number of finite pairs.

The counts grow with the number of points, so that clusters of descriptors find small sites rather than shapes.
With ``size_free=True`` curves and counts are divided by n − 1 (the number of H0 merges of n distinct points),
entropies by the log of the number of pairs, amplitudes by its root (they become the root mean square persistence).
What remains is that n points of one law lie closer together the more there are; only equal numbers cure that:
choose ``points`` no larger than the smallest site, and let ``repeats`` average over several draws. Then the law of a
descriptor does not depend on the site's size at all.

A cloud without pairs (no point, one point, duplicates only) has the zero descriptor.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import log, sqrt
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedgeom.arrays import Floats
from fedgeom.errors import InputError
from fedgeom.geometry.topology.persistence import (
    Diagrams,
    check_cloud,
    pairwise_distances,
    rips_diagrams,
    scale_to_unit_box,
    spanning_tree,
    subsample,
)

__all__ = [
    "NAMES",
    "RESOLUTION",
    "Scale",
    "betti_curve",
    "class_descriptors",
    "class_names",
    "describe",
    "descriptor",
    "persistence_entropy",
    "thresholds",
]

RESOLUTION = 20
"""L, the number of thresholds of a Betti curve."""

PERCENTILE = 95.0
"""The percentile of the H0 deaths at which the thresholds end."""

_SCALARS = ("entropy", "amplitude", "pairs above median", "pairs")
NAMES: tuple[str, ...] = (
    *(f"Betti curve H{dim} at {step}/{RESOLUTION - 1}" for dim in (0, 1) for step in range(RESOLUTION)),
    *(f"{scalar} H{dim}" for scalar in _SCALARS for dim in (0, 1)),
)
"""What each of the 48 numbers is; thresholds are given as shares of their end."""

Scale = Literal["unit box", "none"]

_STEPS = np.linspace(0.0, 1.0, RESOLUTION)


def thresholds(h0: Floats) -> Floats:
    """Return the 20 thresholds from 0 to the 95th percentile of the H0 deaths; all 0 without deaths.

    h0 (pairs, 2), f8; returns (20,), f8.
    """
    if not len(h0):
        return np.zeros(RESOLUTION)
    deaths = np.sort(h0[:, 1])
    # The linear percentile, written out: numpy's own takes as long as the rest of the descriptor.
    below, share = divmod((len(deaths) - 1) * PERCENTILE / 100.0, 1.0)
    low = deaths[int(below)]
    high = deaths[min(int(below) + 1, len(deaths) - 1)]
    return np.asarray((low + share * (high - low)) * _STEPS, np.float64)


def betti_curve(diagram: Floats, at: ArrayLike) -> Floats:
    """Return how many pairs are alive, birth ≤ t < death, at each threshold t.

    diagram (pairs, 2), f8, at (t,); returns (t,), f8.
    """
    t = np.asarray(at, np.float64)
    births = np.sort(diagram[:, 0])
    deaths = np.sort(diagram[:, 1])
    return np.asarray(births.searchsorted(t, side="right") - deaths.searchsorted(t, side="right"), np.float64)


def persistence_entropy(diagram: Floats) -> float:
    """Return H = −Σ pᵢ log pᵢ with pᵢ = persᵢ / Σ pers (Eq. 5), 0 for an empty diagram.

    diagram (pairs, 2), f8.
    """
    return _entropy(diagram[:, 1] - diagram[:, 0])


def describe(diagrams: Diagrams, *, size_free: bool = False) -> Floats:
    """Return the 48 numbers `NAMES` of one cloud's diagrams; ``size_free`` as in the module's first lines.

    Returns (48,), f8.
    """
    steps = thresholds(diagrams.h0)
    curves = np.concatenate([betti_curve(diagrams.h0, steps), betti_curve(diagrams.h1, steps)])
    scalars = np.array([_scalars(diagram) for diagram in (diagrams.h0, diagrams.h1)])
    if size_free:
        merges = max(diagrams.points - 1, 1)
        pairs = scalars[:, 3].copy()
        curves /= merges
        scalars[:, 0] /= [log(m) if m > 1 else 1.0 for m in pairs]
        scalars[:, 1] /= np.sqrt(np.maximum(pairs, 1.0))
        scalars[:, 2:] /= merges
    return np.concatenate([curves, scalars.T.ravel()])


def descriptor(
    X: ArrayLike,
    *,
    points: int | None = 80,
    rng: np.random.Generator | None = None,
    scale: Scale = "unit box",
    size_free: bool = False,
    repeats: int = 1,
) -> Floats:
    """Return φ, the 48 numbers of the rows of X (Eq. 5, Appendix B).

    ``points`` (n_sub, Table 3) is the most that are looked at, drawn with ``rng``; None takes all. ``scale`` moves
    every column into [0, 1] by its own range, or leaves the units alone: the range of the whole site, or with
    ``size_free`` that of the drawn points, because a site's range grows with its size. ``repeats`` draws are
    averaged; a site with no more than ``points`` rows has only one.
    """
    if repeats < 1:
        raise InputError(f"repeats is {repeats}, but at least one draw is needed.")
    cloud = check_cloud(X) if size_free else _scaled(X, scale)
    few = points is None or len(cloud) <= points
    draws = []
    for _ in range(1 if few else repeats):
        drawn = cloud if few else cloud[subsample(len(cloud), points, rng)]
        drawn = _scaled(drawn, scale) if size_free else drawn
        draws.append(describe(rips_diagrams(drawn), size_free=size_free))
    return draws[0] if len(draws) == 1 else np.asarray(np.mean(draws, axis=0), np.float64)


def class_descriptors(
    X: ArrayLike,
    y: ArrayLike,
    classes: Sequence[Any],
    *,
    points: int | None = 80,
    rng: np.random.Generator | None = None,
    scale: Scale = "unit box",
    size_free: bool = False,
    repeats: int = 1,
    absent: float = 0.0,
) -> Floats:
    """Return one descriptor per label, concatenated in the order of ``classes``: 48 numbers for each.

    A descriptor of X alone cannot see a flipped label; these can. The whole site is scaled once, so that the sizes
    of its class clouds stay comparable. A class without rows has ``absent`` in all its places (with the default 0
    it looks like a class of one point, whose descriptor is zero too); a label outside ``classes`` is refused.
    """
    cloud = _scaled(X, scale)
    labels = check_labels(y, len(cloud), classes)
    parts = []
    for place in range(len(classes)):
        rows = cloud[labels == place]
        if len(rows):
            parts.append(
                descriptor(rows, points=points, rng=rng, scale="none", size_free=size_free, repeats=repeats)
            )
        else:
            parts.append(np.full(len(NAMES), float(absent)))
    return np.concatenate(parts)


def class_names(classes: Sequence[Any]) -> tuple[str, ...]:
    """Return what each number of `class_descriptors` is."""
    return tuple(f"{label}: {name}" for label in classes for name in NAMES)


def check_labels(y: ArrayLike, n: int, classes: Sequence[Any]) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Return each label's place in ``classes``, refusing labels that are not there and repeated classes.

    y (n,); returns (n,), i8.
    """
    labels = np.asarray(y)
    if labels.shape != (n,):
        raise InputError(f"y has shape {labels.shape}, but one label for each of the {n} rows of X is wanted.")
    order = np.asarray(classes)
    if order.ndim != 1 or not len(order) or len(set(order.tolist())) != len(order):
        raise InputError(f"classes is {list(classes)!r}, but a list of different labels is wanted.")
    place = np.full(n, -1, np.int64)
    for at, label in enumerate(order):
        place[labels == label] = at
    if (place < 0).any():
        unknown = labels.tolist()[int(np.argmin(place))]
        raise InputError(f"label {unknown!r} is not among the classes {list(classes)!r}; add it or drop its rows.")
    return place


def _scaled(X: ArrayLike, scale: Scale) -> Floats:
    if scale == "unit box":
        return scale_to_unit_box(X)
    if scale != "none":
        raise InputError(f"scale is {scale!r}, but 'unit box' or 'none' is wanted.")
    return check_cloud(X)


def _entropy(persistence: Floats) -> float:
    if not len(persistence):
        return 0.0
    share = persistence / persistence.sum()
    share = share[share > 0.0]  # a pair too short for its share to be a number adds nothing
    return max(float(-(share @ np.log(share))), 0.0)


def _scalars(diagram: Floats) -> tuple[float, float, float, float]:
    """Entropy, amplitude, number of pairs above the median, number of pairs."""
    m = len(diagram)
    if not m:
        return 0.0, 0.0, 0.0, 0.0
    persistence = np.sort(diagram[:, 1] - diagram[:, 0])
    median = 0.5 * (persistence[(m - 1) // 2] + persistence[m // 2])
    above = m - int(persistence.searchsorted(median, side="right"))
    return _entropy(persistence), sqrt(persistence @ persistence), float(above), float(m)


def mixed_merge_share(X: ArrayLike, y: ArrayLike, *, adjusted: bool = False) -> float:
    """Return the share of H0 merges (edges of a minimum spanning tree) that join points of different labels.

    X (n, d), y (n,).

    A site of fewer than two points, or with one label, has 0. Memory is n² distances; draw a subsample of a large
    site first. Where distances tie (duplicates), the tree and so the share depend on the order of the points.
    """
    cloud, labels = _labelled(X, y)
    if len(cloud) < 2:
        return 0.0
    edges, _ = spanning_tree(pairwise_distances(cloud))
    share = float(np.mean(labels[edges[:, 0]] != labels[edges[:, 1]]))
    return _against_chance(share, labels) if adjusted else share


def neighbour_disagreement(X: ArrayLike, y: ArrayLike, *, k: int = 5, adjusted: bool = False) -> float:
    """Return the mean share of a point's k nearest other points whose label differs from its own.

    X (n, d), y (n,).

    With n ≤ k points all n − 1 others are taken; fewer than two points give 0.
    """
    if k < 1:
        raise InputError(f"k is {k}, but at least one neighbour is wanted.")
    cloud, labels = _labelled(X, y)
    if len(cloud) < 2:
        return 0.0
    from sklearn.neighbors import NearestNeighbors  # slow to import

    # Asked without points, it leaves out each point itself by its index, so that duplicates count as neighbours.
    near = NearestNeighbors(n_neighbors=min(k, len(cloud) - 1)).fit(cloud).kneighbors(return_distance=False)
    share = float(np.mean(labels[near] != labels[:, None]))
    return _against_chance(share, labels) if adjusted else share


def _labelled(X: ArrayLike, y: ArrayLike) -> tuple[Floats, NDArray[np.int64]]:
    cloud = check_cloud(X)
    labels = np.asarray(y)
    if labels.shape != (len(cloud),):
        raise InputError(
            f"y has shape {labels.shape}, but one label for each of the {len(cloud)} rows of X is wanted."
        )
    return cloud, np.unique(labels, return_inverse=True)[1].astype(np.int64)


def _against_chance(share: float, labels: NDArray[np.int64]) -> float:
    n = len(labels)
    counts = np.bincount(labels).astype(np.float64)
    chance = 1.0 - float(np.sum(counts * (counts - 1.0))) / (n * (n - 1.0))
    return share / chance if chance > 0.0 else 0.0
