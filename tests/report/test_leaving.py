"""What left the sites, on the page."""

from __future__ import annotations

import pytest

from fedgeom.federation.ledger import Ledger
from fedgeom.report.privacy import KINDS, kind_of, leaving
from fedgeom.report.run_folder import read_run
from tests.report.folders import folder_of


@pytest.mark.parametrize(
    ("reveals", "kind", "wanted"),
    [
        ("masked; with all others, to everybody: how many rows", "sum.masked", "masked"),
        ("nothing to the coordinator: every block of the sum stays masked", "sum.masked", "masked"),
        ("public keys; the number of columns", "join.keys", "sealed"),
        ("shares of mask seeds", "sum.shares", "sealed"),
        ("nothing to the coordinator; the site's label names to the other sites", "names.sealed", "sealed"),
        ("nothing: a signature", "sum.confirmation", "receipts"),
        ("how many rows there are and which have a label", "xclp.rows", "plain"),
        ("the shape of this site's rows, not hidden from the coordinator", "topo.description", "plain"),
    ],
)
def test_what_a_message_is_to_the_coordinator(reveals, kind, wanted):
    assert kind_of(reveals, kind) == wanted


def test_the_bar_has_all_bytes_and_the_ledger_is_there_on_demand(tmp_path):
    made = leaving(read_run(folder_of(tmp_path / "run")).ledger)
    assert KINDS["masked"] in made
    assert KINDS["plain"] not in made
    assert "42 messages and 53.3 kB left 3 sites" in made
    assert "<summary>Message by message</summary>" in made


def test_nothing_left():
    assert "Nothing." in leaving(Ledger())
