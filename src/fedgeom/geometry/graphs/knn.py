"""A sparse graph of nearest neighbours from similarities that arrive block by block (XCLP, lines 7 to 9).

A coordinator gets similarities as blocks, one for each pair of sites, and never holds all n² of them: `Neighbours`
keeps the k best per row. Which neighbours are kept does not depend on the blocks' order or sizes. Hamming
distances are integers, so that ties are common; of equal similarities the smaller column wins.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from fedgeom.arrays import Floats
from fedgeom.errors import InputError

__all__ = ["Block", "Neighbours", "attach", "degrees", "knn_graph", "normalise"]

Block = tuple[int, int, ArrayLike]
"""The first row, the first column, and the similarities of what follows; its transpose is implied."""


class Neighbours:
    """The k most similar columns of every row, kept while blocks come in.

    Pass every unordered pair of blocks once: a block off the diagonal also counts for its transpose.
    """

    def __init__(self, n: int, k: int, *, self_loops: bool = False):
        if n < 1 or k < 1:
            raise InputError(f"n={n} points and k={k} neighbours given; wanted positive numbers")
        self.k = min(k, n if self_loops else max(n - 1, 1))
        self.self_loops = self_loops
        self.similarity = np.full((n, self.k), -np.inf)
        self.column = np.full((n, self.k), n, np.int64)  # n: nobody yet

    def add(self, first_row: int, first_column: int, similarity: ArrayLike) -> None:
        """Take in the block whose first entry is at (first_row, first_column), and its transpose."""
        block = np.asarray(similarity, np.float64)
        n = len(self.column)
        if block.ndim != 2:
            raise InputError(f"a block of shape {block.shape} was given; wanted rows and columns")
        last_row = first_row + block.shape[0]
        last_column = first_column + block.shape[1]
        if min(first_row, first_column) < 0 or max(last_row, last_column) > n:
            raise InputError(
                f"a block at rows {first_row}…{last_row}, columns {first_column}…{last_column} was given; the "
                f"graph has {n} points"
            )
        on_diagonal = first_row == first_column and block.shape[0] == block.shape[1]
        if not on_diagonal and max(first_row, first_column) < min(last_row, last_column):
            raise InputError("a block crosses the diagonal; cut it there, so that no pair is counted twice")
        if on_diagonal and not self.self_loops:
            block = block.copy()
            np.fill_diagonal(block, -np.inf)
        self._merge(first_row, first_column, block)
        if not on_diagonal:
            self._merge(first_column, first_row, block.T)

    def _merge(self, first_row: int, first_column: int, block: Floats) -> None:
        if not block.size:
            return
        best, column = _best(block, self.k, nobody=len(self.column))
        column = np.where(np.isfinite(best), column + first_column, len(self.column))
        rows = slice(first_row, first_row + len(block))
        values = np.hstack([self.similarity[rows], best])
        columns = np.hstack([self.column[rows], column])
        order = np.lexsort((columns, -values), axis=1)[:, : self.k]
        self.similarity[rows] = np.take_along_axis(values, order, axis=1)
        self.column[rows] = np.take_along_axis(columns, order, axis=1)

    def graph(self, *, power: int = 1, clip: float = 0.0) -> sp.csr_array:
        """Return W = B + Bᵀ, B having s^power for the k largest s > clip of each row (lines 7 and 8)."""
        B = _sparse(self.similarity, self.column, len(self.column), power, clip)
        return _canonical(B + B.T)


def knn_graph(
    similarity: ArrayLike | Iterable[Block],
    k: int,
    *,
    n: int | None = None,
    power: int = 1,
    self_loops: bool = False,
    clip: float = 0.0,
) -> sp.csr_array:
    """Return the symmetric graph of k nearest neighbours, W = B + Bᵀ.

    ``similarity`` is the whole (n, n) matrix, or blocks (first row, first column, values) with ``n`` given; for
    Hamming distances pass ``cosine_from_hamming(H, L)``. ``power`` raises the weights (the reference code cubes
    them). With ``self_loops`` a row's own entry is one of its k, as Algorithm 1 read to the letter has it.
    Similarities of at most ``clip`` make no edge.
    """
    if n is not None:
        found = Neighbours(n, k, self_loops=self_loops)
        for first_row, first_column, block in cast("Iterable[Block]", similarity):
            found.add(first_row, first_column, block)
    else:
        whole = np.asarray(cast("ArrayLike", similarity), np.float64)
        if whole.ndim != 2 or whole.shape[0] != whole.shape[1]:
            raise InputError(f"similarities of shape {whole.shape} given; wanted (n, n), or blocks and n")
        found = Neighbours(len(whole), k, self_loops=self_loops)
        found.add(0, 0, whole)
    return found.graph(power=power, clip=clip)


def degrees(W: sp.csr_array) -> Floats:
    """Return the row sums; a row without neighbours counts as 1, so that it can be divided by.

    W (n, n), sparse; returns (n,), f8.
    """
    d = np.asarray(W.sum(axis=1), np.float64).ravel()
    return np.where(d > 0, d, 1.0)


def normalise(W: sp.csr_array) -> sp.csr_array:
    """Return D^-½ W D^-½ (line 9): symmetric, with all eigenvalues in [-1, 1]."""
    root = 1.0 / np.sqrt(degrees(W))
    out = sp.csr_array(W, copy=True)
    # Roots first: a product of two commutes in floating point, so that the result is symmetric to the last bit.
    out.data = out.data * (np.repeat(root, np.diff(out.indptr)) * root[out.indices])
    return out


def attach(
    similarity: ArrayLike, old_degrees: Floats, k: int, *, power: int = 1, clip: float = 0.0
) -> sp.csr_array:
    """Return normalised weights (new points, old points) by which newcomers hang on to a finished graph.

    w_ij = s_ij^power / √(d_i d_j) over the k most similar old points, d_i being a newcomer's own sum. The old
    points do not feel them, so that nothing that was computed changes: z_new = α·w·Z (see `propagation.extend`).
    """
    block = np.asarray(similarity, np.float64)
    if block.ndim != 2 or block.shape[1] != len(old_degrees):
        raise InputError(f"similarities of shape {block.shape} given; wanted one column per old point")
    n = block.shape[1]
    best, column = _best(block, min(k, n), nobody=n)
    W = _sparse(best, column, n, power, clip)
    rows = 1.0 / np.sqrt(degrees(W))
    W.data = W.data * np.repeat(rows, np.diff(W.indptr)) / np.sqrt(old_degrees)[W.indices]
    return W


def _best(block: Floats, k: int, *, nobody: int) -> tuple[Floats, NDArray[np.int64]]:
    """Give each row's k largest values, largest first, and their columns, the smaller column first on ties."""
    m, width = block.shape
    if np.isnan(block).any():
        raise InputError("similarities have missing values (NaN); leave the pair's block out instead")
    value = np.full((m, k), -np.inf)
    column = np.full((m, k), nobody, np.int64)
    least = np.partition(block, width - k, axis=1)[:, width - k] if width > k else block.min(axis=1)
    row, at = np.nonzero(block >= least[:, None])  # at least k of each row; more where the k-th is tied
    found = block[row, at]
    order = np.lexsort((at, -found, row))
    row = row[order]
    at = at[order]
    found = found[order]
    rank = np.arange(len(row)) - np.searchsorted(row, np.arange(m))[row]
    kept = rank < k
    value[row[kept], rank[kept]] = found[kept]
    column[row[kept], rank[kept]] = at[kept]
    return value, column


def _sparse(value: Floats, column: NDArray[Any], n: int, power: int, clip: float) -> sp.csr_array:
    if power < 1 or clip < 0:
        raise InputError(f"power={power}, clip={clip} given; wanted power at least 1 and clip at least 0")
    kept = value > clip
    rows = np.repeat(np.arange(len(value)), kept.sum(axis=1))
    entries = (value[kept] ** power, (rows, column[kept]))
    return _canonical(sp.csr_array(sp.coo_array(entries, shape=(len(value), n))))


def _canonical(W: sp.csr_array) -> sp.csr_array:
    out = sp.csr_array(W)
    out.sum_duplicates()
    return out
