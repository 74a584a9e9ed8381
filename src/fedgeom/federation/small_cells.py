"""Small cells: what few rows have of two columns, or of one, which sums of products and squares would show.

Where a column x has the value r in many rows, and y the value s, (x - r)·(y - s) is 0 but in rows with neither; the
sums of products tell its sum, and so of a single such row the product. Of columns of 0 and 1 that is a count of one, of
others a number. Of one column with two frequent values r and s, (x - r)·(x - s) does the same. So for each two looks
(`fedgeom.federation.disclosure`) and up to two frequent values of each, the rows that have neither are counted: there
must be none, or enough, at enough sites.

Frequent values
    Each site takes its own two most frequent ones, 0 before the other, else the smaller one before; a single one that
    is not 0 comes second, since elsewhere 0 may be the first. Where sites take different ones, keyed hashes tell, and
    no rows are then not taken for none.
Columns of few values
    What few rows have of two columns with two values, or with two frequent ones at all sites, such as codes, is a count
    or little more: it stays. A table of yes and no has hardly two columns without such a cell.
Classes
    Where products are summed for each class, cells are counted in each.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from fedgeom.arrays import Bools, Floats, Ints
from fedgeom.crypto.keys import fingerprint

HASH_BITS = 24
"""Of a constant's hash: its squares over 2¹⁶ sites fit into a word."""
FREQUENT = 20
"""A value is frequent that more than one row in so many has."""
WORD_BITS = 53
"""So many bits of a word come through: contributions to a sum are real numbers, of which these are exact."""
SLOTS = 2
"""How many frequent values of a look there are at most."""


