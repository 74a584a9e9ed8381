"""Rows set aside for testing: class by class, and group by group."""

from __future__ import annotations

import numpy as np
import pytest

from fedgeom.data.sites import SiteData
from fedgeom.data.split import holdout
from fedgeom.errors import InputError


def test_holdout_keeps_two_of_each_class():
    site = SiteData("s", np.arange(13.0)[:, None], ["a"] * 10 + ["b"] * 2 + ["c"])
    kept, aside = holdout(site, 0.5)
    assert np.unique(kept.y, return_counts=True)[1].tolist() == [5, 2, 1]
    assert sorted([*kept.X[:, 0], *aside.X[:, 0]]) == site.X[:, 0].tolist()
    assert len(holdout(site, 0)[1]) == 0
    with pytest.raises(InputError, match="holdout share"):
        holdout(site, 1.0)


def test_more_rows_can_be_kept_and_a_few_are_tested_even_with_a_small_share():
    site = SiteData("s", np.arange(28.0)[:, None], ["a"] * 20 + ["b"] * 6 + ["c"] * 2)
    _, aside = holdout(site, 0.05, few=3)
    assert aside.class_counts() == {"a": 3, "b": 1}  # a quarter of a class at most for the sake of the few
    kept, _ = holdout(site, 0.5, keep=5)
    assert kept.class_counts() == {"a": 10, "b": 5, "c": 2}


@pytest.mark.parametrize("seed", range(20))
def test_no_group_is_on_both_sides(seed):
    rng = np.random.default_rng(seed)
    y = rng.choice(["a", "b", "c"], 200, p=[0.6, 0.3, 0.1])
    site = SiteData("s", np.arange(200.0)[:, None], y, groups=rng.integers(0, 25, 200))
    kept, aside = holdout(site, 0.25, seed)
    assert not set(kept.groups.tolist()) & set(aside.groups.tolist())
    assert len(kept) + len(aside) == 200
    for label, rows in site.class_counts().items():
        tested = aside.class_counts().get(label, 0)
        assert tested <= max(rows / 2, rows * 0.25 + 1)
        assert kept.class_counts()[label] >= 2
    assert 20 <= len(aside) <= 100


def test_a_class_of_one_patient_is_learnt_from_not_tested():
    site = SiteData("s", np.arange(10.0)[:, None], ["a"] * 6 + ["b"] * 4, groups=[1, 1, 2, 2, 3, 3, 9, 9, 9, 9])
    kept, aside = holdout(site, 0.3, 1)
    assert kept.class_counts() == {"a": 4, "b": 4}
    assert aside.class_counts() == {"a": 2}


def test_rows_without_a_label_follow_their_group():
    y = np.array(["a", "", "a", "", "b", "", "b", "", "a", "b"])
    site = SiteData("s", np.arange(10.0)[:, None], y, groups=[1, 1, 2, 2, 3, 3, 4, 4, 5, 6])
    kept, aside = holdout(site, 0.34, 0)
    assert not set(kept.groups.tolist()) & set(aside.groups.tolist())
    assert aside.has_label.any()
