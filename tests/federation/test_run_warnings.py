"""What a run that ended well must still say."""

from __future__ import annotations

import pytest

from fedgeom.federation.results import ABSENT, LEAVES, RunWarning, lost_site, lost_sites, written


@pytest.mark.parametrize(
    ("reason", "remedy"),
    [
        ("the answer would have 72 bytes; the policy of 'ulm' has max_message_bytes = 64", "max_message_bytes"),
        ("a message of 149 bytes came; the limit is 26", "max_message_bytes"),
        (LEAVES, "site's own log"),
        (ABSENT, "fedgeom site start"),
        ("the weights make this a sum of 2.2 sites; the policy asks for 3", "min_cohort"),
        ("2 sites are left; its policy asks for at least 3", "min_cohort"),
        ("site 'ulm' does not take part in method 'hulls'", "steward"),
        ("the steward has revoked the approval", "fedgeom site approve"),
        ("out of power", "events.jsonl"),
    ],
)
def test_every_known_reason_has_its_remedy(reason: str, remedy: str) -> None:
    warning = lost_site("ulm", reason)
    assert remedy in warning.remedy
    assert str(warning).startswith(f"site 'ulm' was lost: {reason}. ")


def test_warnings_are_lines_for_people() -> None:
    assert str(RunWarning("it rains")) == "it rains"
    assert str(RunWarning("it rains", "clouds", "wait")) == "it rains: clouds. Wait"
    assert [warning.site for warning in lost_sites({"b": "x", "a": "y"})] == ["a", "b"]
    assert written([RunWarning("it rains"), RunWarning("it snows")]) == "warning: it rains\nwarning: it snows"
