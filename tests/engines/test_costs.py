"""What a job costs with its own tables, at other numbers of sites, and where it stops."""

from __future__ import annotations

import pytest
from fedgeom.engines.costs import costs_at, costs_of, stops_at

import fedgeom
from fedgeom.federation.policy import Policy
from tests.protocols.costing import drawn

SHAPE = {"rows": 100, "columns": 5, "classes": ["a", "b"]}


def test_more_sites_cost_each_of_them_little_more_and_the_coordinator_much() -> None:
    method = fedgeom.Moments(space="euclidean")
    ten, many = (costs_at(method, count, **SHAPE) for count in (10, 1000))
    assert many.up < 40 * ten.up
    assert many.total_up > 100 * ten.total_up


def test_of_a_method_without_a_sheet_and_of_raw_rows_joining_is_known() -> None:
    for method in (fedgeom.PTopoFL(), fedgeom.Moments(space="euclidean", prepare="table")):
        found = costs_of(method, drawn(("a", "b", "c")))
        assert [one.kind for one in found.exchanges] == ["join.hello", "join.share"]
        assert "all after joining" in found.left_out[-1]


def test_where_a_method_stops_is_the_largest_number_of_sites_that_fits() -> None:
    method, policy = fedgeom.FedAvg(rounds=50), Policy(max_message_bytes=2**20)
    most, why = stops_at(method, **SHAPE, policy=policy)
    assert "'join.share' has" in why
    assert costs_at(method, most, **SHAPE, policy=policy).largest <= 2**20
    assert costs_at(method, most + most // 20, **SHAPE, policy=policy).largest > 2**20


def test_names_stop_what_nothing_else_stops() -> None:
    most, why = stops_at(fedgeom.Moments(rule="centroid", classes=("a", "b")), **SHAPE)
    assert most == 100_000
    assert "names" in why


@pytest.mark.parametrize("count", [3, 30])
def test_classes_of_the_terms_count(count: int) -> None:
    given = costs_at(fedgeom.Moments(classes=("a", "b")), count, **SHAPE)
    open_ = costs_at(fedgeom.Moments(), count, **SHAPE)
    assert open_.questions == given.questions + 2
