"""The coordinator while it runs: sites that are admitted meanwhile come in, and who comes and goes is told."""

from __future__ import annotations

import datetime
import json
import re
import time
from pathlib import Path

import msgspec

from fedgeom.deploy import certificates
from fedgeom.deploy.coordinator_folder import CoordinatorFolder
from fedgeom.deploy.coordinator_process import coordinator, is_running
from fedgeom.engines.flower import programs as flower
from fedgeom.engines.flower.calls import flower_call, register_nodes
from fedgeom.engines.flower.processes import Say
from fedgeom.errors import InputError

LOOK_SECONDS = 2.0
"""How often the coordinator looks for newly admitted sites."""

WARN_DAYS = 60
CAME_OR_WENT = re.compile(r"\[Fleet\.(Activate|Deactivate)Node\] (?:A|Dea)ctivated node_id=(\d+)")


class SiteStatus(msgspec.Struct, frozen=True):
    """How a site stands with the coordinator."""

    name: str
    identity: str
    connection: str
    """connected, not connected, never connected, or why that is not known."""


def serve(folder: CoordinatorFolder, say: Say) -> None:
    """Run the coordinator until it is stopped."""
    log = folder.path / "coordinator.log"
    seen = log.stat().st_size if log.exists() else 0
    warn_of_end(folder, say)
    with coordinator(folder, say) as address:
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
            seen = tell_visitors(folder, log, seen, say)


def tell_visitors(folder: CoordinatorFolder, log: Path, start: int, say: Say) -> int:
    """Say who came and went according to Flower's log; return where to read on."""
    with log.open("rb") as file:
        file.seek(start)
        data = file.read()
    whole = data[: data.rfind(b"\n") + 1]
    names = {node.number: name for name, node in folder.registered().nodes.items() if node.number}
    for line in whole.decode(errors="replace").splitlines():
        found = CAME_OR_WENT.search(line)
        if found:
            name = names.get(found[2], f"node {found[2]}")
            say(f"{name} {'connected' if found[1] == 'Activate' else 'left'}")
    return start + len(whole)


def warn_of_end(folder: CoordinatorFolder, say: Say) -> None:
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
    answer = flower_call(folder, flower.list_nodes())
    nodes = json.loads(answer[answer.index("{") :]).get("nodes", [])
    numbers = {str(node["node-id"]): str(node["status"]) for node in nodes}
    words = {"online": "connected", "offline": "not connected", "registered": "never connected"}
    return {
        name: words.get(numbers.get(node.number, ""), "not connected")
        for name, node in folder.registered().nodes.items()
    }
