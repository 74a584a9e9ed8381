"""Our layer in front of a real SuperLink, over HTTP: polls are held and parts attached for who asks for it, nobody who
is not let in waits, and Flower's own nodes and grids work with it as with Flower."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.waiting import HANG_SECONDS, until

pytest.importorskip("flwr", reason="Flower is not installed")

import httpx

from fedgeom.engines.flower import carrier as flower_carrier
from fedgeom.engines.flower import message_layer, patches
from fedgeom.engines.flower.carrier import HELD, HOLD, TAKES, Carrier
from fedgeom.engines.flower.engine import read_reply
from fedgeom.engines.flower.message_layer import MessageLayer, WaitingRoom
from tests.engines.flower.link import Link, Node, asked, running_link

pytestmark = pytest.mark.usefixtures("inside_a_task", "flwr")

HELD_SECONDS = HANG_SECONDS


@pytest.fixture(scope="module")
def served() -> Iterator[Link]:
    with running_link() as there:
        yield there


@pytest.fixture
def link(served: Link) -> Link:
    served.passed.clear()
    return served


def carrier(hold: float = HELD_SECONDS) -> Carrier:
    return Carrier(lambda: hold)


class Later:
    """Something that is done in a thread."""

    def __init__(self, work: Callable[[], Any]):
        self.result: Any = None
        self._thread = threading.Thread(target=self._work, args=(work,), daemon=True)
        self._thread.start()

    def _work(self, work: Callable[[], Any]) -> None:
        self.result = work()

    def wait(self) -> Any:
        self._thread.join(HANG_SECONDS)
        assert not self._thread.is_alive()
        return self.result


def test_a_question_and_its_answer_take_four_requests_when_both_ends_carry(link: Link) -> None:
    patches.carry_for_grid(carrier())
    grid, node = link.grid(), link.node(carrier())
    link.passed.clear()
    fetched = Later(node.fetch)
    until(lambda: len(link.layer.room) == 1)
    grid.push_messages([question := asked(grid, node)])
    message = fetched.wait()
    assert message.content.config_records["fedgeom"]["request"] == b"who are you?"
    pulled = Later(lambda: grid.pull_messages([message.metadata.message_id]))
    until(lambda: len(link.layer.room) == 1)
    node.answer(message, b"anna")
    (reply,) = pulled.wait()
    assert read_reply(reply) == b"anna"
    assert [path.removeprefix("/v1/") for path in link.passed] == [
        "fleet/pull-messages",
        "runtime/push-messages",
        "runtime/pull-messages",
        "fleet/push-messages",
    ]
    assert len(link.state.object_store) == 0  # what was delivered is kept nowhere
    assert question.metadata.message_id == message.metadata.message_id


@pytest.mark.parametrize("held_node", [True, False])
@pytest.mark.parametrize("held_grid", [True, False])
@pytest.mark.parametrize("size", [10, flower_carrier.LARGEST + 1])
def test_flowers_own_nodes_and_grids_understand_each_other_and_ours(
    link: Link, held_node: bool, held_grid: bool, size: int
) -> None:
    """Also with messages that are too large to be carried along."""
    if held_grid:
        patches.carry_for_grid(carrier())
    grid, node = link.grid(), link.node(carrier() if held_node else None)
    grid.push_messages([asked(grid, node, b"q" * size)])
    message = node.fetch()
    assert message.content.config_records["fedgeom"]["request"] == b"q" * size
    node.answer(message, b"a" * size)
    (reply,) = grid.pull_messages([message.metadata.message_id])
    assert read_reply(reply) == b"a" * size
    carried = [path for path in link.passed if path.endswith("-object")]
    ends = held_node + held_grid  # each has a question and an answer, of three parts each, to carry
    assert len(carried) == (12 - 6 * ends if size == 10 else 12 - 2 * ends)
    assert len(link.state.object_store) == 0


def test_a_poll_without_our_header_is_answered_at_once(link: Link) -> None:
    assert not link.node().poll().messages_list
    assert len(link.layer.room) == 0


def test_a_held_poll_ends_cleanly_when_nothing_comes(link: Link) -> None:
    mine = carrier(0.2)
    node = link.node(mine)
    began = time.monotonic()
    assert not node.poll().messages_list
    assert time.monotonic() - began >= 0.2
    assert mine.held
    assert len(link.layer.room) == 0


def test_who_is_not_let_in_waits_nowhere_and_disturbs_nobody(link: Link) -> None:
    """Another node's number, with a key of one's own, is refused at once, and the other's poll goes on."""
    node, stranger = link.node(carrier()), link.node(carrier())
    grid = link.grid()
    polling = Later(node.poll)
    until(lambda: len(link.layer.room) == 1)
    stranger.identity = node.identity
    with pytest.raises(httpx.HTTPStatusError) as refused:
        stranger.poll()
    assert refused.value.response.status_code == 401
    nobody = httpx.post(f"http://{link.address}/v1/fleet/pull-messages", headers={HOLD: "20"}, content=b"")
    assert nobody.status_code >= 400
    assert len(link.layer.room) == 1
    grid.push_messages([asked(grid, node)])
    assert len(polling.wait().messages_list) == 1


def test_a_site_that_went_away_while_its_poll_was_held_gets_the_question_when_it_is_back(link: Link) -> None:
    node, grid = link.node(carrier()), link.grid()

    def poll() -> None:
        with pytest.raises(httpx.HTTPError):
            node.poll()

    polling = Later(poll)
    until(lambda: len(link.layer.room) == 1)
    (connection,) = node.client._client._transport._pool.connections
    connection._connection._network_stream._sock.shutdown(2)
    polling.wait()
    until(lambda: len(link.layer.room) == 0)  # noticed, before there was a question to hand to nobody
    grid.push_messages([asked(grid, node)])
    assert len(node.poll().messages_list) == 1


