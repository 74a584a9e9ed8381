"""Classifiers of the disc that are trained without a federation, and a federated run beside them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from fedgeom.data.sites import SiteData
from fedgeom.errors import InputError
from papers.hulls.baselines import Comparison, compare, train, train_alone


def two_sides(name):
    rng = np.random.default_rng(len(name))
    X = rng.uniform(-0.5, 0.5, (60, 2))
    X[:, 0] += np.where(X[:, 0] > 0, 0.1, -0.1)
    return SiteData(name, X, np.where(X[:, 0] > 0, "east", "west"))


def test_pooled_training_in_the_disc_needs_no_map():
    sites = [two_sides("a"), two_sides("bb")]
    pooled = train(sites, in_disc=True)
    assert pooled.matrix is None
    for site in sites:
        assert np.mean(pooled.predict(site, site.X) == site.y) > 0.95


def test_outside_the_disc_columns_are_scaled_by_the_sites_own_rows(case):
    plain = [site.relabel(case.truth[site.name]) for site in case.data.train]
    pooled = train(plain, in_disc=False)
    assert pooled.matrix.shape == (30, 2)
    west = plain[3]
    # A site that writes one column in other units is scaled by its own rows, and answered the same.
    units = np.ones(30)
    units[4] = 1000.0
    other = SiteData("West", west.X * units, west.y)
    assert np.array_equal(pooled.predict(other, other.X), pooled.predict(west, west.X))


def test_the_order_of_sites_and_the_names_do_not_matter():
    a, b = two_sides("a"), two_sides("bb")
    there = np.random.default_rng(0).uniform(-0.4, 0.4, (50, 2))
    one, other = train([a, b], in_disc=True), train([b, a], in_disc=True)
    assert np.mean(one.predict(a, there) == other.predict(a, there)) > 0.97


def test_alone_with_one_class_always_answers_that():
    site = two_sides("a")
    lone = site.take(site.y == "east")
    assert train_alone(lone, {"in_disc": True})(site, site.X).tolist() == ["east"] * 60
    both = train_alone(site, {"in_disc": True})
    assert np.mean(both(site, site.X) == site.y) > 0.95


def test_own_words_with_the_truth(case):
    found = compare(case.run, case.data.train, case.data.test, truth=case.truth)
    assert found.sites == ("North", "South", "East", "West")
    means = found.means()
    assert min(means["federated"], means["centralised"]) > 0.9
    assert means["elsewhere"] > 0.7
    # The same numbers come out when everybody speaks the same words.
    plain = [site.relabel(case.truth[site.name]) for site in case.data.train]
    pooled = train(plain, in_disc=False)
    test = case.data.test[2].relabel(case.truth["East"])
    assert np.mean(pooled.predict(plain[2], test.X) == test.y) == found.centralised[2]


def test_own_words_without_the_truth(case):
    found = compare(case.run, case.data.train, case.data.test)
    assert found.centralised == found.elsewhere == ()
    assert set(found.means()) == {"federated", "local"}


def test_points_of_the_disc_and_shared_words(disc_case):
    run, data, _ = disc_case
    found = compare(run, data.train, data.test)
    assert min(found.means().values()) > 0.9


def test_a_site_with_one_class_and_a_word_never_seen(disc_case):
    run, data, _ = disc_case
    lone = data.train[0].take(data.train[0].y == "east")
    odd = SiteData("site-1", data.test[0].X, np.full(len(data.test[0]), "north"))
    found = compare(run, [lone, *data.train[1:]], [odd, *data.test[1:]])
    assert found.local[0] == found.centralised[0] == 0.0


def test_nothing_to_compare(disc_case):
    run, data, _ = disc_case
    with pytest.raises(InputError, match="same sites"):
        compare(run, data.train, data.test[::-1])
    empty = [site.take(np.zeros(len(site), bool)) for site in data.test]
    with pytest.raises(InputError, match="nothing can be"):
        compare(run, data.train, empty)


def test_means_are_of_the_columns_there_are():
    assert Comparison(("a", "b"), (0.5, 1.0), (), (0.25, 0.75), ()).means() == {"federated": 0.75, "local": 0.5}


def test_a_gap_in_a_test_row_is_named(case):
    train, test = case.data.train, [replace(site, X=site.X.copy()) for site in case.data.test]
    test[1].X[3, 2] = np.nan
    with pytest.raises(InputError, match=r"site 'South': row \d+, column .* is nan"):
        compare(case.run, train, test)
