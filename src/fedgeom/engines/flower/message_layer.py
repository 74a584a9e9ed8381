"""In front of Flower's HTTP interface: polls that find nothing are held until there is something, small parts of
messages travel with them.

Flower's own application authenticates and authorises every request first. Only a poll that it
answered, with nothing, is held, and is put to it again when a message for it has come: who is not let in
waits nowhere. Requests without our headers, such as those of Flower's own nodes, pass as they are.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Awaitable, Callable, Collection, Iterator, MutableMapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, Literal

from fedgeom.engines.flower.carrier import HELD, HOLD, LARGEST, TAKES, attach, detach, names_in
from fedgeom.engines.flower.patch_table import LINK_AUTHENTICATES

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Ending = Literal["news", "nothing", "gone"]
"""How waiting ended: there is something; time is up, or the caller asks anew; the caller has hung up."""

MOST = 2000
"""How many polls wait at the same time; whoever comes then is answered at once, as without this room."""


class Waiter:
    """One poll that waits."""

    def __init__(self) -> None:
        self._signal = asyncio.Event()
        self._sent_away = False
        self.seats: list[str] = []
        """Under whose names it was let in."""

    def wake(self) -> None:
        """Say that there is news."""
        self._signal.set()

    def send_away(self) -> None:
        """End the waiting without news: the same caller has come again."""
        self._sent_away = True
        self._signal.set()

    async def wait(self, seconds: float, receive: Receive) -> Ending:
        """Wait for news; look at the caller's line meanwhile, or a message would be handed to nobody."""
        news = asyncio.ensure_future(self._signal.wait())
        line = asyncio.ensure_future(_hung_up(receive))
        try:
            await asyncio.wait((news, line), timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            if line.done():
                return "gone"
            if not news.done() or self._sent_away:
                return "nothing"
            self._signal.clear()
            return "news"
        finally:
            for task in (news, line):
                task.cancel()
            await asyncio.gather(news, line, return_exceptions=True)


class WaitingRoom:
    """All polls that wait, by what they wait for."""

    def __init__(self, most: int = MOST):
        self._most = most
        self._callers: dict[str, Waiter] = {}
        self._topics: dict[str, set[Waiter]] = {}

    def __len__(self) -> int:
        return len(self._callers)

    @contextmanager
    def listen(self, topics: Collection[str]) -> Iterator[Waiter]:
        """Hear of news on these topics from now on."""
        waiter = Waiter()
        for topic in topics:
            self._topics.setdefault(topic, set()).add(waiter)
        try:
            yield waiter
        finally:
            for topic in topics:
                self._topics[topic].discard(waiter)
                if not self._topics[topic]:
                    del self._topics[topic]
            for caller in [caller for caller in waiter.seats if self._callers.get(caller) is waiter]:
                del self._callers[caller]

    def admit(self, caller: str, waiter: Waiter) -> bool:
        """Let a caller who has proved who he is wait; say whether there is room for him.

        A new poll replaces the caller's previous one.
        """
        before = self._callers.get(caller)
        if before is waiter:
            return True
        if before is not None:
            before.send_away()
        elif len(self._callers) >= self._most:
            return False
        self._callers[caller] = waiter
        waiter.seats.append(caller)
        return True

    def tell(self, topics: Collection[str]) -> None:
        """Wake whoever waits for one of these topics."""
        for topic in topics:
            for waiter in self._topics.get(topic, ()):
                waiter.wake()


async def _hung_up(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


Scope = MutableMapping[str, Any]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

LONGEST_HOLD = 20.0
"""For how many seconds a poll is held at most; Flower's clients give up after 30."""
GATHERING = 0.01
"""After the first answer to a question, how long the others have to come along in the same response, in seconds."""


@dataclass
class Reply:
    """What Flower answered."""

    status: int = 500
    headers: list[tuple[bytes, bytes]] = field(default_factory=list)
    body: bytes = b""


@dataclass(frozen=True)
class Service:
    """One of Flower's two interfaces that carry messages, and what a poll there waits for."""

    name: str
    pulls: str
    pushes: str

    def awaited(self, body: bytes) -> tuple[str, list[str]]:
        """Return who polls, and the topics whose news he waits for; raises `ValueError` if that cannot be read."""
        request = _parse(self.pulls, body)
        if self.name == "fleet":
            node = _node_topic(request.node.node_id)
            return node, [node]
        asked = sorted(request.message_ids)
        return f"replies {asked[0] if asked else ''}", [_reply_topic(number) for number in asked]

    def news(self, body: bytes) -> list[str]:
        """Return the topics on which a pushed message is news."""
        request = _parse(self.pushes, body)
        if self.name == "fleet":
            return [_reply_topic(message.metadata.reply_to_message_id) for message in request.messages_list]
        return [_node_topic(message.metadata.dst_node_id) for message in request.messages_list]


FLEET = Service("fleet", "PullMessages", "PushMessages")
RUNTIME = Service("runtime", "PullAppMessages", "PushAppMessages")
PULLS = {"/v1/fleet/pull-messages": FLEET, "/v1/runtime/pull-messages": RUNTIME}
PUSHES = {"/v1/fleet/push-messages": FLEET, "/v1/runtime/push-messages": RUNTIME}
TASKS, STARTS = "/v1/runtime/acquire-task", "/v1/control/start-run"
"""Where the coordinator's executor asks for something to start, and where that comes from."""


class MessageLayer:
    """Wraps Flower's web application; ``state`` returns what Flower knows of messages and their parts."""

    def __init__(self, app: Any, state: Callable[[], Any], *, room: WaitingRoom | None = None):
        self._app = app
        self._state = state
        self.room = WaitingRoom() if room is None else room

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Hold, attach, or pass a request on as it is."""
        path = scope.get("path") if scope["type"] == "http" and scope.get("method") == "POST" else None
        try:
            if path in PULLS or path == TASKS:
                await self._pull(PULLS.get(path), scope, receive, send)
            elif path in PUSHES:
                await self._push(PUSHES[path], scope, receive, send)
            else:
                await self._app(scope, receive, send)
                if path == STARTS:
                    self.room.tell([TASKS])
        except _HungUpError:
            return

    async def _pull(self, service: Service | None, scope: Scope, receive: Receive, send: Send) -> None:
        headers = _headers(scope)
        body = await _read(receive)
        hold = _number(headers, HOLD, LONGEST_HOLD)
        takes = int(_number(headers, TAKES, LARGEST))
        caller = TASKS
        topics = [TASKS]
        if service is not None and hold:
            try:
                caller, topics = service.awaited(body)
            except ValueError:  # Flower says what is wrong with it
                hold = 0.0
        with self.room.listen(topics) as waiter:  # before Flower looks, or news could be missed
            reply = await self._ask(scope, body, receive)
            until = asyncio.get_running_loop().time() + hold
            while hold and reply.status == 200 and not reply.body and self.room.admit(caller, waiter):
                reply.headers.append((HELD.encode(), b"1"))
                ending = await waiter.wait(until - asyncio.get_running_loop().time(), receive)
                if ending == "gone":
                    return
                if ending == "nothing":
                    break
                if len(topics) > 1:
                    await asyncio.sleep(GATHERING)
                reply = await self._ask(scope, body, receive)
        if service is not None and reply.status == 200 and reply.body and takes:
            reply.body = await asyncio.to_thread(self._attach_parts, service, reply.body, takes)
        await _answer(send, reply)

    async def _push(self, service: Service, scope: Scope, receive: Receive, send: Send) -> None:
        brings = TAKES in _headers(scope)
        body = await _read(receive)
        reply = await self._ask(scope, body, receive)
        if reply.status == 200:
            if brings:
                reply.body = await asyncio.to_thread(self._store_parts, service, body, reply.body)
            self.room.tell(service.news(body))
        await _answer(send, reply)

    async def _ask(self, scope: Scope, body: bytes, receive: Receive) -> Reply:
        """Put a request to Flower's application, and return what it answers."""
        reply = Reply()
        given = False

        async def replay() -> MutableMapping[str, Any]:
            nonlocal given
            if given:
                return await receive()
            given = True
            return {"type": "http.request", "body": body, "more_body": False}

        async def catch(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                reply.status, reply.headers = message["status"], list(message.get("headers", ()))
            elif message["type"] == "http.response.body":
                reply.body += message.get("body", b"")

        # What Flower notes about a request must not be there when it is put again.
        await self._app({**scope, "state": dict(scope.get("state", {}))}, replay, catch)
        return reply

    def _attach_parts(self, service: Service, data: bytes, takes: int) -> bytes:
        """Attach the parts of the messages in a response, as far as they are there and few enough bytes."""
        response = _parse(service.pulls, data, "Response")
        state = self._state()
        parts: dict[str, bytes] = {}
        received = []
        for message, tree in zip(response.messages_list, response.message_object_trees, strict=True):
            new: dict[str, bytes] = {}
            for name in names_in(tree):
                new[name] = state.get_object(message.metadata.run_id, name) or b""
                if not new[name] or sum(map(len, new.values())) > takes:
                    break
            else:
                parts |= new
                takes -= sum(map(len, new.values()))
                received.append(message.metadata.message_id)
        for number in received:
            state.object_store.delete(number)  # what Flower does when it is told that they came
        return attach(data, parts, received) if received else data

    def _store_parts(self, service: Service, body: bytes, data: bytes) -> bytes:
        """Store the parts that came with a message; return a response that no longer asks for them."""
        request = _parse(service.pushes, body)
        response = _parse(service.pushes, data, "Response")
        parts = detach(body).parts
        state = self._state()
        run = request.messages_list[0].metadata.run_id
        missing = [
            name
            for name in response.objects_to_push
            if name not in parts or not state.store_object(run, response.session_id, name, parts[name])
        ]
        del response.objects_to_push[:]
        response.objects_to_push.extend(missing)
        return bytes(response.SerializeToString())


FLEET_PART = "/v1/fleet/"
FREE_BODY = 64 * 2**10
"""Requests of up to so many bytes are read before anybody asks who sends them; registering takes about 300."""
MOST_FREE = 4 * 2**20
"""So many bytes of such requests are read at the same time; beyond that, only those of nodes that are known."""
TOO_LARGE = b"fedgeom: a request of this size is read only from a node that is registered here\n"


class BodyLimit:
    """Wraps the sites' part of Flower's port: what strangers send is refused before it is read, or it is small.

    Flower reads and parses a whole request before it looks at the key and the signature, although both are in the
    headers. Here they are looked at first, wherever a request is large, or does not say how large it is.
    ``is_known`` says whether the headers of a request are those of a registered node.
    """

    def __init__(self, app: Any, is_known: Callable[[dict[str, str]], bool]):
        self._app = app
        self._is_known = is_known
        self._free = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it without reading its body."""
        if scope["type"] != "http" or not str(scope.get("path", "")).startswith(FLEET_PART):
            await self._app(scope, receive, send)
            return
        size = _announced(scope)
        free = size is not None and size <= FREE_BODY and self._free + size <= MOST_FREE
        if not free and not await asyncio.to_thread(self._is_known, _headers(scope)):
            headers = [
                (b"content-type", b"text/plain"),
                (b"connection", b"close"),
            ]  # the rest is not wanted either
            await _answer(send, Reply(413, headers, TOO_LARGE))
            return
        taken = size if free and size is not None else 0
        self._free += taken
        try:
            await self._app(scope, receive, send)
        finally:
            self._free -= taken


def is_registered(state: Callable[[], Any]) -> Callable[[dict[str, str]], bool]:
    """Return a function that says whether headers are signed by a node that Flower's state knows."""

    def known(headers: dict[str, str]) -> bool:
        from flwr.proto.fleet_pb2 import RegisterNodeFleetRequest  # optional, 2 s
        from starlette.exceptions import HTTPException

        try:
            key = base64.b64decode(headers.get("flwr-public-key", ""), validate=True)
            claim = SimpleNamespace(protobuf_request=RegisterNodeFleetRequest(public_key=key))
            LINK_AUTHENTICATES.value()(SimpleNamespace(headers=headers, state=claim))
        except (HTTPException, ValueError):
            return False
        return state().get_node_id_by_public_key(key) is not None

    return known


def _announced(scope: Scope) -> int | None:
    """Return how many bytes of body a request announces; None where it does not say it for certain."""
    lengths = [value for name, value in scope.get("headers", ()) if name.lower() == b"content-length"]
    if any(name.lower() == b"transfer-encoding" for name, _ in scope.get("headers", ())):
        return None
    if not lengths:
        return 0  # without both headers HTTP has no body
    return int(lengths[0]) if len(lengths) == 1 and lengths[0].isdigit() else None


class _HungUpError(Exception):
    """The caller has gone before his request was complete."""


def _parse(kind: str, data: bytes, what: str = "Request") -> Any:
    """Read a protobuf message of Flower's; raises `ValueError` if it is none."""
    from flwr.proto import fleet_pb2, runtime_pb2  # optional, 2 s
    from google.protobuf.message import DecodeError

    found = getattr(runtime_pb2 if "App" in kind else fleet_pb2, kind + what)
    try:
        return found.FromString(data)
    except DecodeError as error:
        raise ValueError(f"not a {kind}{what}") from error


def _node_topic(node: int) -> str:
    return f"node {node}"


def _reply_topic(message: str) -> str:
    return f"reply {message}"


def _headers(scope: Scope) -> dict[str, str]:
    return {name.decode("latin-1"): value.decode("latin-1") for name, value in scope.get("headers", ())}


def _number(headers: dict[str, str], name: str, most: float) -> float:
    """Return a header's number between 0 and the most; 0 if there is none, or something else."""
    try:
        number = float(headers.get(name, "0"))
    except ValueError:
        return 0.0
    return min(most, number) if number > 0 else 0.0


async def _read(receive: Receive) -> bytes:
    parts = []
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise _HungUpError
        parts.append(message.get("body", b""))
        if not message.get("more_body", False):
            return b"".join(parts)


async def _answer(send: Send, reply: Reply) -> None:
    length = (b"content-length", str(len(reply.body)).encode())
    headers = [(name, value) for name, value in reply.headers if name.lower() != b"content-length"]
    await send({"type": "http.response.start", "status": reply.status, "headers": [*headers, length]})
    await send({"type": "http.response.body", "body": reply.body})
