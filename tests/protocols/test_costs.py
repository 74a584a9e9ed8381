"""The sheet's bytes are those of runs, to the last one; its times are of the right order."""

from __future__ import annotations

import pytest
from fedgeom.protocols.costs import Sheet, site_names

import fedgeom
from fedgeom.federation.policy import Policy, StrictPolicy
from tests.protocols.costing import held

POLICIES = [None, Policy(single_site_classes=False, min_rows=2), StrictPolicy(secure_only=False)]
UNEVEN = ("north", "the hospital in the south", "x", "Bücherei")


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("given", [None, ("a", "a class of many words", "bb")])
def test_names_policies_and_terms_count_to_the_last_byte(
    policy: Policy | None, given: tuple[str, ...] | None
) -> None:
    held(fedgeom.Moments(space="euclidean", classes=given), UNEVEN, policy).check()


def test_more_than_48_sites_draw_a_ring() -> None:
    found = held(fedgeom.Moments(space="euclidean", rule="centroid"), site_names(52))
    found.check()
    assert any(one.kind == "join.draw" for one in found.told.exchanges)
    assert 0.2 < found.told.seconds / found.seconds < 5


def test_a_test_on_rows_kept_aside_counts_too() -> None:
    held(fedgeom.Moments(space="euclidean", holdout=0.25), UNEVEN).check()


def test_names_are_equally_long() -> None:
    assert site_names(3) == ("s00", "s01", "s02")
    assert {len(name) for name in site_names(1001)} == {5}


def test_rounds_are_told_apart_where_their_numbers_take_more_bytes() -> None:
    sheet, found = Sheet(fedgeom.FedAvg(rounds=300), site_names(3), 2, ("a", "b")), list[tuple[int, int]]()
    sheet.next_round("train.columns")
    sheet.in_rounds(300, lambda number, times: found.append((number, times)))
    assert sum(times for _, times in found) == 300
    assert {0, 128 - sheet._next, 128, 256 - sheet._next, 256} <= {number for number, _ in found}
