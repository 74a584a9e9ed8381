"""Persistence diagrams of point clouds: Vietoris–Rips H0 and H1 (PTopoFL, Section 2.2), computed by gudhi.

A diagram is a float array of shape (m, 2), one row (birth, death) per feature, finite pairs only, longest last.
H0 counts components: all are born at 0, and the n − 1 finite deaths are the edge lengths of a minimum spanning
tree (`spanning_tree`). The component that never dies is left out. H1 counts loops.

Tiny and degenerate clouds have plain answers. 0 or 1 points: both diagrams are empty. 2 points: one H0 pair.
3 points: two H0 pairs; a triangle fills the moment it closes, so that H1 needs at least 4 points. Pairs that die
as they are born lie on the diagonal and are left out: n points of which k are distinct have k − 1 H0 pairs, and a
cloud of duplicates has none. A constant column changes nothing.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.spatial.distance import pdist, squareform

from fedgeom.arrays import Floats
from fedgeom.errors import InputError
from fedgeom.memo import memoize

__all__ = [
    "Diagrams",
    "check_cloud",
    "pairwise_distances",
    "rips_diagrams",
    "scale_to_unit_box",
    "spanning_tree",
    "subsample",
]

ROUNDING = 1e-12
"""Pairs shorter than this share of the largest distance are rounding: 0.1 + 0.2 and 0.3 are duplicates."""


class Diagrams(NamedTuple):
    """The H0 and H1 diagrams of one cloud, and of how many points it had."""

    h0: Floats
    """(pairs, 2): birth and death."""
    h1: Floats
    """(pairs, 2)"""
    points: int


def check_cloud(X: ArrayLike, name: str = "X") -> Floats:
    """Return X as float64 of shape (n, d), d ≥ 1, refusing missing and infinite entries; n may be 0."""
    raw = np.asarray(X)
    if raw.dtype.kind not in "biuf":
        raise InputError(f"{name} has dtype {raw.dtype}, but real numbers are wanted; convert it to float64.")
    if raw.ndim != 2 or raw.shape[1] == 0:
        raise InputError(
            f"{name} has shape {raw.shape}, but (n, d) is wanted, one point per row; write one point x as x[None, :]."
        )
    cloud: Floats = raw.astype(np.float64, copy=False)
    if not np.isfinite(cloud).all():
        row = int(np.argmin(np.isfinite(cloud).all(axis=1)))
        raise InputError(
            f"{name}[{row}] has an entry that is not finite; drop or impute the rows with missing values."
        )
    return cloud


def scale_to_unit_box(X: ArrayLike, low: ArrayLike | None = None, high: ArrayLike | None = None) -> Floats:
    """Return X with every column moved into [0, 1].

    Without bounds each column's own least and largest value are taken, and a constant column becomes 0: this is
    what makes sites with different units comparable, and it hides differences of scale between sites. With public
    bounds ``low`` and ``high`` (one number, or one per column) entries are clipped to them first.
    """
    cloud = check_cloud(X)
    if (low is None) != (high is None):
        raise InputError("only one of low and high was given; give both public bounds, or neither.")
    if low is None or high is None:
        if not len(cloud):
            return cloud.copy()
        floor = cloud.min(axis=0)
        ceiling = cloud.max(axis=0)
        # Halves first: the difference of two huge values of opposite sign would overflow.
        half = 0.5 * ceiling - 0.5 * floor
        return np.asarray((0.5 * cloud - 0.5 * floor) / np.where(half > 0.0, half, 1.0), np.float64)
    floor, ceiling = (np.broadcast_to(np.asarray(b, np.float64), (cloud.shape[1],)) for b in (low, high))
    if not (np.isfinite(floor).all() and np.isfinite(ceiling).all() and (floor < ceiling).all()):
        raise InputError("low must lie below high in every column, and both be finite; they are public ranges.")
    return np.asarray((np.clip(cloud, floor, ceiling) - floor) / (ceiling - floor), np.float64)


def subsample(n: int, size: int | None, rng: np.random.Generator | None) -> NDArray[np.int64]:
    """Return the sorted indices of ``size`` of n points, drawn without replacement; all n if there are no more.

    Returns (the smaller of n and size,), i8.

    Sorted, so that the points keep their order; ``size=None`` takes all. A generator is needed only when there is
    something to draw.
    """
    if size is not None and size < 1:
        raise InputError(f"size is {size}, but at least one point must be drawn; pass None to take all points.")
    if size is None or n <= size:
        return np.arange(n)
    if rng is None:
        raise InputError(f"{size} of {n} points are to be drawn; pass rng=np.random.default_rng(seed).")
    return np.sort(rng.choice(n, size, replace=False))


def pairwise_distances(X: ArrayLike) -> Floats:
    """Return the (n, n) Euclidean distances, each computed from the difference of its two points.

    Not from a Gram matrix, whose cancellation would turn the distance of close points into noise.
    """
    cloud = check_cloud(X)
    if len(cloud) < 2:
        return np.zeros((len(cloud), len(cloud)))
    return np.asarray(squareform(pdist(cloud), checks=False), np.float64)


def rips_diagrams(X: ArrayLike) -> Diagrams:
    """Return the Vietoris–Rips diagrams H0 and H1 of the rows of X, exact, with coefficients in Z/2.

    Needs the ``topology`` extra. Time grows steeply with the number of points (80: about 2 ms, 200: 10 ms,
    1000: 0.6 s), hardly with their dimension; draw a `subsample` first.
    """
    return diagrams_of_distances(pairwise_distances(X))


def diagrams_of_distances(distances: Floats) -> Diagrams:
    """Return the Vietoris–Rips diagrams of an (n, n) distance matrix, which is trusted to be one."""
    n = len(distances)
    if n < 2:
        return Diagrams(np.empty((0, 2)), np.empty((0, 2)), n)
    h0, h1 = _rips().transform([distances])[0]
    least = ROUNDING * float(distances.max())
    return Diagrams(_finite(h0, least), _finite(h1, least), n)


def spanning_tree(distances: Floats) -> tuple[NDArray[np.int64], Floats]:
    """Return a minimum spanning tree of an (n, n) distance matrix: edges (n − 1, 2) and their lengths, sorted.

    The lengths are the H0 deaths, zeros between duplicates included. Prim's algorithm: it takes n steps on whole
    rows, and unlike a sparse-graph routine it does not read a zero distance as a missing edge. Where distances tie,
    the lengths are unique and the edges are not.
    """
    n = len(distances)
    if n < 2:
        return np.empty((0, 2), np.int64), np.empty(0)
    edges = np.empty((n - 1, 2), np.int64)
    lengths = np.empty(n - 1)
    reach = distances[0].copy()
    nearest = np.zeros(n, np.int64)
    reach[0] = np.inf
    outside = np.ones(n, bool)
    outside[0] = False
    for step in range(n - 1):
        new = int(np.argmin(reach))
        edges[step] = (nearest[new], new)
        lengths[step] = reach[new]
        outside[new] = False
        reach[new] = np.inf
        closer = outside & (distances[new] < reach)
        reach[closer] = distances[new, closer]
        nearest[closer] = new
    order = np.argsort(lengths, kind="stable")
    return edges[order], lengths[order]


def _finite(diagram: NDArray[Any], least: float) -> Floats:
    """Keep the finite pairs longer than rounding, sorted by persistence."""
    pairs = np.asarray(diagram, np.float64).reshape(-1, 2)
    persistence = pairs[:, 1] - pairs[:, 0]
    order = persistence.argsort(kind="stable")
    lengths = persistence[order]
    return pairs[order[lengths.searchsorted(least, side="right") : lengths.searchsorted(np.inf)]]


@memoize(1)
def _rips() -> Any:
    """Load gudhi's Rips persistence when it is first needed: the import takes seconds."""
    try:
        from gudhi.sklearn import RipsPersistence  # optional
    except ImportError as error:
        raise InputError(
            "persistence diagrams need gudhi, which is not installed: pip install 'fedgeom[topology]' "
            "(or pip install 'gudhi>=3.11')."
        ) from error
    return RipsPersistence([0, 1], input_type="full distance matrix", homology_coeff_field=2).fit(None)
