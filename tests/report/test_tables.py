"""Tables for the terminal."""

from __future__ import annotations

import pytest

from fedgeom.errors import InputError
from fedgeom.federation.ledger import Entry, Ledger
from fedgeom.report import tables
from fedgeom.report.naming import read_naming
from tests.report.printing import printed


def test_fifty_rounds_are_not_fifty_rows():
    entries = [
        Entry(step=i, site=s, kind="sum", bytes=500, received=1, reveals="r") for i in range(50) for s in "ab"
    ]
    assert tables.ledger_rows(Ledger(entries)) == [["0 … 49", "sum", "50", "2", "500 B", "r"]]


@pytest.mark.parametrize("sites", [6, 18])
def test_the_names_of_many_sites_are_whole(sites):
    """With a column for each of 18 sites, words were broken into pieces of a few letters."""
    words = ("CD14-positive monocyte", "natural killer cell")
    local = {
        f"Hospital {i}": {"names": {w if i else w.upper(): g for g, w in enumerate(words)}} for i in range(sites)
    }
    naming = read_naming(local)
    head, rows = tables.names_by_word(naming)
    if sites == 6:
        assert head[2:] == list(local)
        return
    assert head == ["class", "called", "by the sites"]
    assert rows[0] == ["0", words[0], "CD14-positive monocyte (17 sites); CD14-POSITIVE MONOCYTE (Hospital 0)"]
    assert "NATURAL KILLER CELL (Hospital 0)" in printed(tables.naming_table(naming), width=120)


def test_ledger(case):
    ledger = case.run.ledger
    text = printed(tables.ledger_table(ledger))
    assert "quantised hulls of all sites' classes, not whose" in text
    assert "What left West" in printed(tables.ledger_table(ledger, "West"))
    assert "West" in printed(tables.traffic_table(ledger))
    assert sum(entry.bytes for entry in tables.of_site(ledger, "West")) == ledger.sent("West")
    with pytest.raises(InputError, match="no message of a site 'Wset' is in the ledger; it has East"):
        tables.of_site(ledger, "Wset")


def test_site_names_are_not_markup():
    ledger = Ledger([Entry(step=1, site="[red]x", kind="k", bytes=1, received=1, reveals="[b]r")])
    assert "[red]x" in printed(tables.traffic_table(ledger))
    assert "[b]r" in printed(tables.ledger_table(ledger))
