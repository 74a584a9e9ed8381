"""What a run of `Hulls` costs is known to the last byte before it is held, where its tables are."""

from __future__ import annotations

from typing import Any

import pytest
from fedgeom.engines.costs import costs_at

import fedgeom
from tests.protocols.costing import held


@pytest.mark.parametrize("settings", [{"n_classes": 3}, {}, {"names": "shared"}])
def test_bytes_are_those_of_a_run(settings: dict[str, Any]) -> None:
    held(fedgeom.Hulls(embedding="discriminant", **settings), ("a", "b", "long-name")).check()


def test_without_tables_corners_are_assumed() -> None:
    told = costs_at(fedgeom.Hulls(), 10, rows=100, columns=2, classes=["a", "b"])
    assert "corners" in told.left_out[0]
    settled = fedgeom.Hulls(n_classes=2, capacity=50, radius=0.9)
    assert not costs_at(settled, 10, rows=100, columns=2, classes=["a", "b"]).left_out
