"""What Flower's log means for a steward, and how a line of the ledger reads."""

from __future__ import annotations

import re

import msgspec
import pytest

from fedgeom.deploy.journal import LocalEntry
from fedgeom.deploy.site import HINTS, STILL_COUNTED, ConnectionHints, describe, explain
from fedgeom.engines.flower import commands
from fedgeom.engines.flower.node_answers import DIED
from tests.deploy.making import make_coordinator, make_sites


@pytest.fixture
def anna(tmp_path):
    return make_sites(tmp_path, make_coordinator(tmp_path / "c"))["anna"]


def test_a_line_of_the_ledger_is_one_line_whatever_is_in_it():
    hostile = "a\x1b[2K\r\n12:00:00 run 7\u202e"
    entry = LocalEntry(
        time=0,
        run=hostile,
        method="m",
        question=hostile,
        answer=hostile,
        received=1,
        sent=2,
        reveals="",
        note=hostile,
    )
    for begun in (False, True):
        assert describe(msgspec.structs.replace(entry, begun=begun)).isprintable()


def test_signs_of_a_connection(tmp_path):
    log = tmp_path / "site.log"
    hints = ConnectionHints(log, 0, "host:1")
    assert hints.new() == ""
    log.write_text("Connection attempt failed, retrying in 1 seconds\n")
    assert "does not answer" in hints.new()
    with log.open("a") as file:
        file.write("Connection attempt failed, retrying in 2 seconds\n")
    assert hints.new() == ""
    with log.open("a") as file:
        file.write("SuperNode ID: 7\n")
    assert hints.new() == "connected to host:1"


def test_a_process_that_died_is_told_while_the_site_stays_connected(tmp_path):
    log = tmp_path / "site.log"
    log.write_text("SuperNode ID: 7\n")
    hints = ConnectionHints(log, 0, "host:1")
    assert hints.new() == "connected to host:1"
    for _ in range(2):  # each time it happens
        with log.open("a") as file:
            file.write(f"{DIED}\n")
        assert "process that answered a question died" in hints.new()
    assert hints.new() == ""


def test_only_what_is_new_is_read(tmp_path):
    log = tmp_path / "site.log"
    log.write_text("SuperNode ID: 7\n")
    assert ConnectionHints(log, log.stat().st_size, "host:1").new() == ""


@pytest.mark.parametrize(
    ("line", "piece"),
    [
        (DIED, "process that answered a question died"),
        (commands.FOREIGN_CERTIFICATE, "ca.pem did not sign it"),
        (commands.UNKNOWN_NODE, "fedgeom coordinator admit anna.pub"),
        (commands.NOBODY_LISTENS, "nothing listens at 127.0.0.1:8000"),
        ("something else", "the connection to 127.0.0.1:8000 ended; details are in"),
    ],
)
def test_why_a_connection_ended(anna, line, piece):
    log = anna.path / "site.log"
    log.write_text(f"first\n{line}\n")
    assert piece in explain(anna, log, 0)
    assert "ended; details are in" in explain(anna, log, log.stat().st_size)  # it was before the last start


def test_a_node_that_was_let_in_before_is_still_counted(anna):
    log = anna.path / "site.log"
    log.write_text(f"{commands.ACTIVATED}: 7\n")
    start = log.stat().st_size
    with log.open("a") as file:
        file.write(f"{commands.UNKNOWN_NODE}\n")
    assert explain(anna, log, start) == STILL_COUNTED
    assert "was not admitted" in explain(anna, log, 0)


def test_hints_have_no_gaps_left(anna):
    for sign in HINTS:
        log = anna.path / "site.log"
        log.write_text(sign)
        assert not re.search(r"[{}]", explain(anna, log, 0))


def test_a_line_of_the_ledger():
    entry = LocalEntry(
        time=0.0,
        run="0123456789",
        method="hulls",
        question="join.hello",
        answer="refusal",
        received=1234,
        sent=5,
        reveals="",
    )
    shown = describe(entry)
    assert shown.endswith("run 01234567 asked join.hello (1,234 B), answered refusal (5 B)")
    import msgspec

    assert describe(msgspec.structs.replace(entry, note="why", run="")).endswith(
        "run ? asked join.hello (1,234 B), answered refusal (5 B): why"
    )
