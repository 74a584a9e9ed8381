"""The coordinator while it runs: who came and went, who is connected, and certificates that end soon."""

from __future__ import annotations

import datetime
from contextlib import contextmanager

import pytest

from fedgeom.crypto.keys import describe_identity
from fedgeom.deploy import coordinator as deploy_coordinator
from fedgeom.deploy.coordinator import COORDINATOR_LOCK, list_sites, run_coordinator, tell_visits, warn_of_expiry
from fedgeom.deploy.coordinator_folder import NodeKey, RegisteredSites
from fedgeom.errors import InputError
from fedgeom.storage import locked
from tests.deploy.making import NAMES, make_coordinator, make_sites


@pytest.fixture
def made(tmp_path):
    coordinator = make_coordinator(tmp_path / "c")
    make_sites(tmp_path, coordinator)
    return coordinator


def test_who_came_and_went(made):
    made.save_registered(RegisteredSites({"anna": NodeKey("k", "11")}))
    log = made.path / "coordinator.log"
    log.write_text(
        "INFO : [Fleet.ActivateNode] Activated node_id=11\nnothing\n"
        "INFO : [Fleet.DeactivateNode] Deactivated node_id=11\n"
        "INFO : [Fleet.ActivateNode] Activated node_id=12\nhalf a li"
    )
    said = []
    at = tell_visits(made, log, 0, said.append)
    assert said == ["anna connected", "anna left", "node 12 connected"]
    assert log.read_bytes()[at:] == b"half a li"


@pytest.mark.parametrize(("days", "piece"), [(800, ""), (30, "ends on"), (-5, "sites will refuse it")])
def test_a_warning_before_the_end(tmp_path, monkeypatch, days, piece):
    made = make_coordinator(tmp_path / "c")
    end = datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=days)
    monkeypatch.setattr("fedgeom.deploy.certificates.valid_until", lambda file: end)
    said = []
    warn_of_expiry(made, said.append)
    assert piece in "".join(said)
    assert bool(said) == bool(piece)


def test_an_insecure_federation_has_no_certificate_to_warn_of(tmp_path):
    made = make_coordinator(tmp_path / "c", insecure=True)
    (made.path / "server.pem").unlink()
    said = []
    warn_of_expiry(made, said.append)
    assert said == []


def test_who_is_connected(made, monkeypatch):
    asked = []
    monkeypatch.setattr(deploy_coordinator, "node_states", lambda folder: asked.append(folder) or dict(states))
    states = {"1": "online", "2": "offline", "3": "registered"}
    assert [site.connection for site in list_sites(made)] == ["", "", ""]  # it does not run: nobody is asked
    assert asked == []
    with locked(made.path / COORDINATOR_LOCK, "busy"):
        assert {site.connection for site in list_sites(made)} == {"not known to Flower yet"}
        made.save_registered(RegisteredSites({name: NodeKey("k", str(k)) for k, name in enumerate(NAMES, 1)}))
        found = {site.name: site.connection for site in list_sites(made)}
    assert found == {"anna": "connected", "bert": "not connected", "carl": "never connected"}
    assert [site.identity for site in list_sites(made)] == [
        describe_identity(key) for key in made.roster().values()
    ]


class Stopped(Exception):  # noqa: N818
    """The steward presses Ctrl-C."""


def test_sites_that_are_admitted_meanwhile_come_in_and_an_error_does_not_stop_the_coordinator(
    made, tmp_path, monkeypatch
):
    said, registered, looks = [], [], iter([None, made.remove, None, made.remove, None, None])
    names = iter(["bert", "carl"])

    @contextmanager
    def running(folder, say):
        (folder.path / "coordinator.log").write_text("")
        yield "127.0.0.1:8000"

    def sleep(seconds):
        try:
            act = next(looks)
        except StopIteration:
            raise Stopped from None
        if act is not None:
            act(next(names))

    def register(folder, say):
        registered.append(sorted(folder.node_keys()))
        if len(registered) == 1:
            raise InputError("Flower refused it")

    monkeypatch.setattr(deploy_coordinator, "running_coordinator", running)
    monkeypatch.setattr(deploy_coordinator, "register_nodes", register)
    monkeypatch.setattr(deploy_coordinator.time, "sleep", sleep)
    with pytest.raises(Stopped):
        run_coordinator(made, said.append)
    assert registered == [["anna", "carl"], ["anna"]]
    assert said == ["listening at 127.0.0.1:8000; stop with Ctrl-C", "Flower refused it"]
