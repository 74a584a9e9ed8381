"""Starting and stopping the programs of a federation: the coordinator's SuperLink, a site's SuperNode."""

from __future__ import annotations

import json
import os
import signal
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from fedgeom.errors import InputError
from fedgeom.federation.messages import VERSION
from fedgeom.service import flower_programs as flower
from fedgeom.service.coordinator_app import FOLDER_VARIABLE
from fedgeom.service.folders import CoordinatorFolder, Node, SiteFolder
from fedgeom.service.guard import write_guards
from fedgeom.service.journal import Journal, LocalEntry, held, is_held
from fedgeom.service.site_app import read_data

Say = Callable[[str], None]

HINTS = {
    "CERTIFICATE_VERIFY_FAILED": "the coordinator's certificate is foreign: {certificate} did not sign it. Ask "
    "the coordinator for its current ca.pem",
    "code: 2004": "the coordinator does not know this site's node key: it was not admitted, or with another key "
    "(or the coordinator has only just started: then this passes). Send {name}.pub to the coordinator for: "
    "fedgeom coordinator admit {name}.pub",
    "Connection refused": "nothing listens at {coordinator}: is the coordinator running?",
}
"""What Flower's messages mean for a steward."""

ACTIVATED = "SuperNode ID"
"""What Flower writes to the log when it let the node in."""

RETRYING = "Connection attempt failed"
"""What Flower writes to the log when nobody answers."""

COORDINATOR_LOCK = "coordinator.lock"

STILL_COUNTED = (
    "the coordinator still counts an earlier process of this site as connected, which passes within a minute "
    "(or the site was removed meanwhile: ask the coordinator)"
)
"""What the refusal of a node means that was let in before."""


@contextmanager
def ending_politely() -> Iterator[None]:
    """Let SIGTERM, by which service managers stop programs, end this one by way of its clean-up."""

    def leave(*_: object) -> None:
        raise SystemExit(0)

    before = signal.signal(signal.SIGTERM, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def need_flower() -> None:
    """Say how to install Flower when it is missing."""
    try:
        import flwr  # noqa: F401
    except ImportError as error:
        raise InputError("deployments need Flower: pip install 'fedgeom[flower]'") from error


def free_port() -> int:
    """Return a port on loopback that nobody uses now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def running(command: list[str], environment: dict[str, str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run a program with its children in a group of its own, and stop them all in the end."""
    with log.open("ab") as out:
        process = subprocess.Popen(
            command, env=environment, stdout=out, stderr=subprocess.STDOUT, start_new_session=True
        )
        try:
            yield process
        finally:
            stop(process)


def stop(process: subprocess.Popen[bytes], *, patience: float = 10.0) -> None:
    """End a program and its children: politely first."""
    for sign, wait in ((signal.SIGTERM, patience), (signal.SIGKILL, 5.0)):
        try:
            os.killpg(process.pid, sign)
        except ProcessLookupError:
            break
        try:
            process.wait(wait)
        except subprocess.TimeoutExpired:
            continue
    process.poll()


def wait_for_port(address: str, process: subprocess.Popen[bytes], *, seconds: float = 60.0) -> None:
    """Wait until a program listens, or say that it does not."""
    host, port = address.rsplit(":", 1)
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if process.poll() is not None:
            raise InputError(f"the coordinator's SuperLink ended at once (code {process.returncode}); see its log")
        try:
            socket.create_connection((host, int(port)), 1).close()
        except OSError:
            time.sleep(0.1)
        else:
            return
    raise InputError(f"the coordinator's SuperLink did not listen at {address} within {seconds:g} s")


# --- the coordinator ---


def coordinator_environment(folder: CoordinatorFolder) -> dict[str, str]:
    """Return the environment of the coordinator's programs."""
    guards = write_guards(folder.path / "flower" / "guards")
    return flower.environment(folder.path / "flower", guards=guards) | {FOLDER_VARIABLE: str(folder.path)}


def flower_call(folder: CoordinatorFolder, command: list[str]) -> str:
    """Call Flower's own command line on the coordinator's machine and return what it printed."""
    done = subprocess.run(
        command, env=coordinator_environment(folder), capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise InputError(f"Flower refused `{' '.join(command[:3])}`: {(done.stdout + done.stderr).strip()[-500:]}")
    return done.stdout


def register_nodes(folder: CoordinatorFolder, say: Say) -> None:
    """Tell the running SuperLink which node keys are admitted: new ones come in, removed ones are shut out."""
    registered, keys = folder.registered(), folder.node_keys()
    for name, node in list(registered.nodes.items()):
        if keys.get(name) != node.key:
            del registered.nodes[name]
            registered.shut.append(node.key)
            folder.save_registered(registered)
            if node.number:
                flower_call(folder, flower.unregister(node.number))
            say(f"{name} may connect no more" if name not in keys else f"{name}: the old node key is shut out")
    for name, key in keys.items():
        if name in registered.nodes:
            continue
        try:
            answer = flower_call(folder, flower.register(folder.path / "nodes" / f"{name}.pub", name))
            number = str(json.loads(answer[answer.index("{") :])["node-id"])
            say(f"{name} may connect")
        except InputError as error:
            if "already" not in str(error).lower():
                raise
            number = ""
        registered.nodes[name] = Node(key, number)
        folder.save_registered(registered)


@contextmanager
def coordinator(folder: CoordinatorFolder, say: Say = lambda text: None) -> Iterator[str]:
    """Run the coordinator; yields its address once sites may connect."""
    need_flower()
    config, address = folder.config(), folder.address()
    certificate = None if config.insecure else folder.path / "ca.pem"
    with held(folder.path / COORDINATOR_LOCK, f"the coordinator in {folder.path} is running already"):
        check_port(address)
        flower.write_connection(folder.path / "flower", address=address, certificate=certificate)
        command = flower.superlink(folder.path, host=config.host, port=config.port, insecure=config.insecure)
        with running(command, coordinator_environment(folder), folder.path / "coordinator.log") as process:
            wait_for_port(address, process)
            if not config.insecure:
                register_nodes(folder, say)
            yield address


def is_running(folder: CoordinatorFolder) -> bool:
    """Say whether the coordinator runs on this machine."""
    return is_held(folder.path / COORDINATOR_LOCK)


def check_port(address: str) -> None:
    """Refuse to start where another program listens, or sites would talk to that one."""
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), 1).close()
    except OSError:
        return
    raise InputError(f"another program listens at {address}; stop it, or give another port in coordinator.toml")


