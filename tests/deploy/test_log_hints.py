"""What a steward is told of the connection, and how a line of the ledger reads."""

from __future__ import annotations

import msgspec
import pytest

from fedgeom.deploy.journal import LocalEntry
from fedgeom.deploy.nats_site import DIED_HINT, LINK, LinkHints, LinkReport
from fedgeom.deploy.site import describe
from fedgeom.engines.nats.link import FOREIGN, NOBODY_LISTENS, NOT_ADMITTED
from fedgeom.storage import write_json
from tests.deploy.making import make_coordinator, make_sites


@pytest.fixture
def anna(tmp_path):
    return make_sites(tmp_path, make_coordinator(tmp_path / "c"))["anna"]


def report(anna, **changes):
    write_json(anna.path / LINK, LinkReport(time=0.0, **changes))


@pytest.mark.parametrize(
    ("trouble", "piece"),
    [
        (f"{FOREIGN}: self-signed", "ca.pem did not sign it"),
        (NOT_ADMITTED, "fedgeom coordinator admit anna.pub"),
        (NOBODY_LISTENS, "127.0.0.1:8000 does not answer"),
    ],
)
def test_why_there_is_no_connection_is_said_once_each_time(anna, trouble, piece):
    hints = LinkHints(anna)
    assert hints.new() == ""
    report(anna, trouble=trouble)
    assert piece in hints.new()
    assert hints.new() == ""
    report(anna, since=7.0)
    assert hints.new() == "connected to 127.0.0.1:8000"
    report(anna, trouble=trouble)
    assert piece in hints.new()


def test_a_process_that_died_is_told_while_the_site_stays_connected(anna):
    hints = LinkHints(anna)
    for deaths in (1, 2):  # each time it happens
        report(anna, since=7.0, deaths=deaths)
        assert hints.new() == DIED_HINT
    assert hints.new() == "connected to 127.0.0.1:8000"
    assert hints.new() == ""


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
    assert describe(msgspec.structs.replace(entry, note="why", run="")).endswith(
        "run ? asked join.hello (1,234 B), answered refusal (5 B): why"
    )
