"""What a run of `Moments` costs is known to the last byte before it is held."""

from __future__ import annotations

import pytest

import fedgeom
from tests.protocols.costing import held


@pytest.mark.parametrize("settings", [{"space": "euclidean"}, {"space": "euclidean", "rule": "centroid"}])
def test_bytes_are_those_of_a_run(settings: dict[str, str]) -> None:
    held(fedgeom.Moments(**settings), ("a", "b", "long-name")).check()