# --- a site ---


def check_site(folder: SiteFolder, say: Say) -> None:
    """Look at everything that can be wrong at a site before it connects."""
    config = folder.config()
    folder.identity()
    data = read_data(folder)
    say(f"{config.name}: {len(data)} rows, {data.X.shape[1]} columns, {len(data.classes)} classes")
    roster = folder.roster()
    if roster.get(config.name) != folder.identity().public:
        raise InputError(
            f"{folder.path / config.roster} does not hold {config.name!r} with this site's identity; send "
            f"{config.name}.pub to the coordinator and ask for the new roster.json"
        )
    if config.insecure:
        say("INSECURE: no TLS, and Flower does not check who connects; on this machine only, for trying out")
        return
    certificate = folder.path / config.certificate
    if not certificate.is_file():
        raise InputError(f"{certificate} is missing; ask the coordinator for ca.pem")
    check_certificate(config.coordinator, certificate)


def check_certificate(address: str, certificate: Path) -> None:
    """Shake hands once, so that a foreign certificate is named as such; nobody there is no error."""
    host, _, port = address.rpartition(":")
    try:
        context = ssl.create_default_context(cafile=str(certificate))
        with socket.create_connection((host, int(port)), 5) as raw, context.wrap_socket(raw, server_hostname=host):
            pass
    except ssl.SSLCertVerificationError as error:
        raise InputError(
            f"the certificate of {address} is foreign or not made out for this address: {error.verify_message} "
            f"(checked with {certificate})"
        ) from error
    except (OSError, ValueError):
        return


def run_site(folder: SiteFolder, say: Say, *, port: int | None = None, patience: float = 5.0) -> None:
    """Run a site until it is stopped; when the connection breaks it is built again."""
    need_flower()
    check_site(folder, say)
    with held(folder.path / "site.lock", f"the site in {folder.path} is running already"):
        _run_site(folder, say, port, patience)


