"""No number rests on few: which columns can be summed so that no row, and no few rows or sites, can be read from it.

Sums of products of columns say more than they seem to. Where a column has the same value c in all rows but one, the sum
of (x - c)·z is that row's number in any other column z; where two columns are equal in all rows but one, (x - x')·z is.
So before products are summed, the sites count, masked, for each column how many rows differ from the usual value, and
at how many sites there are such rows. Columns that fewer rows or sites set apart than the strictest policy asks for
(``min_rows``, ``min_sites``) are in no sum. This module has the rule and nothing of the protocol.

Looks
    What is counted are *looks*: the columns, then, where gaps become columns of their own ("is missing"), which cells
    are empty.
The usual value
    Each site counts rows that differ from its own most frequent value. Summed over sites that is no more than the
    number of rows that differ from any one value, so the sites need not agree on one: a lower bound, never too high.
Classes
    Where products are summed for each class, a class's rows are counted alike. A look that is constant in a class is no
    harm, if it is the same constant at all sites; keyed hashes of it, and their squares, tell whether it is.
Pairs
    Rows in which two looks are not one an affine function of the other: of three rows that are on no common line at
    least one differs, so disjoint triples of rows are counted.

Words
    A column of words becomes columns of 0 and 1, of which one is 1 in each row. Where one of them is left out, the
    others together show it: so another one goes as well, in which enough rows and sites hide it, or the whole column.

All counts are cut off at the floor: what is above it is nobody's business, and a site can stop reading there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fedgeom.arrays import Bools, Floats, Ints
from fedgeom.crypto.keys import fingerprint
from fedgeom.data.tables import is_sparse

KEPT, FEW, FEW_IN_CLASS, ALIKE, COMPLEMENT, NO_GAPS = range(6)
"""Why a look is left out: see `REASONS`. A column without gaps, which needs no column of them, needs no reason."""
REASONS = {
    FEW: "too few rows or sites have another value there than the usual one",
    FEW_IN_CLASS: "in a class, too few rows or sites have another value there than the usual one",
    ALIKE: "too few rows or sites tell it from another column",
    COMPLEMENT: "a rarer word of the same column was left out, which all others together would show",
}
MOST_LOOKS = 512
"""Of more looks, pairs are not compared: their counts would be longer than the sums that they guard."""
CLASS_NUMBERS = 5
"""Numbers for each look in each class: rows, sites, constant sites, and two sums of hashes of their constants."""
FIRST_ROWS = 256
"""So many rows are looked at first: they settle nearly all columns."""
FIRST_TRIPLES = 32
CONTINUOUS = 20
"""A column is continuous where no value has more than one row in so many."""
HASH_BITS = 24
"""Of a constant's hash: its squares over 2¹⁶ sites fit into a word."""
STRAIGHT = 1e-9
"""Three points are on a line where the area between them is a smaller share of their sides' products."""

Numbers = npt.NDArray[Any]


@dataclass(frozen=True)
class FloorLayout:
    """Where each count stands in the vector that is summed."""

    columns: int
    gaps: bool = False
    """Whether which cells are empty is looked at, too: it becomes columns."""
    classes: int = 0
    """In how many classes columns are looked at; 0: over all rows only."""

    @property
    def looks(self) -> int:
        """How many columns, and columns of gaps, are looked at."""
        return self.columns * (1 + self.gaps)

    @property
    def pairs(self) -> int:
        """How many pairs of looks are compared."""
        return self.looks * (self.looks - 1) // 2 if self.looks <= MOST_LOOKS else 0

    @property
    def length(self) -> int:
        """How many numbers a site adds."""
        return 2 * self.looks + CLASS_NUMBERS * self.classes * self.looks + 2 * self.pairs

    def split(self, vector: Ints) -> tuple[Ints, Ints, Ints]:
        """Return rows and sites of looks (2, looks), of classes (classes, 5, looks) and of pairs (2, pairs)."""
        first = 2 * self.looks
        second = first + CLASS_NUMBERS * self.classes * self.looks
        return (
            vector[:first].reshape(2, self.looks),
            vector[first:second].reshape(self.classes, CLASS_NUMBERS, self.looks),
            vector[second:].reshape(2, self.pairs),
        )


