"""What several tests of Flower's room need."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import SimpleNamespace
from typing import Any

import pytest

from fedgeom.engines.flower import patch_table
from fedgeom.engines.flower.engine import RECORD


@pytest.fixture
def inside_a_task(monkeypatch: pytest.MonkeyPatch) -> None:
    """Flower's messages can be made inside its tasks only."""
    identity = pytest.importorskip("flwr.supercore.task_identity", reason="Flower is not installed").TaskIdentity
    for name in ("_task_id", "_run_id", "_node_id"):
        monkeypatch.setattr(identity, name, 1)


@pytest.fixture
def flwr(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The installed Flower; what is changed in it is put back."""
    pytest.importorskip("flwr", reason="Flower is not installed")
    for symbol in patch_table.TABLE:
        owner, name = symbol.place()
        monkeypatch.setattr(owner, name, getattr(owner, name))
    return patch_table


class Clock:
    """A clock that only moves when somebody sleeps."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def clock() -> Clock:
    return Clock()


def node(number: int, *, status: str = "online", since: str = "t", key: bytes = b"") -> SimpleNamespace:
    """What Flower tells of a node."""
    return SimpleNamespace(node_id=number, status=status, last_activated_at=since, public_key=key)


class NodeGrid:
    """A grid whose nodes reply at once by a function from node and message to a reply, or not at all."""

    def __init__(self, *nodes: SimpleNamespace, reply: Callable[[int, Any], Any] = lambda node, message: None):
        self.nodes, self.reply = list(nodes), reply
        self.asked: list[int] = []
        self._replies: dict[str, Any] = {}

    def get_nodes(self) -> list[SimpleNamespace]:
        return self.nodes

    def push_messages(self, messages: Iterable[Any]) -> list[str]:
        numbers = []
        for message in messages:
            self.asked.append(message.metadata.dst_node_id)
            numbers.append(f"message {len(self.asked)}")
            reply = self.reply(message.metadata.dst_node_id, message)
            if reply is not None:
                self._replies[numbers[-1]] = reply
        return numbers

    def pull_messages(self, message_ids: Iterable[str]) -> list[Any]:
        found = []
        for identifier in message_ids:
            if identifier in self._replies:
                reply = self._replies.pop(identifier)
                metadata = SimpleNamespace(reply_to_message_id=identifier)
                found.append(
                    SimpleNamespace(content=reply.content, has_error=reply.has_error, metadata=metadata)
                    if not reply.has_error()
                    else SimpleNamespace(error=reply.error, has_error=reply.has_error, metadata=metadata)
                )
        return found


def flower_message(content: dict[str, dict[str, Any]], kind: str) -> Any:
    """Make a message as it reaches a node."""
    from flwr.app import ConfigRecord, Message, RecordDict

    records = RecordDict({name: ConfigRecord(fields) for name, fields in content.items()})
    message = Message(content=records, dst_node_id=11, message_type=kind)
    message.metadata.__dict__["_message_id"] = message.object_id
    return message


def flower_context(**config: str) -> Any:
    """Make the context of a node with these settings."""
    from flwr.app import Context, RecordDict

    return Context(run_id=1, node_id=11, node_config=dict(config), state=RecordDict(), run_config={})


def question(request: Any, *, record: str = RECORD, key: str = "request") -> dict[str, dict[str, Any]]:
    """Return the content of a message that asks something."""
    return {record: {key: request}}
