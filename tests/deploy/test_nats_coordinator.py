"""The coordinator's own process: jobs that are stopped and resumed while their processes still end."""

from __future__ import annotations

import signal

import pytest

pytest.importorskip("nats", reason="NATS is not installed")
pytest.importorskip("nkeys", reason="NATS is not installed")

from fedgeom.deploy import nats_coordinator
from fedgeom.deploy.jobs import create_job
from fedgeom.deploy.nats_coordinator import CoordinatorService, ask_for, is_asked_for
from fedgeom.federation.record import read_status, write_status
from tests.deploy.making import make_coordinator, make_sites


class SlowProcess:
    """A conversation's process that takes its time to end."""

    pid = 4_194_305  # beyond the largest number that Linux gives to a process
    returncode: int | None = None

    def poll(self) -> int | None:
        return self.returncode


@pytest.fixture
def service(tmp_path, monkeypatch):
    """A service, its folder, a job whose process is there, and what was started and signalled."""
    folder = make_coordinator(tmp_path / "c")
    make_sites(tmp_path, folder)
    federation = tmp_path / "job.toml"
    federation.write_text('method = "hulls"\n')
    job = create_job(folder, federation)
    made = CoordinatorService(folder, None, None, lambda said: None)
    done: list[object] = []
    monkeypatch.setattr(nats_coordinator, "start_logged", lambda *_: done.append("started") or SlowProcess())
    monkeypatch.setattr(nats_coordinator.os, "killpg", lambda pid, number: done.append(number))
    return made, folder, job, done


def test_a_job_that_is_resumed_while_its_process_still_ends_is_started_afterwards(service):
    made, folder, job, done = service
    (folder.path / nats_coordinator.REQUESTS).mkdir(exist_ok=True)
    ask_for(folder, job.name, "start")
    made._heed_requests()
    process = made._conducted[job.name]
    ask_for(folder, job.name, "stop")
    made._heed_requests()
    write_status(job.run_folder, "submitted")
    ask_for(folder, job.name, "start")
    made._heed_requests()
    assert done == ["started", signal.SIGTERM]
    assert is_asked_for(folder, job.name)
    process.returncode = 0
    made._reap()
    assert read_status(job.run_folder).state == "submitted"
    made._heed_requests()
    assert done == ["started", signal.SIGTERM, "started"]
    assert not is_asked_for(folder, job.name)


def test_a_process_that_ends_without_a_word_is_told_as_failed(service):
    made, folder, job, _ = service
    (folder.path / nats_coordinator.REQUESTS).mkdir(exist_ok=True)
    ask_for(folder, job.name, "start")
    made._heed_requests()
    made._conducted[job.name].returncode = 9
    made._reap()
    assert read_status(job.run_folder).state == "failed"
