"""Rows at one depth, as scanpy makes them on pooled rows."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

import fedgeom
from fedgeom.errors import InputError
from fedgeom.preparation import LogCounts, fit_plain
from tests.preparation.raw import counts, pooled


@pytest.mark.parametrize("sparse", [True, False])
def test_the_depth_is_the_median_of_all_sites_and_the_rest_is_log1p(sparse):
    sites = counts(sparse=sparse)
    made = fit_plain([LogCounts()], sites)
    X = pooled(sites)
    depth = X.sum(axis=1)
    assert made.fits[0].get("depth")[0] == np.median(depth[depth > 0])
    found = pooled([made.transform(site) for site in sites])
    np.testing.assert_allclose(found, np.log1p(X / depth[:, None] * np.median(depth)), rtol=1e-5)


def test_rows_without_a_count_stay_and_do_not_move_the_median():
    sites = counts(sparse=False)
    with_empty = [
        fedgeom.SiteData(s.name, np.vstack([s.X, np.zeros((3, s.shape[1]))]), [*s.y, "B", "B", "B"]) for s in sites
    ]
    made, plain = fit_plain([LogCounts()], with_empty), fit_plain([LogCounts()], sites)
    assert made.fits[0].get("depth")[0] == plain.fits[0].get("depth")[0]
    assert not made.transform(with_empty[0]).X[-1].any()


def test_a_target_needs_no_sum_and_tables_stay_sparse_and_small():
    sites = counts()
    step = LogCounts(target_sum=100.0)
    assert step.sums() == ()
    table = fit_plain([step], sites).transform(sites[0]).table
    assert sp.issparse(table)
    assert table.dtype == np.float32
    np.testing.assert_allclose(np.expm1(table.toarray()).sum(axis=1), 100, rtol=1e-4)


def test_numbers_below_zero_are_no_counts():
    sites = counts(sparse=False)
    sites[1] = fedgeom.SiteData("s1", -sites[1].X, sites[1].y, columns=sites[1].columns)
    with pytest.raises(InputError, match=r"below 0, down to .* no counts"):
        fedgeom.run(fedgeom.Ridge(features="linear", prepare=["log-counts"]), sites)


def test_it_is_scanpys():
    scanpy, anndata = pytest.importorskip("scanpy"), pytest.importorskip("anndata")
    sites = counts()
    cells = anndata.AnnData(pooled(sites).astype(np.float32))
    scanpy.pp.normalize_total(cells)
    scanpy.pp.log1p(cells)
    made = fit_plain([LogCounts()], sites)
    np.testing.assert_allclose(pooled([made.transform(site) for site in sites]), cells.X, atol=2e-6)
