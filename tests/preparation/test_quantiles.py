"""Medians by counting bins."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedgeom.data.sites import SiteData
from fedgeom.federation.steps import StepFit
from fedgeom.preparation import Impute, LogCounts, fit_plain
from fedgeom.preparation.quantiles import (
    SortedColumns,
    from_keys,
    group_means,
    medians,
    rounds,
    sort_keys,
    take_bins,
)

NUMBERS = st.lists(st.floats(-(2.0**90), 2.0**90, width=32), min_size=1, max_size=40)


def found_median(parts, bits):
    fit = StepFit()
    in_order = [SortedColumns.of([part], part.shape, 1) for part in parts]
    for done in range(rounds(bits)):
        total = sum(one.count(fit, done) for one in in_order)
        take_bins(fit, total, done)
    return medians(fit, bits)


@given(NUMBERS)
def test_keys_keep_the_order_and_come_back(values):
    numbers = np.array(values, np.float32)
    keys = sort_keys(numbers)
    assert (np.diff(keys[np.argsort(numbers, kind="stable")].astype(np.int64)) >= 0).all()
    np.testing.assert_array_equal(from_keys(keys), numbers.astype(np.float64))


@given(NUMBERS, st.integers(1, 4))
def test_with_all_bits_a_median_is_exact(values, sites):
    X = np.array(values, np.float32)[:, None]
    wanted = np.median(X.astype(np.float64), axis=0)
    np.testing.assert_array_equal(found_median([X[i::sites] for i in range(sites)], 32), wanted)


@pytest.mark.parametrize("bits", [12, 16, 20, 24, 28])
def test_with_fewer_bits_it_is_off_by_a_bin_at_most(bits):
    X = np.random.default_rng(0).lognormal(3, 2, (201, 5)).astype(np.float32)
    found, wanted = found_median([X[:70], X[70:]], bits), np.median(X, axis=0)
    assert (np.abs(found - wanted) <= 2.0 ** -(bits - 9) * np.abs(wanted)).all()


def contributions(sites, step, floors):
    """Return what each site adds to each sum of bins, and the preparation."""
    found = []

    def watch(fitting):
        if fitting.next()[0] == "bins":
            found.append([fitting.summand(site, {}) for site in sites])

    made = fit_plain([step], sites, floors=floors, watch=watch)
    return np.concatenate([np.ravel(one) for one in found]), made


def some_sites(rows=(40, 25, 33), seed=0):
    rng = np.random.default_rng(seed)
    return [SiteData(f"s{at}", rng.lognormal(1, 1, (n, 1)), np.zeros(n)) for at, n in enumerate(rows)]


@given(st.integers(1, 12), st.integers(0, 60))
def test_groups_are_of_neighbours_and_large_enough(least, rows):
    cells = np.random.default_rng(rows).normal(size=(rows, 2))
    there = np.ones(cells.shape, bool)
    there[: rows // 3, 1] = False
    for column in (0, 1):
        numbers = cells[there[:, column], column]
        means, sizes = group_means(numbers, least)
        left = sorted(numbers)
        assert (sizes >= least).all()
        assert sizes.sum() == (len(left) if len(left) >= least else 0)
        for mean, size in zip(means, sizes, strict=True):
            group, left = left[:size], left[size:]
            assert mean == pytest.approx(np.mean(group))


@pytest.mark.parametrize(
    ("numbers", "means"),
    [
        ([0] * 4 + [1] * 8, [0, 1, 1]),
        ([0] * 7 + [1] * 5, [0, 0, 1]),  # the second group has one 1
        ([0] * 5 + [1] * 7, [0, 1, 1]),
        ([0] * 6 + [1] * 2, [0, 0]),  # no group has nothing but 1
        ([0] * 6 + [1, 2], [0, 0.75]),  # three values: their mean
        ([0, 1, 1, 2, 3, 5, 5, 5], [1, 4.5]),  # none fills a group
    ],
)
def test_a_group_of_two_values_has_one_that_fills_a_group(numbers, means):
    found, sizes = group_means(np.array(numbers, float), 4)
    np.testing.assert_array_equal(found, means)
    assert sizes.tolist() == [4] * len(means)


@given(st.integers(0, 1000), st.integers(1, 5))
def test_counts_are_those_of_each_number_by_itself(seed, least):
    """Against a count of keys, one after the other; blocks of rows are one column."""
    rng = np.random.default_rng(seed)
    cells = np.round(rng.normal(size=(int(rng.integers(0, 40)), 2)), 1)
    cells[rng.random(cells.shape) < 0.2] = np.nan
    in_order = SortedColumns.of([cells[:7], cells[7:]], cells.shape, least)
    fit = StepFit()
    for done in range(rounds(32)):
        wanted = np.zeros((2, 2, 16), int)
        prefix = fit.get("prefix") if done else np.zeros((2, 2), int)
        divided = fit.get("divided") if done else np.ones((2, 2))
        for column in (0, 1):
            means, sizes = group_means(cells[np.isfinite(cells[:, column]), column], least)
            for key, size in zip(sort_keys(means).tolist(), sizes, strict=True):
                for which in (0, 1):
                    if divided[column, which] and key >> (32 - 4 * done) == prefix[column, which]:
                        wanted[column, which, key >> (28 - 4 * done) & 15] += size
        found = in_order.count(fit, done)
        np.testing.assert_array_equal(found, wanted.ravel())
        take_bins(fit, found, done)


@pytest.mark.parametrize("step", [Impute(), LogCounts()])
def test_n1_no_row_can_be_located_by_counts_of_bins(step):
    """Any row may be elsewhere, with another of its group, and no site adds anything else to any sum."""
    sites = some_sites()
    usual, _ = contributions(sites, step, (2, 10))
    for site in sites:
        order = np.argsort(site.X[:, 0])
        groups = np.array_split(order[: 10 * (len(site) // 10)], len(site) // 10)
        groups[-1] = np.concatenate([groups[-1], order[10 * (len(site) // 10) :]])
        for row in range(len(site)):
            group = next(one for one in groups if row in one)
            other = group[0] if row != group[0] else group[-1]
            changed = site.X.copy()
            changed[[row, other]] = changed[[row, other]].mean()
            assert abs(changed[row] - site.X[row]) > 1e-4
            moved = [replace(one, table=changed) if one is site else one for one in sites]
            np.testing.assert_array_equal(contributions(moved, step, (2, 10))[0], usual)


def test_n1_with_no_floors_rows_are_counted_one_by_one():
    sites = some_sites()
    usual, made = contributions(sites, Impute(bits=32), (1, 1))
    assert made.fits[0].get("value") == np.median(np.concatenate([site.X for site in sites]).astype(np.float32))
    assert (usual == 1).any()


@given(st.integers(0, 1000), st.sampled_from([(12, 12), (40, 25, 33), (500, 11, 80), (9000, 70)]))
def test_n1_the_rank_is_off_by_less_than_a_few_groups(seed, rows):
    sites = some_sites(rows, seed)
    _, made = contributions(sites, Impute(bits=32), (2, 10))
    pooled = np.concatenate([site.X[:, 0] for site in sites])
    rank = (pooled < made.fits[0].get("value")[0]).sum()
    assert abs(rank - len(pooled) / 2) <= (len(sites) + 2) * 10


def test_n1_bins_of_few_rows_are_not_divided():
    usual, _ = contributions(some_sites(), Impute(bits=32), (2, 10))
    many, _ = contributions(some_sites((4000, 4000, 4000)), Impute(bits=32), (2, 10))
    assert len(usual) < len(many) < len(contributions(some_sites(), Impute(bits=32), (1, 1))[0])
    assert set(np.unique(usual[usual > 0] >= 10)) == {True}


def test_n1_the_most_frequent_number_has_many_rows():
    sites = some_sites()
    tables = [np.where(np.arange(len(site)) % 2, 7.0, site.X[:, 0])[:, None] for site in sites]
    sites = [
        replace(site, table=np.column_stack([table, site.X])) for site, table in zip(sites, tables, strict=True)
    ]
    counts, made = contributions(sites, Impute("most-frequent", add_indicator=False), (2, 10))
    assert made.fits[0].get("value").tolist() == [7.0]  # no number of the other column is in ten rows of a site
    assert (counts % 10 == 0).all()