def test_a_node_has_one_poll_at_a_time(link: Link) -> None:
    one, grid = link.node(carrier()), link.grid()
    other = Node.__new__(Node)
    other.client, other.identity = one.client, one.identity
    first = Later(one.poll)
    until(lambda: len(link.layer.room) == 1)
    second = Later(other.poll)
    assert not first.wait().messages_list
    assert len(link.layer.room) == 1
    grid.push_messages([asked(grid, one)])
    assert len(second.wait().messages_list) == 1


def test_many_sites_that_wait_leave_the_server_its_threads(link: Link) -> None:
    """Its pool has forty; more polls than that wait, and everything else is answered."""
    nodes = [link.node(carrier()) for _ in range(50)]
    polling = [Later(node.poll) for node in nodes]
    until(lambda: len(link.layer.room) == 50)
    grid = link.grid()
    assert len(list(grid.get_nodes())) >= 50
    grid.push_messages([asked(grid, node) for node in nodes])
    assert all(len(one.wait().messages_list) == 1 for one in polling)
    assert len(link.layer.room) == 0


# --- the layer by itself ---


Answered = tuple[int, dict[bytes, bytes], bytes]


def call(layer: MessageLayer, path: str, body: bytes = b"", **headers: str) -> Answered:
    """Put one request to the layer."""
    return asyncio.run(asyncio.wait_for(put(layer, path, body, **headers), 10))


async def put(layer: MessageLayer, path: str, body: bytes = b"", **headers: str) -> Answered:
    """Put one request to the layer, within a loop."""
    sent: list[Any] = []
    given = iter([{"type": "http.request", "body": body}])

    async def receive() -> Any:
        try:
            return next(given)
        except StopIteration:
            await asyncio.Event().wait()

    async def send(message: Any) -> None:
        sent.append(message)

    pairs = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    scope = {"type": "http", "method": "POST", "path": path, "headers": pairs, "state": {}}
    await layer(scope, receive, send)
    start, end = sent
    return start["status"], dict(start["headers"]), end["body"]


def flower(*replies: tuple[int, bytes]) -> tuple[Any, list[dict[str, Any]]]:
    """An application that answers with these replies, one after another, and notes in each scope that it was there."""
    answers, scopes = iter(replies), list[dict[str, Any]]()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        scopes.append(dict(scope["state"]))
        scope["state"]["seen"] = True
        assert (await receive())["type"] == "http.request"
        status, body = next(answers)
        await send({"type": "http.response.start", "status": status, "headers": [(b"content-length", b"0")]})
        await send({"type": "http.response.body", "body": body})

    return app, scopes


def test_a_full_room_answers_at_once_and_says_so() -> None:
    app, _ = flower((200, b""))
    status, headers, body = call(
        MessageLayer(app, lambda: None, room=WaitingRoom(0)), "/v1/fleet/pull-messages", x_fedgeom_hold="20"
    )
    assert (status, body) == (200, b"")
    assert HELD.encode() not in headers


def test_what_flower_notes_of_a_request_is_not_there_when_it_is_put_again() -> None:
    app, scopes = flower((200, b""), (200, b"\x0a\x00"))
    layer = MessageLayer(app, lambda: None)
    tell = layer.room.admit

    def admit_and_tell(caller: str, waiter: Any) -> bool:
        layer.room.tell(["node 0"])
        return tell(caller, waiter)

    layer.room.admit = admit_and_tell  # type: ignore[method-assign]
    assert call(layer, "/v1/fleet/pull-messages", x_fedgeom_hold="20")[2] == b"\x0a\x00"
    assert scopes == [{}, {}]


def test_an_executor_is_held_until_a_run_is_started() -> None:
    app, scopes = flower((200, b""), (200, b"started"), (200, b"a task"))
    layer = MessageLayer(app, lambda: None)

    async def scene() -> list[bytes]:
        polling = asyncio.create_task(put(layer, "/v1/runtime/acquire-task", x_fedgeom_hold="20"))
        while not len(layer.room):
            await asyncio.sleep(0)
        await put(layer, "/v1/control/start-run")
        return [(await polling)[2]]

    assert asyncio.run(asyncio.wait_for(scene(), 10)) == [b"a task"]
    assert len(scopes) == 3


@pytest.mark.parametrize("hold", ["nonsense", "-1", "nan", "0", ""])
def test_a_header_that_says_nothing_holds_nothing(hold: str) -> None:
    app, scopes = flower((200, b""))
    call(MessageLayer(app, lambda: None), "/v1/fleet/pull-messages", x_fedgeom_hold=hold)
    assert len(scopes) == 1


def test_no_poll_is_held_for_longer_than_flowers_clients_wait() -> None:
    assert (
        message_layer._number({HOLD: "1e9"}, HOLD, message_layer.LONGEST_HOLD) == message_layer.LONGEST_HOLD < 30
    )


@pytest.mark.parametrize("path", ["/v1/fleet/pull-messages", "/v1/runtime/pull-messages"])
def test_what_flower_refuses_is_refused_as_it_says(path: str) -> None:
    app, _ = flower((401, b"no"))
    status, _, body = call(MessageLayer(app, lambda: None), path, b"\xff", x_fedgeom_hold="20")
    assert (status, body) == (401, b"no")
    assert TAKES == "x-fedgeom-takes"
