"""Which node is which site, and who is there: Flower numbers its nodes, and a run wants sites by their names.

With TLS Flower knows every node by the key that was admitted for a site; without, each node is asked for its name.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from cryptography.hazmat.primitives import serialization

from fedgeom.crypto.keys import Identity, verify
from fedgeom.engines.flower.engine import FlowerGrid, FlowerNode, Place
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
    grid: FlowerGrid,
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
    name = record.get("name")
    signature = record.get("signature")
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


NamesOf = Callable[[Sequence[FlowerNode]], Mapping[int, str]]
"""From Flower's nodes to the names of the sites they are, by the node's number; strangers are left out."""

ONLINE = ("online", "")
"""What Flower says of a node that is connected; nothing, where it keeps no such record."""


def names_by_key(keys: Mapping[str, str]) -> NamesOf:
    """Return a function that names nodes by the keys, in OpenSSH's format, that were admitted for the sites."""
    known = {
        serialization.load_ssh_public_key(line.encode()).public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        ): name
        for name, line in keys.items()
    }
    return lambda nodes: {
        node.node_id: known[key] for node in nodes if (key := node.public_key.strip() + b"\n") in known
    }


class Introductions:
    """Names nodes by asking them, each a few times at most; for insecure federations."""

    def __init__(self, grid: FlowerGrid, roster: Mapping[str, bytes], *, times: int = 3):
        self._grid = grid
        self._roster = roster
        self._times = times
        self._known: dict[int, str] = {}
        self._asked: dict[int, int] = {}

    def __call__(self, nodes: Sequence[FlowerNode]) -> Mapping[int, str]:
        """Return the names of those nodes that could prove them."""
        new = [
            node.node_id
            for node in nodes
            if node.node_id not in self._known and self._asked.get(node.node_id, 0) < self._times
        ]
        for node in new:
            self._asked[node] = self._asked.get(node, 0) + 1
        self._known |= ask_names(self._grid, new, self._roster)
        return self._known


def connected(grid: FlowerGrid, names_of: NamesOf) -> dict[str, Place]:
    """Return the admitted sites that are connected now."""
    nodes = [node for node in grid.get_nodes() if node.status in ONLINE]
    names = names_of(nodes)
    return {names[node.node_id]: (node.node_id, node.last_activated_at) for node in nodes if node.node_id in names}
