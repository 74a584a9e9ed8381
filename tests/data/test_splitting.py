"""One data set into sites: dealt, skewed, or by a column."""

from __future__ import annotations

import numpy as np
import pytest

from fedgeom.data.split import split
from fedgeom.errors import InputError


def test_every_row_goes_to_one_site():
    X, y = np.arange(60.0)[:, None], np.repeat(["a", "b", "c"], 20)
    for sites in (
        split(X, y, 7),
        split(X, y, 7, "dirichlet", alpha=0.1),
        split(X, y, how="by", by=np.arange(60) % 7),
    ):
        assert len(sites) == 7
        assert sorted(np.concatenate([site.X[:, 0] for site in sites])) == X[:, 0].tolist()
        for site in sites:
            assert (site.y == y[site.X[:, 0].astype(int)]).all()
    even = [list(site.class_counts().values()) for site in split(X, y, 4)]
    assert even == [[5, 5, 5]] * 4


def test_seeds_names_and_extras_of_a_split():
    X, y = np.arange(30.0)[:, None], [0, 1] * 15
    for how in ("iid", "dirichlet"):
        one, same, other = (np.concatenate([s.X for s in split(X, y, 3, how, seed)]) for seed in (1, 1, 2))
        assert np.array_equal(one, same)
        assert not np.array_equal(one, other)
    assert [site.name for site in split(X, y, 10)] == [f"site-{i:02d}" for i in range(1, 11)]
    assert [site.name for site in split(X, y, how="by", by=["n", "s"] * 15)] == ["n", "s"]
    first = split(X, y, 2, names=["a", "b"], extra={"twice": 2 * X[:, 0]})[0]
    assert first.name == "a"
    assert (first.extra["twice"] == 2 * first.X[:, 0]).all()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"n_sites": 0}, r"n_sites=0 given for 4 rows; wanted 1 … 4"),
        ({"n_sites": 5}, "n_sites=5"),
        (
            {"how": "random"},
            "how='random' given; wanted one of 'iid', 'dirichlet', 'pathological', .* an object of fedgeom.partition",
        ),
        ({"how": "dirichlet", "alpha": 0}, "alpha=0 given"),
        ({"how": "by"}, "needs `by`"),
        ({"how": "by", "by": [1]}, "needs `by`"),
        ({"names": ["a"]}, "1 names were given for 2 sites"),
        ({"y": [1]}, "4 rows but 1 labels"),
    ],
)
def test_splits_that_are_refused(given, message):
    with pytest.raises(InputError, match=message):
        split(**{"X": np.zeros((4, 1)), "y": [0, 0, 1, 1], "n_sites": 2, **given})


def test_by_alone_says_how_to_split_and_contradictions_are_refused():
    X, y, donor = np.arange(12.0)[:, None], [0, 1] * 6, ["n", "s", "w"] * 4
    parts = split(X, y, by=donor)
    assert [site.name for site in parts] == ["n", "s", "w"]
    assert parts[1].X[:, 0].tolist() == [1.0, 4.0, 7.0, 10.0]
    assert [site.name for site in split(X, y, 3, by=donor)] == ["n", "s", "w"]
    for options, message in (
        ({"how": "iid"}, "how='iid' and `by` were given.*leave one of them away"),
        ({"how": "dirichlet"}, "how='dirichlet' and `by` were given"),
        ({"n_sites": 5}, "n_sites=5 given, but `by` has 3 values.*leave n_sites away"),
    ):
        with pytest.raises(InputError, match=message):
            split(X, y, by=donor, **options)
    with pytest.raises(InputError, match=r"an array of shape \(11,\) was given for 12 rows"):
        split(X, y, by=donor[:-1])
    with pytest.raises(InputError, match="nothing was given for 12 rows"):
        split(X, y, how="by")


def shares(sites):
    """Return the share of the first class at each site."""
    return [float(np.mean(site.y == 0)) for site in sites]


def test_alpha_alone_means_dirichlet():
    """It was ignored, and the rows dealt evenly."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 2))
    y = rng.integers(0, 4, 400)
    skewed = split(X, y, 4, alpha=0.1)
    assert np.ptp(shares(skewed)) > 0.3 > 0.1 > np.ptp(shares(split(X, y, 4)))
    drawn = split(X, y, 4, "dirichlet", alpha=0.1)
    assert [len(one) for one in skewed] == [len(one) for one in drawn]
    for options, other in (({"how": "iid"}, "how='iid'"), ({"by": y}, "`by`")):
        with pytest.raises(InputError, match=f"alpha=0.1 and {other} were given"):
            split(X, y, alpha=0.1, **options)


def test_every_site_has_its_least_number_of_rows_or_it_is_refused():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 10, 500)
    X = rng.normal(size=(500, 2))
    for seed in range(20):
        assert min(len(one) for one in split(X, y, 4, alpha=0.05, seed=seed, min_rows=20)) >= 20
    with pytest.raises(InputError, match="a site has 0 rows; min_rows=1 given: take fewer sites"):
        split(X, y == 0, 8, alpha=0.001)
    with pytest.raises(InputError, match="a site has 125 rows; min_rows=126"):
        split(X, y, 4, min_rows=126)
