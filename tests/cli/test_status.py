"""``fedgeom site status``, ``fedgeom coordinator status`` and ``jobs``: what is wrong decides the code."""

from __future__ import annotations

import json
import time

import pytest

from fedgeom.deploy.coordinator import COORDINATOR_LOCK
from fedgeom.deploy.jobs import create_job
from fedgeom.deploy.nats_coordinator import STATUS, CoordinatorState, Visitor
from fedgeom.deploy.nats_site import LINK, LinkReport
from fedgeom.deploy.site_folder import SiteFolder
from fedgeom.errors import InputError
from fedgeom.federation.record import write_status
from fedgeom.storage import locked, write_json
from tests.cli.deploying import call
from tests.deploy.making import make_coordinator, make_sites

NOW = 1_800_000_000.0


@pytest.fixture
def nats(here):
    coordinator = make_coordinator(here / "c")
    sites = make_sites(here, coordinator)
    return coordinator, sites


def found(*words, code):
    return json.loads(call(*words, "--json", code=code))


def test_a_site_that_runs_and_is_connected_is_well(here, nats):
    site = nats[1]["anna"]
    status = ("site", "status", "--folder", site.path)
    assert found(*status, code=1)["troubles"] == ["the site does not run: fedgeom site start"]
    with locked(site.path / "site.lock", "busy"):
        assert "not connected to" in call(*status, code=1)
        write_json(site.path / LINK, LinkReport(time=NOW, trouble="nobody listens there"))
        assert "nobody listens there" in found(*status, code=1)["troubles"][0]
        write_json(site.path / LINK, LinkReport(time=NOW, since=NOW, waiting=1))
        well = found(*status, code=0)
        assert well["healthy"]
        assert (well["connected"], well["connected_since"]) == (True, "2027-01-15T08:00:00+00:00")
        assert (well["waiting"], well["jobs_to_approve"], well["last_question"]) == (1, 0, None)
        assert well["certificate_ends"] > "2030"
        assert "connected yes" in call(*status)
        (site.path / "ca.pem").unlink()
        assert "ca.pem is missing" in found(*status, code=1)["troubles"][0]


def test_a_damaged_file_of_approvals_is_trouble(nats):
    site = nats[1]["anna"]
    (site.path / "approvals.json").write_text("{")
    assert any("damaged" in one for one in found("site", "status", "--folder", site.path, code=1)["troubles"])


def test_a_coordinator(nats):
    coordinator, _ = nats
    status = ("coordinator", "status", "--folder", coordinator.path)
    assert "does not run" in call(*status, code=1)
    with locked(coordinator.path / COORDINATOR_LOCK, "busy"):
        state = CoordinatorState(time=time.time(), sites={"anna": Visitor(since=NOW, version="1")})
        write_json(coordinator.path / STATUS, state)
        well = found(*status, code=0)
        assert set(well["connected"]) == {"anna"}
        assert well["admitted"] == ["anna", "bert", "carl"]
        assert "connected anna" in call(*status)
        listed = call("coordinator", "list", "--folder", coordinator.path)
        for piece in ("anna connected", "bert not connected", "running at 127.0.0.1:8000"):
            assert piece in listed
        write_json(coordinator.path / STATUS, CoordinatorState(time=NOW - 10**8))
        assert "nothing down since" in found(*status, code=1)["troubles"][0]
        write_json(coordinator.path / STATUS, CoordinatorState(time=time.time(), trouble="nobody listens there"))
        assert "its own server" in found(*status, code=1)["troubles"][0]


def test_jobs_are_listed_stopped_and_removed(nats, here):
    coordinator, _ = nats
    jobs = ("coordinator", "jobs", "--folder", coordinator.path)
    assert found(*jobs, code=0) == []
    (here / "study.toml").write_text('method = "hulls"\n')
    job = create_job(coordinator, here / "study.toml")
    write_status(job.run_folder, "running", "")
    assert [(one["name"], one["state"], one["conducted"]) for one in found(*jobs, code=0)] == [
        ("study-1", "running", False)
    ]
    with locked(job.run_folder / "lock", "busy"):
        assert "running, being conducted" in call(*jobs)
        assert "stop it first" in call(*jobs, "--remove", "study-1", code=2)
    assert "submit --resume study-1" in call(*jobs, "--stop", "study-1")
    assert (coordinator.path / "requests" / "study-1.stop").exists()
    assert found(*jobs, code=0)[0]["state"] == "interrupted"
    assert "removed study-1" in call(*jobs, "--remove", "study-1")
    assert not job.folder.exists()
    assert not job.run_folder.exists()
    assert "no job 'study-1'" in call(*jobs, "--remove", "study-1", code=2)


def test_a_folder_of_an_earlier_release_makes_its_keys(here, made):
    site = SiteFolder(here / "anna")
    for key in (site.nats_key, made.nats_key):
        key.unlink()
    said = call("site", "start", "--folder", "anna", code=2)
    assert "fedgeom site init --name anna --new-node-key" in said
    call("site", "init", "--name", "anna", "--new-node-key")
    call("coordinator", "admit", "anna/anna.pub", "--folder", "c")
    with pytest.raises(InputError, match="--new-key"):
        made.endpoint()
    call("coordinator", "init", "--new-key", "--folder", "c")
    assert made.endpoint().seed.startswith("SU")
