"""Which local name was taken for which global class."""

from __future__ import annotations

import msgspec
import pytest

from fedgeom.report.label_names import Naming, read_naming
from fedgeom.report.tables import doubt_table, evidence_table, naming_table, naming_verdict
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


def test_names_in_doubt_are_marked_and_listed_with_the_evidence(naming):
    local, _ = naming
    sure = {"own": 0.1, "rival": 1, "other": 1.0, "verdict": "certain"}
    unsure = {"own": 0.9, "rival": 0, "other": 0.95, "verdict": "doubtful"}
    alone = {"own": None, "rival": -1, "other": None, "verdict": "alone"}
    local["A"]["evidence"] = {"ill": sure, "well": unsure}
    local["B"]["evidence"] = {"krank": alone, "gesund": sure}
    found = read_naming(local)
    assert found.doubtful == [("A", "well")]
    assert "? well" in printed(naming_table(found))
    assert naming_verdict(found).endswith("1 of them are doubtful (marked ?).")
    assert evidence_table(found).texts == [
        ["A", "well", "gesund", "0.90", "ill", "0.95", "doubtful"],
        ["A", "ill", "ill", "0.10", "gesund", "1.00", "certain"],
        ["B", "gesund", "gesund", "0.10", "gesund", "1.00", "certain"],
        ["B", "krank", "ill", "–", "–", "–", "alone"],
    ]
    assert "0.95" in printed(doubt_table(found))
    assert "krank" not in printed(doubt_table(found))
    assert msgspec.json.decode(msgspec.json.encode(found), type=Naming) == found
