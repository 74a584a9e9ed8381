"""Ways to a server: WebSocket with TLS, an HTTP proxy, a cluster; and what comes from strangers."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import socket
import ssl
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("nats", reason="NATS is not installed")
pytest.importorskip("nkeys", reason="NATS is not installed")
pytest.importorskip("aiohttp", reason="aiohttp is not installed")

from fedgeom.deploy import certificates
from fedgeom.engines.nats.engine import NatsEngine, NatsLink
from fedgeom.engines.nats.link import NOT_ADMITTED, PART, PAYLOAD, Endpoint, ServerAddress, new_seed
from fedgeom.engines.nats.server import SPARE_CONNECTIONS
from fedgeom.engines.processes import free_port, wait_for_port
from fedgeom.federation.coordinator import Lost
from tests.engines.nats.carrying import Server, bare_client, memory_of, running_server, running_site
from tests.waiting import HANG_SECONDS, until

LONG = bytes(range(256)) * (3 * PART // 256)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    with running_server(tmp_path, ("anna", "bert"), websocket=True) as made:
        yield made


def long(name: str, question: bytes) -> bytes:
    return LONG


def asked(server: Server, *names: str) -> dict[str, bytes]:
    """Ask the sites for long answers."""
    with NatsLink(server.endpoint("coordinator")) as link:
        until(lambda: len(link.look(names)) == len(names))
        engine = NatsEngine(link, names, deadline=HANG_SECONDS, grace=HANG_SECONDS)
        found = dict(engine.deliver(dict.fromkeys(names, LONG)))
    assert not any(isinstance(one, Lost) for one in found.values())
    return {name: bytes(one) for name, one in found.items()}  # type: ignore[arg-type]


def over_websocket(server: Server, name: str) -> Endpoint:
    where = server.endpoint(name)
    return replace(where, servers=(ServerAddress("127.0.0.1", server.websocket, websocket=True),))


def test_a_site_over_websocket_and_one_over_tls_answer_alike(server: Server) -> None:
    with (
        running_site(server, "anna", long, endpoint=over_websocket(server, "anna")),
        running_site(server, "bert", long),
    ):
        assert asked(server, "anna", "bert") == {"anna": LONG, "bert": LONG}


def test_a_foreign_certificate_and_a_strangers_key_are_refused_over_websocket_too(
    server: Server, tmp_path: Path
) -> None:
    (tmp_path / "other").mkdir()
    certificates.make_authority(tmp_path / "other")
    foreign = replace(over_websocket(server, "anna"), certificate=tmp_path / "other" / "ca.pem")
    with running_site(server, "anna", long, endpoint=foreign) as told:
        until(lambda: any("certificate is foreign" in one for one in told))
    stranger = replace(over_websocket(server, "anna"), seed=new_seed())
    with running_site(server, "anna", long, endpoint=stranger) as told:
        until(lambda: NOT_ADMITTED in told)


# --- a proxy ---


@pytest.fixture
def proxy(server: Server, tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """Run Debian's tinyproxy, which connects to this server's ports only; yield its address and its log."""
    program = shutil.which("tinyproxy")
    if program is None:
        pytest.skip("tinyproxy is not installed (apt-get install tinyproxy)")
    port = free_port()
    log = tmp_path / "proxy.log"
    lines = [f"Port {port}", "Listen 127.0.0.1", "Timeout 600", f'LogFile "{log}"', "LogLevel Connect"]
    lines += ["BasicAuth anna secret", f"ConnectPort {server.port}", f"ConnectPort {server.websocket}"]
    (tmp_path / "tinyproxy.conf").write_text("\n".join([*lines, ""]))
    process = subprocess.Popen([program, "-d", "-c", str(tmp_path / "tinyproxy.conf")])
    try:
        wait_for_port(f"127.0.0.1:{port}", process)
        yield f"127.0.0.1:{port}", log
    finally:
        process.terminate()
        process.wait()


@pytest.mark.parametrize("websocket", [False, True])
def test_a_site_behind_a_proxy_answers_and_the_name_in_the_certificate_is_checked(
    server: Server, proxy: tuple[str, Path], websocket: bool
) -> None:
    address, log = proxy
    plain = over_websocket(server, "anna") if websocket else server.endpoint("anna")
    through = replace(plain, proxy=lambda host: f"http://anna:secret@{address}")
    with running_site(server, "anna", long, endpoint=through):
        assert asked(server, "anna") == {"anna": LONG}
    assert f"CONNECT 127.0.0.1:{plain.servers[0].port}" in log.read_text()
    other = tuple(replace(one, host="localhost") for one in plain.servers)  # the certificate does not name it
    with running_site(server, "anna", long, endpoint=replace(through, servers=other)) as told:
        until(lambda: any("certificate is foreign" in one for one in told))


def test_a_proxy_that_refuses_is_named(server: Server, proxy: tuple[str, Path]) -> None:
    for given, said in (
        (f"anna:wrong@{proxy[0]}", "40"),
        (f"anna:secret@127.0.0.1:{free_port()}", "nobody listens"),
    ):
        through = replace(server.endpoint("anna"), proxy=lambda host, given=given: f"http://{given}")  # type: ignore[misc]
        with running_site(server, "anna", long, endpoint=through) as told:
            until(lambda said=said, told=told: any(said in one for one in told))  # type: ignore[misc]


# --- strangers ---


def shake_hands(server: Server) -> ssl.SSLSocket:
    """Connect with TLS, again where a busy machine is too slow for the server."""
    context = ssl.create_default_context(cafile=str(server.folder / "ca.pem"))
    while True:
        raw = socket.create_connection(("127.0.0.1", server.port), HANG_SECONDS)
        try:
            return context.wrap_socket(raw, server_hostname="127.0.0.1")
        except OSError:
            raw.close()


def test_a_stranger_who_says_nothing_is_gone_after_the_time_for_authentication(server: Server) -> None:
    with socket.create_connection(("127.0.0.1", server.port)) as silent, shake_hands(server) as shaken:
        for one in (silent, shaken):
            one.settimeout(HANG_SECONDS)
            try:
                while one.recv(4096):
                    pass
            except TimeoutError as error:
                raise AssertionError("the stranger is still connected") from error
            except OSError:  # cut off, which is as good as an end
                pass


def test_a_message_of_a_gigabyte_is_not_read_from_anybody(server: Server) -> None:
    """Neither from a stranger, who may send nothing yet, nor from a site: the connection ends, the memory stays."""
    before = memory_of(server.pid)
    with shake_hands(server) as stranger, contextlib.suppress(OSError):
        stranger.sendall(b"PUB x 1073741824\r\n")
        for _ in range(1024):
            stranger.sendall(bytes(2**20))
        raise AssertionError("a gigabyte was taken from a stranger")

    async def send() -> bool:
        ended = asyncio.Event()

        async def leave() -> None:
            ended.set()

        async def ignore(error: Exception) -> None:
            pass

        client = await bare_client(server.endpoint("bert"), error_cb=ignore)
        client._closed_cb = leave  # type: ignore[attr-defined]
        assert client.max_payload == PAYLOAD  # the client library keeps to it; a hostile one would not:
        server_side = client._transport  # type: ignore[attr-defined]
        server_side.write(b"PUB fedgeom.site.bert 1073741824\r\n")
        with contextlib.suppress(Exception):
            for _ in range(64):
                server_side.write(bytes(2**20))
                await server_side.drain()
        await asyncio.wait_for(ended.wait(), HANG_SECONDS)
        return True

    assert asyncio.run(send())
    assert memory_of(server.pid) < before + 300 * 2**20  # a gigabyte was sent
    with running_site(server, "anna", long):
        assert asked(server, "anna") == {"anna": LONG}


@pytest.mark.full
def test_a_flood_of_connections_costs_little_and_sites_answer_through_it(server: Server) -> None:
    """Ten thousand strangers, as many at a time as this process may have: the server holds few, for seconds."""
    before = memory_of(server.pid)
    held: list[socket.socket] = []
    with running_site(server, "anna", long):
        assert asked(server, "anna") == {"anna": LONG}
        most = 0
        for number in range(10_000):
            with contextlib.suppress(OSError):
                one = socket.create_connection(("127.0.0.1", server.port), HANG_SECONDS)
                one.setblocking(False)
                held.append(one)
            if number % 250 == 249:
                most = max(most, memory_of(server.pid) - before)
                for old in held[: len(held) - 400]:
                    old.close()
                del held[: len(held) - 400]
        assert (
            most < (SPARE_CONNECTIONS + 500) * 200 * 2**10
        )  # two hundred kilobytes each, and not for ten thousand
        for one in held:
            one.close()
        assert asked(server, "anna") == {"anna": LONG}
