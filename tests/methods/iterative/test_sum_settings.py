"""What the settings say of sums."""

from __future__ import annotations

import pytest

from fedgeom import FedAvg, FedProto, HyperFed, LocalOnly
from fedgeom.errors import InputError
from fedgeom.protocols.fixed_point import Packing


def test_packing():
    assert FedAvg().packing == Packing(32, 64.0)
    assert FedAvg(bits=21, max_abs_change=1.0).packing == Packing(21, 1.0)
    assert FedAvg(bits=64).packing is None
    assert FedProto().packing is None  # its sums are as large as there are rows


@pytest.mark.parametrize("changes", [{"bits": 20}, {"max_abs_change": 0.0}, {"max_abs_change": 1e6}])
def test_refusals(changes):
    with pytest.raises(InputError, match=next(iter(changes))):
        FedAvg(**changes)


def test_whose_rows_must_be_known():
    assert FedAvg().needs_rows
    assert not FedAvg().sums_rows  # the sum of columns tells them
    assert FedAvg(scale="none").sums_rows
    for other in (FedAvg(weights="sites"), FedAvg(bits=64), FedAvg(secure=False), LocalOnly(), HyperFed()):
        assert not other.needs_rows
    assert HyperFed(aggregation="mean").needs_rows
