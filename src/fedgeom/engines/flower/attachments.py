"""Parts of a message inside the request that announces it, or the response that brings it.

Flower takes a message apart and carries every part in a request of its own: eight requests for a question and its
answer, each dearer than what it carries. So small parts travel with the message itself, in fields of the protobuf
message that Flower does not know. Whoever does not know them skips them, as protobuf demands: Flower's own programs
understand what we send, and we understand theirs.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

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


@cache
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
