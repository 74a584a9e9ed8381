"""What a run of training costs, training itself aside, is known to the last byte before it is held."""

from __future__ import annotations

import pytest

import fedgeom
from fedgeom.federation.method import Method
from tests.protocols.costing import held

RUNS = [
    fedgeom.FedAvg(rounds=3),
    fedgeom.FedAvg(rounds=2, secure=False),
    fedgeom.FedAvg(rounds=2, bits=64, validation=0.2, scale="joint"),
    fedgeom.FedAvg(rounds=131, epochs=1, secure=False),
    fedgeom.Scaffold(rounds=2),
]


@pytest.mark.parametrize("method", RUNS, ids=lambda method: f"{method.name}-{method.rounds}")
def test_bytes_are_those_of_a_run(method: Method) -> None:
    found = held(method, ("a", "b", "long-name"))
    found.check()
    assert found.told.left_out == ["the sites' training"]


def test_another_conversation_writes_nothing() -> None:
    assert not fedgeom.PTopoFL().write_costs(None)
