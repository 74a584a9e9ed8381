"""Partitions: every row at one site, and each skew is the one that its name says."""

from __future__ import annotations

import numpy as np
import pytest

import fedgeom
from fedgeom.errors import InputError
from fedgeom.partition import (
    IID,
    ByColumn,
    Dirichlet,
    FeatureNoise,
    FeatureSkew,
    Pathological,
    QuantitySkew,
    Shards,
    natural,
)

RNG = np.random.default_rng(0)
X = np.column_stack([np.arange(600.0), RNG.normal(size=(600, 3))])
Y = RNG.integers(0, 10, 600)
ALL = (
    IID(),
    Dirichlet(0.1, min_rows=5),
    Pathological(3),
    Shards(2),
    QuantitySkew(0.3, min_rows=4),
    FeatureSkew(0.9),
)


@pytest.mark.parametrize("partition", ALL, ids=repr)
def test_every_row_goes_to_one_site_the_same_for_the_same_seed(partition):
    found = partition.over(X, Y, n_sites=8, seed=3)
    at = np.concatenate([site.X[:, 0] for site in found.sites])
    assert sorted(at) == X[:, 0].tolist()
    for site in found.sites:
        assert (site.y == Y[site.X[:, 0].astype(int)]).all()
    same, other = (np.concatenate([s.X[:, 0] for s in partition.over(X, Y, 8, seed).sites]) for seed in (3, 4))
    assert np.array_equal(at, same)
    assert not np.array_equal(at, other)
    split = fedgeom.split(X, Y, 8, how=partition, seed=3)
    assert all(np.array_equal(a.X, b.X) for a, b in zip(split, found.sites, strict=True))
    assert (found.counts == [[np.sum(site.y == one) for one in range(10)] for site in split]).all()


@pytest.mark.parametrize("seed", range(5))
def test_pathological_sites_have_so_many_classes_and_no_class_is_lost(seed):
    for sites, classes in ((8, 3), (5, 2), (20, 1), (4, 10)):
        counts = Pathological(classes).over(X, Y, sites, seed).counts
        assert ((counts > 0).sum(axis=1) == classes).all()
        assert (counts.sum(axis=0) == np.bincount(Y)).all()
    with pytest.raises(
        InputError, match="classes_per_site=2 given for 10 classes and 4 sites; wanted from 3 to 10"
    ):
        Pathological(2).over(X, Y, 4)


def test_shards_are_as_large_and_of_few_classes():
    found = Shards(2).over(X, np.sort(Y), 10)
    assert {len(site) for site in found.sites} == {60}
    assert ((found.counts > 0).sum(axis=1) <= 4).all()  # a shard of 30 rows has rows of two classes at most
    with pytest.raises(InputError, match="per_site=100 given, 1000 shards of 600 rows"):
        Shards(100).over(X, Y, 10)


def test_quantity_and_features_are_skewed_and_labels_are_not():
    sizes = [len(site) for site in QuantitySkew(0.3, min_rows=4).over(X, Y, 8).sites]
    assert min(sizes) >= 4
    assert max(sizes) > 3 * min(sizes)
    rng = np.random.default_rng(1)
    rows = rng.normal(size=(4000, 5))
    y = rng.integers(0, 4, 4000)
    for strength, low, high in ((1.0, 1.0, 9.0), (0.0, 0.0, 0.25)):
        found = FeatureSkew(strength).over(rows, y, 4)
        means = np.array([site.X.mean(axis=0) for site in found.sites])
        assert low <= np.linalg.norm(means[-1] - means[0]) <= high
        assert found.skew < 0.1
    noisy = FeatureNoise(4.0).over(rows, y, 4)
    spread = [site.X.std() for site in noisy.sites]
    np.testing.assert_allclose(spread, np.sqrt([2, 3, 4, 5]), rtol=0.05)  # variance 1 + noise·i/4


def test_skew_is_what_one_counts_by_hand():
    """Two sites with one class each of two: half of each site's rows would have to change."""
    one = fedgeom.SiteData("a", np.zeros((4, 1)), ["x"] * 4)
    two = fedgeom.SiteData("b", np.zeros((4, 1)), ["y"] * 4)
    assert natural([one, two]).skew == 0.5
    assert natural([one, one]).skew == 0.0
    assert IID().over(X, Y, 3).skew < 0.02 < Dirichlet(0.1).over(X, Y, 8).skew


def test_by_column_of_a_frame_which_is_no_feature_then():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X, columns=list("abcd")).assign(ward=np.tile(["east", "west", "north"], 200))
    found = ByColumn("ward").over(frame, Y)
    assert [site.name for site in found.sites] == ["east", "north", "west"]
    assert found.sites[0].columns == tuple("abcd")
    assert [len(site) for site in fedgeom.split(frame, Y, how=ByColumn("ward"))] == [200] * 3
    with pytest.raises(InputError, match="X has no column 'hall'; it has a, b, c, d, ward"):
        ByColumn("hall").over(frame, Y)
    with pytest.raises(InputError, match="is for frames"):
        ByColumn("ward").over(X, Y)


def test_they_print_and_plot_themselves(tmp_path):
    found = Dirichlet(0.1).over(X, Y, 30, seed=2)
    text = repr(found)
    assert text.startswith("Dirichlet(alpha=0.1, min_rows=1), seed 2: 30 sites with ")
    assert "10 more" in text
    assert "<table>" in found._repr_html_()
    first = found.counts[0]
    assert f"{len(found.sites[0])}" in text.splitlines()[2]
    figure = found.plot(tmp_path / "p.png")
    assert (tmp_path / "p.png").stat().st_size > 5000
    drawn = [bar.get_width() for bars in figure.axes[0].containers for bar in list(bars)[:1]]
    assert drawn == first.tolist()
    assert len(found.frame()) == 300
    assert [site.name for site in fedgeom.split(X, Y, 3, how="shards")] == ["site-1", "site-2", "site-3"]
