"""The rule of columns: what few rows or sites set apart is left out, and counts never exceed what is there."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array

from fedgeom.arrays import Floats, Ints
from fedgeom.federation.disclosure import (
    ALIKE,
    COMPLEMENT,
    FEW,
    FEW_IN_CLASS,
    KEPT,
    FloorLayout,
    Judgement,
    count_looks,
    judge,
    merge_bins,
)

FLOORS = (3, 10)


def counted(table: Any, labels: Any, classes: tuple[str, ...], layout: FloorLayout, *, blocks: int = 1) -> Ints:
    """Return one site's counts, of rows that come in so many blocks."""
    places = np.array_split(np.arange(table.shape[0]), blocks)
    pieces = [table[at[0] : at[-1] + 1] for at in places if len(at)]
    return count_looks(pieces, labels, classes, layout, FLOORS[1], b"key")


def judged(sites: list[Floats], *, gaps: bool = False, labels: list[Any] | None = None) -> Judgement:
    """Return what is left out of some sites' tables."""
    classes = () if labels is None else ("a", "b")
    layout = FloorLayout(sites[0].shape[1], gaps, len(classes))
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
        whole, _, pairs = layout.split(one)
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
    whole, _, _ = layout.split(counted(csr_array(table), np.full(300, "a"), (), layout, blocks=4))
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
    layout = FloorLayout(3, False, 2)
    total = sum(counted(one, own, ("a", "b"), layout) for one, own in zip(tables, labels, strict=True))
    alone = judge(np.asarray(total), layout, FLOORS).why.tolist()
    whole = judge(np.asarray(total), layout, FLOORS, [(0, 3)]).why.tolist()
    assert alone[2] == FEW_IN_CLASS
    assert alone[1] == KEPT
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
    stands = merge_bins(counts, groups, 5, bins, FLOORS)
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
    counts = np.full((2, 1, 1, 9), 50)
    np.testing.assert_array_equal(merge_bins(counts, [[1, 0]], 2, 3, FLOORS), [[0, 1, 2], [0, 1, 2]])
    counts[:, :, :, 4] = 0  # an empty cell is no harm
    np.testing.assert_array_equal(merge_bins(counts, [[1, 0]], 2, 3, FLOORS), [[0, 1, 2], [0, 1, 2]])
