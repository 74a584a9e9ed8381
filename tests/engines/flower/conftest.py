"""What tests of the Flower engine need: messages outside a run, and grids that carry them in this process."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from typing import Any

import pytest


@pytest.fixture
def inside_a_task(monkeypatch: pytest.MonkeyPatch) -> None:
    """Flower's messages can be made inside its tasks only."""
    identity = pytest.importorskip("flwr.supercore.task_identity", reason="Flower is not installed").TaskIdentity
    for name in ("_task_id", "_run_id", "_node_id"):
        monkeypatch.setattr(identity, name, 1)


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


class AppGrid:
    """Stands for Flower's programs: each message is answered at once, by a ClientApp with a node's own settings."""

    def __init__(self, app: Callable[[Any, Any], Any], places: dict[int, str]):
        self._app = app
        self._places = places
        self._replies: dict[str, Any] = {}
        self._numbers = itertools.count(1)

    def get_node_ids(self) -> list[int]:
        return list(self._places)

    def push_messages(self, messages: Iterable[Any]) -> list[str]:
        return [self._push(message) for message in messages]

    def pull_messages(self, message_ids: Iterable[str]) -> list[Any]:
        return [self._replies.pop(one) for one in message_ids if one in self._replies]

    def _push(self, message: Any) -> str:
        from flwr.app import Context, RecordDict

        number = f"message {next(self._numbers)}"
        message.metadata.__dict__["_message_id"] = number
        node = message.metadata.dst_node_id
        settings = {"site": self._places[node]} if self._places[node] else {}
        self._replies[number] = self._app(message, Context(1, node, {**settings}, RecordDict(), {}))
        return number
