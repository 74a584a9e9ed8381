"""Starting the coordinator: once, on a port that is free, with a server that admits the roster and is started anew."""

from __future__ import annotations

import os
import signal
import socket

import pytest

from fedgeom.deploy.coordinator import COORDINATOR_LOCK, is_running, running_coordinator
from fedgeom.deploy.nats_coordinator import REQUESTS, read_state
from fedgeom.engines.processes import free_port
from fedgeom.errors import InputError
from fedgeom.storage import locked
from tests.deploy.deployment import processes
from tests.deploy.making import make_coordinator, make_sites
from tests.waiting import until


def servers(folder):
    """The server's programs that were started with the folder's configuration."""
    return [one.pid for one in processes() if "nats-server" in one.command and str(folder.path) in one.command]


@pytest.mark.parametrize("insecure", [False, True])
def test_it_listens_and_its_server_is_started_anew_when_it_dies(tmp_path, insecure):
    made = make_coordinator(tmp_path / "c", port=free_port(), insecure=insecure)
    make_sites(tmp_path, made, insecure=insecure)
    assert not is_running(made)
    said = []
    with running_coordinator(made, said.append) as address:
        assert address == made.address()
        assert is_running(made)
        socket.create_connection(("127.0.0.1", made.config().port)).close()
        until(lambda: (state := read_state(made)) is not None and not state.trouble)
        (first,) = servers(made)
        os.kill(first, signal.SIGKILL)
        until(lambda: servers(made) not in ([], [first]))
        until(lambda: any("started anew" in one for one in said))
        socket.create_connection(("127.0.0.1", made.config().port)).close()
    until(lambda: not servers(made))
    assert not is_running(made)
    assert read_state(made) is None


def test_it_does_not_run_twice(tmp_path):
    made = make_coordinator(tmp_path / "c")
    with (
        locked(made.path / COORDINATOR_LOCK, "busy"),
        pytest.raises(InputError, match="is running already"),
        running_coordinator(made),
    ):
        pass
    assert not (made.path / REQUESTS).exists()


def test_it_does_not_start_where_another_program_listens(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as other:
        made = make_coordinator(tmp_path / "c", port=other.getsockname()[1])
        with pytest.raises(InputError, match="another program listens"), running_coordinator(made):
            pass
    assert not (made.path / REQUESTS).exists()
    assert not is_running(made)
