"""The callers' side of `message_layer`: polls ask to be held, and small parts come and go with their message.

A `Carrier` stands in the chain of Flower's own HTTP client. Flower's code asks for parts one by one, as ever: for those
that came with the message no request is made.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from fedgeom.engines.flower.attachments import HELD, HOLD, LARGEST, TAKES, Attachments, attach, detach


class Carrier:
    """Takes part in every call of a Flower HTTP client (``ProtobufClientInterceptor``)."""

    def __init__(self, hold: Callable[[], float]):
        self._hold = hold
        self._came, self._going = Attachments(), dict[str, bytes]()
        self.held = False
        """Whether the coordinator held the last poll, if there was nothing: the next one need not wait."""

    def bring(self, contents: Iterable[tuple[str, bytes]]) -> None:
        """Let parts go with the next message, as far as they are few enough bytes."""
        room = LARGEST - sum(map(len, self._going.values()))
        for name, content in contents:
            if len(content) <= room and name not in self._going:
                self._going[name] = content
                room -= len(content)

    def intercept(self, context: Any, call_next: Callable[[Any], Any]) -> Any:
        """Make one of Flower's calls, or answer it with what came before."""
        method = context.rpc_method.rpartition("/")[2]
        if method == "AcquireTask":
            context.request.headers[HOLD] = f"{self._hold():g}"
        if method == "PullMessages":
            self._came, self.held = Attachments(), False
            context.request.headers.update({HOLD: f"{self._hold():g}", TAKES: str(LARGEST)})
            response = call_next(context)
            if response.status_code == 200:
                self._came, self.held = detach(response.content), HELD in response.headers
            return response
        if method == "PushMessages" and self._going:
            going, self._going = self._going, {}
            return call_next(_with_parts(context, going))
        if method == "PullObject" and context.message.object_id in self._came.parts:
            from flwr.proto.message_pb2 import PullObjectResponse  # optional, 2 s

            content = self._came.parts[context.message.object_id]  # not taken out: equal answers share their parts
            found = PullObjectResponse(object_found=True, object_available=True, object_content=content)
            return _made(context, found.SerializeToString())
        if method == "ConfirmMessageReceived" and context.message.message_object_id in self._came.received:
            return _made(context, b"")
        return call_next(context)


class WithCarrier:
    """Stands for one of Flower's HTTP client classes: its clients have a carrier in their chain."""

    def __init__(self, client: Any, carrier: Carrier):
        self._client, self._carrier = client, carrier

    def from_server_address(self, *arguments: Any, interceptors: Iterable[Any] = (), **options: Any) -> Any:
        """Make a client; the carrier comes first, so that what signs a request signs the one that is sent."""
        chain = [self._carrier, *interceptors]
        return self._client.from_server_address(*arguments, interceptors=chain, **options)


def _with_parts(context: Any, parts: Mapping[str, bytes]) -> Any:
    import httpx  # comes with Flower, which is optional

    before = context.request
    headers = {name: value for name, value in before.headers.items() if name != "content-length"}
    after = httpx.Request(
        before.method,
        before.url,
        headers={**headers, TAKES: str(LARGEST)},
        content=attach(before.content, parts),
        extensions=before.extensions,
    )
    return dataclasses.replace(context, request=after)


def _made(context: Any, content: bytes) -> Any:
    import httpx  # comes with Flower, which is optional

    return httpx.Response(200, content=content, request=context.request)