def count_looks(
    blocks: Iterable[Any],
    labels: Sequence[str] | npt.NDArray[Any],
    classes: Sequence[str],
    layout: FloorLayout,
    floor: int,
    key: bytes,
) -> Ints:
    """Return a site's counts, (`FloorLayout.length`,), i8, none larger than ``floor`` but the hashes.

    ``blocks`` are the rows in order, (rows, columns), dense with NaN for gaps or sparse; ``labels`` theirs; ``key`` is
    known to the sites alone. No more blocks are read than it takes.
    """
    names = np.asarray(labels)
    groups = [_LookCounts(layout.looks, floor) for _ in range(1 + layout.classes)]
    pairs = _PairCounts(layout, floor)
    spread: Bools | None = None
    start = 0
    for piece in _pieces(blocks):
        looks = _looks_of(piece, layout)
        here = names[start : start + piece.shape[0]]
        start += piece.shape[0]
        spread = _continuous(looks) if spread is None else spread
        groups[0].add(looks)
        for at in range(layout.classes):
            groups[1 + at].add(looks, here == classes[at])
        pairs.add(looks)
        if pairs.settled and all(one.settled for one in groups):
            break
    rows = groups[0].rows()
    found = [rows, rows > 0]
    for one in groups[1:]:
        found += one.in_class(spread, key)
    found += [pairs.counts, pairs.counts > 0]
    return np.concatenate(found).astype(np.int64)


def _pieces(blocks: Iterable[Any]) -> Iterator[Any]:
    """Yield a few rows of each block first, then its others."""
    for block in blocks:
        yield block[:FIRST_ROWS]
        if block.shape[0] > FIRST_ROWS:
            yield block[FIRST_ROWS:]


def _looks_of(block: Any, layout: FloorLayout) -> Any:
    """Return what is looked at of a block of rows, (rows, looks): numbers, and 1 where a cell is empty."""
    if is_sparse(block) and not layout.gaps:
        return block
    cells = np.asarray(block.toarray() if is_sparse(block) else block, np.float64)
    return np.column_stack([cells, ~np.isfinite(cells)]) if layout.gaps else cells


