"""The carrier in a client's chain: what came with a message is not asked for again, what goes is attached once."""

from __future__ import annotations

import gzip
import threading
import tracemalloc
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, HTTPServer
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("flwr", reason="Flower is not installed")

import httpx
from flwr.proto.message_pb2 import PullObjectResponse

from fedgeom.engines.flower.carrier import HELD, HOLD, LARGEST, TAKES, Carrier, WithCarrier, attach, detach


@dataclass(frozen=True)
class Context:
    """What Flower tells of a call."""

    rpc_method: str
    message: Any
    request: httpx.Request


def context(method: str, content: bytes = b"", **fields: str) -> Context:
    request = httpx.Request("POST", "http://h/v1", content=content)
    return Context(f"/flwr.proto.Fleet/{method}", SimpleNamespace(**fields), request)


class Server:
    """Answers calls with what it is told to, and keeps the requests."""

    def __init__(self, **answer: Any):
        self.answer, self.got = answer, list[httpx.Request]()

    def __call__(self, context: Context) -> httpx.Response:
        self.got.append(context.request)
        return httpx.Response(**{"status_code": 200, "request": context.request, **self.answer})


def test_what_came_with_a_message_is_not_asked_for_again() -> None:
    carrier = Carrier(lambda: 7.0)
    pull = Server(content=attach(b"", {"a": b"part"}, ["m"]))
    carrier.intercept(context("PullMessages"), pull)
    assert (pull.got[0].headers[HOLD], pull.got[0].headers[TAKES]) == ("7", str(LARGEST))
    none, some = Server(), Server(content=b"")
    for _ in range(2):  # two sites that give the same answer have its parts in common
        there = carrier.intercept(context("PullObject", object_id="a"), none)
        assert PullObjectResponse.FromString(there.content).object_content == b"part"
    carrier.intercept(context("ConfirmMessageReceived", message_object_id="m"), none)
    assert none.got == []
    for call in (
        context("PullObject", object_id="b"),
        context("ConfirmMessageReceived", message_object_id="n"),
        context("SendNodeHeartbeat"),
    ):
        carrier.intercept(call, some)
    assert len(some.got) == 3


def test_what_came_is_forgotten_with_the_next_poll() -> None:
    carrier = Carrier(lambda: 7.0)
    carrier.intercept(context("PullMessages"), Server(content=attach(b"", {"a": b"part"}, ["m"])))
    carrier.intercept(context("PullMessages"), Server(content=b""))
    later = Server(content=b"")
    carrier.intercept(context("PullObject", object_id="a"), later)
    assert len(later.got) == 1


@pytest.mark.parametrize(
    ("status", "headers", "held"), [(200, {HELD: "1"}, True), (200, {}, False), (500, {}, False)]
)
def test_whether_a_poll_was_held(status: int, headers: dict[str, str], held: bool) -> None:
    carrier = Carrier(lambda: 7.0)
    carrier.held = not held
    carrier.intercept(context("PullMessages"), Server(status_code=status, headers=headers, content=b""))
    assert carrier.held is held


def test_parts_go_with_one_message_as_far_as_they_are_small() -> None:
    carrier, server = Carrier(lambda: 0.0), Server()
    carrier.bring([("large", b"x" * (LARGEST - 9)), ("too large", b"x" * 20), ("small", b"12345")])
    for _ in range(2):
        carrier.intercept(context("PushMessages", b""), server)
    first, second = server.got
    assert set(detach(first.content).parts) == {"large", "small"}
    assert TAKES in first.headers
    assert int(first.headers["content-length"]) == len(first.content)
    assert (second.content, TAKES in second.headers) == (b"", False)


BOMB = gzip.compress(bytes(64 * 2**20))


class PackedAnswers(BaseHTTPRequestHandler):
    """Answers every request with 64 kB that unpack to 64 MB."""

    def do_POST(self) -> None:
        """Answer one."""
        self.send_response(200)
        self.send_header("content-encoding", "gzip")
        self.send_header("content-length", str(len(BOMB)))
        self.end_headers()
        self.wfile.write(BOMB)

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


def test_a_packed_response_is_refused_before_it_is_unpacked() -> None:
    from flwr.proto.fleet_pb2 import PullMessagesRequest
    from flwr.supernode.fleet_http_client import FleetHttpClient

    with HTTPServer(("127.0.0.1", 0), PackedAnswers) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"127.0.0.1:{server.server_port}"
        client = WithCarrier(FleetHttpClient, Carrier(lambda: 0.0)).from_server_address(address, True, None)
        tracemalloc.start()
        try:
            with pytest.raises(httpx.DecodingError, match="is packed"):
                client.PullMessages(PullMessagesRequest())
            assert tracemalloc.get_traced_memory()[1] < 8 * 2**20
        finally:
            tracemalloc.stop()
            server.shutdown()
