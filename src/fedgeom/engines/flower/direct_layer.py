"""A layer of Flower's around requests that are answered whole, without a task and a stream for each.

Starlette lets what is inside a layer run in a task of its own, and hands its answer over piece by piece, so that long
answers can flow: a quarter of a millisecond a layer. Answers to nodes and grids are one piece. So the layer's own code
(``dispatch``) is called as ever, and what is inside it in the same task, which costs next to nothing.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]


class DirectLayer:
    """Does for whole answers what Starlette's ``BaseHTTPMiddleware`` does for all."""

    def __init__(self, app: Any, dispatch: Callable[[Any, Any], Awaitable[Any]]):
        self._app, self._dispatch = app, dispatch

    async def __call__(self, scope: Any, receive: Receive, send: Any) -> None:
        """Pass a request through the layer."""
        from starlette.requests import Request  # comes with Flower, which is optional
        from starlette.responses import Response

        remembering = _Remembering(receive)

        async def call_next(_: Any) -> Any:
            start: Message = {}
            pieces: list[bytes] = []

            async def catch(message: Message) -> None:
                if message["type"] == "http.response.start":
                    start.update(message)
                elif message["type"] == "http.response.body":
                    pieces.append(message.get("body", b""))

            await self._app(scope, remembering.again(), catch)
            if not start:
                raise RuntimeError("no response was returned")
            response = Response(b"".join(pieces), start["status"])
            response.raw_headers = list(start.get("headers", ()))
            return response

        response = await self._dispatch(Request(scope, remembering), call_next)
        await response(scope, receive, send)


class _Remembering:
    """Hands a request's body to the layer, and once more to what is inside it."""

    def __init__(self, receive: Receive):
        self._receive = receive
        self._came: list[Message] = []

    async def __call__(self) -> Message:
        message = await self._receive()
        self._came.append(message)
        return message

    def again(self) -> Receive:
        """Return what hands over all that came so far, then what else comes."""
        came = iter(self._came)

        async def receive() -> Message:
            for message in came:
                return message
            return await self._receive()

        return receive
