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
    Rows in which two looks are not one an affine function of the other. Of few rows, that is all but those on the line
    that has the most; of many, a lower bound: of rows that are on no common line at least one differs, so disjoint
    blocks of them are counted. In a class likewise; there, two looks that are equal in
    all rows of all sites, or never so, are no harm: one tells nothing that the other does not.

Totals
    Rows in which a look is no sum of the looks before it, with any weights, and a constant. A site deals rows into
    blocks of a few more rows than looks. Where a look follows from those before it in no block, each block has a row in
    which it does not; where it does in one, the weights are those of the block, and all rows without are counted. Sites
    with few rows for their columns cannot tell.

Small cells
    Of a class, few rows may have another number than 0 in a column: then the sum over the class is that of these few.
    Where rows of classes are added up, such numbers count as 0, in the rows that are learnt from, before all else is
    counted and summed. To leave the column out would cost much more: of sparse ones, most have a small cell. Columns of
    0 and 1 stay as they are; numbers that few rows have there count as 1.

Words
    A column of words becomes columns of 0 and 1, of which one is 1 in each row. Where one of them is left out, the
    others together show it: so another one goes as well, in which enough rows and sites hide it, or the whole column.

All counts are cut off at the floor: what is above it is nobody's business, and a site can stop reading there.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from fedgeom.arrays import Bools, Floats, Ints
from fedgeom.crypto.keys import fingerprint
from fedgeom.data.tables import is_sparse

