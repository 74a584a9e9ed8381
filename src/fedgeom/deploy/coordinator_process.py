"""The coordinator's SuperLink: started, told who may connect, and stopped."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from fedgeom.deploy.coordinator_calls import coordinator_environment, forget_nodes, register_nodes
from fedgeom.deploy.coordinator_folder import CoordinatorFolder
from fedgeom.engines.flower import commands
from fedgeom.engines.flower.processes import Say, check_port, running, wait_for_port
from fedgeom.storage import is_locked, locked

COORDINATOR_LOCK = "coordinator.lock"


@contextmanager
def running_coordinator(folder: CoordinatorFolder, say: Say = lambda text: None) -> Iterator[str]:
    """Run the coordinator; yields its address once sites may connect."""
    commands.need_flower()
    config, address = folder.config(), folder.address()
    certificate = None if config.insecure else folder.path / "ca.pem"
    with locked(folder.path / COORDINATOR_LOCK, f"the coordinator in {folder.path} is running already"):
        check_port(address)
        folder.close_to_others()
        commands.write_connection(folder.path / "flower", address=address, certificate=certificate)
        command = commands.superlink(folder.path, host=config.host, port=config.port, insecure=config.insecure)
        forget_nodes(folder)
        with running(command, coordinator_environment(folder), folder.path / "coordinator.log") as process:
            wait_for_port(address, process)
            if not config.insecure:
                register_nodes(folder, say)
            yield address


def is_running(folder: CoordinatorFolder) -> bool:
    """Say whether the coordinator runs on this machine."""
    return is_locked(folder.path / COORDINATOR_LOCK)
