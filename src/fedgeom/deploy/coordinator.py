"""A coordinator's process: starting, the loop while it runs, and who is connected."""

from __future__ import annotations

import datetime
import time
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec

from fedgeom.crypto.keys import describe_identity
from fedgeom.deploy import certificates
from fedgeom.deploy.coordinator_folder import CoordinatorFolder
from fedgeom.deploy.nats_coordinator import CoordinatorState, read_state, running_server
from fedgeom.engines.processes import Say, check_port, logged
from fedgeom.storage import is_locked, locked

COORDINATOR_LOCK = "coordinator.lock"


@contextmanager
def running_coordinator(folder: CoordinatorFolder, say: Say = lambda text: None) -> Iterator[str]:
    """Run the coordinator; yields its address once sites may connect."""
    address = folder.address()
    with locked(folder.path / COORDINATOR_LOCK, f"the coordinator in {folder.path} is running already"):
        if not folder.config().servers:
            check_port(address)
        folder.close_to_others()
        with running_server(folder, say):
            yield address


def is_running(folder: CoordinatorFolder) -> bool:
    """Say whether the coordinator runs on this machine."""
    return is_locked(folder.path / COORDINATOR_LOCK)


WARN_DAYS = 60
"""How long before its end a certificate is spoken of."""


class SiteStatus(msgspec.Struct, frozen=True):
    """How a site stands with the coordinator."""

    name: str
    identity: str
    connection: str
    """connected or not connected; nothing where the coordinator does not run."""


def run_coordinator(folder: CoordinatorFolder, say: Say) -> None:
    """Run the coordinator until it is stopped."""
    say = logged(say, folder.path / "coordinator.log")
    warn_of_expiry(folder, say)
    with running_coordinator(folder, say) as address:
        say(f"listening at {address}; stop with Ctrl-C")
        if folder.config().insecure:
            say("INSECURE: no TLS; on this machine only, for trying out")
        while True:  # a thread looks after everything
            time.sleep(3600)


def warn_of_expiry(folder: CoordinatorFolder, say: Say) -> None:
    """Warn when the TLS certificate ends soon."""
    if folder.config().insecure:
        return
    end = certificates.valid_until(folder.path / "server.pem")
    days = (end - datetime.datetime.now(datetime.UTC)).days
    if days < WARN_DAYS:
        when = f"ends on {end:%Y-%m-%d}" if days >= 0 else f"ended on {end:%Y-%m-%d}: sites will refuse it"
        say(f"the TLS certificate {when}; make a new one: fedgeom coordinator init --renew, then start again")


def list_sites(folder: CoordinatorFolder) -> list[SiteStatus]:
    """Return all admitted sites, and whether they are connected."""
    state = read_state(folder) if is_running(folder) else None
    return [
        SiteStatus(name, describe_identity(public), _connection(name, state))
        for name, public in folder.roster().items()
    ]


def _connection(name: str, state: CoordinatorState | None) -> str:
    if state is None:
        return ""
    return "connected" if name in state.sites else "not connected"
