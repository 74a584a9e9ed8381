"""The table of several methods."""

from __future__ import annotations

import msgspec

from fedgeom.evaluation.benchmark import Entry
from fedgeom.report.tables import contest_table
from tests.evaluation.test_contest import contest
from tests.report.printing import printed


def test_rivals_methods_failures_and_a_word():
    found = contest({"a": [900], "b": [700]})
    failed = [*found.entries, Entry(method="[red]c", seed=0, failure="gone\nfor good " + "x" * 400)]
    text = printed(contest_table(msgspec.structs.replace(found, entries=failed)))
    flat = " ".join(text.split())
    for piece in (
        "majority class",
        "each site alone",
        "25% kept aside, 1 seed",
        "Take a:",
        "[red]c: gone for good",
    ):
        assert piece in flat
    assert "from the best" not in flat
    assert "x" * 301 not in flat.replace(" ", "")


def test_differences_with_several_seeds():
    flat = " ".join(printed(contest_table(contest({"a": [900, 910], "b": [880, 885]}))).split())
    assert "from the best" in flat
    assert "2 seeds" in flat
    assert "-0.022" in flat or "-0.023" in flat