KEPT, FEW, FEW_IN_CLASS, ALIKE, COMPLEMENT, NO_GAPS, ALIKE_IN_CLASS, TOTAL = range(8)
"""Why a look is left out: see `REASONS`. A column without gaps, which needs no column of them, needs no reason."""
REASONS = {
    FEW: "too few rows or sites have another value there than the usual one",
    FEW_IN_CLASS: "in a class, too few rows or sites have another value there than the usual one",
    ALIKE: "too few rows or sites tell it from another column",
    ALIKE_IN_CLASS: "in a class, too few rows or sites tell it from another column",
    TOTAL: "but in too few rows or at too few sites, it follows from the columns before it",
    COMPLEMENT: "a rarer word of the same column was left out, which all others together would show",
}
COUNTS_AS_0, COUNTS_AS_1 = 1, 2
"""What numbers that few rows have count as (`small_cells`)."""
MOST_LOOKS = 512
"""Of more looks, pairs are not compared: their counts would be longer than the sums that they guard."""
MOST_TOTALS = 128
"""Of more looks, sums of several are not looked for: it would take longer than the products that are summed."""
BEYOND = 2
"""A block has so many rows more than unknowns: a look that follows from others in all of them does not by chance."""
LEAST_BLOCKS = 4
"""Of sites with fewer blocks nothing is told: too few rows are left to tell whether what follows in one is chance."""
MOST_CLASS_PAIRS = 2**17
"""Of more pairs in all classes, pairs are compared over all rows only."""
CLASS_NUMBERS = 5
"""Numbers for each look in each class: rows, sites, constant sites, and two sums of hashes of their constants."""
FIRST_ROWS = 256
"""So many rows are looked at first: they settle nearly all columns."""
EXACT_ROWS = 96
"""Of no more rows, those that tell two looks apart are counted exactly, where blocks of rows do not reach the floor."""
BLOCK_ROWS = (3, 12)
"""How many rows a block has, at least and at most, by which two looks are told apart."""
SPARE_BLOCKS = 2
TRIPLES_AT_ONCE = 16
PAIRS_AT_ONCE = 4096
WORD_BITS = 53
"""So many bits of a word come through: contributions to a sum are real numbers, in which these are exact."""
CONTINUOUS = 20
"""A column is continuous where no value has more than one row in so many."""
HASH_BITS = 24
"""Of a constant's hash: its squares over 2¹⁶ sites fit into a word."""
FOLLOWS = 1e-7
"""A look follows from others where what is left is a smaller share of the terms: weights of a block are not exact."""
TURNED = 1e-6
"""Two columns of a block are told apart where the angle between them is larger: its cosine has but 16 digits."""
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
    sites: int = 1
    """Over how many sites is summed."""
    floor: int = 1
    """What no site's count exceeds."""
    follow: tuple[int, ...] = ()
    """Columns that always follow from others, in all rows: the last of each column of words. They are in no total."""

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
        packed = -(-self.class_pairs // self.per_word)
        return sum(self._lengths) + packed

    @property
    def _lengths(self) -> tuple[int, ...]:
        return 2 * self.looks, CLASS_NUMBERS * self.classes * self.looks, 2 * self.pairs, 3 * len(self.totals)

    @property
    def totals(self) -> Ints:
        """The looks that may be sums of others."""
        some = np.setdiff1d(np.arange(self.looks), self.follow)
        return some if len(some) <= MOST_TOTALS else np.zeros(0, np.int64)

    @property
    def class_pairs(self) -> int:
        """How many pairs of looks are compared in all classes together."""
        found = self.classes * self.pairs
        return found if found <= MOST_CLASS_PAIRS and sum(self.widths) < WORD_BITS else 0

    @property
    def widths(self) -> tuple[int, ...]:
        """How many bits the numbers of a pair in a class take: rows, sites, and at how many sites it is no harm."""
        return ((self.sites * self.floor).bit_length(), *(self.sites.bit_length(),) * 3)

    @property
    def per_word(self) -> int:
        """How many pairs of a class share a word."""
        return max(WORD_BITS // sum(self.widths), 1)

    def pack(self, numbers: Ints) -> Ints:
        """Put the numbers of pairs in classes, (4, class pairs), into words."""
        if not self.class_pairs:
            return np.zeros(0, np.int64)
        one = np.zeros(-(-self.class_pairs // self.per_word) * self.per_word, np.int64)
        for width, values in zip(self.widths, numbers, strict=True):
            one <<= width
            one[: self.class_pairs] |= values
        whole = sum(self.widths) * np.arange(self.per_word)
        return np.asarray((one.reshape(-1, self.per_word) << whole).sum(axis=1))

    def unpack(self, words: Ints) -> Ints:
        """Return the numbers of pairs in classes, (4, class pairs), added up over all sites."""
        size = sum(self.widths)
        every = (words[:, None] >> (size * np.arange(self.per_word))).ravel()[: self.class_pairs]
        found = []
        for width in reversed(self.widths):
            found.append(every & (2**width - 1))
            every = every >> width
        return np.array(found[::-1]).reshape(4, self.class_pairs)

    def split(self, vector: Ints) -> FloorCounts:
        """Return what the numbers are."""
        whole, by_class, pairs, totals, packed = np.split(vector, np.cumsum(self._lengths))
        shape = (4, self.classes, self.pairs) if self.class_pairs else (4, 0, self.pairs)
        return FloorCounts(
            whole.reshape(2, self.looks),
            by_class.reshape(self.classes, CLASS_NUMBERS, self.looks),
            pairs.reshape(2, self.pairs),
            totals.reshape(3, -1),
            self.unpack(packed).reshape(shape).swapaxes(0, 1),
        )


class FloorCounts(NamedTuple):
    """The counts of a site, or of all."""

    whole: Ints
    """(2, looks): rows and sites that differ from the usual value."""
    by_class: Ints
    """(classes, 5, looks): the same in a class; sites where a look is constant there; hashes, and their squares."""
    pairs: Ints
    """(2, pairs): rows and sites that tell two looks apart."""
    totals: Ints
    """(3, some looks): rows and sites in which a look is no sum of those before, and sites where it may be one."""
    class_pairs: Ints
    """(classes, 4, pairs): the same in a class; where no rows do, sites at which looks are equal, or never are."""


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
    totals = _TotalCounts(layout, floor)
    class_pairs = [_ClassPairCounts(layout, floor) for _ in range(layout.classes if layout.class_pairs else 0)]
    spread: Bools | None = None
    start = 0
    for piece in _pieces(blocks):
        looks = _looks_of(piece, layout)
        here = names[start : start + piece.shape[0]]
        start += piece.shape[0]
        spread = _continuous(looks) if spread is None else spread
        groups[0].add(looks)
        pairs.add(looks)
        totals.add(looks)
        for at in range(layout.classes):
            groups[1 + at].add(looks, here == classes[at])
        for one, name in zip(class_pairs, classes, strict=False):
            one.add(looks[np.flatnonzero(here == name)])
        rest = [one.settled for one in groups] + [one.settled for one in class_pairs]
        if pairs.settled and totals.settled and all(rest):
            break
    rows = groups[0].rows()
    found = [rows, rows > 0]
    for group in groups[1:]:
        found += group.in_class(spread, key)
    pairs.finish()
    found += [pairs.counts, pairs.counts > 0, *totals.finish()]
    in_classes = np.array([one.in_class(spread) for one in class_pairs], np.int64)
    in_classes = in_classes.reshape(len(class_pairs), 4, layout.pairs)
    found += [layout.pack(in_classes.swapaxes(0, 1).reshape(4, -1))]
    return np.concatenate(found).astype(np.int64)


def cell_counts_length(classes: int, width: int) -> int:
    """Return how many numbers `count_cells` has; none where no classes are known."""
    return 2 * (classes + 1) * width if classes else 0


def count_cells(blocks: Iterable[Any], codes: Ints, classes: int, width: int, floor: int) -> Ints:
    """Return in how many of a site's rows each column is another number than 0, for each class, and whether in any.

    Behind the classes, in how many rows it is neither 0 nor 1. ``blocks`` are the rows in order, (rows, columns), codes
    (all rows,) their classes, -1 for none. No count is larger than ``floor``. Returns (2 · (classes + 1) · width,), i8.
    """
    found = np.zeros((classes + 1, width), np.int64)
    first = 0
    for block in blocks:
        some = codes[first : first + block.shape[0]]
        first += block.shape[0]
        for at in range(classes):
            rows = np.flatnonzero(some == at)
            for start in range(0, len(rows), FIRST_ROWS):
                if (found[[at, classes]] >= floor).all():
                    break
                cells = block[rows[start : start + FIRST_ROWS]]
                if is_sparse(cells):
                    there = np.isfinite(cells.data) & (cells.data != 0)
                    found[at] += np.bincount(cells.indices[there], minlength=width)
                    found[classes] += np.bincount(cells.indices[there & (cells.data != 1)], minlength=width)
                else:
                    others: Bools = np.isfinite(cells) & (cells != 0)
                    found[at] += others.sum(axis=0)
                    found[classes] += (others & (cells != 1)).sum(axis=0)
    return np.concatenate([np.minimum(found, floor).ravel(), (found > 0).ravel()]).astype(np.int64)


def small_cells(counts: Ints, shape: tuple[int, int], floors: tuple[int, int]) -> npt.NDArray[np.uint8]:
    """Return what a number counts as in each cell, (classes, columns): itself, `COUNTS_AS_0` or `COUNTS_AS_1`.

    counts are those of `count_cells` over all sites; where groups of sites are summed apart, of each, one behind the
    other. shape has how many classes and columns there are; ``floors`` are sites and rows, of the strictest policy.
    Columns of 0 and 1 stay as they are: sums of them are counts. Where few rows have others there, these count as 1.
    """
    least_sites, least_rows = floors
    classes, width = shape
    # (groups, classes + 1, columns) each
    rows, sites = np.moveaxis(counts.reshape(-1, 2, classes + 1, width), 1, 0)
    small = (rows > 0) & ((rows < least_rows) | (sites < least_sites))
    few: Bools = np.asarray(small.any(axis=0))
    rows, sites = rows[:, -1].sum(axis=0), sites[:, -1].sum(axis=0)
    numbers = (rows >= least_rows) & (sites >= least_sites)
    return np.where(numbers, COUNTS_AS_0 * few[:-1], COUNTS_AS_1 * (rows > 0)).astype(np.uint8)


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
        there = np.isfinite(cells)
        ordered = np.sort(np.where(there, cells, np.nan), axis=0)  # gaps are last
        spare = np.maximum(there.sum(axis=0) - self.floor, 0)
        far = np.take_along_axis(ordered, spare + np.arange(self.floor)[:, None], axis=0)
        usual = (far == ordered[: self.floor]).any(axis=0)  # all rows but too few have one value
        self.open[places[~usual & (spare > 0)]] = False

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
    """Counts rows that tell two looks apart, up to a floor: of few rows all, of many a lower bound.

    Rows that are on one line, but no line along an axis, are not told apart. Disjoint blocks of rows that are on no
    common line have a row each that is off it, whichever it is: products of matrices tell that of all pairs at once.
    What they leave open, triples of rows tell, and of few rows the largest number that one line has.
    """

    def __init__(self, layout: FloorLayout, floor: int):
        self.floor = floor
        self.counts = np.zeros(layout.pairs, np.int64)
        self.generic = np.zeros(layout.pairs, bool)
        """Where no line has more than two rows: known of few rows only."""
        self.one, self.other = np.triu_indices(layout.looks if layout.pairs else 0, 1)
        self._early: list[Floats] | None = []
        """All rows so far, while they are few enough to look for lines; then None."""

    @property
    def settled(self) -> bool:
        """Whether the floor is reached for every pair."""
        return bool((self.counts >= self.floor).all())

    def add(self, looks: Any) -> None:
        """Read more rows."""
        if len(self.counts) and looks.shape[0] and not self.settled:
            self._read(looks.toarray() if is_sparse(looks) else looks)

    def _read(self, cells: Floats) -> None:
        if self._early is not None:
            self._early.append(cells)
            if sum(map(len, self._early)) > EXACT_ROWS:
                self._early = None
        if len(cells) < 3:
            return
        # Neighbours may be alike, as in tables that are sorted: rows of a block are drawn.
        order = np.random.default_rng(0).permutation(len(cells))
        found = self._blocks_apart(cells[order])
        left = self._left()
        left = left[self.counts[left] + found[left] < self.floor]
        varied: Bools = (cells != cells[0]).any(axis=0)
        left = left[varied[self.one[left]] | varied[self.other[left]]]  # rows tell no constants apart
        if len(left) and self._early is None:
            found[left] = np.maximum(found[left], self._triples_apart(cells[order], left))
        self.counts = np.minimum(self.counts + found, self.floor)

    def finish(self) -> None:
        """Look for lines where all rows are few."""
        if not self._early or not len(self.counts):
            return
        cells = np.concatenate(self._early)
        self._early = None
        left = self._left()
        for first in range(0, len(left), PAIRS_AT_ONCE):
            places = left[first : first + PAIRS_AT_ONCE]
            most, there = _largest_lines(cells[:, self.one[places]], cells[:, self.other[places]], self.floor)
            self.counts[places] = np.maximum(self.counts[places], np.minimum(there - most, self.floor))
            self.generic[places] = (most <= 2) & (there == len(cells))

    def _left(self) -> Ints:
        """Return the pairs of which more is looked at."""
        return np.flatnonzero(self.counts < self.floor)

    def _blocks_apart(self, cells: Floats) -> Ints:
        """Return how many disjoint blocks of rows have no common line, (pairs,), at most a few more than the floor."""
        size = int(np.clip(len(cells) // (self.floor + SPARE_BLOCKS), *BLOCK_ROWS))
        blocks = min(len(cells) // size, self.floor + SPARE_BLOCKS)
        some = cells[: blocks * size].reshape(blocks, size, -1)
        there: Bools = np.asarray(np.isfinite(some).all(axis=1))
        some = np.where(there[:, None], some, 0.0)
        across = some[:, 1:] - some[:, :1]  # 0 exactly where a look is constant
        length = np.sqrt(np.einsum("bij,bij->bj", across, across))
        constant = length == 0
        scale = np.where(constant, 1.0, length)
        across /= scale[:, None]
        # How far rounding may turn a direction; twice the squares are no less than the square of two together.
        turned = 2 * (TURNED + 8 * np.finfo(float).eps * np.abs(some).max(axis=1) / scale) ** 2
        found = np.zeros((cells.shape[1],) * 2, np.int64)
        for at in range(blocks):  # one at a time: of all at once the memory would be large
            cosine = across[at].T @ across[at]
            apart = 1 - cosine**2 > turned[at][:, None] + turned[at]
            apart &= ~(constant[at][:, None] & constant[at])
            found += apart & (there[at][:, None] & there[at])
        return found[self.one, self.other]

    def _triples_apart(self, cells: Floats, pairs: Ints) -> Ints:
        """Return how many disjoint triples of rows have no common line, for some pairs, up to the floor or more."""
        triples = len(cells) // 3
        start, near, far = cells[: 3 * triples].reshape(3, triples, -1)
        second = near - start
        third = far - start
        there = np.isfinite(second) & np.isfinite(third)
        same = there & (second == 0) & (third == 0)
        second = np.where(there, second, 0.0)
        third = np.where(there, third, 0.0)
        sides = np.abs(second) + np.abs(third)
        noise = 8 * np.finfo(float).eps * np.abs(np.where(np.isfinite(cells), cells, 0.0)).max(axis=0)
        found = np.zeros(len(pairs), np.int64)
        open = np.arange(len(pairs))
        for at in range(triples):  # one at a time: of all at once the memory would be large
            one = self.one[pairs[open]]
            other = self.other[pairs[open]]
            left = second[at, one] * third[at, other]
            right = third[at, one] * second[at, other]
            rounding = noise[one] * sides[at, other] + noise[other] * sides[at, one]
            apart = np.abs(left - right) > STRAIGHT * (np.abs(left) + np.abs(right)) + rounding
            apart |= same[at, one] != same[at, other]  # a line along one axis says nothing of the other look
            found[open] += apart & there[at, one] & there[at, other]
            if at % TRIPLES_AT_ONCE == 0:
                open = open[found[open] < self.floor]
                if not len(open):
                    break
        return found


def _largest_lines(one: Floats, other: Floats, floor: int) -> tuple[Ints, Ints]:
    """Return how many rows the line with the most rows has, and how many have both numbers, (pairs,) each.

    Lines along an axis are none. Where fewer than ``floor`` rows are off a line, it goes through one of any ``floor``
    rows: so only lines through these are looked at, and where all have fewer rows, the number is too low but leaves no
    fewer than ``floor`` off. Directions that rounding may have made different are one: too many, never too few.

    one, other (rows, pairs).
    """
    x = np.ascontiguousarray(one.T)
    y = np.ascontiguousarray(other.T)
    there = np.isfinite(x) & np.isfinite(y)
    x = np.where(there, x, 0.0)
    y = np.where(there, y, 0.0)
    noise = 4 * np.finfo(float).eps * np.array([np.abs(x).max(axis=1), np.abs(y).max(axis=1)])[..., None]
    places = np.arange(x.shape[1])
    most = np.zeros(len(x), np.int64)
    # Rows with both numbers come first, so that there are enough to go through.
    first = np.argsort(~there, axis=1, kind="stable")[:, :floor]
    for at in range(first.shape[1]):
        row = first[:, [at]]
        across = x - np.take_along_axis(x, row, axis=1)
        up = y - np.take_along_axis(y, row, axis=1)
        same = there & (across == 0) & (up == 0)
        sloped = there & (across != 0) & (up != 0)
        slope = np.divide(up, across, out=np.full_like(up, np.inf), where=sloped)
        off = np.zeros_like(up)
        np.divide(noise[0], np.abs(across), out=off, where=sloped)
        off += np.divide(noise[1], np.abs(up), out=np.zeros_like(up), where=sloped)
        order = np.argsort(slope, axis=1)
        slope = np.take_along_axis(slope, order, axis=1)
        wide = np.where(
            np.isfinite(slope), np.abs(slope) * (STRAIGHT + np.take_along_axis(off, order, axis=1)), 0.0
        )
        with np.errstate(invalid="ignore"):  # of those that have no slope
            new = ~(slope[:, 1:] - slope[:, :-1] <= wide[:, 1:] + wide[:, :-1])
        starts = np.maximum.accumulate(np.where(new, places[1:], 0), axis=1)
        run = np.where(np.isfinite(slope[:, 1:]), places[1:] - starts + 1, 0).max(axis=1, initial=0)
        longest = np.maximum(run, sloped.any(axis=1)) + same.sum(axis=1)
        most = np.maximum(most, np.where(np.take_along_axis(there, row, axis=1)[:, 0], longest, 0))
    return most, there.sum(axis=1)


class _ClassPairCounts(_PairCounts):
    """Counts rows of a class that tell two looks apart, up to a floor; classes may be small, so more closely.

    Of looks that are 0 or 1, all rows are counted: they differ from "equal", or from "not both", whichever fewer do.
    Where a look is continuous and no three rows are on a line, a line through two is no usual one, and all rows count.
    """

    def __init__(self, layout: FloorLayout, floor: int):
        super().__init__(layout, floor)
        looks = layout.looks
        self.rows = 0
        self.flags = np.ones(looks, bool)
        """The looks that have been 0 or 1 so far, in how many rows they are 1, and in how many both of two."""
        self.ones = np.zeros(looks)
        self.both = np.zeros((looks, looks))
        self.equal = np.ones(layout.pairs, bool)
        """Whether two looks of which no rows were found apart have been equal so far."""

    @property
    def settled(self) -> bool:
        """Whether the floor is reached for every pair."""
        return bool((self._rows_apart() >= self.floor).all())

    def add(self, looks: Any) -> None:
        """Read more rows, all of the class."""
        if not len(self.counts) or not looks.shape[0] or self.settled:
            return
        cells = looks.toarray() if is_sparse(looks) else looks
        self.rows += len(cells)
        self.flags &= ((cells == 0) | (cells == 1)).all(axis=0)
        ones = np.where(self.flags, cells == 1, 0.0)
        self.ones += ones.sum(axis=0)
        self.both += ones.T @ ones
        self._read(cells)
        same = np.flatnonzero((self.counts == 0) & self.equal)
        for first in range(0, len(same), PAIRS_AT_ONCE):
            places = same[first : first + PAIRS_AT_ONCE]
            self.equal[places] &= (cells[:, self.one[places]] == cells[:, self.other[places]]).all(axis=0)

    def _left(self) -> Ints:
        left = super()._left()
        return left[~(self.flags[self.one[left]] & self.flags[self.other[left]])]

    def _flag_pairs(self) -> tuple[Bools, Floats, Floats]:
        """Return which pairs are of flags, in how many rows these differ, and in how many they are the same."""
        pairs = self.flags[self.one] & self.flags[self.other]
        differ = self.ones[self.one] + self.ones[self.other] - 2 * self.both[self.one, self.other]
        return pairs, differ, self.rows - differ

    def _rows_apart(self) -> Ints:
        pairs, differ, same = self._flag_pairs()
        found = np.where(pairs, np.maximum(np.minimum(differ, same), self.counts), self.counts)
        return np.minimum(found, self.floor).astype(np.int64)

    def in_class(self, spread: Bools | None) -> Ints:
        """Return rows and sites, and sites at which looks may be equal in all rows, or never both alike, (4, pairs).

        A site at which they are neither, and no rows are found apart, is among both.
        """
        self.finish()
        rows = self._rows_apart()
        if spread is not None:
            generic = (spread[self.one] | spread[self.other]) & self.generic
            rows = np.where(generic, min(self.rows, self.floor), rows)
        pairs, _, same = self._flag_pairs()
        opposite = pairs & (same == 0)
        alike = (rows == 0) & (self.rows > 0)
        neither = ~(self.equal | opposite)
        return np.array([rows, rows > 0, alike & (self.equal | neither), alike & (opposite | neither)], np.int64)


class _TotalCounts:
    """Counts rows in which looks are no sums of those before them, up to a floor."""

    def __init__(self, layout: FloorLayout, floor: int):
        self.floor = floor
        self.looks = layout.totals
        self.size = 1 + len(self.looks) + BEYOND
        """How many rows a block has."""
        self.varied = np.zeros(len(self.looks), np.int64)
        """In how many blocks each look is not constant."""
        self._early: list[Floats] | None = []
        """Rows, until there are enough of them; then None."""
        self._filling = np.zeros(0)
        self.found: list[tuple[int, Floats]] = []
        """Looks that follow from those before them in some block, and the weights of these and of a constant."""
        self.off = np.zeros(0, np.int64)
        """In how many rows each of them does not."""

    @property
    def settled(self) -> bool:
        """Whether no more rows must be read."""
        return not len(self.looks) or (self._early is None and bool((self.off >= self.floor).all()))

    def add(self, looks: Any) -> None:
        """Read more rows."""
        if self.settled:
            return
        some = looks[:, self.looks]
        cells = np.asarray(some.toarray() if is_sparse(some) else some, np.float64)
        if self._early is None:
            self._count(cells)
            return
        self._early.append(cells)
        if sum(map(len, self._early)) >= self.size * max(self.floor, LEAST_BLOCKS):
            self._search()

    def finish(self) -> list[Ints]:
        """Return rows and sites in which looks are no sums, and sites where they may be, (looks,) each."""
        if self._early is not None and len(self.looks):
            self._search()
        off = np.full(len(self.looks), self.floor)
        np.minimum.at(off, [look for look, _ in self.found], self.off)
        may_be = off < self.floor
        rows = np.where(may_be, off, np.minimum(self.varied, self.floor))
        return [rows, (rows > 0).astype(np.int64), may_be.astype(np.int64)]

    def _search(self) -> None:
        """Look in each block for looks that follow from those before."""
        assert self._early is not None
        cells = np.concatenate(self._early) if self._early else np.zeros((0, len(self.looks)))
        self._early = None
        blocks = min(len(cells) // self.size, max(self.floor, LEAST_BLOCKS))
        blocks = blocks if blocks >= LEAST_BLOCKS else 0
        order = np.random.default_rng(0).permutation(len(cells))[: blocks * self.size]
        self._filling = _middles(cells[order])
        for some in order.reshape(blocks, self.size):
            block = self._with_constant(cells[some])
            varied = np.ptp(block[:, 1:], axis=0) > 0
            self.varied += varied
            left = np.abs(np.diagonal(np.linalg.qr(block, mode="r")))
            follows = left <= STRAIGHT * np.linalg.norm(block, axis=0)
            for look in np.flatnonzero(varied & follows[1:]).tolist():
                weights, *_ = np.linalg.lstsq(block[:, : look + 1], block[:, look + 1], rcond=STRAIGHT)
                if not any(one == look and np.allclose(weights, known) for one, known in self.found):
                    self.found.append((look, np.asarray(weights, np.float64)))
        self.off = np.zeros(len(self.found), np.int64)
        self._count(cells)

    def _with_constant(self, cells: Floats) -> Floats:
        """Return rows with a column of 1 before them, gaps filled in as steps would."""
        return np.column_stack([np.ones(len(cells)), np.where(np.isfinite(cells), cells, self._filling)])

    def _count(self, cells: Floats) -> None:
        """Count the rows in which looks do not follow by the weights that were found."""
        rows = self._with_constant(cells) if self.found else cells
        for at, (look, weights) in enumerate(self.found):
            if self.off[at] < self.floor:
                terms = rows[:, : look + 1] * weights
                size = np.abs(terms).sum(axis=1) + np.abs(rows[:, look + 1])
                off = np.abs(terms.sum(axis=1) - rows[:, look + 1]) > FOLLOWS * size
                self.off[at] += int(off.sum())


def _middles(cells: Floats) -> Floats:
    """Return the median of each column's numbers, (columns,); 0 where there are none, or no gaps at all."""
    if np.isfinite(cells).all():
        return np.zeros(cells.shape[1])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # of columns without numbers
        return np.asarray(np.nan_to_num(np.nanmedian(np.where(np.isfinite(cells), cells, np.nan), axis=0)))


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
    summed apart, ``total`` has their counts one behind the other, and what any group leaves out, all do.
    """
    found = [_judge(one, layout, floors, one_hot) for one in total.reshape(-1, layout.length)]
    why = found[0].why
    for one in found[1:]:
        why = np.where(why == KEPT, one.why, why)
    return Judgement(why, layout.columns)


def _judge(
    total: Ints, layout: FloorLayout, floors: tuple[int, int], one_hot: Sequence[tuple[int, int]] = ()
) -> Judgement:
    """Return what counts leave out; ``floors`` are sites and rows, of the strictest policy.

    It is over all sites that are summed together.
    """
    least_sites, least_rows = floors
    whole, by_class, pairs, totals, class_pairs = layout.split(total)

    def enough(rows: Ints, sites: Ints) -> Bools:
        found: Bools = (rows >= least_rows) & (sites >= least_sites)
        return found

    why = np.where(enough(*whole), KEPT, FEW).astype(np.uint8)
    hiding = [enough(*whole)]
    fails = [~hiding[0]]
    constants = []
    for rows, sites, constant, hashes, squares in by_class:
        same = (rows == 0) & (constant * squares == hashes**2)
        constants.append(same)
        hiding.append(enough(rows, sites))
        fails.append(~hiding[-1] & ~same)
        why[(why == KEPT) & fails[-1]] = FEW_IN_CLASS
    for first, end in one_hot:
        _hide_complement(why[first:end], [one[first:end] for one in hiding], [one[first:end] for one in fails])
    if layout.gaps:
        columns = why[: layout.columns]
        why[layout.columns :][whole[0, layout.columns :] == 0] = NO_GAPS
        gaps = why[layout.columns :]
        gaps[(columns != KEPT) & (gaps == KEPT)] = FEW
    if layout.pairs:
        one, other = np.triu_indices(layout.looks, 1)
        alike = {ALIKE: ~enough(*pairs), ALIKE_IN_CLASS: np.zeros(layout.pairs, bool)}
        for (rows, sites, equal, opposite), same in zip(class_pairs, constants, strict=False):
            harmless = (rows == 0) & ((equal == 0) | (opposite == 0)) | same[one] | same[other]
            alike[ALIKE_IN_CLASS] |= ~enough(rows, sites) & ~harmless
        for reason, places in alike.items():
            for at in np.flatnonzero(places).tolist():
                if why[one[at]] == KEPT == why[other[at]]:
                    _leave_out(why, other[at], reason, layout)
    rows, sites, may_be = totals
    for look in layout.totals[(may_be > 0) & ~enough(rows, sites)].tolist():
        if why[look] == KEPT:
            _leave_out(why, look, TOTAL, layout)
    return Judgement(why, layout.columns)


def _leave_out(why: npt.NDArray[np.uint8], look: int, reason: int, layout: FloorLayout) -> None:
    """Leave out a look, in place, and with a column its gaps."""
    why[look] = reason
    if layout.gaps and look < layout.columns and why[layout.columns + look] == KEPT:
        why[layout.columns + look] = reason


def merge_bins(tables: Iterable[tuple[Sequence[int], Ints, tuple[int, int]]], columns: int, bins: int) -> Ints:
    """Return which bin stands for each bin of a column, (columns, bins): the first of those that were merged.

    Groups of columns have a cell for each product of their bins, and two groups one for each product of theirs. Bins
    join a neighbour, in all tables of their column, until each cell is empty or has enough rows and sites of each kind
    of rows that are summed by themselves. Where a cell is left out instead, all others together would show it.

    tables: for each group, or two, its columns, the first one's bins being the farthest apart in the cells;
    (2, kinds of rows, cells): rows, each site's at most the floor, and sites, or rows of which each site's count up to
    a smaller number; and the floors of these, and of rows.
    """
    stands = np.tile(np.arange(bins), (columns, 1))
    for members, counts, (least_sites, least_rows) in tables:
        whole = counts[:, :, : bins ** len(members)].reshape(2, -1, *(bins,) * len(members))
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
