"""A coordinator's process: its calls to Flower, starting, and the loop while it runs."""

from __future__ import annotations

import datetime
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from fedgeom.crypto.keys import describe_identity
from fedgeom.deploy import certificates
from fedgeom.deploy.coordinator_folder import FOLDER_VARIABLE, CoordinatorFolder, NodeKey
from fedgeom.deploy.nats_coordinator import read_state, running_server
from fedgeom.deploy.programs import BUNDLE, write_launchers
from fedgeom.engines.flower import calls, commands
from fedgeom.engines.flower.commands import read_visits
from fedgeom.engines.processes import Say, check_port, running, wait_for_port
from fedgeom.errors import InputError
from fedgeom.storage import is_locked, locked


def coordinator_environment(folder: CoordinatorFolder) -> dict[str, str]:
    """Return the environment of the coordinator's programs."""
    home = folder.path / "flower"
    return commands.environment(home, launchers=write_launchers(home)) | {FOLDER_VARIABLE: str(folder.path)}


def register_nodes(folder: CoordinatorFolder, say: Say) -> None:
    """Tell the running SuperLink which node keys are admitted: new ones come in, removed ones are shut out."""
    registered = folder.registered()
    keys = folder.node_keys()
    environment = coordinator_environment(folder)
    for name, node in list(registered.nodes.items()):
        if keys.get(name) != node.key:
            del registered.nodes[name]
            registered.shut.append(node.key)
            folder.save_registered(registered)
            if node.number:
                calls.unregister_node(environment, node.number)
            say(f"{name} may connect no more" if name not in keys else f"{name}: the old node key is shut out")
    new = [name for name in keys if name not in registered.nodes]
    numbers = calls.register_nodes(environment, {name: folder.node_key_file(name) for name in new})
    for name, number in numbers.items():
        if isinstance(number, str):
            registered.nodes[name] = NodeKey(keys[name], number)
            if number:
                say(f"{name} may connect")
    folder.save_registered(registered)
    for number in numbers.values():
        if isinstance(number, InputError):
            raise number  # after the numbers of all the others are kept


def forget_nodes(folder: CoordinatorFolder) -> None:
    """Say that a new SuperLink, which knows nobody, has been told of no node yet; removed keys stay shut out."""
    registered = folder.registered()
    keys = folder.node_keys()
    registered.shut += [node.key for name, node in registered.nodes.items() if keys.get(name) != node.key]
    registered.nodes.clear()
    folder.save_registered(registered)


def node_states(folder: CoordinatorFolder) -> dict[str, str]:
    """Return what Flower says of each node, by its number."""
    return calls.node_states(coordinator_environment(folder))


def start_flower_run(folder: CoordinatorFolder, job: str) -> str:
    """Start a job on the running coordinator and return Flower's number for it."""
    return calls.start_run(coordinator_environment(folder), BUNDLE, job)


def flower_status(folder: CoordinatorFolder, run_id: str) -> str:
    """Return how Flower says that a run stands, such as ``finished:failed``."""
    return calls.run_state(coordinator_environment(folder), run_id)


def stop_flower_run(folder: CoordinatorFolder, run_id: str) -> None:
    """Ask Flower to stop a run; that it has ended meanwhile is as good."""
    calls.stop_run(coordinator_environment(folder), run_id)


COORDINATOR_LOCK = "coordinator.lock"


@contextmanager
def running_coordinator(folder: CoordinatorFolder, say: Say = lambda text: None) -> Iterator[str]:
    """Run the coordinator; yields its address once sites may connect."""
    address = folder.address()
    serve = running_server if folder.config().engine == "nats" else running_superlink
    with locked(folder.path / COORDINATOR_LOCK, f"the coordinator in {folder.path} is running already"):
        check_port(address)
        folder.close_to_others()
        with serve(folder, say):
            yield address


@contextmanager
def running_superlink(folder: CoordinatorFolder, say: Say) -> Iterator[None]:
    """Run Flower's SuperLink, and tell it who may connect."""
    commands.need_flower()
    config = folder.config()
    address = folder.address()
    certificate = None if config.insecure else folder.path / "ca.pem"
    commands.write_connection(folder.path / "flower", address=address, certificate=certificate)
    command = commands.superlink(folder.path, host=config.host, port=config.port, insecure=config.insecure)
    forget_nodes(folder)
    with running(command, coordinator_environment(folder), folder.path / "coordinator.log") as process:
        wait_for_port(address, process)
        if not config.insecure:
            register_nodes(folder, say)
        yield


def is_running(folder: CoordinatorFolder) -> bool:
    """Say whether the coordinator runs on this machine."""
    return is_locked(folder.path / COORDINATOR_LOCK)


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
        by_nats = folder.config().engine == "nats"
        if folder.config().insecure:
            checks = "" if by_nats else ", and Flower does not check who connects"
            say(f"INSECURE: no TLS{checks}; on this machine only, for trying out")
        while by_nats:  # its own thread looks after everything
            time.sleep(LOOK_SECONDS)
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
    by_nats = folder.config().engine == "nats"
    states = _nats_states(folder) if by_nats else _states(folder)
    unknown = "not connected" if by_nats else "not known to Flower yet"
    return [
        SiteStatus(name, describe_identity(public), states.get(name, unknown) if states is not None else "")
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


def _nats_states(folder: CoordinatorFolder) -> dict[str, str] | None:
    state = read_state(folder) if is_running(folder) else None
    return None if state is None else dict.fromkeys(state.sites, "connected")
