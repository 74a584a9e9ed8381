"""What strangers send to the coordinator's port is refused before it is read; sites send what they like."""

from __future__ import annotations

import asyncio
import http.client
import tracemalloc
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

pytest.importorskip("flwr", reason="Flower is not installed")

from fedgeom.engines.flower.message_layer import FREE_BODY, MOST_FREE, BodyLimit
from tests.engines.flower.link import Link, asked, running_link

pytestmark = pytest.mark.usefixtures("inside_a_task", "flwr")

PIECE = bytes(2**16)
STRANGER_BYTES = 50 * 10**6
MOST_MEMORY = 4 * 2**20


@pytest.fixture(scope="module")
def link() -> Iterator[Link]:
    with running_link() as there:
        yield there


def signed(now: str = "") -> dict[str, str]:
    """Return the headers that a node with a key of its own sends."""
    from flwr.supercore.date import now as time
    from flwr.supercore.primitives.asymmetric import generate_key_pairs, public_key_to_bytes, sign_message

    private, public = generate_key_pairs()
    stamp = now or time().isoformat()
    return {
        "flwr-public-key": b64encode(public_key_to_bytes(public)).decode(),
        "flwr-timestamp": stamp,
        "flwr-signature": b64encode(sign_message(private, stamp.encode())).decode(),
    }


def send(link: Link, path: str, size: int, headers: dict[str, str], *, chunked: bool = False) -> tuple[int, int]:
    """Send a request of zeros piece by piece, until it is answered or cut off; return the status and what was sent."""
    host, port = link.address.split(":")
    line = http.client.HTTPConnection(host, int(port), timeout=60)
    line.putrequest("POST", path)
    told = {"transfer-encoding": "chunked"} if chunked else {"content-length": str(size)}
    for name, value in {"content-type": "application/protobuf", **told, **headers}.items():
        line.putheader(name, value)
    line.endheaders()
    sent = 0
    try:
        while sent < size:
            piece = PIECE[: size - sent]
            line.send(b"%x\r\n%b\r\n" % (len(piece), piece) if chunked else piece)
            sent += len(piece)
        if chunked:
            line.send(b"0\r\n\r\n")
    except OSError:  # the other end has hung up
        pass
    try:
        return line.getresponse().status, sent
    except (OSError, http.client.HTTPException):
        return 0, sent
    finally:
        line.close()


@contextmanager
def memory_within(most: int) -> Iterator[None]:
    """Fail where more memory than that was taken meanwhile."""
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        tracemalloc.reset_peak()
        yield
        assert tracemalloc.get_traced_memory()[1] - before < most
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("chunked", [False, True])
@pytest.mark.parametrize("has_key", [False, True])
@pytest.mark.parametrize("call", ["register-node", "push-messages", "push-object", "no-such-call"])
def test_what_a_stranger_sends_is_refused_before_it_is_read(
    link: Link, call: str, has_key: bool, chunked: bool
) -> None:
    headers = signed() if has_key else {}
    with memory_within(MOST_MEMORY):
        status, sent = send(link, f"/v1/fleet/{call}", STRANGER_BYTES, headers, chunked=chunked)
    assert status in (0, 413)  # 0: cut off before the answer was read
    assert sent < STRANGER_BYTES


def test_a_stranger_is_answered_before_the_first_byte(link: Link) -> None:
    announced = {"content-length": str(FREE_BODY + 1)}
    assert send(link, "/v1/fleet/push-messages", 0, announced) == (413, 0)


def test_a_site_sends_large_answers_and_its_old_signature_opens_nothing(link: Link) -> None:
    node, grid = link.node(), link.grid()
    grid.push_messages([asked(grid, node)])
    message = node.fetch()
    node.answer(message, b"a" * 4 * FREE_BODY)
    assert len(grid.pull_messages([message.metadata.message_id])) == 1
    old = signed("2020-01-01T00:00:00+00:00") | {"content-length": str(4 * FREE_BODY)}
    assert send(link, "/v1/fleet/push-object", 0, old) == (413, 0)


# --- by itself ---


def ask(limit: BodyLimit, *headers: tuple[bytes, bytes], path: str = "/v1/fleet/pull-messages") -> int:
    """Put a request to the limit, and return the status of the answer; 0 if it was passed on."""
    return asyncio.run(_ask(limit, *headers, path=path))


async def _ask(limit: BodyLimit, *headers: tuple[bytes, bytes], path: str = "/v1/fleet/pull-messages") -> int:
    answered: list[Any] = []

    async def keep(message: Any) -> None:
        answered.append(message)

    await limit({"type": "http", "path": path, "headers": headers}, None, keep)
    return answered[0]["status"] if answered else 0


async def passes(scope: Any, receive: Any, send: Any) -> None:
    """Stand for Flower's application."""


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ([], 0),
        ([(b"content-length", b"300")], 0),
        ([(b"Content-Length", b"%d" % (FREE_BODY + 1))], 413),
        ([(b"content-length", b"300"), (b"transfer-encoding", b"chunked")], 413),
        ([(b"content-length", b"300"), (b"content-length", b"400000000")], 413),
        ([(b"content-length", b"-1")], 413),
    ],
)
def test_only_what_says_that_it_is_small_is_read_from_anybody(
    headers: list[tuple[bytes, bytes]], status: int
) -> None:
    assert ask(BodyLimit(passes, lambda _: False), *headers) == status
    assert ask(BodyLimit(passes, lambda _: True), *headers) == 0
    assert ask(BodyLimit(passes, lambda _: False), *headers, path="/v1/runtime/push-messages") == 0  # this machine


def test_many_small_requests_of_strangers_take_little_together_and_sites_go_on() -> None:
    async def many() -> tuple[list[int], int, int]:
        go = asyncio.Event()

        async def slow(scope: Any, receive: Any, send: Any) -> None:
            await go.wait()

        limit = BodyLimit(slow, lambda headers: "known" in headers)
        large = (b"content-length", b"%d" % FREE_BODY)
        most = MOST_FREE // FREE_BODY
        inside = [asyncio.ensure_future(_ask(limit, large)) for _ in range(most)]
        await asyncio.sleep(0)
        refused = await _ask(limit, large)
        site = asyncio.ensure_future(_ask(limit, large, (b"known", b"1")))
        go.set()
        return await asyncio.gather(*inside), refused, await site

    inside, refused, site = asyncio.run(many())
    assert set(inside) == {0}
    assert (refused, site) == (413, 0)
