"""Classifiers of the disc that are trained without a federation."""

from __future__ import annotations

import numpy as np

from fedgeom.data.sites import SiteData
from fedgeom.evaluation.baselines import train, train_alone


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
