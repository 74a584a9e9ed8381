"""A coordinator whose questions NATS carries: its server, who may connect, and the processes that conduct jobs.

Whoever submits a job writes a request into the folder ``requests``, which only the folder's owner can; the running
coordinator starts and stops the processes that hold the conversations. They end with it.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from pathlib import Path
from types import TracebackType
from typing import Literal

import msgspec

from fedgeom.deploy.conductor import conduct, reach_by_nats
from fedgeom.deploy.coordinator_folder import CoordinatorFolder
from fedgeom.deploy.jobs import load_job
from fedgeom.deploy.programs import leave_no_traces
from fedgeom.engines.nats import server
from fedgeom.engines.nats.engine import NatsLink
from fedgeom.engines.nats.link import need_nats, public_key
from fedgeom.engines.nats.server import ServerSettings
from fedgeom.engines.processes import (
    Say,
    ending_politely,
    exit_with_parent,
    run_and_exit,
    running,
    start_logged,
    stop,
    wait_for_port,
)
from fedgeom.errors import FedgeomError, InputError, printable
from fedgeom.federation.record import ENDS, read_status, write_status
from fedgeom.storage import is_locked, locked, make_private_folder, write_file, write_json, write_text

REQUESTS = "requests"
STATUS = "status.json"
LOOK_SECONDS = 0.2
"""How often the coordinator looks for requests."""
VISIT_SECONDS = 2.0
"""How often it looks who is connected, and who is admitted."""
STOP_SECONDS = 15.0
"""How long a conversation may take to end when it is asked to."""


class Visitor(msgspec.Struct, frozen=True, kw_only=True):
    """A site that is connected."""

    since: float
    """Since when the coordinator has seen it."""
    version: str
    waiting: int = 0


class CoordinatorState(msgspec.Struct, frozen=True, kw_only=True):
    """What the running coordinator writes down about itself."""

    time: float
    sites: dict[str, Visitor] = {}
    trouble: str = ""
    """Why the coordinator itself is not connected to its server; nothing where it is."""
    jobs: list[str] = []
    """The jobs that are being conducted."""


def settings_of(folder: CoordinatorFolder) -> ServerSettings:
    """Return what the server is to be told, from the coordinator's folder as it is now."""
    config = folder.config()
    return ServerSettings(
        host=config.host,
        port=config.port,
        coordinator=public_key(folder.endpoint().seed),
        sites={name: key for name, key in folder.nats_keys().items() if name in folder.roster()},
        certificate=None if config.insecure else folder.path / "server.pem",
        key=None if config.insecure else folder.path / "server.key",
        websocket=config.websocket,
    )


def configuration_text(folder: CoordinatorFolder) -> str:
    """Return what stands in the configuration: all, or what servers that run already are to include."""
    settings = settings_of(folder)
    return json.dumps(settings.limits(), indent=1) + "\n" if folder.config().servers else settings.text()


def configuration(folder: CoordinatorFolder) -> Path:
    """Return where the server's configuration is."""
    return folder.path / "nats.conf"


@contextmanager
def running_server(folder: CoordinatorFolder, say: Say) -> Iterator[None]:
    """Run the server, and conduct the jobs that are asked for."""
    need_nats()
    logging.getLogger("asyncio").setLevel(logging.ERROR)
    own = not folder.config().servers
    if own:
        server.server_version(server.find_server())
    make_private_folder(folder.path / REQUESTS)
    write_text(configuration(folder), configuration_text(folder), private=True)
    with KeptServer(folder, say) if own else nullcontext() as kept, NatsLink(folder.endpoint()) as link:
        service = CoordinatorService(folder, kept, link, say)
        thread = threading.Thread(target=service.run, name="jobs", daemon=True)
        thread.start()
        try:
            yield
        finally:
            service.end()
            thread.join(2 * STOP_SECONDS)


class KeptServer:
    """Keeps the server running while the context lasts: one that ends is started anew."""

    def __init__(self, folder: CoordinatorFolder, say: Say):
        self._folder = folder
        self._say = say
        self._leaving = ExitStack()
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> KeptServer:
        self._start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._leaving.close()

    def _start(self) -> None:
        command = server.command(configuration(self._folder))
        log = self._folder.path / "coordinator.log"
        self._process = self._leaving.enter_context(running(command, dict(os.environ), log))
        try:
            wait_for_port(self._folder.address(), self._process)
        except InputError:
            self._leaving.close()
            raise

    def look(self) -> None:
        """Start the server anew if it has ended."""
        code = None if self._process is None else self._process.poll()
        if self._process is not None and code is None:
            return
        self._leaving.close()
        self._process = None
        self._start()
        self._say(f"the server ended (code {code}) and was started anew; see coordinator.log")

    def reload(self) -> None:
        """Let it read its configuration again."""
        if self._process is not None:
            os.kill(self._process.pid, signal.SIGHUP)