def _run_site(folder: SiteFolder, say: Say, port: int | None, patience: float) -> None:
    config, last = folder.config(), ""
    home = folder.path / "flower"
    home.mkdir(exist_ok=True)
    environment = flower.environment(home, guards=write_guards(home / "guards"))
    say(f"connecting to {config.coordinator}, protocol version {VERSION}; stop with Ctrl-C")
    while True:
        command = flower.supernode(
            config.coordinator,
            port=port or free_port(),
            config={"site": str(folder.path)},
            certificate=None if config.insecure else folder.path / config.certificate,
            key=None if config.insecure else folder.node_key,
        )
        log = folder.path / "site.log"
        start = log.stat().st_size if log.exists() else 0
        with running(command, environment, log) as process:
            follow(folder, process, say, Signs(log, start, config.coordinator))
        reason = explain(folder, log, start)
        if reason != last:
            say(f"{reason}; trying again every {patience:g} s")
        last = reason
        time.sleep(patience)


class Signs:
    """Reads off Flower's log whether a site is connected."""

    def __init__(self, log: Path, start: int, coordinator: str):
        self._log, self._at, self._coordinator = log, start, coordinator
        self._said = ""

    def new(self) -> str:
        """Return what changed since the last look, or nothing."""
        if not self._log.exists():
            return ""
        with self._log.open("rb") as file:
            file.seek(self._at)
            text = file.read().decode(errors="replace")
            self._at = file.tell()
        up, down = text.rfind(ACTIVATED), text.rfind(RETRYING)
        if up < 0 and down < 0:
            return ""
        state = (
            f"connected to {self._coordinator}"
            if up > down
            else f"{self._coordinator} does not answer: is the coordinator running? Going on trying"
        )
        news, self._said = "" if state == self._said else state, state
        return news


def follow(folder: SiteFolder, process: subprocess.Popen[bytes], say: Say, signs: Signs | None = None) -> None:
    """Tell the steward each question and answer while the site runs."""
    journal = Journal(folder.path)
    _, seen = journal.since(0)
    tidied = 0.0
    while process.poll() is None:
        if time.monotonic() > tidied + 3600 or not tidied:
            tidied = time.monotonic()
            journal.forget_old()
        time.sleep(0.5)
        news = signs.new() if signs else ""
        if news:
            say(news)
        entries, seen = journal.since(seen)
        for entry in entries:
            say(describe(entry))


def describe(entry: LocalEntry) -> str:
    """Write a line of the site's own ledger for people."""
    clock = time.strftime("%H:%M:%S", time.localtime(entry.time))
    asked = f"asked {entry.question} ({entry.received:,} B)"
    line = f"{clock} run {entry.run[:8] or '?'} {asked}, answered {entry.answer} ({entry.sent:,} B)"
    return f"{line}: {entry.note}" if entry.note else line


def explain(folder: SiteFolder, log: Path, start: int) -> str:
    """Say in plain words why a site's connection ended."""
    config = folder.config()
    with log.open("rb") as file:
        before = ACTIVATED.encode() in file.read(start)
        text = file.read().decode(errors="replace")
    if "code: 2004" in text and before:
        return STILL_COUNTED
    for sign, meaning in HINTS.items():
        if sign in text:
            return meaning.format(name=config.name, certificate=config.certificate, coordinator=config.coordinator)
    return f"the connection to {config.coordinator} ended; details are in {log}"


# --- jobs ---


def start_flower_run(folder: CoordinatorFolder, job: str) -> str:
    """Start a job on the running coordinator and return Flower's number for it."""
    app = Path(__file__).with_name("app")
    answer = flower_call(folder, flower.start_run(app, job))
    try:
        found = json.loads(answer[answer.index("{") :])
        return str(found["run-id"])
    except (ValueError, KeyError) as error:
        raise InputError(f"Flower's answer to the submission cannot be read: {answer.strip()[-300:]}") from error


def flower_status(folder: CoordinatorFolder, run_id: str) -> str:
    """Return how Flower says that a run stands, such as ``finished:failed``."""
    answer = flower_call(folder, flower.list_run(run_id))
    if "{" not in answer:
        return "unknown"
    runs = json.loads(answer[answer.index("{") :]).get("runs", [])
    return str(runs[0]["status"]) if runs else "unknown"


def main_site(path: str) -> None:
    """Run a site from a bare process, for tests and service managers."""
    with ending_politely():
        run_site(SiteFolder(Path(path)), lambda text: print(text, flush=True))


if __name__ == "__main__":
    main_site(sys.argv[1])
