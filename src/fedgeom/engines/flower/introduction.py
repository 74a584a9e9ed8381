"""Who is who in an insecure federation: Flower does not know its nodes there, so each is asked for its name.

With TLS Flower knows every node by the key that was admitted. Without, a node makes up a key each time it
connects. So the coordinator sends a random number, and the site signs it with its identity.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING

from fedgeom.crypto.keys import Identity, verify
from fedgeom.engines.flower.engine import Grid
from fedgeom.errors import ProtocolError

if TYPE_CHECKING:
    from flwr.app import Message

RECORD = "introduction"
INTRODUCE = "query.introduce"
PURPOSE = "introduction"
"""What the signature is for."""
SECONDS = 30.0
"""How long a node may take to say its name."""

Introduce = Callable[[bytes], tuple[str, bytes]]
"""From a random number to the site's name and its signature, by `sign_introduction`."""


def ask_names(
    grid: Grid,
    nodes: Collection[int],
    roster: Mapping[str, bytes],
    *,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> dict[int, str]:
    """Ask nodes for their names; those that do not answer, or cannot prove who they are, are left out."""
    from flwr.app import ConfigRecord, RecordDict  # optional, 2 s
    from flwr.app import Message as FlowerMessage

    if not nodes:
        return {}
    numbers = {node: secrets.token_bytes(32) for node in nodes}
    messages = [
        FlowerMessage(
            content=RecordDict({RECORD: ConfigRecord({"number": number})}),
            dst_node_id=node,
            message_type=INTRODUCE,
            ttl=SECONDS,
        )
        for node, number in numbers.items()
    ]
    sent = zip(grid.push_messages(messages), numbers, strict=False)
    waiting = {message: node for message, node in sent if message}
    found: dict[int, str] = {}
    until = clock() + SECONDS
    while waiting and clock() < until:
        for reply in grid.pull_messages(list(waiting)):
            node = waiting.pop(reply.metadata.reply_to_message_id, None)
            if node is not None:
                name = read_introduction(reply, numbers[node], roster)
                if name is not None:
                    found[node] = name
        if waiting:
            sleep(0.2)
    return found


def read_introduction(reply: Message, number: bytes, roster: Mapping[str, bytes]) -> str | None:
    """Return the name in a reply if the signature proves it, else None."""
    if reply.has_error() or RECORD not in reply.content.config_records:
        return None
    record = reply.content.config_records[RECORD]
    name, signature = record.get("name"), record.get("signature")
    if not isinstance(name, str) or not isinstance(signature, bytes) or name not in roster:
        return None
    try:
        verify(roster[name], signature, PURPOSE, number, name.encode(), signer=name)
    except ProtocolError:
        return None
    return name


def sign_introduction(identity: Identity, name: str, number: bytes) -> bytes:
    """Return the proof that whoever holds this identity, under this name, got this number."""
    return identity.sign(PURPOSE, number, name.encode())


def introduce_message(message: Message, introduce: Introduce) -> Message:
    """Say at the site who it is."""
    from flwr.app import ConfigRecord, RecordDict  # optional, 2 s
    from flwr.app import Message as FlowerMessage

    number = message.content.config_records[RECORD]["number"]
    if not isinstance(number, bytes) or len(number) != 32:
        raise ProtocolError("an introduction needs a number of 32 bytes")
    name, signature = introduce(number)
    content = ConfigRecord({"name": name, "signature": signature})
    return FlowerMessage(content=RecordDict({RECORD: content}), reply_to=message)
