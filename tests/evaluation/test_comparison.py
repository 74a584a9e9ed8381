"""A federated run beside pooled and local training, on each site's own test rows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from fedgeom.data.sites import SiteData
from fedgeom.errors import InputError
from fedgeom.evaluation.baselines import Comparison, compare, train


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
