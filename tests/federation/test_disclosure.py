"""The rule of columns: what few rows or sites set apart is left out, and counts never exceed what is there."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array

from fedgeom.arrays import Floats, Ints
from fedgeom.federation.disclosure import (
    ALIKE,
    ALIKE_IN_CLASS,
    COMPLEMENT,
    COUNTS_AS_0,
    COUNTS_AS_1,
    FEW,
    FEW_IN_CLASS,
    KEPT,
    TOTAL,
    FloorLayout,
    Judgement,
    count_cells,
    count_looks,
    judge,
    merge_bins,
    small_cells,
)
from fedgeom.federation.steps import Columns, FitContext, StepFit
from fedgeom.preparation.floors import ColumnFloors

FLOORS = (3, 10)


def counted(table: Any, labels: Any, classes: tuple[str, ...], layout: FloorLayout, *, blocks: int = 1) -> Ints:
    """Return one site's counts, of rows that come in so many blocks."""
    places = np.array_split(np.arange(table.shape[0]), blocks)
    pieces = [table[at[0] : at[-1] + 1] for at in places if len(at)]
    return count_looks(pieces, labels, classes, layout, FLOORS[1], b"key")


def judged(sites: list[Floats], *, gaps: bool = False, labels: list[Any] | None = None) -> Judgement:
    """Return what is left out of some sites' tables."""
    classes = () if labels is None else ("a", "b")
    layout = FloorLayout(sites[0].shape[1], gaps, len(classes), len(sites), FLOORS[1])
    names = labels or [np.full(len(one), "a") for one in sites]
    total = sum(counted(one, own, classes, layout) for one, own in zip(sites, names, strict=True))
    return judge(np.asarray(total), layout, FLOORS)


def gaussians(sites: int = 4, rows: int = 40, columns: int = 3) -> list[Floats]:
    """Return tables of numbers that all differ."""
    rng = np.random.default_rng(0)
    return [rng.standard_normal((rows, columns)) for _ in range(sites)]


def flagged(rows_with: list[int], rows: int = 40) -> list[Floats]:
    """Return tables whose last column is 1 in so many rows of each site, and 0 in all others."""
    tables = gaussians(len(rows_with), rows)
    return [
        np.column_stack([table, np.arange(rows) < many]) for table, many in zip(tables, rows_with, strict=True)
    ]


def test_tables_of_numbers_keep_all_columns() -> None:
    assert judged(gaussians()).kept.tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    ("rows_with", "why"),
    [
        ([1, 0, 0, 0], FEW),
        ([3, 3, 3, 0], FEW),
        ([4, 4, 4, 0], KEPT),
        ([30, 30, 0, 0], FEW),  # of two sites
        ([37, 37, 37, 40], FEW),  # nine zeros
        ([36, 36, 36, 40], KEPT),
        ([40, 0, 0, 0], FEW),  # constant at each site, but not the same constant
    ],
)
def test_a_column_is_kept_where_enough_rows_and_sites_differ(rows_with: list[int], why: int) -> None:
    assert judged(flagged(rows_with)).why.tolist() == [KEPT, KEPT, KEPT, why]


