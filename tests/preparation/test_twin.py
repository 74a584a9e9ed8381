"""Secure runs prepare rows as scikit-learn, scanpy and `twin.py` prepare those of all sites in one place."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from sklearn import decomposition

import fedgeom
from fedgeom.data.sites import SiteData
from fedgeom.preparation import PCA, Impute, LogCounts, OneHot, Scale, SelectVariable, ToDisc
from tests.preparation import twin
from tests.preparation.raw import WORDS, clinical, counts, pooled


def prepared(steps: Any, sites: list[SiteData], policy: fedgeom.Policy | None = None, **settings: Any) -> Any:
    """Prepare rows in a whole secure run; return what it came to, and all rows after it."""
    usual: dict[str, Any] = {"rule": "centroid", "space": "euclidean"}
    run = fedgeom.run(fedgeom.Moments(**usual | settings, prepare=steps), sites, seed=2, policy=policy)
    sums = [entry for entry in run.ledger if entry.kind == "sum.masked"]
    assert len(sums) > len(sites) or all(not step.sums() for step in steps)
    made = run.model.preparation
    return made, np.vstack([made.transform(site).X for site in sites])


def numbers(gaps: bool = True) -> list[SiteData]:
    """Return columns of numbers of unlike units: with gaps but for the last, or without and the last constant."""
    found = []
    for site in clinical():
        X = site.X[:, :3] if gaps else np.nan_to_num(site.X[:, :3], nan=2.0)
        last = np.arange(len(site)) % 7 if gaps else np.full(len(site), 2.7)
        found.append(SiteData(site.name, np.column_stack([X, last]), site.y, columns=tuple("abcd")))
    return found


@pytest.mark.parametrize("limit", [None, 1.2])
def test_scale(limit: float | None) -> None:
    sites = numbers(gaps=False)
    made, found = prepared([Scale(max_value=limit)], sites)
    assert made.columns.names == ("a", "b", "c")
    np.testing.assert_allclose(found, twin.scaled(pooled(sites), limit), atol=1e-9)


@pytest.mark.parametrize(
    ("strategy", "near"), [("mean", 1e-9), ("median", 4e-5), ("most-frequent", 1e-12)], ids=str
)
@pytest.mark.parametrize("indicators", [True, False])
def test_impute(strategy: Any, near: float, indicators: bool) -> None:
    sites = numbers()
    if strategy == "most-frequent":
        sites = [replace(site, table=np.round(site.X / [1, 10, 0.02, 1])) for site in sites]
    _, found = prepared([Impute(strategy=strategy, add_indicator=indicators)], sites)
    wanted = twin.filled(pooled(sites), strategy.replace("-", "_"), indicators)
    np.testing.assert_allclose(found, wanted, rtol=near)


def test_a_median_of_all_bits_is_exact() -> None:
    sites = [replace(site, table=np.round(site.X * [10, 1, 100, 1])) for site in numbers()]
    _, found = prepared([Impute(bits=32)], sites)
    np.testing.assert_array_equal(found, twin.filled(pooled(sites), "median", True))


def test_the_most_frequent_of_very_many_numbers() -> None:
    """Most numbers of a column are there once; the same one is in a quarter of its rows."""
    rng = np.random.default_rng(0)
    sites = []
    for name in "nsew":
        X = rng.normal(size=(500, 6))
        X = np.where(rng.random(X.shape) < 0.25, [0.1, 0.37, -2.25, 3.7, 1e-3, -1 / 3], X).astype(np.float32)
        X[rng.random(X.shape) < 0.1] = np.nan
        sites.append(SiteData(name, X, np.where(np.arange(500) % 2, "ill", "well")))
    _, found = prepared([Impute("most-frequent", add_indicator=False)], sites)
    np.testing.assert_array_equal(found, twin.filled(pooled(sites), "most_frequent", False))


def cells(sites: list[SiteData]) -> tuple[np.ndarray, np.ndarray]:
    """Return the words of the last column, and whose rows they are in."""
    codes = pooled(sites)[:, 3]
    words = np.array([WORDS[int(one)] if np.isfinite(one) else "" for one in codes])
    return words, np.repeat([site.name for site in sites], [len(site) for site in sites])


@pytest.mark.parametrize(
    ("settings", "floors"),
    [
        ({"min_rows": 2}, (2, 1)),
        ({"min_rows": 30}, (30, 1)),
        ({"min_rows": 1, "min_sites": 4}, (1, 4)),
    ],
    ids=["all", "rare ones together", "at every site"],
)
def test_one_hot(settings: Any, floors: tuple[int, int]) -> None:
    sites = clinical()
    sites[1].table[1:9, 3] = 3.0  # "z" is at every site, but often at one only
    sites[2].table[0, 3] = 0.0
    made, found = prepared([OneHot(**settings), Impute("mean", add_indicator=False)], sites)
    names, wanted = twin.categories(*cells(sites), *floors)
    said = {"": "ward is missing", "is another": "ward is another"}
    assert made.columns.names[3:] == tuple(said.get(name, f"ward = {name}") for name in names)
    np.testing.assert_array_equal(found[:, 3:], wanted)
    np.testing.assert_allclose(found[:, :3], twin.filled(pooled(sites)[:, :3], "mean", False), rtol=1e-9)


def test_where_policies_have_floors_the_rarest_word_joins_words_that_are_too_rare() -> None:
    sites = clinical()
    sites[1].table[1:9, 3] = 3.0
    sites[2].table[0, 3] = 0.0
    policy = fedgeom.Policy(single_site_classes=False, min_sites=2, min_rows=12)
    made, found = prepared([OneHot(min_rows=1), Impute("mean", add_indicator=False)], sites, policy)
    words, _ = cells(sites)
    # All columns of numbers stay: enough rows of each class tell them from one another.
    assert made.columns.names == ("age", "crp", "bmi", "ward = a", "ward = b", "ward = c", "ward is another")
    np.testing.assert_array_equal(found[:, 6], np.isin(words, ["", "z"]))
    np.testing.assert_array_equal(found[:, 3:].sum(axis=1), 1)


def test_rare_words_share_a_column_in_some_case() -> None:
    sites = clinical()
    names, _ = twin.categories(*cells(sites), 4, 5)
    assert names[-1] == "is another"


@pytest.mark.parametrize("target", [None, 60.0])
@pytest.mark.parametrize("sparse", [True, False])
def test_log_counts(sparse: bool, target: float | None) -> None:
    sites = counts(sparse=sparse)
    _, found = prepared([LogCounts(target_sum=target)], sites)
    np.testing.assert_allclose(found, twin.log_counts(pooled(sites), target), rtol=1e-5, atol=1e-6)


def by_scanpy(sites: list[SiteData], flavor: str, count: int) -> list[str]:
    """Return the columns that scanpy chooses of all sites' rows."""
    scanpy = pytest.importorskip("scanpy")
    anndata = pytest.importorskip("anndata")
    found = anndata.AnnData(pooled(sites).astype(np.float32))
    found.var_names = list(sites[0].columns)
    found.obs["site"] = np.repeat([site.name for site in sites], [len(site) for site in sites])
    if flavor != "seurat-v3":
        scanpy.pp.normalize_total(found)
        scanpy.pp.log1p(found)
    options = {"batch_key": "site"} if flavor == "sites" else {}
    name = "seurat_v3" if flavor == "seurat-v3" else "seurat"
    scanpy.pp.highly_variable_genes(found, n_top_genes=count, flavor=name, **options)
    return list(found.var_names[found.var["highly_variable"]])


