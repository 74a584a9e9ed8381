"""Label propagation through shared anchors: linear in the number of points, and without any pairwise distance.

Anchors are centres of spherical k-means. Every step of it needs sums over points only, so that sites assign
their own rows and a secure sum adds up what they found. A point is then written as a code on its few nearest
anchors, row z of a matrix Z with rows that sum to one, and points are neighbours as far as they share anchors:

    W = Z Λ⁻¹ Zᵀ,  Λ = diag(Zᵀ1) = diag(ZᵀZ 1),

which is symmetric with row sums one. By Woodbury's identity, for a label matrix Y,

    (Id - αW)⁻¹ Y = Y + Z M,  M = α (Λ - α ZᵀZ)⁻¹ ZᵀY,

so that two small sums over sites, ZᵀZ (A × A) and ZᵀY (A × C), decide everything, and a point that comes later is
labelled by its own code alone: z M.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import cho_factor, cho_solve

from fedgeom.arrays import Floats
from fedgeom.errors import InputError
from fedgeom.geometry.graphs.lsh import projection_blocks

__all__ = [
    "anchor_graph",
    "anchor_scores",
    "assign",
    "cell_counts",
    "cell_sums",
    "cell_totals",
    "codes",
    "first_cells",
    "fit_anchors",
    "grouped_gram",
    "move",
    "neighbours",
    "next_seed",
    "occupied",
    "unit_rows",
]

Cells = NDArray[np.int64]

_ROWS = 4096
_FIRST = 32
_POWER_STEPS = 8
"""Enough to come near the direction in which rows vary most: any near it makes groups of neighbours."""


def unit_rows(X: ArrayLike) -> Floats:
    """Scale every row to length one; rows of zeros stay."""
    rows = np.asarray(X, np.float64)
    if rows.ndim != 2 or not np.isfinite(rows).all():
        raise InputError(f"X has shape {rows.shape}; wanted finite rows and columns")
    norm = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(rows / np.where(norm > 0, norm, 1.0))


def first_cells(X: ArrayLike, mean: Floats, seed: bytes, A: int) -> Cells:
    """Deal rows to a few cells (32, or A if that is less) before there are anchors.

    A row goes to the largest of as many random projections of x̂ - mean. All that is needed is the mean of the unit
    rows (a sum) and the seed that the sites share. Rows that are near each other have nearly the same projections,
    so that the cells are regions and not random heaps.
    """
    directions = np.vstack(list(projection_blocks(seed, min(A, _FIRST), len(mean))))
    return _nearest(unit_rows(X) - mean, directions)


def assign(X: ArrayLike, anchors: Floats) -> Cells:
    """Give every row the number of its nearest anchor by angle; the smaller number on a tie.

    X (n, d), anchors (A, d), f8; returns (n,), whole numbers.
    """
    return _nearest(unit_rows(X), anchors)


def cell_counts(cells: Cells, A: int) -> Cells:
    """Count a site's rows in each cell. Add these up first: a cell with few points must not be summed."""
    return np.bincount(cells, minlength=A).astype(np.int64)


def cell_sums(X: ArrayLike, cells: Cells, A: int) -> Floats:
    """Sum a site's unit rows in each cell, shape (A, d)."""
    return cell_totals(unit_rows(X), cells, A)


def cell_totals(rows: Floats, cells: Cells, A: int) -> Floats:
    """Sum rows as they are in each cell, shape (A, d)."""
    return np.asarray(_members(cells, A) @ rows)


def _members(cells: Cells, A: int) -> sp.csr_array:
    return sp.csr_array((np.ones(len(cells)), (cells, np.arange(len(cells)))), shape=(A, len(cells)))


