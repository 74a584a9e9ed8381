"""Which local name was taken for which global class."""

from __future__ import annotations

import msgspec
import pytest

from fedgeom.report.naming import Naming, read_naming
from fedgeom.report.tables import naming_table, naming_verdict
from tests.report.printing import printed


@pytest.fixture
def naming():
    local = {"A": {"names": {"ill": 0, "well": 1}}, "B": {"names": {"krank": 0, "gesund": 1}}, "C": {}}
    return local, {"A": {"ill": "i", "well": "w"}, "B": {"krank": "i", "gesund": "w"}}


def test_naming_with_the_truth(naming):
    local, truth = naming
    found = read_naming(local, truth)
    assert (found.names, found.right, found.total) == (("i", "w"), 4, 4)
    local["B"]["names"] = {"krank": 1, "gesund": 0}
    local["D"] = {"names": {"malade": 0, "sain": 1}}
    found = read_naming(local, {**truth, "D": {"malade": "i", "sain": "w"}})
    assert (found.right, found.total) == (4, 6)
    assert found.wrong["B"] == ["krank", "gesund"]
    assert "✗ gesund" in printed(naming_table(found))
    assert naming_verdict(found) == "4 of 6 local names were matched rightly, 2 wrongly."


def test_naming_without_the_truth(naming):
    local, _ = naming
    local["D"] = {"names": {"krank": 0}}
    found = read_naming(local)
    assert found.names == ("krank", "gesund")
    assert not found.known
    assert "–" in printed(naming_table(found))
    assert "5 local names" in naming_verdict(found)
    assert msgspec.json.decode(msgspec.json.encode(found), type=Naming) == found