@pytest.mark.parametrize("flavor", ["seurat", "seurat-v3", "sites"])
def test_select_variable_as_scanpy_does(flavor: Any) -> None:
    if flavor == "seurat-v3":
        pytest.importorskip("skmisc")
    sites = counts(columns=200, rows=80)
    first = [] if flavor == "seurat-v3" else [LogCounts()]
    made, _ = prepared([*first, SelectVariable(20, flavor=flavor)], sites)
    assert list(made.columns.names) == by_scanpy(sites, flavor, 20)


def test_select_by_variance_alone() -> None:
    sites = counts()
    made, found = prepared([SelectVariable(9, flavor="variance")], sites)
    kept = twin.most_varied(pooled(sites), 9)
    assert made.columns.names == tuple(f"g{at}" for at in kept)
    np.testing.assert_array_equal(found, pooled(sites)[:, kept])


@pytest.mark.parametrize("exact", [500, 1], ids=["from products", "by iteration"])
def test_pca(exact: int) -> None:
    sites = counts(columns=120, sparse=False)
    sites = [replace(site, table=np.log1p(site.X)) for site in sites]
    made, found = prepared([PCA(4, exact_columns=exact)], sites)
    X = pooled(sites)
    near = 1e-6 if exact > 1 else 5e-3  # the iteration ends a little beside
    np.testing.assert_allclose(found, twin.components(X, 4), atol=near * np.abs(found).max())
    variances = decomposition.PCA(4, svd_solver="full").fit(X).explained_variance_
    np.testing.assert_allclose(made.fits[0].get("variances"), variances, rtol=near)


