"""Rows kept aside as a part of the terms, and how a site parts its table by them."""

from __future__ import annotations

import gc
import weakref
from dataclasses import replace

import msgspec
import numpy as np
import pytest

import fedgeom
from fedgeom.data.sites import SiteData
from fedgeom.errors import InputError
from fedgeom.federation.holdout import Holdout, part_rows
from fedgeom.federation.policy import Policy, hash_terms, job_terms


def table(name: str = "north", rows: int = 40) -> SiteData:
    rng = np.random.default_rng(0)
    return SiteData(name, rng.normal(size=(rows, 2)), np.where(np.arange(rows) % 4, "b", "a"))


@pytest.mark.parametrize("given", [0.25, Holdout(), {"share": 0.25}, {"share": 0.25, "grouped": False}])
def test_what_may_be_given(given):
    method = fedgeom.Moments(holdout=given)
    assert method.holdout == Holdout(0.25)
    assert method.terms()["holdout"] == {"share": 0.25, "grouped": False}
    assert fedgeom.Moments.from_terms(msgspec.json.decode(msgspec.json.encode(method.terms()))) == method


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (0.0, "from 0 (excluded) to 0.5"),
        (0.6, "from 0 (excluded) to 0.5"),
        (True, "wanted a share"),
        ("half", "wanted a share"),
        ({"part": 0.2}, "wanted a share"),
        ({"share": 0.2, "grouped": 1}, "grouped=1 given"),
    ],
)
def test_what_may_not(given, said):
    with pytest.raises(InputError) as error:
        fedgeom.Moments(holdout=given)
    assert said in str(error.value)


def test_it_is_in_the_terms_that_stewards_approve():
    hashes = {
        hash_terms(job_terms("moments", fedgeom.Moments(holdout=given).terms(), 0, ["a"]))
        for given in (None, 0.25, 0.3, Holdout(0.25, grouped=True))
    }
    assert len(hashes) == 4


def test_parts_follow_from_terms_seed_and_name():
    whole, method = table(), fedgeom.Moments(holdout=0.25)
    train, aside = part_rows(whole, method, 7, Policy())
    assert aside.class_counts() == {"a": 2, "b": 8}
    assert sorted([*train.row_numbers, *aside.row_numbers]) == list(range(40))
    again = part_rows(table(), method, 7, Policy())[1]
    assert again.row_numbers.tolist() == aside.row_numbers.tolist()
    for other in (part_rows(whole, method, 8, Policy()), part_rows(table("south"), method, 7, Policy())):
        assert other[1].row_numbers.tolist() != aside.row_numbers.tolist()
    assert part_rows(whole, method, 7, Policy())[1].row_numbers.tolist() == aside.row_numbers.tolist()


def test_without_a_holdout_all_rows_are_learnt_from():
    whole = table()
    train, aside = part_rows(whole, fedgeom.Moments(), 7, Policy())
    assert train is whole
    assert len(aside) == 0
    assert part_rows(whole, None, 7, Policy())[0] is whole


def test_method_and_policy_say_how_many_rows_a_class_keeps():
    whole = table()
    assert part_rows(whole, fedgeom.Moments(holdout=0.5, min_rows=8), 0, Policy())[0].class_counts()["a"] == 8
    strict = Policy(min_rows_per_class=9)
    assert part_rows(whole, fedgeom.Moments(holdout=0.5), 0, strict)[0].class_counts()["a"] == 9


def test_rows_without_a_label_in_the_eyes_of_the_method_are_never_tested():
    whole = replace(table(), y=np.where(np.arange(40) % 4, 1, -1))
    assert part_rows(whole, fedgeom.XCLP(holdout=0.5), 0, Policy())[1].class_counts() == {"1": 15}
    assert set(part_rows(whole, fedgeom.Moments(holdout=0.5), 0, Policy())[1].class_counts()) == {"-1", "1"}


def test_a_site_that_does_not_know_its_groups_says_so():
    method = fedgeom.Moments(holdout=Holdout(0.25, grouped=True))
    with pytest.raises(InputError, match=r"site 'north': .* has no group column: name it, group = \"patient\""):
        part_rows(table(), method, 0, Policy())
    grouped = replace(table(), groups=np.arange(40) // 2)
    train, aside = part_rows(grouped, method, 0, Policy())
    assert not set(train.groups.tolist()) & set(aside.groups.tolist())
    # A site that knows its groups heeds them whatever the terms say.
    train, aside = part_rows(grouped, fedgeom.Moments(holdout=0.25), 0, Policy())
    assert not set(train.groups.tolist()) & set(aside.groups.tolist())


def test_a_table_is_parted_once_and_forgotten_with_it():
    whole, method = table(), fedgeom.Moments(holdout=0.25)
    assert part_rows(whole, method, 0, Policy()) is part_rows(whole, method, 0, Policy())
    parts = [weakref.ref(part) for part in part_rows(whole, method, 0, Policy())]
    assert all(part() is not None for part in parts)
    del whole
    gc.collect()
    assert all(part() is None for part in parts)


def test_with_privacy_one_row_more_moves_no_other_to_the_other_side() -> None:
    rng = np.random.default_rng(0)
    table = SiteData("north", rng.normal(size=(400, 3)), ["a", "b"] * 200)
    method = fedgeom.Moments(classes=("a", "b"), holdout=0.25, privacy=fedgeom.DP(epsilon=1, clip=1), min_rows=0)
    train, aside = part_rows(table, method, 7, Policy())
    assert 70 < len(aside) < 130
    fewer = table.take(np.arange(400) != 17)
    train_less, aside_less = part_rows(fewer, method, 7, Policy())
    assert len(train) + len(aside) - len(train_less) - len(aside_less) == 1
    kept = {tuple(row) for row in aside.X}
    assert {tuple(row) for row in aside_less.X} <= kept
    assert {tuple(row) for row in train_less.X} <= {tuple(row) for row in train.X}


def test_with_privacy_a_group_stays_together() -> None:
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(60), 5)
    table = SiteData("north", rng.normal(size=(300, 3)), ["a", "b"] * 150, groups=groups)
    method = fedgeom.Moments(classes=("a", "b"), holdout=0.25, privacy=fedgeom.DP(epsilon=1, clip=1))
    train, aside = part_rows(table, method, 7, Policy())
    assert len(aside)
    assert not set(train.groups.tolist()) & set(aside.groups.tolist())
