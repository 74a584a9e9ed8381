from __future__ import annotations

import msgspec
import pytest
from rich.console import Console

from fedgeom.errors import InputError
from fedgeom.evaluation.baselines import Comparison
from fedgeom.federation.ledger import Entry, Ledger
from fedgeom.report import tables
from fedgeom.report.naming import Naming, read_naming
from fedgeom.report.page import COMPARISON, NAMES, PICTURE, write_page


def printed(table):
    console = Console(width=160, record=True)
    console.print(table)
    return console.export_text()


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
    assert "✗ gesund" in printed(tables.naming_table(found))
    assert tables.naming_verdict(found) == "4 of 6 local names were matched rightly, 2 wrongly."


def test_naming_without_the_truth(naming):
    local, _ = naming
    local["D"] = {"names": {"krank": 0}}
    found = read_naming(local)
    assert found.names == ("krank", "gesund")
    assert not found.known
    assert "–" in printed(tables.naming_table(found))
    assert "5 local names" in tables.naming_verdict(found)
    assert msgspec.json.decode(msgspec.json.encode(found), type=Naming) == found


def test_comparison():
    text = printed(tables.comparison_table(Comparison(("A", "B"), (0.5, 1.0), (), (0.25, 0.75), ())))
    assert "pooled" not in text
    assert text.split()[-3:] == ["mean", "0.750", "0.500"]


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


def test_page(case):
    folder = case.run.folder
    bare = write_page(folder).read_text()
    assert "quantized hulls" in bare
    assert "<img" not in bare
    (folder / PICTURE).write_bytes(b"\x89PNG")
    comparison = Comparison(("<b>North", "South"), (0.5, 1.0), (0.5, 1.0), (0.25, 0.75), (0.1, 0.2))
    (folder / COMPARISON).write_bytes(msgspec.json.encode(comparison))
    (folder / NAMES).write_bytes(msgspec.json.encode(read_naming(case.run.local, case.truth)))
    page = write_page(folder).read_text()
    assert "&lt;b&gt;North" in page
    assert "data:image/png;base64" in page
    assert "bösartig" in page
    assert "http" not in page
    assert "<script" not in page