def hash_value(value: float, key: bytes) -> int:
    """Return a short hash of a number that only holders of the key can make."""
    return int.from_bytes(
        fingerprint(b"constant", key, np.float64(value + 0.0).tobytes())[: HASH_BITS // 8], "big"
    )


@dataclass(frozen=True)
class WordLayout:
    """How whole numbers share words: several numbers of each of ``count`` things, and several things."""

    count: int
    widths: tuple[int, ...]
    """How many bits the numbers of a thing take; sums over all sites fit."""

    @property
    def per_word(self) -> int:
        """How many things share a word."""
        return max(WORD_BITS // sum(self.widths), 1)

    @property
    def length(self) -> int:
        """How many words there are."""
        return -(-self.count // self.per_word)

    def pack(self, numbers: Ints) -> Ints:
        """Put numbers, (widths, count), into words."""
        one = np.zeros(self.length * self.per_word, np.int64)
        for width, values in zip(self.widths, numbers, strict=True):
            one <<= width
            one[: self.count] |= values
        whole = sum(self.widths) * np.arange(self.per_word)
        return np.asarray((one.reshape(-1, self.per_word) << whole).sum(axis=1))

    def unpack(self, words: Ints) -> Ints:
        """Return the numbers, (widths, count), added up over all sites."""
        size = sum(self.widths)
        every = (words[:, None] >> (size * np.arange(self.per_word))).ravel()[: self.count]
        found = []
        for width in reversed(self.widths):
            found.append(every & (2**width - 1))
            every = every >> width
        return np.array(found[::-1]).reshape(len(self.widths), self.count)


@dataclass(frozen=True)
class CellLayout:
    """Where each count stands in the vector that is summed."""

    looks: int
    classes: int
    """In how many classes cells are counted beside all rows."""
    sites: int
    floor: int

    @property
    def groups(self) -> int:
        """How many groups of rows are counted: all, and each class."""
        return 1 + self.classes

    @property
    def pairs(self) -> int:
        """How many pairs of looks there are."""
        return self.looks * (self.looks - 1) // 2

    @property
    def shared(self) -> int:
        """How many cells of a pair share a word at least: those of both values of the first look, if there is room."""
        return SLOTS if SLOTS * sum(self._widths) <= WORD_BITS else 1

    @property
    def _widths(self) -> tuple[int, int]:
        return (self.sites * self.floor).bit_length(), self.sites.bit_length()

    @property
    def packing(self) -> WordLayout:
        """How rows and sites of cells are put into words."""
        return WordLayout(self.groups * SLOTS * SLOTS * self.pairs // self.shared, self._widths * self.shared)

    @property
    def length(self) -> int:
        """How many numbers a site adds."""
        return 4 * SLOTS * self.looks + 2 * self.groups * self.looks + self.packing.length

    def pack(self, cells: Ints) -> Ints:
        """Put the counts of cells, (groups, 2, slots, slots, pairs), into words."""
        split = cells.reshape(self.groups, 2, self.shared, SLOTS // self.shared, SLOTS, self.pairs)
        return self.packing.pack(split.transpose(2, 1, 3, 0, 4, 5).reshape(2 * self.shared, self.packing.count))

    def split(self, vector: Ints) -> CellTotals:
        """Return what the numbers are."""
        values, third, packed = np.split(vector, np.cumsum([4 * SLOTS * self.looks, 2 * self.groups * self.looks]))
        split = self.packing.unpack(packed).reshape(
            self.shared, 2, SLOTS // self.shared, self.groups, SLOTS, self.pairs
        )
        return CellTotals(
            values.reshape(4, SLOTS, self.looks),
            third.reshape(self.groups, 2, self.looks),
            split.transpose(3, 1, 0, 2, 4, 5).reshape(self.groups, 2, SLOTS, SLOTS, self.pairs),
        )


class CellTotals(NamedTuple):
    """The counts of a site, or of all."""

    values: Ints
    """(4, slots, looks): sites with a frequent value in a slot, their hashes, the hashes' squares, and sites where both
    are frequent."""
    third: Ints
    """(groups, 2, looks): rows and sites with neither of a look's two frequent values."""
    cells: Ints
    """(groups, 2, slots, slots, pairs): rows and sites that have neither of two values of two looks."""


class CellCounts:
    """Counts a site's rows, up to a floor."""

    def __init__(self, layout: CellLayout, floor: int):
        self.layout = layout
        self.floor = floor
        self.slots: Floats | None = None
        """(2, looks): the frequent values; NaN: there is none."""
        self._some = np.zeros(0, np.intp)
        """The looks that have a frequent value."""
        self._usual = np.full(layout.looks, np.nan)
        self._both_frequent = np.zeros(layout.looks, bool)
        """Whether both values are frequent; of other looks, all values are counted."""
        self._values: list[dict[int, Counter[float]]] = []
        shape = (layout.groups, SLOTS * layout.looks)
        self.rows = np.zeros(layout.groups, np.int64)
        self.single = np.zeros(shape, np.int64)
        """Rows without each value."""
        self.third = np.zeros((layout.groups, layout.looks), np.int64)
        self.both: Ints = np.zeros((layout.groups, 0, 0), np.int64)
        """Rows without either of two values, of looks that have some."""
        self._open = np.zeros(0, np.intp)
        """Of these looks, those of which more is counted."""

    @property
    def settled(self) -> bool:
        """Whether no more rows must be read: no look has a frequent value, and all have many in each class."""
        if not self.layout.looks:
            return True
        few = any(_beside(counted) < self.floor for some in self._values for counted in some.values())
        return self.slots is not None and not len(self._some) and not few

    def add(self, cells: Floats, inside: Sequence[Bools]) -> None:
        """Read more rows, dense; ``inside`` says for each class which are of it."""
        if not self.layout.looks or not len(cells):
            return
        if self.slots is None:
            self._begin(cells)
        groups = [np.ones(len(cells), bool), *inside]
        self.rows += np.array([np.count_nonzero(one) for one in groups], np.int64)
        for at, one in enumerate(groups):
            for look, counted in self._values[at].items():
                if _beside(counted) < self.floor:
                    own = cells[one, look]
                    counted.update(own[np.isfinite(own)].tolist())
        if not len(self._some):
            return
        every = self._without(cells[:, self._some])
        first, second = np.split(every, SLOTS, axis=1)
        third = first & second & self._both_frequent[self._some]
        places = np.concatenate([self._some, self.layout.looks + self._some])
        chosen = np.concatenate([self._open, len(self._some) + self._open])
        some = every[:, chosen].astype(np.float32)
        for at, one in enumerate(groups):
            part = some if at == 0 else some[one]
            self.third[at, self._some] += third[one].sum(axis=0)
            self.single[at, places] += every[one].sum(axis=0)
            self.both[np.ix_(np.array([at]), chosen, chosen)] += (part.T @ part).astype(np.int64)
        self._close()

    def _begin(self, cells: Floats) -> None:
        """Take the frequent values of the first rows."""
        looks = self.layout.looks
        self.slots = np.full((SLOTS, looks), np.nan)
        least = max(len(cells) // FREQUENT, 1)
        ordered = np.sort(cells, axis=0)
        often = (ordered[least:] == ordered[: len(ordered) - least]).any(axis=0)  # a value that more rows have
        for look in np.flatnonzero(often).tolist():
            values, counts = np.unique(cells[np.isfinite(cells[:, look]), look], return_counts=True)
            order = np.argsort(-counts, kind="stable")[:SLOTS]
            found = np.sort(values[order])
            if len(found) < SLOTS:
                found = np.array([0.0, np.nan] if found[0] == 0 else [np.nan, found[0]])
            elif found[1] == 0:
                found = found[::-1]
            self.slots[:, look] = found
            self._usual[look] = values[order[0]]
            self._both_frequent[look] = len(order) == SLOTS and counts[order[1]] > least
        self._some = np.flatnonzero(often)
        self._open = np.arange(len(self._some))
        self.both = np.zeros((self.layout.groups, *(SLOTS * len(self._some),) * 2), np.int64)
        rest = np.flatnonzero(~self._both_frequent).tolist()
        self._values = [{look: Counter() for look in rest} for _ in range(self.layout.groups)]

    def _without(self, cells: Floats) -> Bools:
        """Return which rows have not the first, and which not the second frequent value of looks that have some."""
        assert self.slots is not None
        first, second = self.slots[:, self._some]
        there = np.isfinite(cells)
        return np.concatenate([there & (cells != first), there & (cells != second)], axis=1)

    def _close(self) -> None:
        """Count no more of looks that are settled with all others that are open."""
        size = len(self._some)
        low: Bools = np.asarray((self.both.reshape(-1, SLOTS, size, SLOTS, size) < self.floor).any(axis=(0, 1, 3)))
        np.fill_diagonal(low, False)
        self._open = self._open[low[np.ix_(self._open, self._open)].any(axis=1)]

    def finish(self, key: bytes) -> Ints:
        """Return the counts, (`CellLayout.length`,), i8, none larger than the floor but the hashes."""
        layout = self.layout
        looks = layout.looks
        values = np.zeros((4, SLOTS, looks), np.int64)
        third = np.zeros((layout.groups, 2, looks), np.int64)
        cells = np.zeros((layout.groups, 2, SLOTS, SLOTS, layout.pairs), np.int64)
        if self.slots is None:
            return self._flat(values, third, cells)
        for group, some in enumerate(self._values):
            for look, counted in some.items():
                self.third[group, look] = _beside(counted)
                second = [value for value, _ in counted.most_common(SLOTS) if value != self._usual[look]]
                if group == 0 and second and look in self._some:
                    self.slots[int(self.slots[0, look] == self._usual[look]), look] = second[0]
        values[0] = np.isfinite(self.slots)
        for slot, look in np.argwhere(values[0] > 0).tolist():
            values[1, slot, look] = hash_value(self.slots[slot, look], key)
        values[2] = values[1] ** 2
        values[3] = self._both_frequent
        third[:, 0] = np.minimum(self.third, self.floor)
        one, other = np.triu_indices(looks, 1)
        none = np.setdiff1d(np.arange(looks), self._some)
        places = np.concatenate([self._some, looks + self._some])
        for group in range(layout.groups):
            self.single[group, np.concatenate([none, looks + none])] = self.rows[group]
            whole = np.minimum(
                self.single[group][:, None], self.single[group]
            )  # of looks without a frequent value
            whole[np.ix_(places, places)] = self.both[group]
            square = np.minimum(whole, self.floor).reshape(SLOTS, looks, SLOTS, looks)
            cells[group, 0] = square[:, one, :, other].transpose(1, 2, 0)
        third[:, 1] = third[:, 0] > 0
        cells[:, 1] = cells[:, 0] > 0
        return self._flat(values, third, cells)

    def _flat(self, values: Ints, third: Ints, cells: Ints) -> Ints:
        return np.concatenate([values.ravel(), third.ravel(), self.layout.pack(cells)])


def _beside(counted: Counter[float]) -> int:
    """Return how many rows have another value than the two most frequent ones."""
    return counted.total() - sum(count for _, count in counted.most_common(SLOTS))


@dataclass(frozen=True, eq=False)
class SmallCells:
    """What the counts of all sites find too small."""

    third: Bools
    """(looks,): few rows have neither of the look's two frequent values."""
    pairs: Bools
    """(looks, looks): few rows have neither of two values of two looks; symmetric."""
    cells: Ints
    """(slots, slots, pairs): how many rows of all have neither of two values, each site's up to the floor."""


def find_small(total: CellTotals, layout: CellLayout, floors: tuple[int, int]) -> SmallCells:
    """Return what is too small; ``floors`` are sites and rows, of the strictest policy."""
    least_sites, least_rows = floors
    there, hashes, squares, frequent = total.values
    agreed = there * squares == hashes**2
    one, other = np.triu_indices(layout.looks, 1)
    known = (there > 0)[:, None, one] & (there > 0)[None, :, other]
    same = agreed[:, None, one] & agreed[None, :, other]
    two = (there > 0).all(axis=0)
    of_few = two & (agreed.all(axis=0) & (total.third[0, 0] == 0) | (frequent[0] == there.max(axis=0)))
    third = np.zeros(layout.looks, bool)
    pairs = np.zeros(layout.pairs, bool)
    for (rows, sites), (others, at_sites) in zip(total.cells, total.third, strict=True):
        small = (rows > 0) & ((rows < least_rows) | (sites < least_sites)) | (rows == 0) & ~same
        small = (small & known).any(axis=(0, 1))
        pairs |= small & ~(of_few[one] & of_few[other])
        few = (others > 0) & ((others < least_rows) | (at_sites < least_sites)) | (others == 0) & ~agreed.all(
            axis=0
        )
        third |= few & two
    square = np.zeros((layout.looks, layout.looks), bool)
    square[one, other] = pairs
    return SmallCells(third, square | square.T, total.cells[0, 0])