@pytest.mark.parametrize("odd", [1, 9])
@pytest.mark.parametrize("slope", [1.0, -1.0, 2.5])
def test_of_two_columns_that_few_rows_tell_apart_the_second_goes(odd: int, slope: float) -> None:
    tables = gaussians()
    for at, table in enumerate(tables):
        flag = (table[:, 0] > 0.3).astype(float)
        other = 1.0 + slope * flag
        if at < 3:
            other[: odd // 3 + (at < odd % 3)] += 1.5
        tables[at] = np.column_stack([table, flag, other])
    assert judged(tables).why.tolist() == [KEPT, KEPT, KEPT, KEPT, ALIKE]


def test_columns_of_numbers_that_are_one_in_another_unit_are_alike() -> None:
    tables = [np.column_stack([table, 32 + 1.8 * table[:, 0]]) for table in gaussians()]
    tables[1][5, 3] = 100.0
    assert judged(tables).why.tolist() == [KEPT, KEPT, KEPT, ALIKE]


def test_gaps_of_enough_rows_may_become_a_column_and_those_of_one_may_not() -> None:
    tables = gaussians()
    for table in tables:
        table[:5, 1] = np.nan
    tables[1][7, 2] = np.nan
    found = judged(tables, gaps=True)
    assert found.kept.tolist() == [0, 1, 2]
    assert found.few_gaps.tolist() == [0, 2]


def test_gaps_of_two_columns_that_come_together_but_once_become_one_column() -> None:
    tables = gaussians()
    for at, table in enumerate(tables):
        table[:5, 1:] = np.nan
        table[5, 1] = np.nan if at == 1 else table[5, 1]
    assert judged(tables, gaps=True).few_gaps.tolist() == [0, 2]


def test_in_a_class_too_few_rows_may_differ() -> None:
    labels = [np.array(["a", "b"])[np.arange(40) % 2] for _ in range(4)]
    tables = gaussians()
    for at, table in enumerate(tables):
        often = (labels[at] == "a") & (np.arange(40) < 20)
        rare = often | ((at == 1) & (np.arange(40) == 1))
        tables[at] = np.column_stack([table, often, rare])
    found = judged(tables, labels=labels)
    assert found.why.tolist() == [KEPT, KEPT, KEPT, KEPT, FEW_IN_CLASS]


def test_a_column_that_is_another_constant_at_one_site_in_a_class_goes() -> None:
    labels = [np.array(["a", "b"])[np.arange(40) % 2] for _ in range(4)]
    tables = gaussians()
    for at, table in enumerate(tables):
        column = np.where(labels[at] == "b", 2.0 if at == 1 else 1.0, 1.0 + (np.arange(40) < 20))
        tables[at] = np.column_stack([table, column])
    assert judged(tables, labels=labels).why.tolist() == [KEPT, KEPT, KEPT, FEW_IN_CLASS]


def test_small_classes_of_continuous_columns_are_kept() -> None:
    labels = [np.where(np.arange(40) < 4, "b", "a") for _ in range(3)]
    assert judged(gaussians(3), labels=labels).kept.tolist() == [0, 1, 2]


@pytest.mark.parametrize("seed", range(20))
def test_counts_are_never_too_high_and_do_not_depend_on_blocks(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows = int(rng.integers(5, 400))
    table = rng.integers(0, 4, (rows, 4)) * (rng.random((rows, 4)) < rng.random(4) ** 3)
    table = table.astype(float)
    layout = FloorLayout(4)
    labels = np.full(rows, "a")
    found = [counted(table, labels, (), layout, blocks=blocks) for blocks in (1, 3)]
    sparse = counted(csr_array(table), labels, (), layout, blocks=3)
    exact = np.minimum([rows - np.unique(column, return_counts=True)[1].max() for column in table.T], FLOORS[1])
    for one in found:
        whole, _, pairs, *_ = layout.split(one)
        np.testing.assert_array_equal(whole, [exact, exact > 0])
        assert (
            pairs[0]
            <= [_off_every_line(table[:, a], table[:, b]) for a, b in zip(*np.triu_indices(4, 1), strict=True)]
        ).all()
    assert (layout.split(sparse)[0][0] <= exact).all()


def _off_every_line(x: Floats, y: Floats) -> int:
    """Return how many rows are off the line, along neither axis, that most rows are on, by trying all lines."""
    points, counts = np.unique(np.column_stack([x, y]), axis=0, return_counts=True)
    best = int(counts.max())
    for a in range(len(points)):
        for b in range(a):
            step = points[a] - points[b]
            if (step != 0).all():
                on = (points - points[a])[:, 0] * step[1] == (points - points[a])[:, 1] * step[0]
                best = max(best, int(counts[on].sum()))
    return len(x) - best


def test_sparse_columns_are_counted_by_their_zeros() -> None:
    rng = np.random.default_rng(0)
    table = rng.poisson(1.0, (300, 5)).astype(float)
    table[:, 3] = 0.0
    table[7, 3] = 4.0
    table[:, 4] = 1.0 + rng.random(300)
    layout = FloorLayout(5)
    whole, *_ = layout.split(counted(csr_array(table), np.full(300, "a"), (), layout, blocks=4))
    assert whole[0].tolist() == [10, 10, 10, 1, 10]


def words_with_one_rare() -> tuple[list[Floats], list[Any]]:
    """Return tables with columns of three words, and labels; of class "b" one row has the third word."""
    labels = [np.array(["a", "b"])[np.arange(60) % 2] for _ in range(4)]
    tables = []
    for at in range(4):
        code = np.arange(60) // 2 % 3  # as many of each word in each class
        code = np.where((labels[at] == "b") & (code == 2), 0, code)
        code[5] = 2 if at == 1 else code[5]
        tables.append((code[:, None] == np.arange(3)).astype(float))
    return tables, labels


def test_of_words_of_which_one_is_left_out_another_goes_as_well() -> None:
    tables, labels = words_with_one_rare()
    layout = FloorLayout(3, False, 2, 4, FLOORS[1])
    total = sum(counted(one, own, ("a", "b"), layout) for one, own in zip(tables, labels, strict=True))
    alone = judge(np.asarray(total), layout, FLOORS).why.tolist()
    whole = judge(np.asarray(total), layout, FLOORS, [(0, 3)]).why.tolist()
    assert alone[2] == FEW_IN_CLASS
    assert alone[1] == ALIKE_IN_CLASS
    assert whole == [KEPT, COMPLEMENT, FEW_IN_CLASS]


@pytest.mark.parametrize("seed", range(8))
def test_bins_join_neighbours_until_no_cell_is_small(seed: int) -> None:
    """By hand: the rows of each merged cell, of each kind, are none or enough, at enough sites."""
    rng = np.random.default_rng(seed)
    bins = 5
    groups = [[2, 0], [1, 3], [3, 2], [4]]
    rows = rng.multivariate_normal(np.zeros(5), 0.5 + 0.5 * np.eye(5), 900)
    cuts = np.quantile(rows, np.arange(1, bins) / bins)
    binned = np.searchsorted(cuts, rows)
    kind = rng.integers(0, 3, 900)
    site = rng.integers(0, 5, 900)
    counts = np.zeros((2, 3, len(groups), bins**2), np.int64)
    for at, members in enumerate(groups):
        cell = binned[:, members] @ [bins, 1][-len(members) :]
        for one in range(5):
            own = np.zeros((3, bins**2), np.int64)
            np.add.at(own, (kind[site == one], cell[site == one]), 1)
            counts[0, :, at] += np.minimum(own, FLOORS[1])
            counts[1, :, at] += own > 0
    tables = [(members, counts[:, :, at], FLOORS) for at, members in enumerate(groups)]
    stands = merge_bins(tables, 5, bins)
    assert (np.diff(stands, axis=1) >= 0).all()  # neighbours alone
    assert (stands[:, 0] == 0).all()
    assert 5 < sum(len(set(one)) for one in stands.tolist()) < 25
    merged = np.take_along_axis(stands[None], binned[:, :, None], 2)[:, :, 0]
    for members in groups:
        cells = np.column_stack([merged[:, members], kind])
        for cell in np.unique(cells, axis=0):
            inside = (cells == cell).all(axis=1)
            assert inside.sum() >= FLOORS[1]
            assert len(set(site[inside])) >= FLOORS[0]


def test_bins_with_enough_rows_stay_as_they_are() -> None:
    counts = np.full((2, 1, 9), 50)
    np.testing.assert_array_equal(merge_bins([([1, 0], counts, FLOORS)], 2, 3), [[0, 1, 2], [0, 1, 2]])
    counts[:, :, 4] = 0  # an empty cell is no harm
    np.testing.assert_array_equal(merge_bins([([1, 0], counts, FLOORS)], 2, 3), [[0, 1, 2], [0, 1, 2]])


def flags_of_two_classes(apart: int, *, opposite_at: int = -1) -> tuple[list[Floats], list[Any]]:
    """Return two flags that are equal in class "a" but in so many rows of each of the first three sites; in "b" not."""
    tables = []
    labels = []
    for at in range(4):
        place = np.arange(80)
        names = np.array(["a", "b"])[place % 2]
        flag = place // 2 % 3 == 0
        other = np.where(names == "a", flag ^ (at == opposite_at), place // 2 % 5 < 2)
        other[0 : 2 * apart * (at < 3) : 2] ^= True
        tables.append(np.column_stack([flag, other]).astype(float))
        labels.append(names)
    return tables, labels


@pytest.mark.parametrize(
    ("apart", "opposite_at", "reason"),
    [(0, -1, KEPT), (1, -1, ALIKE_IN_CLASS), (3, -1, ALIKE_IN_CLASS), (9, -1, KEPT), (0, 2, ALIKE_IN_CLASS)],
)
def test_n5_pairs_in_a_class(apart: int, opposite_at: int, reason: int) -> None:
    """Equal in all rows of a class they are no harm, if they are so at all sites."""
    tables, labels = flags_of_two_classes(apart, opposite_at=opposite_at)
    assert judged(tables, labels=labels).why.tolist() == [KEPT, reason]
    assert judged(tables).why.tolist() == [KEPT, KEPT]  # over all rows many tell them apart


@pytest.mark.parametrize(("sites", "floor"), [(3, 10), (100, 10), (5000, 1000), (2**20, 2**20)])
def test_counts_that_share_words_come_back(sites: int, floor: int) -> None:
    layout = FloorLayout(7, False, 3, sites, floor)
    rng = np.random.default_rng(0)
    numbers = rng.integers(0, 2, (4, layout.class_pairs))
    numbers[0] *= floor
    words = layout.pack(numbers)
    assert (words.astype(np.float64).astype(np.int64) == words).all()  # contributions are real numbers
    total = words * sites  # as if all sites had the same
    np.testing.assert_array_equal(layout.unpack(total), numbers * sites)
    assert layout.class_pairs == (63 if sites < 5000 else 0)


def with_total(off: int, sites: int = 4, *, at: int = 3, rows: int = 60) -> list[Floats]:
    """Return tables in which one column is the sum of two others but in so many rows of each of the first sites."""
    found = []
    for number, table in enumerate(gaussians(sites, rows=rows, columns=5)):
        table[:, at] = 2.0 * table[:, 0] - table[:, 1] + 3.0
        table[: off * (number < 3), at] += 1.0
        found.append(table)
    return found


@pytest.mark.parametrize(("off", "reason"), [(0, TOTAL), (1, TOTAL), (3, TOTAL), (4, KEPT), (20, KEPT)])
def test_n4_a_sum_of_other_columns_but_in_few_rows(off: int, reason: int) -> None:
    assert judged(with_total(off)).why.tolist() == [KEPT, KEPT, KEPT, reason, KEPT]


def test_n4_of_rows_off_at_one_site_a_few_blocks_tell() -> None:
    """All blocks of one site have a row that is off; the others say that the column may be a sum."""
    tables = with_total(0, rows=140)
    tables[1][::15, 3] += 1.0
    assert judged(tables).why[3] == TOTAL
    for table in tables:
        table[::15, 3] += 1.0
    assert judged(tables).why[3] == KEPT


def test_a_single_column_has_floors() -> None:
    labels = [np.array(["a", "b"])[np.arange(40) % 2]] * 4
    assert judged(gaussians(4, columns=1), labels=labels).kept.tolist() == [0]
    assert judged([flagged([1, 0, 0, 0])[0][:, 3:]] + [np.zeros((40, 1))] * 3).kept.tolist() == []


def test_n4_sites_of_few_rows_say_nothing() -> None:
    assert not judged(gaussians(5, rows=9, columns=5)).why.any()
    assert not judged([*gaussians(4, columns=5), *gaussians(3, rows=7, columns=5)]).why.any()


def test_n4_what_the_last_word_follows_from_is_no_total() -> None:
    words = [np.eye(4)[np.random.default_rng(at).integers(0, 4, 90)] for at in range(4)]
    layout = FloorLayout(4, False, 0, 4, FLOORS[1], (3,))
    total = sum(counted(one, np.full(90, "a"), (), layout) for one in words)
    assert not judge(np.asarray(total), layout, FLOORS, [(0, 4)]).why.any()
    assert judged(words).why.tolist() == [KEPT, KEPT, KEPT, TOTAL]  # where nobody knows that they are words


@pytest.mark.parametrize("seed", range(20))
def test_n4_never_are_more_rows_counted_than_are_off(seed: int) -> None:
    rng = np.random.default_rng(seed)
    off = int(rng.integers(0, 9))
    table = np.column_stack([rng.normal(size=(300, 3)), rng.random((300, 2)) < 0.3]).astype(float)
    last = table @ rng.integers(-2, 3, 5)
    last[rng.choice(300, off, replace=False)] += 1.0 + rng.random(off)
    layout = FloorLayout(6, False, 0, 1, FLOORS[1])
    for blocks in (1, 4):
        rows, _, may_be = layout.split(
            counted(np.column_stack([table, last]), np.full(300, "a"), (), layout, blocks=blocks)
        ).totals
        assert rows[5] <= off
        assert may_be[5] == 1
        assert not may_be[:5].any()


def most_on_a_line(x: Floats, y: Floats) -> int:
    """Return how many points one line has at most, along no axis, by trying all of them, in whole numbers."""
    points = list(zip(x.astype(int).tolist(), y.astype(int).tolist(), strict=True))
    most = max(points.count(one) for one in points)
    for a, b in points:
        for c, d in points:
            if a != c and b != d:
                most = max(most, sum((c - a) * (f - b) == (d - b) * (e - a) for e, f in points))
    return most


@pytest.mark.parametrize("seed", range(20))
def test_of_few_rows_those_that_tell_two_columns_apart_are_counted_exactly(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows = int(rng.integers(3, 40))
    x = rng.integers(0, 6, rows).astype(float)
    y = np.where(rng.random(rows) < rng.random(), 3 - 2 * x, rng.integers(-9, 6, rows))
    layout = FloorLayout(2)
    found = layout.split(counted(np.column_stack([x, y]), np.full(rows, "a"), (), layout)).pairs[0, 0]
    assert found == min(rows - most_on_a_line(x, y), FLOORS[1])


@pytest.mark.parametrize("rows", [97, 300, 1000])
@pytest.mark.parametrize("odd", [0, 1, 9])
def test_of_many_rows_no_more_are_counted_than_tell_two_columns_apart(rows: int, odd: int) -> None:
    rng = np.random.default_rng(rows)
    x = 1e4 + rng.standard_normal(rows)
    y = 32 + 1.8 * x
    y[rng.permutation(rows)[:odd]] += 5
    layout = FloorLayout(2)
    found = layout.split(counted(np.column_stack([x, y]), np.full(rows, "a"), (), layout)).pairs[0, 0]
    assert found <= odd


def test_columns_of_a_few_values_are_kept_in_small_classes() -> None:
    rng = np.random.default_rng(0)
    labels = [np.array(["a", "b"])[np.arange(16) % 2] for _ in range(5)]
    tables = [np.round(rng.normal(3, 0.2, (16, 4)), 1) for _ in labels]
    assert judged(tables, labels=labels).kept.tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("sparse", [False, True])
def test_small_cells_are_those_of_a_class_with_few_rows_or_sites(sparse: bool) -> None:
    """Against counts by hand: nine rows, ten of two sites, ten of three, many; and columns of 0 and 1."""
    rng = np.random.default_rng(0)
    tables = [np.zeros((60, 6)) for _ in range(4)]
    codes = np.repeat([0, 1, -1], 20)
    for at, table in enumerate(tables):
        table[:3, 0] = rng.random(3) + 2 if at < 3 else 0
        table[:5, 1] = rng.random(5) + 2 if at < 2 else 0
        table[:4, 2] = rng.random(4) + 2 if at < 3 else 0
        table[:20, 3] = rng.random(20) + 2
        table[20:40, :4] = 3.0
        table[40:, :] = 3.0  # of no class
        table[:2, 4] = 1
        table[:20, 5] = np.arange(20) % 2
        table[1, 5] = 7 if at == 1 else 1
    counts = sum(
        count_cells(
            [csr_array(one[:30]), csr_array(one[30:])] if sparse else [one[:30], one[30:]], codes, 2, 6, FLOORS[1]
        )
        for one in tables
    )
    found = small_cells(np.asarray(counts), (2, 6), FLOORS)
    np.testing.assert_array_equal(found[0], [COUNTS_AS_0, COUNTS_AS_0, 0, 0, 0, COUNTS_AS_1])
    np.testing.assert_array_equal(found[1], [0, 0, 0, 0, 0, COUNTS_AS_1])
    step = ColumnFloors(small_cells_as_zero=True)
    fit = StepFit()
    fit.put(small=found, why=np.zeros(6), kept=np.arange(6))
    block = csr_array(tables[1]) if sparse else tables[1]
    made = step.transform_learnt(FitContext(Columns(width=6)), fit, block, codes)
    made = made.toarray() if sparse else made
    wanted = tables[1].copy()
    wanted[:20, :2] = 0
    wanted[1, 5] = 1
    np.testing.assert_array_equal(made, wanted)
    np.testing.assert_array_equal(tables[1][1, 5], 7)
