"""Which columns vary most, as scanpy says it of pooled rows."""

from __future__ import annotations

import numpy as np
import pytest

from fedgeom.preparation import LogCounts, SelectVariable, fit_plain
from fedgeom.preparation.select_variable import highest, mean_and_variance, normalised_dispersions
from tests.preparation.raw import counts, pooled

FLAVORS = {
    "seurat": ([LogCounts(), SelectVariable(20)], {"flavor": "seurat"}),
    "seurat-v3": ([SelectVariable(20, flavor="seurat-v3")], {"flavor": "seurat_v3"}),
    "sites": ([LogCounts(), SelectVariable(20, flavor="sites")], {"flavor": "seurat", "batch_key": "site"}),
}


@pytest.mark.parametrize("name", FLAVORS)
@pytest.mark.parametrize("seed", range(3))
def test_it_chooses_what_scanpy_chooses(name, seed):
    scanpy, anndata = pytest.importorskip("scanpy"), pytest.importorskip("anndata")
    if name == "seurat-v3":
        pytest.importorskip("skmisc")
    steps, options = FLAVORS[name]
    sites = counts(columns=200, rows=80, seed=seed)
    cells = anndata.AnnData(pooled(sites).astype(np.float32))
    cells.var_names = list(sites[0].columns)
    cells.obs["site"] = np.repeat([site.name for site in sites], [len(site) for site in sites])
    if name != "seurat-v3":
        scanpy.pp.normalize_total(cells)
        scanpy.pp.log1p(cells)
    scanpy.pp.highly_variable_genes(cells, n_top_genes=20, **options)
    assert list(fit_plain(steps, sites).columns.names) == list(cells.var_names[cells.var["highly_variable"]])


@pytest.mark.parametrize("flavor", ["seurat", "seurat-v3", "sites"])
def test_columns_that_differ_between_classes_are_among_the_chosen(flavor):
    sites = counts(rows=100, columns=140)
    first = [] if flavor == "seurat-v3" else [LogCounts()]
    chosen = fit_plain([*first, SelectVariable(30, flavor=flavor)], sites).columns
    assert len(chosen.names) == chosen.width >= 30
    assert chosen.width < 140


def test_no_sum_is_taken_where_all_columns_are_kept():
    made = fit_plain([SelectVariable(1000)], counts())
    assert made.columns.width == 60
    assert not made.fits[0].arrays


def test_how_the_rows_are_spread_makes_no_difference():
    sites = counts()
    steps = [LogCounts(), SelectVariable(15)]
    one = [
        type(sites[0])(
            "all", pooled(sites).astype(np.float32), np.concatenate([s.y for s in sites]), columns=sites[0].columns
        )
    ]
    assert fit_plain(steps, sites).columns == fit_plain(steps, one).columns


def test_moments_and_scores_by_hand():
    mean, variance = mean_and_variance(4, np.array([4.0, 8.0]), np.array([4.0, 24.0]))
    np.testing.assert_allclose([mean, variance], [[1, 2], [0, 8 / 3]])
    scores = normalised_dispersions(np.array([1.0, 1.0, 9.0]), np.array([1.0, np.e**2, 5.0]))
    np.testing.assert_allclose(scores, [-np.sqrt(0.5), np.sqrt(0.5), 1.0])
    assert highest(np.array([3.0, np.nan, 5.0, 1.0]), 2).tolist() == [True, False, True, False]
