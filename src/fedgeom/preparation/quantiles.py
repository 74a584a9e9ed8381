"""Quantiles over all sites by secure counts: each round divides the bin that a quantile lies in by sixteen.

Numbers are ordered by the bits of their float32: the first bits say sign and size, the later ones more digits. So no
range has to be known, and a bin's width is a share of the number, 2^-(bits - 9): with all 32 bits a quantile of numbers
that float32 holds, such as whole ones below 2²⁴, is exact; with 24 it is to 3·10⁻⁵ of itself.

Where policies have floors, no number is counted by itself. Each site sorts its numbers, puts neighbours into groups of
at least ``min_rows``, and counts the groups' means, each as often as the group has numbers (microaggregation,
Domingo-Ferrer and Mateo-Sanz 2002). A group of two values, one of which fills a group of its own, counts as that value:
so a column of 0 and 1 has a median of 0 or 1, and gaps that are filled with it set no row apart. Whatever the counts
show is a mean of so many rows, or a value that so many have. A bin with fewer numbers than ``min_sites`` such groups is
divided no further, once sign, size and three bits more are known: within it, the quantile is where its rank is. At each
site fewer than ``min_rows`` numbers are on the wrong side of a bin's edge: a quantile's rank is off by less than
(sites + ``min_sites``) · ``min_rows``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fedgeom.arrays import Floats, Ints, Words
from fedgeom.data.tables import is_sparse
from fedgeom.federation.steps import Block, StepFit
from fedgeom.protocols.fixed_point import from_wide, to_wide

DIGIT = 4
"""How many bits are settled in one round."""
BINS = 16
ALL_BITS = 32
GAP = np.uint32(2**32 - 1)
"""No number's key."""
ALWAYS = 3
"""So many rounds are always taken: sign, size and three bits more."""
MEDIAN = (0.5,)
"""The one quantile where nothing else is said."""
EVERY = slice(None)


def sort_keys(values: npt.ArrayLike) -> npt.NDArray[np.uint32]:
    """Return numbers as whole ones in the same order; (…), u4."""
    bits = (np.asarray(values, np.float32) + np.float32(0.0)).view(np.uint32)  # no -0
    return np.where(bits >> 31, ~bits, bits | np.uint32(2**31)).astype(np.uint32)


def from_keys(keys: npt.NDArray[np.uint32]) -> Floats:
    """Return the numbers of keys, (…), f8."""
    bits = np.where(keys >> 31, keys & np.uint32(2**31 - 1), ~keys).astype(np.uint32)
    return bits.view(np.float32).astype(np.float64)


def rounds(bits: int) -> int:
    """Return how many sums it takes."""
    return (bits + DIGIT - 1) // DIGIT


def bins_length(columns: int, shares: Sequence[float] = MEDIAN) -> int:
    """Return how many counts a round has: for each quantile of each column, the two numbers that it lies between."""
    return columns * 2 * len(shares) * BINS


def group_means(numbers: npt.NDArray[Any], least: int) -> tuple[Floats, Ints]:
    """Return the means of groups of at least so many neighbours, in order, and how many numbers each has, (groups,).

    numbers (n,). Fewer than ``least`` are in no group; the last group has what is left over. A group of two values has,
    for its mean, the nearer one of those that are all that another group has.
    """
    count = len(numbers) // least
    if not count:
        return np.zeros(0), np.zeros(0, np.int64)
    starts = least * np.arange(count)
    sizes = np.full(count, least)
    sizes[-1] = len(numbers) - starts[-1]
    ordered = np.sort(numbers)
    means = np.add.reduceat(ordered, starts, dtype=np.float64) / sizes
    low = ordered[starts]
    high = ordered[starts + sizes - 1]
    shared = low[low == high]
    if len(shared):
        means[low == high] = shared
        mixed = np.flatnonzero(low != high)
        ends = low[mixed], high[mixed]
        # Two values alone: where the rows of the lower one end, those of the higher one begin.
        two = np.searchsorted(ordered, ends[0], "right") == np.searchsorted(ordered, ends[1], "left")
        known = [two & np.isin(end, shared) for end in ends]
        far = [np.where(one, np.abs(end - means[mixed]), np.inf) for one, end in zip(known, ends, strict=True)]
        nearer = np.where(far[0] <= far[1], *ends)
        means[mixed] = np.where(known[0] | known[1], nearer, means[mixed])
    return means, sizes


