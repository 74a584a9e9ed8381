"""Findings: what is wrong, where, and what to do, collected instead of stopping at the first."""

from __future__ import annotations

import pytest

from fedgeom.data.validation import Collector, FaultsError, Finding, fault, findings_of, merged
from fedgeom.errors import InputError


def test_a_finding_reads_as_a_sentence():
    assert str(fault("gaps", "fill them", site="ulm")) == "site 'ulm': gaps; fill them"
    assert str(fault("has no rows", site="ulm")) == "site 'ulm' has no rows"
    assert str(fault("one class in all")) == "one class in all"
    both = Finding(level="note", what="has few rows", sites=("ulm", "bonn"))
    assert str(both) == "sites 'ulm', 'bonn' have few rows"
    many = Finding(level="note", what="x", sites=tuple("abcdefghij"))
    assert str(many).endswith("'h' and 2 more: x")


def test_a_collector_goes_on_and_raises_everything_at_the_end():
    collector = Collector("ulm")
    collector.raise_all()
    with collector.take():
        raise InputError("site 'ulm': gaps")
    with collector.take():
        raise FaultsError([fault("first"), fault("second", site="bonn")])
    with pytest.raises(FaultsError) as caught:
        collector.raise_all()
    assert [(one.what, one.sites) for one in caught.value.findings] == [
        ("gaps", ("ulm",)),
        ("first", ("ulm",)),
        ("second", ("bonn",)),
    ]


def test_other_errors_are_not_taken():
    with pytest.raises(KeyError), Collector().take():
        raise KeyError("x")


def test_a_message_lists_many_faults_and_counts_the_others():
    lines = str(FaultsError([fault(f"fault {at}") for at in range(100)])).splitlines()
    assert (len(lines), lines[0], lines[-1]) == (41, "fault 0", "and 60 more")


def test_an_error_that_names_its_site_does_not_name_it_twice():
    assert [str(one) for one in findings_of(InputError("site 'a' has no rows"), "a")] == ["site 'a' has no rows"]
    assert [str(one) for one in findings_of(InputError("site 'b': x"), "a")] == ["site 'a': site 'b': x"]
    assert findings_of(InputError("bad"), topic="file")[0] == fault("bad", topic="file")


def test_the_same_at_several_sites_is_one_finding_and_errors_come_first():
    note = Finding(level="note", what="wide")
    found = merged([note, fault("gap", site="a"), fault("gap", site="b"), fault("gap", site="a"), note])
    assert found == [Finding(level="error", what="gap", sites=("a", "b")), note]


def test_counts_at_several_sites_are_said_once():
    """Four sites of images were told four times that they look like counts, each with other numbers."""
    found = merged(
        Finding(
            level="warning", what=f"looks like counts: up to {top}", remedy="scale", sites=(site,), topic="counts"
        )
        for site, top in (("a", 16), ("b", 15), ("c", 16))
    )
    assert [(one.what, one.sites) for one in found] == [
        ("looks like counts: up to 16 at the first of them; the others are alike", ("a", "b", "c"))
    ]