@pytest.mark.parametrize(("classes", "mirrored"), [(2, False), (3, False), (2, True)])
@pytest.mark.parametrize("curvature", [1.0, 2.0])
def test_to_disc(curvature: float, classes: int, mirrored: bool) -> None:
    """Mirrored: all sites' means of a class are the same, so that two classes leave the second direction open."""
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(3, 5)) * 2
    sites = []
    for at in range(4):
        y = rng.integers(0, classes, 40)
        noise = rng.normal(size=(40, 5))
        if mirrored:
            y[20:] = y[:20]
            noise[20:] = -noise[:20]
        words = np.array([f"{word}{at}" for word in "abc"])[y]  # each site has words of its own
        sites.append(SiteData(f"s{at}", (centres[y] + noise) * [1, 9, 1, 0.1, 1], words))
    step = ToDisc(curvature=curvature, spread=0.8)
    _, found = prepared([step], sites, space="ball", curvature=curvature)
    owners = np.repeat([site.name for site in sites], 40)
    words = np.concatenate([site.y for site in sites])
    np.testing.assert_allclose(found, twin.disc(pooled(sites), words, owners, curvature, 0.8), atol=1e-6)


def test_steps_one_after_the_other() -> None:
    """Words, gaps, scale and components of a clinical table, as one would write them for a table in one place."""
    sites = clinical(rows=60)
    made, found = prepared([OneHot(min_rows=20), Impute("mean"), Scale(), PCA(3)], sites)
    X = pooled(sites)
    _, wards = twin.categories(*cells(sites), 20)
    whole = twin.filled(np.hstack([X[:, :3], wards]), "mean", True)
    np.testing.assert_allclose(found, twin.components(twin.scaled(whole), 3), atol=1e-6)
    assert made.columns.width == 3


@pytest.mark.parametrize("strategy", ["mean", "median", "most-frequent"])
@pytest.mark.usefixtures("fixed_noise")
def test_with_little_noise_private_steps_learn_of_numbers_in_their_ranges(strategy: Any) -> None:
    """ε = 40 in three parts; numbers beyond a range count as its end."""
    rng = np.random.default_rng(1)
    sites = []
    for name in "nsew":
        X = rng.normal(size=(3000, 3)) * [15, 0.5, 4] + [50, 0.2, 3]
        if strategy == "median":
            X[:, 2] = rng.exponential(4, 3000)  # a bin is not as full on its left as on its right
        X = np.round(X) if strategy == "most-frequent" else X
        X[rng.random(X.shape) < 0.2] = np.nan
        sites.append(
            SiteData(name, X, np.where(np.arange(3000) % 2, "ill", "well"), columns=("age", "dose", "stay"))
        )
    ranges = {"age": [20.0, 70.0], "dose": [-1.0, 1.0], "stay": [-9.0, 20.0]}
    steps = [Impute(strategy, add_indicator=False, ranges=ranges), Scale(ranges=ranges)]
    privacy = fedgeom.DP(epsilon=40.0, delta=0.01, clip=3.0)
    made, _ = prepared(steps, sites, classes=("ill", "well"), min_sites=4, privacy=privacy)
    cut = np.clip(pooled(sites), [20, -1, -9], [70, 1, 20])
    gaps = np.isnan(cut)
    if strategy == "most-frequent":
        value = [np.bincount((column[~np.isnan(column)] + 100).astype(int)).argmax() - 100 for column in cut.T]
    else:
        value = np.nanmean(cut, axis=0) if strategy == "mean" else np.nanmedian(cut, axis=0)
    wide = np.array([50.0, 2.0, 29.0])
    assert (np.abs(made.fits[0].get("value") - value) < 0.003 * wide).all()
    whole = np.where(gaps, made.fits[0].get("value"), cut)
    np.testing.assert_allclose(made.fits[1].get("mean"), whole.mean(axis=0), atol=0.004 * wide.max())
    np.testing.assert_allclose(made.fits[1].get("deviation"), whole.std(axis=0), rtol=0.02)