class CoordinatorService:
    """Does what the running coordinator has to do beside its server."""

    def __init__(self, folder: CoordinatorFolder, kept: KeptServer | None, link: NatsLink, say: Say):
        self._folder = folder
        self._server = kept
        self._link = link
        self._say = say
        self._ended = threading.Event()
        self._conducted: dict[str, subprocess.Popen[bytes]] = {}
        self._stopping: set[str] = set()
        """Jobs whose process was told to end, and has not yet."""
        self._visitors: dict[str, Visitor] = {}
        self._told = configuration_text(folder)

    def run(self) -> None:
        """Look after everything until the end."""
        looked = 0.0
        try:
            while not self._ended.wait(LOOK_SECONDS):
                try:
                    if self._server is not None:
                        self._server.look()
                    with requesting(self._folder):
                        self._heed_requests()
                        self._reap()
                    if time.monotonic() > looked + VISIT_SECONDS:
                        self._tell_server()
                        self._visit()
                        looked = time.monotonic()
                except (FedgeomError, OSError) as error:  # told, and tried again
                    self._say(str(error))
                    self._ended.wait(VISIT_SECONDS)
        finally:
            for process in self._conducted.values():
                stop(process, patience=STOP_SECONDS)
            self._reap()
            (self._folder.path / STATUS).unlink(missing_ok=True)

    def end(self) -> None:
        """Stop all conversations."""
        self._ended.set()

    def _heed_requests(self) -> None:
        for file in sorted((self._folder.path / REQUESTS).glob("*.*")):
            if file.suffix not in (".start", ".stop"):
                continue
            if file.suffix == ".start" and self._is_ending(file.stem):
                continue  # it is resumed once its process has ended
            file.unlink()
            if file.suffix == ".start":
                self._start(file.stem)
            elif file.stem in self._conducted:
                self._stopping.add(file.stem)
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(self._conducted[file.stem].pid, signal.SIGTERM)

    def _is_ending(self, name: str) -> bool:
        """Say whether a job has a process that ends: one that was told to, or has let go of the run, as if killed."""
        return name in self._stopping or (
            name in self._conducted and not is_locked(self._folder.path / "runs" / name / "lock")
        )

    def _start(self, name: str) -> None:
        job = load_job(self._folder, name)  # a name that is none is refused
        if job.name in self._conducted:
            return
        command = [sys.executable, "-m", __name__, str(self._folder.path), job.name]
        log = self._folder.path / "coordinator.log"
        self._conducted[job.name] = start_logged(command, dict(os.environ), log)

    def _reap(self) -> None:
        """Take note of conversations that ended; one whose process was killed could not say so itself."""
        for name, process in list(self._conducted.items()):
            if process.poll() is None:
                continue
            del self._conducted[name]
            self._stopping.discard(name)
            if is_asked_for(self._folder, name):  # resumed by now: its status is no longer this process's
                continue
            run_folder = load_job(self._folder, name).run_folder
            if read_status(run_folder).state not in ENDS:
                why = f"the process that held the conversation ended (code {process.returncode}); see coordinator.log"
                write_status(run_folder, "failed", why)

    def _tell_server(self) -> None:
        """Let the server read its configuration again when other sites are admitted than before."""
        text = configuration_text(self._folder)
        if text == self._told:
            return
        file = configuration(self._folder)
        write_text(file, text, private=True)
        self._told = text
        sites = settings_of(self._folder).sites
        said = f"{len(sites)} sites may connect: {', '.join(sites) or 'none'}"
        if self._server is None:
            self._say(f"{said}, once the servers have {file} and were told to read it again")
        else:
            self._server.reload()
            self._say(said)

    def _visit(self) -> None:
        """See who is connected, tell who came and went, and write it down."""
        here = self._link.look(list(self._folder.roster()))
        now = time.time()
        visitors = {}
        for name, one in here.items():
            before = self._visitors.get(name)
            since = before.since if before is not None else now
            visitors[name] = Visitor(since=since, version=one.version, waiting=one.waiting)
        for name in sorted(set(visitors) - set(self._visitors)):
            self._say(f"{name} connected")
        for name in sorted(set(self._visitors) - set(visitors)):
            self._say(f"{name} left")
        self._visitors = visitors
        jobs = [name for name, process in self._conducted.items() if process.poll() is None]
        state = CoordinatorState(time=now, sites=visitors, trouble=self._link.trouble, jobs=jobs)
        write_json(self._folder.path / STATUS, state, private=True)


def read_state(folder: CoordinatorFolder) -> CoordinatorState | None:
    """Return what the running coordinator last wrote down about itself."""
    try:
        return msgspec.json.decode((folder.path / STATUS).read_bytes(), type=CoordinatorState)
    except (OSError, ValueError):  # it does not run, or has only just started
        return None


def requesting(folder: CoordinatorFolder) -> AbstractContextManager[None]:
    """Keep requests, and the status of a job that goes with one, from being looked at half written."""
    return locked(make_private_folder(folder.path / REQUESTS) / "lock")


def ask_for(folder: CoordinatorFolder, job: str, what: Literal["start", "stop"]) -> None:
    """Ask the running coordinator to start or stop a job."""
    requests = make_private_folder(folder.path / REQUESTS)
    write_file(requests / f"{job}.{what}", b"", private=True)


def is_asked_for(folder: CoordinatorFolder, job: str) -> bool:
    """Say whether the coordinator has yet to heed a request to start a job."""
    return (folder.path / REQUESTS / f"{job}.start").exists()


def main(path: str, name: str) -> None:
    """Conduct a job in this process."""
    leave_no_traces()
    logging.getLogger("asyncio").setLevel(logging.ERROR)  # it warns of every connection by TLS that ends
    exit_with_parent(os.getppid())
    folder = CoordinatorFolder(Path(path))
    with ending_politely(), NatsLink(folder.endpoint(), name=f"job {name}") as link:
        try:
            conduct(folder, load_job(folder, name), reach_by_nats(link))
        except FedgeomError as error:  # the run's folder says it, too
            print(f"job {name}: {printable(str(error), lines=True)}", file=sys.stderr)
            sys.exit(1)


if __name__ == "__main__":
    run_and_exit(lambda: main(sys.argv[1], sys.argv[2]))
