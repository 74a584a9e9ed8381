"""What a run of `Ridge` costs is known to the last byte before it is held."""

from __future__ import annotations

from typing import Any

import pytest

import fedgeom
from tests.protocols.costing import held


@pytest.mark.parametrize("settings", [{}, {"personal": True}, {"alpha": "folds"}])
def test_bytes_are_those_of_a_run(settings: dict[str, Any]) -> None:
    held(fedgeom.Ridge(**settings), ("a", "b", "long-name")).check()
