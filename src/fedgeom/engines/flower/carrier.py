"""The callers' side of `message_layer`: polls ask to be held, and small parts come and go with their message.

A `Carrier` stands in the chain of Flower's own HTTP client. Flower's code asks for parts one by one, as ever: for those
that came with the message no request is made.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from fedgeom.memo import memoize

HOLD, HELD = "x-fedgeom-hold", "x-fedgeom-held"
"""Headers: for how many seconds a poll may be held, and (in the response) that it was taken in."""
TAKES = "x-fedgeom-takes"
"""A header: how many bytes of parts the caller takes with a response; in a request, that it brings some."""
LARGEST = 4 * 2**20
"""More bytes of parts than this travel as Flower does it: one by one, never twice in memory."""


@dataclass
class Attachments:
    """What travels with a message."""

    parts: dict[str, bytes] = field(default_factory=dict)
    """By their numbers, which are their hashes: Flower checks them."""
    received: set[str] = field(default_factory=set)
    """Messages all of whose parts are here, so that nobody has to say that they came."""


def attach(data: bytes, parts: Mapping[str, bytes], received: Collection[str] = ()) -> bytes:
    """Return an encoded protobuf message with something attached: two encodings one after another are one."""
    attached = _wire()()
    for name, content in parts.items():
        attached.parts.add(name=name, content=content)
    attached.received.extend(received)
    return data + bytes(attached.SerializeToString())


def detach(data: bytes) -> Attachments:
    """Return what is attached to an encoded protobuf message; raises `ValueError` if it is none."""
    from google.protobuf.message import DecodeError  # comes with Flower, which is optional

    try:
        attached = _wire().FromString(data)
    except DecodeError as error:
        raise ValueError("not a protobuf message") from error
    return Attachments({part.name: part.content for part in attached.parts}, set(attached.received))


def names_in(tree: Any) -> Iterator[str]:
    """Yield the names of all parts of a message, given as Flower's tree of them, inner ones first."""
    for child in tree.children:
        yield from names_in(child)
    yield tree.object_id


@memoize(1)
def _wire() -> Any:
    """Return the protobuf class of attachments; its field numbers are far from any that Flower uses."""
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory  # comes with Flower

    kinds = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="fedgeom/attachments.proto", package="fedgeom", syntax="proto3")
    part = file.message_type.add(name="Part")
    part.field.add(name="name", number=1, type=kinds.TYPE_STRING, label=kinds.LABEL_OPTIONAL)
    part.field.add(name="content", number=2, type=kinds.TYPE_BYTES, label=kinds.LABEL_OPTIONAL)
    whole = file.message_type.add(name="Attachments")
    whole.field.add(
        name="parts", number=7101, type=kinds.TYPE_MESSAGE, label=kinds.LABEL_REPEATED, type_name=".fedgeom.Part"
    )
    whole.field.add(name="received", number=7102, type=kinds.TYPE_STRING, label=kinds.LABEL_REPEATED)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("fedgeom.Attachments"))


class Carrier:
    """Takes part in every call of a Flower HTTP client (``ProtobufClientInterceptor``)."""

    def __init__(self, hold: Callable[[], float]):
        self._hold = hold
        self._came = Attachments()
        self._going = dict[str, bytes]()
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
            self._came = Attachments()
            self.held = False
            context.request.headers.update({HOLD: f"{self._hold():g}", TAKES: str(LARGEST)})
            response = call_next(context)
            if response.status_code == 200:
                self._came = detach(response.content)
                self.held = HELD in response.headers
            return response
        if method == "PushMessages" and self._going:
            going = self._going
            self._going = {}
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
        self._client = client
        self._carrier = carrier

    def from_server_address(self, *arguments: Any, interceptors: Iterable[Any] = (), **options: Any) -> Any:
        """Make a client; the carrier comes first, so that what signs a request signs the one that is sent."""
        chain = [self._carrier, *interceptors]
        made = self._client.from_server_address(*arguments, interceptors=chain, **options)
        hooks = getattr(getattr(made, "_client", None), "event_hooks", None)
        if hooks is not None:
            hooks["response"].append(refuse_packed)
        return made


def refuse_packed(response: Any) -> None:
    """Refuse a response that is packed, before it is read: Flower's are not, and a small one may fill the memory."""
    import httpx  # comes with Flower, which is optional

    packed = response.headers.get("content-encoding", "identity")
    if packed.strip().lower() != "identity":
        raise httpx.DecodingError(f"the coordinator's response is packed ({packed!r})", request=response.request)


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
