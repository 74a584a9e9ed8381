"""Tables for the terminal."""

from __future__ import annotations

import pytest

from fedgeom.errors import InputError
from fedgeom.federation.ledger import Entry, Ledger
from fedgeom.report import tables
from tests.report.printing import printed


def test_ledger(case):
    ledger = case.run.ledger
    text = printed(tables.ledger_table(ledger))
    assert "quantized hulls of all sites' classes, not whose" in text
    assert "What left West" in printed(tables.ledger_table(ledger, "West"))
    assert "West" in printed(tables.sites_table(ledger))
    assert sum(entry.bytes for entry in tables.of_site(ledger, "West")) == ledger.sent("West")
    with pytest.raises(InputError, match="no message of a site 'Wset' is in the ledger; it has East"):
        tables.of_site(ledger, "Wset")


def test_site_names_are_not_markup():
    ledger = Ledger([Entry(step=1, site="[red]x", kind="k", bytes=1, received=1, reveals="[b]r")])
    assert "[red]x" in printed(tables.sites_table(ledger))
    assert "[b]r" in printed(tables.ledger_table(ledger))
