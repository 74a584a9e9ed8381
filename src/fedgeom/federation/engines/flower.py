"""Sites on other machines: the same bytes as the embedded engine, carried by Flower.

`FlowerEngine` runs inside a Flower ServerApp and sends each question as one Flower message;
`answer_message` runs inside a ClientApp and answers it with the site's own `Site` class. Flower starts a new
process for every message; what a site remembers travels in the Flower context.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from fedgeom.errors import DecodeError
from fedgeom.federation.sites import Lost

if TYPE_CHECKING:
    from flwr.app import Context, Message
    from flwr.serverapp import Grid

RECORD = "fedgeom"
"""The name of our record in Flower's messages and contexts."""

QUESTION = "query.fedgeom"
"""The message type; our ClientApp answers no other."""

POLL_SECONDS = 0.5
"""How often the coordinator looks for answers (Flower's own helper looks every 3 s)."""


class FlowerEngine:
    """Carries questions to Flower nodes and answers back, each with a deadline."""

    def __init__(
        self,
        grid: Grid,
        nodes: Mapping[str, int],
        *,
        deadline: float,
        poll: float = POLL_SECONDS,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ):
        self._grid, self._nodes, self._deadline, self._poll = grid, dict(nodes), deadline, poll
        self._clock, self._sleep = clock, sleep
        self._question = 0

    @property
    def names(self) -> tuple[str, ...]:
        """The sites that can be asked."""
        return tuple(sorted(self._nodes))

    def deliver(self, requests: Mapping[str, bytes]) -> Iterator[tuple[str, bytes | Lost]]:
        """Yield answers as they come; what has not come at the deadline is lost."""
        from flwr.app import ConfigRecord, RecordDict
        from flwr.app import Message as FlowerMessage

        self._question += 1
        names = list(requests)
        messages = [
            FlowerMessage(
                content=RecordDict({RECORD: ConfigRecord({"request": requests[name]})}),
                dst_node_id=self._nodes[name],
                message_type=QUESTION,
                group_id=str(self._question),
                ttl=self._deadline,
            )
            for name in names
        ]
        waiting: dict[str, str] = {}
        for name, identifier in zip(names, self._grid.push_messages(messages), strict=True):
            if identifier:
                waiting[identifier] = name
            else:
                yield name, Lost("Flower did not take the question (is the site still connected?)")
        until = self._clock() + self._deadline
        while waiting and self._clock() < until:
            for reply in self._grid.pull_messages(list(waiting)):
                name = waiting.pop(reply.metadata.reply_to_message_id, "")
                if name:
                    yield name, read_reply(reply)
            if waiting:
                self._sleep(self._poll)
        for name in waiting.values():
            yield name, Lost(f"no answer within {self._deadline:g} s")


def read_reply(reply: Message) -> bytes | Lost:
    """Take the answer out of a Flower message, or the reason why there is none."""
    if reply.has_error():
        return Lost(f"the site could not answer: {reply.error.reason or f'Flower error {reply.error.code}'}")
    try:
        answer = reply.content.config_records[RECORD]["answer"]
    except KeyError:
        return Lost("the site's reply holds no answer")
    return answer if isinstance(answer, bytes) else Lost("the site's reply holds no bytes")


Answer = Callable[[bytes, bytes | None], tuple[bytes, bytes]]
"""From a request and the memory kept so far to the answer and the memory to keep."""


def answer_message(message: Message, context: Context, answer: Answer) -> Message:
    """Answer one Flower message, keeping the site's memory in the Flower context."""
    from flwr.app import ConfigRecord, RecordDict
    from flwr.app import Message as FlowerMessage

    try:
        request = message.content.config_records[RECORD]["request"]
    except KeyError as error:
        raise DecodeError("the Flower message holds no fedgeom question") from error
    if not isinstance(request, bytes):
        raise DecodeError("the Flower message's question is not bytes")
    state = context.state.config_records
    kept: Any = state[RECORD].get("memory") if RECORD in state else None
    reply, memory = answer(request, kept if isinstance(kept, bytes) and kept else None)
    context.state[RECORD] = ConfigRecord({"memory": memory})
    return FlowerMessage(content=RecordDict({RECORD: ConfigRecord({"answer": reply})}), reply_to=message)
