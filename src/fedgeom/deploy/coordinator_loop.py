"""The coordinator while it runs: sites that are admitted meanwhile come in, and who comes and goes is told."""

from __future__ import annotations

import datetime
import time
from pathlib import Path

import msgspec

from fedgeom.deploy import certificates
from fedgeom.deploy.coordinator_calls import node_states, register_nodes
from fedgeom.deploy.coordinator_folder import CoordinatorFolder
from fedgeom.deploy.coordinator_process import is_running, running_coordinator
from fedgeom.engines.flower.log_lines import read_visits
from fedgeom.engines.flower.processes import Say
from fedgeom.errors import InputError

LOOK_SECONDS = 2.0
"""How often the coordinator looks for newly admitted sites."""

WARN_DAYS = 60
"""How long before its end a certificate is spoken of."""


class SiteStatus(msgspec.Struct, frozen=True):
    """How a site stands with the coordinator."""

    name: str
    identity: str
    connection: str
    """connected, not connected, never connected, or why that is not known."""


def run_coordinator(folder: CoordinatorFolder, say: Say) -> None:
    """Run the coordinator until it is stopped."""
    log = folder.path / "coordinator.log"
    seen = log.stat().st_size if log.exists() else 0
    warn_of_expiry(folder, say)
    with running_coordinator(folder, say) as address:
        say(f"listening at {address}; stop with Ctrl-C")
        if folder.config().insecure:
            say("INSECURE: no TLS, and Flower does not check who connects; on this machine only, for trying out")
        known = folder.node_keys()
        while True:
            time.sleep(LOOK_SECONDS)
            if not folder.config().insecure and folder.node_keys() != known:
                known = folder.node_keys()
                try:
                    register_nodes(folder, say)
                except InputError as error:  # tried again when the coordinator starts anew
                    say(str(error))
            seen = tell_visits(folder, log, seen, say)


def tell_visits(folder: CoordinatorFolder, log: Path, start: int, say: Say) -> int:
    """Say who came and went according to Flower's log; return where to read on."""
    with log.open("rb") as file:
        file.seek(start)
        visits, size = read_visits(file.read())
    names = {node.number: name for name, node in folder.registered().nodes.items() if node.number}
    for visit in visits:
        say(f"{names.get(visit.number, f'node {visit.number}')} {'connected' if visit.came else 'left'}")
    return start + size


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
    states = _states(folder)
    return [
        SiteStatus(name, public.hex(), states.get(name, "not known to Flower yet") if states is not None else "")
        for name, public in folder.roster().items()
    ]


def _states(folder: CoordinatorFolder) -> dict[str, str] | None:
    if not is_running(folder) or folder.config().insecure:
        return None
    numbers = node_states(folder)
    words = {"online": "connected", "offline": "not connected", "registered": "never connected"}
    return {
        name: words.get(numbers.get(node.number, ""), "not connected")
        for name, node in folder.registered().nodes.items()
    }