@dataclass(frozen=True)
class SortedColumns:
    """A site's numbers, sorted once, column by column: a round of counts is then a few searches.

    Where ``least`` is above 1 they are the means of groups of so many, and each counts as often as its group has
    numbers.
    """

    keys: list[npt.NDArray[np.uint32]]
    """For each column (numbers,) or (groups,), in order."""
    upto: list[Ints]
    """For each column how many numbers the first groups have, (groups + 1,); empty where there are no groups."""

    @classmethod
    def of(cls, blocks: Iterable[npt.NDArray[Any]], shape: tuple[int, int], least: int) -> SortedColumns:
        """Sort the columns of rows that come in blocks; what is infinite or no number is a gap.

        shape: how many rows and columns there are in all.
        """
        rows, columns = shape
        whole: npt.NDArray[Any] = np.empty((columns, 0))
        at = 0
        for cells in blocks:
            if not at:
                whole = np.empty((columns, rows), np.uint32 if least <= 1 else cells.dtype)
            here = whole[:, at : at + len(cells)]
            here[...] = (np.where(np.isfinite(cells), sort_keys(cells), GAP) if least <= 1 else cells).T
            at += len(cells)
        if least <= 1:
            whole.sort(axis=1)
            return cls([keys[: np.searchsorted(keys, GAP)] for keys in whole], [np.zeros(0, np.int64)] * columns)
        found = [group_means(numbers[np.isfinite(numbers)], least) for numbers in whole]
        return cls([sort_keys(means) for means, _ in found], [np.append(0, sizes.cumsum()) for _, sizes in found])

    def count(self, fit: StepFit, done: int, *, shares: Sequence[float] = MEDIAN, of: slice = EVERY) -> Ints:
        """Return how many numbers lie in each part of the bins that are divided, (columns·2·shares·16,).

        done: how many rounds were taken; of: which of the fitted columns these are.
        """
        size = (len(self.keys), 2 * len(shares))
        left = ALL_BITS - DIGIT * (done + 1)
        found = np.zeros((*size, BINS), np.int64)
        prefix = fit.get("prefix")[of] if done else np.zeros(size, np.int64)
        divided = fit.get("divided")[of] > 0 if done else np.ones(size, bool)
        # The last key below each part's upper end: the upper end itself may be 2³², which is no key.
        last = ((prefix[:, :, None] * BINS + np.arange(-1, BINS) + 1) << left) - 1
        for column, (keys, upto) in enumerate(zip(self.keys, self.upto, strict=True)):
            places = np.searchsorted(keys, np.maximum(last[column], 0).astype(np.uint32), side="right")
            places[last[column] < 0] = 0
            found[column] = np.diff(upto[places] if len(upto) else places, axis=1)
        found[~divided] = 0
        return found.ravel()


def take_bins(
    fit: StepFit,
    total: Ints,
    done: int,
    floors: tuple[int, int] = (1, 1),
    shares: Sequence[float] = MEDIAN,
    *,
    smooth: bool = False,
) -> None:
    """Settle the next bits of the two numbers that each quantile of each column lies between, from all sites' counts.

    ``floors`` are sites and rows, of the strictest policy: they decide which bins are divided further. ``smooth``:
    where numbers come in groups, a quantile is between those half a group below it and above it; otherwise it is the
    lower one of the two that it lies between, a number that rows have.
    """
    counts = total.reshape(-1, 2 * len(shares), BINS)
    if done == 0:
        n = counts[:, 0].sum(axis=1)
        none = np.zeros(counts.shape[:2], np.int64)
        fit.put(prefix=none, inside=none, digits=none, divided=np.ones(none.shape, np.uint8))
        place = np.maximum(n - 1, 0)[:, None] * np.asarray(shares, np.float64)
        lower = np.floor(place)
        upper = np.ceil(place)
        weight = place - lower
        if smooth and floors[1] > 1:
            lower = np.maximum(np.floor(place - floors[1] / 2), 0)
            upper = np.minimum(np.ceil(place + floors[1] / 2), np.maximum(n - 1, 0)[:, None])
            weight = np.where(upper > lower, (place - lower) / np.maximum(upper - lower, 1), 0.0)
        elif floors[1] > 1:
            weight = np.zeros_like(weight)
        fit.put(weight=weight)
        fit.put(rank=np.stack([lower, upper], axis=2).reshape(none.shape).astype(np.int64))
    rank = fit.get("rank")
    prefix = fit.get("prefix")
    upto = counts.cumsum(axis=2)
    digit = np.minimum((upto <= rank[:, :, None]).sum(axis=2), BINS - 1)
    passed = np.where(digit > 0, np.take_along_axis(upto, np.maximum(digit - 1, 0)[:, :, None], 2)[:, :, 0], 0)
    inside = np.take_along_axis(counts, digit[:, :, None], 2)[:, :, 0]
    now = fit.get("divided") > 0
    many = inside >= (0 if floors == (1, 1) else floors[0] * floors[1])
    fit.put(
        prefix=np.where(now, prefix * BINS + digit, prefix),
        rank=np.where(now, np.maximum(rank - passed, 0), rank),
        inside=np.where(now, inside, fit.get("inside")),
        digits=fit.get("digits") + now,
        divided=(now & (many | (done + 1 < ALWAYS))).astype(np.uint8),
    )


