"""Columns on one scale, as scikit-learn scales pooled rows."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.preprocessing import StandardScaler

from fedgeom.data.sites import SiteData
from fedgeom.errors import InputError
from fedgeom.preparation import Clip, Scale, fit_plain
from tests.preparation.raw import counts, pooled


def tables(unit=1.0, seed=0):
    rng = np.random.default_rng(seed)
    return [SiteData(f"s{i}", unit * (rng.normal(size=(30 + i, 4)) + 3 * i), np.zeros(30 + i)) for i in range(4)]


@pytest.mark.parametrize("unit", [1e-9, 1e-3, 1.0, 1e5, 1e12])
def test_it_is_the_scale_of_pooled_rows_in_whatever_unit(unit):
    sites = tables(unit)
    made = fit_plain([Scale()], sites)
    found = pooled([made.transform(s) for s in sites])
    np.testing.assert_allclose(found, StandardScaler().fit_transform(pooled(sites)), atol=1e-6)


def test_constant_columns_are_left_out():
    sites = [SiteData(s.name, np.column_stack([s.X, np.full(len(s), 7.3)]), s.y) for s in tables()]
    assert fit_plain([Scale()], sites).columns.width == 4


def test_a_limit_holds_back_what_is_far_out():
    sites = tables()
    made = fit_plain([Scale(max_value=1.0)], sites)
    assert np.abs(pooled([made.transform(s) for s in sites])).max() == 1.0


def test_clip_keeps_numbers_within_ranges_of_the_terms_and_leaves_gaps():
    sites = [SiteData(s.name, s.X, s.y, columns=tuple("abcd")) for s in tables()]
    sites[0].table[0, 1] = np.nan
    made = fit_plain([Clip(ranges={"b": [0, 1]})], sites)
    X = pooled(sites)
    np.testing.assert_array_equal(pooled([made.transform(s) for s in sites])[:, 1], np.clip(X[:, 1], 0, 1))
    np.testing.assert_array_equal(pooled([made.transform(s) for s in sites])[:, [0, 2, 3]], X[:, [0, 2, 3]])
    everywhere = fit_plain([Clip(ranges=[-1, 1])], sites)
    np.testing.assert_array_equal(pooled([everywhere.transform(s) for s in sites]), np.clip(X, -1, 1))
    with pytest.raises(InputError, match="clip without ranges"):
        Clip()


def test_a_sparse_table_is_scaled_and_float32_stays():
    sites = counts()
    made = fit_plain([Scale()], sites)
    assert made.transform(sites[0]).table.dtype == np.float32
    wanted = StandardScaler().fit_transform(pooled(sites))
    np.testing.assert_allclose(
        pooled([made.transform(s) for s in sites]), wanted[:, wanted.std(axis=0) > 0], atol=1e-4
    )
