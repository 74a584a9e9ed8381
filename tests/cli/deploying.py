"""Commands of a deployment in a folder of their own, as far as they go without programs that run."""

from __future__ import annotations

import msgspec
import pytest
from typer.testing import CliRunner

from fedgeom.cli import app
from fedgeom.deploy import submit
from fedgeom.deploy.coordinator import COORDINATOR_LOCK
from fedgeom.federation.coordinator import Event
from fedgeom.federation.ledger import LedgerEntry
from fedgeom.federation.record import RunRecord
from fedgeom.federation.results import ABSENT, lost_site
from fedgeom.storage import locked
from tests.deploy.making import make_coordinator, make_sites
from tests.evaluation.counting import figures

runner = CliRunner()


def call(*words, code=0):
    result = runner.invoke(app, [str(word) for word in words])
    assert result.exit_code == code, result.output
    return " ".join(result.output.split())


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("FEDGEOM_COORDINATOR", "FEDGEOM_SITE"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


@pytest.fixture
def made(here):
    coordinator = make_coordinator(here / "c")
    make_sites(here, coordinator)
    return coordinator


@pytest.fixture
def conducting(monkeypatch, made):
    """A coordinator that seems to run, and holds a short conversation by itself."""

    def heed(folder, name, what):
        if what == "stop":
            return
        config = {"method": "hulls", "parameters": {}, "seed": 0, "engine": "nats", "sites": {"anna": {}}}
        record = RunRecord(folder.path / "runs" / name, config, resume=True)
        record.evaluation(msgspec.structs.replace(figures(), by_site=[]))
        record.event(Event(0, "join", "anna", "joined"))
        record.event(Event(0, "join", "bert", "lost", "did not come within 60 s"))
        record.event(Event(1, "join.hello", "anna", "asked"))
        record.event(Event(1, "join.hello", "anna", "answered"))
        record.enter(
            LedgerEntry(step=1, site="anna", kind="join.keys", bytes=362, received=9, reveals="public keys")
        )
        record.metric("seconds", 1.5)
        record.warnings([lost_site("bert", ABSENT)])
        record.finish(*end)

    end = ["finished", ""]
    monkeypatch.setattr(submit, "ask_for", heed)
    with locked(made.path / COORDINATOR_LOCK, "busy"):
        yield end