def _continuous(looks: Any) -> Bools:
    """Return the looks in which no value is frequent, (looks,), by the first rows."""
    rows, count = looks.shape
    if is_sparse(looks) or rows < CONTINUOUS:
        return np.zeros(count, bool)
    often = max(rows // CONTINUOUS, 1)
    ordered = np.sort(looks, axis=0)
    found: Bools = np.isfinite(looks).all(axis=0) & ~(ordered[often:] == ordered[:-often]).any(axis=0)
    return found


class _LookCounts:
    """Counts, for each look, the rows that differ from the most frequent value, up to a floor."""

    def __init__(self, looks: int, floor: int):
        self.floor = floor
        self.open = np.ones(looks, bool)
        """The looks of which more rows must be read."""
        self.values: list[Counter[float]] = [Counter() for _ in range(looks)]
        self.zeros = np.zeros(looks, np.int64)
        """Of sparse rows, how many have 0, and how many another number."""
        self.others = np.zeros(looks, np.int64)

    @property
    def settled(self) -> bool:
        """Whether the floor is reached everywhere."""
        return not self.open.any()

    def add(self, looks: Any, inside: Bools | None = None) -> None:
        """Read more rows, or those of them that are inside."""
        if self.settled:
            return
        some = looks if inside is None or inside.all() else looks[np.flatnonzero(inside)]
        if not some.shape[0]:
            return
        if is_sparse(some):
            some = self._add_sparse(some)
            left = np.flatnonzero(self.open & (self.others >= self.floor))  # hardly any 0: the numbers count
        else:
            self._settle(some)
            left = np.flatnonzero(self.open)
        for at in left.tolist():
            cells = some[:, [at]].toarray()[:, 0] if is_sparse(some) else some[:, at]
            values, counts = np.unique(cells[np.isfinite(cells)], return_counts=True)
            kept = self.values[at]
            kept.update(dict(zip(values.tolist(), counts.tolist(), strict=True)))
            self.open[at] = _differing(kept) < self.floor

    def _add_sparse(self, some: Any) -> Any:
        """Count zeros: rows differ from 0, or the zeros differ from any other value."""
        others = np.bincount(some.indices[some.data != 0], minlength=some.shape[1])
        self.others += others
        self.zeros += some.shape[0] - others
        self.open &= np.minimum(self.others, self.zeros) < self.floor
        return some.tocsc()

    def _settle(self, some: Floats) -> None:
        """Close the looks of which these rows alone differ enough: all at once, since nearly all do."""
        rows = len(some)
        if rows <= self.floor:
            return
        places = np.flatnonzero(self.open)
        cells = some[:, places]
        ordered = np.sort(cells, axis=0)
        usual = (ordered[rows - self.floor :] == ordered[: self.floor]).any(axis=0)  # so many rows have one value
        self.open[places[~usual & np.isfinite(cells).all(axis=0)]] = False

    def rows(self) -> Ints:
        """Return how many rows differ, (looks,), at most the floor."""
        found = np.maximum([_differing(kept) for kept in self.values], np.minimum(self.others, self.zeros))
        return np.where(self.open, np.minimum(found, self.floor), self.floor).astype(np.int64)

    def in_class(self, spread: Bools | None, key: bytes) -> list[Ints]:
        """Return rows, sites, constant sites and hashes of their constants and squares of these, (looks,) each.

        Where a column is continuous, a value that a single row has is no usual one.
        """
        rows = self.rows()
        if spread is not None:
            single = np.array([bool(kept) and max(kept.values()) == 1 for kept in self.values])
            totals = np.array([kept.total() for kept in self.values])
            rows = np.where(self.open & spread & single, np.minimum(totals, self.floor), rows)
        there = np.array([bool(kept) for kept in self.values]) | (self.zeros > 0)
        constant = (rows == 0) & there
        hashes = np.zeros(len(rows), np.int64)
        for at in np.flatnonzero(constant).tolist():
            hashes[at] = _hash(next(iter(self.values[at]), 0.0), key)
        return [rows, (rows > 0).astype(np.int64), constant.astype(np.int64), hashes, hashes**2]


def _differing(counted: Counter[float]) -> int:
    """Return how many rows have another value than the most frequent one."""
    return counted.total() - max(counted.values(), default=0)


def _hash(value: float, key: bytes) -> int:
    """Return a short hash of a number that only holders of the key can make."""
    return int.from_bytes(
        fingerprint(b"constant", key, np.float64(value + 0.0).tobytes())[: HASH_BITS // 8], "big"
    )


class _PairCounts:
    """Counts triples of rows in which two looks are on no common line, up to a floor."""

    def __init__(self, layout: FloorLayout, floor: int):
        self.floor = floor
        self.counts = np.zeros(layout.pairs, np.int64)
        self._one, self._other = np.triu_indices(layout.looks if layout.pairs else 0, 1)

    @property
    def settled(self) -> bool:
        """Whether the floor is reached for every pair."""
        return bool((self.counts >= self.floor).all())

    def add(self, looks: Any) -> None:
        """Read more rows."""
        triples = looks.shape[0] // 3
        if not len(self.counts) or not triples or self.settled:
            return
        cells = looks.toarray() if is_sparse(looks) else looks
        # Neighbours may be alike, as in tables that are sorted: rows of a triple are drawn.
        order = np.random.default_rng(0).permutation(looks.shape[0])[: 3 * triples].reshape(3, triples)
        first, second, third = (cells[rows] for rows in order)
        near = second - first
        far = third - first
        self._count(near[:FIRST_TRIPLES], far[:FIRST_TRIPLES], np.arange(len(self.counts)))
        left = np.flatnonzero(self.counts < self.floor)
        if len(left) and triples > FIRST_TRIPLES:
            self._count(near[FIRST_TRIPLES:], far[FIRST_TRIPLES:], left)
        np.minimum(self.counts, self.floor, out=self.counts)

    def _count(self, second: Floats, third: Floats, pairs: Ints) -> None:
        """Count the triples that have no common line, for some pairs."""
        there = np.isfinite(second) & np.isfinite(third)
        same = there & (second == 0) & (third == 0)
        second = np.where(there, second, 0.0)
        third = np.where(there, third, 0.0)
        one = self._one[pairs]
        other = self._other[pairs]
        for at in range(len(second)):  # a triple at a time: of all at once the memory would be large
            left = second[at, one] * third[at, other]
            right = third[at, one] * second[at, other]
            apart = np.abs(left - right) > STRAIGHT * (np.abs(left) + np.abs(right))
            apart |= same[at, one] != same[at, other]  # a line along one axis says nothing of the other look
            self.counts[pairs] += apart & there[at, one] & there[at, other]


@dataclass(frozen=True, eq=False)
class Judgement:
    """Which looks are left out, and why."""

    why: npt.NDArray[np.uint8]
    """(looks,): `KEPT`, or the reason."""
    columns: int

    @property
    def kept(self) -> Ints:
        """The columns that are kept, in order."""
        return np.flatnonzero(self.why[: self.columns] == KEPT).astype(np.int64)

    @property
    def few_gaps(self) -> Ints:
        """Of the columns that are kept, counted among themselves, those whose gaps become no column."""
        gaps = self.why[self.columns :]
        return np.flatnonzero(gaps[self.kept] != KEPT).astype(np.int64) if len(gaps) else np.zeros(0, np.int64)


def judge(
    total: Ints, layout: FloorLayout, floors: tuple[int, int], one_hot: Sequence[tuple[int, int]] = ()
) -> Judgement:
    """Return what the counts of all sites leave out; ``floors`` are sites and rows, of the strictest policy.

    ``one_hot`` has the first column of each column of words, and the one after its last. Where groups of sites are
    summed apart, ``total`` has their counts one behind the other, and each group must have enough.
    """
    least_sites, least_rows = floors
    split = [layout.split(one) for one in total.reshape(-1, layout.length)]
    whole, by_class, pairs = (np.array(parts) for parts in zip(*split, strict=True))  # (groups, …)

    def enough(counts: Ints) -> Bools:
        found = (counts[:, 0] >= least_rows) & (counts[:, 1] >= least_sites)
        return np.asarray(found.all(axis=0))

    why = np.where(enough(whole), KEPT, FEW).astype(np.uint8)
    hiding = [enough(whole)]
    fails = [~hiding[0]]
    for at in range(layout.classes):
        rows, sites, constant, hashes, squares = by_class[:, at].swapaxes(0, 1)
        same = (rows == 0) & (constant * squares == hashes**2)
        few = (rows < least_rows) | (sites < least_sites)
        hiding.append(~few.any(axis=0))
        fails.append((few & ~same).any(axis=0))
        why[(why == KEPT) & fails[-1]] = FEW_IN_CLASS
    for first, end in one_hot:
        _hide_complement(why[first:end], [one[first:end] for one in hiding], [one[first:end] for one in fails])
    if layout.gaps:
        columns = why[: layout.columns]
        why[layout.columns :][(whole[:, 0, layout.columns :] == 0).all(axis=0)] = NO_GAPS
        gaps = why[layout.columns :]
        gaps[(columns != KEPT) & (gaps == KEPT)] = FEW
    if layout.pairs:
        one, other = np.triu_indices(layout.looks, 1)
        for at in np.flatnonzero(~enough(pairs)).tolist():
            if why[one[at]] == KEPT == why[other[at]]:
                why[other[at]] = ALIKE
                if layout.gaps and other[at] < layout.columns:
                    gap = layout.columns + other[at]
                    why[gap] = ALIKE if why[gap] == KEPT else why[gap]
    return Judgement(why, layout.columns)


def merge_bins(
    counts: Ints, groups: Sequence[Sequence[int]], columns: int, bins: int, floors: tuple[int, int]
) -> Ints:
    """Return which bin stands for each bin of a column, (columns, bins): the first of those that were merged.

    Groups of columns have a cell for each product of their bins. Bins join a neighbour, in all groups of their column,
    until each cell is empty or has enough rows and sites of each kind of rows that are summed by themselves. Where a
    cell is left out instead, all others together would show it.

    counts (2, kinds of rows, groups, cells): rows, each site's at most the floor, and sites; groups: the columns of
    each, the first one's bins being the farthest apart in the cells.
    """
    least_sites, least_rows = floors
    stands = np.tile(np.arange(bins), (columns, 1))
    for at, members in enumerate(groups):
        shape = (2, -1, *(bins,) * len(members))
        whole = counts[:, :, at, : bins ** len(members)].reshape(shape)
        while True:
            rows, sites = _joined(whole, [np.unique(stands[column]) for column in members])
            few = ((rows > 0) & ((rows < least_rows) | (sites < least_sites))).any(axis=0)
            if not few.any() or few.size == 1:
                break
            # Along the column that is still cut into most bins, the bin of the first small cell joins the smaller side.
            axis = int(np.argmax(few.shape))
            place = int(np.argwhere(few)[0][axis])
            along = rows.sum(axis=tuple(one for one in range(rows.ndim) if one != axis + 1))
            sides = [one for one in (place - 1, place + 1) if 0 <= one < len(along)]
            lower = min(place, min(sides, key=lambda one: int(along[one])))
            first, second = np.unique(stands[members[axis]])[lower : lower + 2]
            stands[members[axis]][stands[members[axis]] == second] = first
    return stands


def _joined(whole: Ints, first: Sequence[Ints]) -> tuple[Ints, Ints]:
    """Return rows and sites of cells whose bins were merged; ``first`` has, for each axis, the first bin of each.

    At how many sites a merged cell has rows is not known; at no fewer than any of its parts.
    """
    rows, sites = whole
    for axis, starts in enumerate(first, start=1):
        rows = np.add.reduceat(rows, starts, axis=axis)
        sites = np.maximum.reduceat(sites, starts, axis=axis)
    return rows, sites


def _hide_complement(why: npt.NDArray[np.uint8], hiding: Sequence[Bools], fails: Sequence[Bools]) -> None:
    """Leave out one more column of the same words, in place, where one is left out: the others' sum would be its own.

    why (columns,); hiding, fails: over all rows, and in each class, which columns enough rows set apart, and which are
    left out for that; each (columns,).
    """
    gone = why != KEPT
    if not gone.any():
        return
    where = [at for at, one in enumerate(fails) if one[gone].any()]
    able = ~gone & np.all([hiding[at] for at in where], axis=0)
    chosen = np.flatnonzero(able)[-1:] if able.any() else np.flatnonzero(~gone)
    why[chosen] = COMPLEMENT
