"""What a coordinator tells: who is connected, and certificates that end soon."""

from __future__ import annotations

import datetime

import pytest

from fedgeom.crypto.keys import describe_identity
from fedgeom.deploy.coordinator import COORDINATOR_LOCK, list_sites, warn_of_expiry
from fedgeom.deploy.nats_coordinator import STATUS, CoordinatorState, Visitor
from fedgeom.storage import locked, write_json
from tests.deploy.making import make_coordinator, make_sites


@pytest.fixture
def made(tmp_path):
    coordinator = make_coordinator(tmp_path / "c")
    make_sites(tmp_path, coordinator)
    return coordinator


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


def test_who_is_connected(made):
    assert [site.connection for site in list_sites(made)] == ["", "", ""]  # it does not run
    with locked(made.path / COORDINATOR_LOCK, "busy"):
        assert {site.connection for site in list_sites(made)} == {""}  # it has only just started
        state = CoordinatorState(time=0.0, sites={"anna": Visitor(since=0.0, version="1")})
        write_json(made.path / STATUS, state)
        found = {site.name: site.connection for site in list_sites(made)}
    assert found == {"anna": "connected", "bert": "not connected", "carl": "not connected"}
    assert [site.identity for site in list_sites(made)] == [
        describe_identity(key) for key in made.roster().values()
    ]
