"""Starting the coordinator: once, on a port that is free, and told who may connect before anybody is."""

from __future__ import annotations

import os
import socket
import tomllib
from contextlib import contextmanager

import pytest

from fedgeom.deploy import coordinator
from fedgeom.deploy.coordinator import COORDINATOR_LOCK, is_running, running_coordinator
from fedgeom.errors import InputError
from fedgeom.storage import locked
from tests.deploy.making import make_coordinator


@pytest.fixture
def started(monkeypatch):
    """What is done to start a coordinator, in order, without doing it."""
    steps = []

    @contextmanager
    def running(command, environment, log):
        steps.append(("start", command[0], environment["PATH"].split(os.pathsep)[0]))
        yield None
        steps.append(("stop",))

    monkeypatch.setattr(coordinator.commands, "need_flower", lambda: None)
    monkeypatch.setattr(coordinator, "running", running)
    monkeypatch.setattr(coordinator, "wait_for_port", lambda address, process: steps.append(("wait", address)))
    monkeypatch.setattr(coordinator, "register_nodes", lambda folder, say: steps.append(("register",)))
    return steps


@pytest.fixture
def port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.mark.parametrize("insecure", [False, True])
def test_it_is_ready_when_it_listens_and_knows_who_may_connect(tmp_path, started, port, insecure):
    made = make_coordinator(tmp_path / "c", port=port, insecure=insecure)
    assert not is_running(made)
    with running_coordinator(made) as address:
        assert address == f"127.0.0.1:{port}"
        assert is_running(made)
        assert [step[0] for step in started] == ["start", "wait", *([] if insecure else ["register"])]
    assert started[-1] == ("stop",)
    assert not is_running(made)
    assert started[0] == ("start", "flower-superlink", str(made.path / "flower" / "guards"))
    there = tomllib.loads((made.path / "flower" / "config.toml").read_text())["superlink"]["fedgeom"]
    assert there["address"] == f"127.0.0.1:{port}"
    assert ("insecure" in there) == insecure


def test_it_does_not_run_twice(tmp_path, started):
    made = make_coordinator(tmp_path / "c")
    with (
        locked(made.path / COORDINATOR_LOCK, "busy"),
        pytest.raises(InputError, match="is running already"),
        running_coordinator(made),
    ):
        pass
    assert started == []


def test_it_does_not_start_where_another_program_listens(tmp_path, started):
    with socket.create_server(("127.0.0.1", 0)) as other:
        made = make_coordinator(tmp_path / "c", port=other.getsockname()[1])
        with pytest.raises(InputError, match="another program listens"), running_coordinator(made):
            pass
    assert started == []
    assert not is_running(made)
