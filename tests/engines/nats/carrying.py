"""A real `nats-server` on loopback, and sites in threads of this process that answer by a function."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from fedgeom.deploy import certificates
from fedgeom.engines.nats.engine import NatsEngine, NatsLink
from fedgeom.engines.nats.link import Endpoint, ServerAddress, new_seed, public_key
from fedgeom.engines.nats.server import ServerSettings, find_server
from fedgeom.engines.nats.site import AnswerOutcome, SiteLink, answer_with
from fedgeom.engines.processes import free_port, wait_for_port
from fedgeom.errors import InputError
from tests.waiting import HANG_SECONDS, until

if TYPE_CHECKING:
    from nats.aio.client import Client

Answer = Callable[[str, bytes], bytes]


class Server:
    """A server with TLS for a coordinator and some sites."""

    def __init__(self, folder: Path, names: Sequence[str], *, websocket: bool = False):
        self.folder = folder
        self.port = free_port()
        self.websocket = free_port() if websocket else 0
        self.seeds = {name: new_seed() for name in ("coordinator", *names)}
        self.admitted = list(names)
        certificates.make_authority(folder)
        certificates.make_server_certificate(folder, ["127.0.0.1"])
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def file(self) -> Path:
        return self.folder / "nats.conf"

    def write(self) -> None:
        settings = ServerSettings(
            host="127.0.0.1",
            port=self.port,
            coordinator=public_key(self.seeds["coordinator"]),
            sites={name: public_key(self.seeds[name]) for name in self.admitted},
            certificate=self.folder / "server.pem",
            key=self.folder / "server.key",
            websocket=self.websocket,
        )
        self.file.write_text(settings.text(), encoding="utf-8")

    def start(self) -> None:
        self.write()
        with (self.folder / "server.log").open("ab") as log:
            self._process = subprocess.Popen([find_server(), "-c", str(self.file)], stdout=log, stderr=log)
        wait_for_port(f"127.0.0.1:{self.port}", self._process)

    def reload(self) -> None:
        self.write()
        assert self._process is not None
        self._process.send_signal(signal.SIGHUP)

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def log(self) -> str:
        return (self.folder / "server.log").read_text(encoding="utf-8", errors="replace")

    def endpoint(self, name: str, port: int | None = None) -> Endpoint:
        return Endpoint((ServerAddress("127.0.0.1", port or self.port),), self.seeds[name], self.folder / "ca.pem")


@contextmanager
def running_server(folder: Path, names: Sequence[str], *, websocket: bool = False) -> Iterator[Server]:
    server = Server(folder, names, websocket=websocket)
    for tries in reversed(range(5)):
        try:
            server.start()
            break
        except InputError:
            if not tries or "in use" not in server.log():
                raise
            server.port, server.websocket = (
                free_port(),
                free_port() if websocket else 0,
            )  # another process was faster
    try:
        yield server
    finally:
        server.stop()


@contextmanager
def running_site(
    server: Server,
    name: str,
    answer: Answer,
    *,
    largest: int = 2**26,
    port: int | None = None,
    endpoint: Endpoint | None = None,
    guarded: bool = True,
) -> Iterator[list[str]]:
    """Run a site in a thread; yields what it is told of its connection."""

    def mine(question: bytes) -> bytes:
        return answer(name, question)

    def bare(question: bytes) -> bytes:
        """Answer as a process does that may die: nothing is caught here."""
        return msgspec.msgpack.encode(AnswerOutcome(answer=answer(name, question)))

    told: list[str] = []
    loop = asyncio.new_event_loop()
    reply = answer_with(mine) if guarded else bare
    where = endpoint or server.endpoint(name, port)
    link = SiteLink(name, where, reply, largest=largest, told=lambda state: told.append(state.trouble))
    task = loop.create_task(link.run())

    def run() -> None:
        try:
            loop.run_until_complete(task)
        except BaseException:
            told.append("ended")

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield told
    finally:
        loop.call_soon_threadsafe(task.cancel)
        thread.join(20)


@contextmanager
def nats_engine(
    folder: Path,
    names: Sequence[str],
    answer: Answer,
    *,
    deadline: float = HANG_SECONDS,
    grace: float = HANG_SECONDS,
    ports: Mapping[str, int] | None = None,
) -> Iterator[tuple[NatsEngine, Server]]:
    """Run a server and sites, and yield the engine once all are connected."""
    with ExitStack() as stack:
        server = stack.enter_context(running_server(folder, names))
        for name in names:
            stack.enter_context(running_site(server, name, answer, port=(ports or {}).get(name)))
        link = stack.enter_context(NatsLink(server.endpoint("coordinator")))
        until(lambda: len(link.look(names)) == len(names))
        yield NatsEngine(link, names, deadline=deadline, grace=grace), server


async def bare_client(where: Endpoint, **options: Any) -> Client:
    """Connect by the client library alone, again where a busy machine is too slow for the server."""
    from nats import errors
    from nats.aio.client import Client

    while True:
        client = Client()
        with contextlib.suppress(OSError, TimeoutError, errors.Error):
            await client.connect(
                where.servers[0].url(secure=True),
                tls=where.context("127.0.0.1"),
                tls_handshake_first=True,
                nkeys_seed_str=where.seed,
                allow_reconnect=False,
                **options,
            )
            return client


def memory_of(pid: int | None = None) -> int:
    """Return the resident bytes of a process."""
    status = Path(f"/proc/{pid or os.getpid()}/status").read_text(encoding="utf-8")
    return next(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmRSS"))