def neighbours(X: Floats, least: int) -> Cells:
    """Put rows into groups of at least ``least``, and fewer than twice as many, neighbours (microaggregation).

    Rows are halved along the direction in which they vary most, as long as both halves are large enough. Where all
    together are fewer than ``least`` there is no group.

    X (n, d), f8; returns the group of each row, (n,), or none, (0,).
    """
    if len(X) < least:
        return np.zeros(0, np.int64)
    found = np.zeros(len(X), np.int64)
    left = [np.arange(len(X))]
    count = 0
    while left:
        rows = left.pop()
        if len(rows) < 2 * least:
            found[rows] = count
            count += 1
            continue
        centred = X[rows] - X[rows].mean(axis=0)
        way = centred[np.square(centred).sum(axis=1).argmax()]
        for _ in range(_POWER_STEPS):
            way = (centred @ way) @ centred
            way = way / max(float(np.linalg.norm(way)), 1e-300)
        order = rows[np.argsort(centred @ way, kind="stable")]
        half = max(len(rows) // 2 // least, 1) * least
        left += [order[:half], order[half:]]
    return found


def occupied(counts: ArrayLike, least: int) -> Cells:
    """Return the cells with at least ``least`` points over all sites; the others are left out before any sum.

    counts (A,); returns the numbers of the cells kept, (at most A,).

    The sum of a cell with one point is that point. Rows of small cells move to the nearest cell that stays.
    """
    held = np.asarray(counts)
    kept = np.flatnonzero(held >= max(least, 1))
    # When every cell is small the fullest one stays, so that there is a place for all.
    return kept if kept.size else np.array([int(held.argmax())])


def move(sums: Floats, counts: ArrayLike, A: int, seed: bytes) -> Floats:
    """Return the cells' directions as unit anchors, and as long as there are fewer than A, split the widest cells.

    sums (cells, d), f8, counts (cells,); returns (at most A or cells, d), f8.

    Growing from few cells by splitting is what makes k-means good here. A cell of n points whose sum has length s
    has distortion n - s, so that the sums say which cells are widest. At most all are split in one step. The two
    halves lie on either side of the old anchor, in a random direction (from the seed) of the space that the anchors
    span.
    """
    anchors = unit_rows(sums)
    n = np.asarray(counts, np.float64)
    missing = min(A - len(anchors), len(anchors))
    if missing <= 0:
        return anchors
    length = np.linalg.norm(sums, axis=1)
    widest = np.argsort(length - n, kind="stable")[:missing]
    mix = np.vstack(list(projection_blocks(seed, missing, len(anchors))))
    direction = unit_rows(mix @ (anchors - anchors.mean(axis=0)))
    spread = np.sqrt(np.maximum(1.0 - (length / np.maximum(n, 1.0)) ** 2, 1e-6))[widest, None]
    step = 0.5 * spread * direction
    halves = unit_rows(anchors[widest] - step)
    anchors[widest] = unit_rows(anchors[widest] + step)
    return np.vstack([anchors, halves])


def fit_anchors(parts: Sequence[ArrayLike], A: int, seed: bytes, *, rounds: int = 10, least: int = 1) -> Floats:
    """Fit anchors to several sites' rows; every quantity that crosses from one to another is a sum over sites.

    The secure conversation is this loop with a secure sum for each ``sum``. Fewer than A anchors come back when
    cells with fewer than ``least`` points had to go.
    """
    if A < 1 or rounds < 1:
        raise InputError(f"A={A} anchors and rounds={rounds} given; wanted positive numbers")
    sites = [unit_rows(part) for part in parts]
    mean = np.sum([site.sum(axis=0) for site in sites], axis=0) / sum(len(site) for site in sites)
    cells = [first_cells(site, mean, seed, A) for site in sites]
    kept = occupied(np.sum([cell_counts(c, A) for c in cells], axis=0), least)
    cells = [_renumber(c, kept, A) for c in cells]  # here, points of dropped cells sit out the first sum
    for round_ in range(rounds):
        keep = [c >= 0 for c in cells]
        pairs = list(zip(sites, cells, keep, strict=True))
        counts = np.sum([cell_counts(c[k], len(kept)) for _, c, k in pairs], axis=0)
        sums = np.sum([cell_sums(s[k], c[k], len(kept)) for s, c, k in pairs], axis=0)
        last = round_ == rounds - 1
        anchors = move(sums, counts, len(kept) if last else A, next_seed(seed, round_))
        if last:
            break
        counts = np.sum([cell_counts(assign(s, anchors), len(anchors)) for s in sites], axis=0)
        kept = occupied(counts, least)
        anchors = anchors[kept]
        cells = [assign(s, anchors) for s in sites]
    return anchors


def codes(X: ArrayLike, anchors: Floats, m: int = 3, *, power: int = 16) -> sp.csr_array:
    """Write rows as weights on their m nearest anchors, cos^power scaled to sum one: sparse, shape (n, A).

    A row at a right angle or more to all anchors (a row of zeros, too) gets an empty code and takes no part.
    """
    if m < 1 or power < 1:
        raise InputError(f"m={m}, power={power} given; wanted positive numbers")
    rows = unit_rows(X)
    m = min(m, len(anchors))
    parts = []
    for first in range(0, len(rows), _ROWS):
        cosine = rows[first : first + _ROWS] @ anchors.T
        nearest = np.sort(np.argpartition(-cosine, m - 1, axis=1)[:, :m], axis=1)
        weight = np.maximum(np.take_along_axis(cosine, nearest, axis=1), 0.0)
        largest = weight.max(axis=1, keepdims=True)
        weight = (weight / np.where(largest > 0, largest, 1.0)) ** power
        total = weight.sum(axis=1, keepdims=True)
        weight /= np.where(total > 0, total, 1.0)
        start = np.arange(0, weight.size + 1, m)
        parts.append(sp.csr_array((weight.ravel(), nearest.ravel(), start), shape=(len(weight), len(anchors))))
    out = sp.csr_array(sp.vstack(parts)) if parts else sp.csr_array((0, len(anchors)))
    out.eliminate_zeros()
    return out


def grouped_gram(Z: sp.csr_array, groups: Cells) -> Floats:
    """Return ZᵀZ with each code replaced by the mean of its group, shape (A, A).

    Z (n, A); groups (n,), or none, (0,): then there is nothing to add.
    """
    if not len(groups):
        return np.zeros((Z.shape[1], Z.shape[1]))
    sizes = np.bincount(groups)
    totals = _members(groups, len(sizes)) @ Z
    return np.asarray((totals.T @ totals.multiply(1.0 / sizes[:, None])).toarray())


def anchor_graph(ZtZ: ArrayLike) -> Floats:
    """Return Λ^-½ ZᵀZ Λ^-½, the normalised graph of the anchors: symmetric, eigenvalues in [0, 1].

    ZtZ (A, A); returns (A, A), f8.

    Anchors that no point uses get a row of zeros.
    """
    gram = _gram(ZtZ)
    total = gram.sum(axis=1)
    root = np.where(total > 0, 1.0 / np.sqrt(np.where(total > 0, total, 1.0)), 0.0)
    return np.asarray(root[:, None] * gram * root)


def anchor_scores(ZtZ: ArrayLike, ZtY: ArrayLike, alpha: float) -> Floats:
    """Return M = α (Λ - α ZᵀZ)⁻¹ ZᵀY, the class scores of the anchors; a point with code z scores z M.

    ZtZ (A, A), ZtY (A, classes); returns (A, classes), f8.
    """
    if not 0.0 < alpha < 1.0:
        raise InputError(f"alpha={alpha!r} given; wanted a number between 0 and 1")
    gram = _gram(ZtZ)
    labels = np.asarray(ZtY, np.float64)
    if labels.ndim != 2 or len(labels) != len(gram):
        raise InputError(f"ZᵀY has shape {labels.shape}; wanted one row for each of {len(gram)} anchors")
    total = gram.sum(axis=1)
    used = total > 0
    root = np.where(used, 1.0 / np.sqrt(np.where(used, total, 1.0)), 0.0)[:, None]
    system = np.eye(len(gram)) - alpha * anchor_graph(gram)
    solved = cho_solve(cho_factor(system), root * labels)
    return np.asarray(np.maximum(alpha * root * solved, 0.0), np.float64)


def _gram(ZtZ: ArrayLike) -> Floats:
    gram = np.asarray(ZtZ, np.float64)
    if gram.ndim != 2 or gram.shape[0] != gram.shape[1] or not np.isfinite(gram).all():
        raise InputError(f"ZᵀZ has shape {gram.shape}; wanted a square matrix of finite numbers")
    return np.maximum((gram + gram.T) / 2, 0.0)


def _nearest(rows: Floats, anchors: Floats) -> Cells:
    parts = [(rows[at : at + _ROWS] @ anchors.T).argmax(axis=1) for at in range(0, len(rows), _ROWS)]
    return np.concatenate(parts).astype(np.int64) if parts else np.empty(0, np.int64)


def _renumber(cells: Cells, kept: Cells, A: int) -> Cells:
    """Number the kept cells from 0; -1 for the others."""
    place = np.full(A, -1, np.int64)
    place[kept] = np.arange(len(kept))
    return place[cells]


def next_seed(seed: bytes, round_: int) -> bytes:
    """Return another seed for each round, by changing the counter's half."""
    counter = int.from_bytes(seed[16:], "little") ^ (round_ + 1)
    return seed[:16] + counter.to_bytes(16, "little")