def is_settled(fit: StepFit, bits: int, done: int) -> bool:
    """Return whether no bin is divided any further, after so many rounds."""
    return done >= rounds(bits) or (done > 0 and not fit.get("divided").any())


def quantiles(fit: StepFit, bits: int, *, shortest: bool = False) -> Floats:
    """Return the quantiles of each column, (columns, shares), f8: between the middles of two bins.

    In a bin that was not divided to the end, a number is where its rank is among the bin's numbers. ``shortest``: in
    one that was, it is the bin's number with the fewest digits, which a whole one is.
    """
    left = (ALL_BITS - DIGIT * fit.get("digits")).astype(np.uint64)
    low = fit.get("prefix").astype(np.uint64) << left
    width = (np.uint64(1) << left) - np.uint64(1)
    high = np.minimum(low + width, np.uint64(2**32 - 1))
    edges = [from_keys(edge.astype(np.uint32)) for edge in (low, high)]
    share = np.clip((fit.get("rank") + 0.5) / np.maximum(fit.get("inside"), 1), 0.0, 1.0)
    within = from_keys((low + (share * width).astype(np.uint64)).astype(np.uint32))
    whole = fit.get("digits") == rounds(bits)
    weight = fit.get("weight")
    nearer = np.where(np.abs(edges[0]) <= np.abs(edges[1]), *edges)
    settled = nearer if shortest else (edges[0] + edges[1]) / 2
    fit.drop("prefix", "rank", "inside", "digits", "divided", "weight")
    values = np.where(whole, settled, within).reshape(len(weight), -1, 2)
    return np.asarray((1 - weight) * values[:, :, 0] + weight * values[:, :, 1])


def medians(fit: StepFit, bits: int, *, shortest: bool = False) -> Floats:
    """Return the median of each column, (columns,), f8, where nothing else was counted (`quantiles`)."""
    found: Floats = quantiles(fit, bits, shortest=shortest)[:, 0]
    return found


DEEP = 4
"""How many words a deep number has."""
_FINER = 2.0**40


def to_deep(values: npt.ArrayLike, *, sites: int) -> Words:
    """Write real numbers as four words each, so that their sums are exact to 2⁻⁸⁰, and hold numbers up to 2⁶² / sites.

    values (n,), real numbers; returns (4·n,), u8.
    """
    numbers = np.asarray(values, np.float64).ravel()
    coarse = to_wide(numbers, sites=sites)
    rest = (numbers - from_wide(coarse)) * _FINER
    return np.concatenate([coarse, to_wide(rest, sites=sites)])


def from_deep(vector: Words) -> Floats:
    """Read a sum of deep numbers back.

    vector (4·n,), u8; returns (n,), f8.
    """
    coarse, rest = np.split(vector, 2)
    return from_wide(coarse) + from_wide(rest) / _FINER


def small_type(block: Block) -> type[np.floating[Any]]:
    """Return in which type a block is computed with: float32 where its numbers take no more room, otherwise float64."""
    return np.float64 if np.dtype(block.dtype).itemsize > 4 else np.float32


def as_dense(block: Block) -> npt.NDArray[Any]:
    """Return a block as a dense array of float32 or float64."""
    kind = small_type(block)
    return np.asarray(block.toarray() if is_sparse(block) else block).astype(kind, copy=False)


def some_columns(cells: npt.NDArray[Any], places: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return some columns, to be read only: without a copy where they are the first ones, in order."""
    first = len(places) and places[0] == 0 and places[-1] == len(places) - 1 and bool((np.diff(places) == 1).all())
    return cells[:, : len(places)] if first else cells[:, places]


def column_sums(block: Block) -> Floats:
    """Return the sums of a block's columns, (columns,), f8."""
    return np.asarray(block.sum(axis=0, dtype=np.float64), np.float64).ravel()


def square_sums(block: Block) -> Floats:
    """Return the sums of squares of a block's columns, (columns,), f8."""
    if is_sparse(block):
        squares = np.square(block.data, dtype=np.float64)
        return np.asarray(np.bincount(block.indices, squares, block.shape[1]), np.float64)
    rows = np.asarray(block)
    return np.asarray(np.einsum("ij,ij->j", rows, rows, dtype=np.float64))
