"""Sites on other machines: the same bytes as the embedded engine, carried by Flower.

`FlowerEngine` runs inside a Flower ServerApp and sends each question as one Flower message; the site's end of it is
`fedgeom.engines.flower.apps`.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from fedgeom.errors import printable
from fedgeom.federation.coordinator import Lost

if TYPE_CHECKING:
    from flwr.app import Message

RECORD = "fedgeom"
"""The name of our record in Flower's messages and contexts."""

QUESTION = "query.fedgeom"
"""The message type; our ClientApp answers no other."""

POLL_SECONDS = 0.5
"""How often the coordinator looks for answers where nobody holds its polls (Flower's own helper looks every 3 s)."""

LOOK_SECONDS = 2.0
"""How often it looks who is connected while it waits."""

MOST_TIMES = 5
"""How often one question is put to a site that comes and goes."""

GONE = {3, 4, 5}
"""Flower's error codes for messages that went down with a node: unavailable question, reply, node."""

CRASHED = 8
"""Flower's error code for a site's process that died while answering."""

Place = tuple[int, str]
"""Where a site is: its node, and since when that node has been connected."""


class FlowerNode(Protocol):
    """What Flower tells of a node, as far as we use it."""

    node_id: int
    public_key: bytes
    status: str
    last_activated_at: str


class FlowerGrid(Protocol):
    """What we use of Flower's grid, by which a ServerApp reaches the nodes."""

    def get_nodes(self) -> Iterable[FlowerNode]:
        """Return the nodes that Flower knows."""

    def push_messages(self, messages: Iterable[Any]) -> Iterable[str | None]:
        """Send messages and return their numbers."""

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Any]:
        """Return the replies that came to these messages."""


@dataclass
class _Asked:
    """A question on its way: how it was sent, and since when the site has been away."""

    messages: set[str] = field(default_factory=set)
    place: Place | None = None
    times: int = 0
    repeated: bool = False
    away: float | None = None
    trouble: str = "the site is not connected"


class FlowerEngine:
    """Carries questions to Flower nodes and answers back, each with a deadline.

    A question may be put twice, to a site whose process died or whose connection broke, or once half of the deadline
    has passed (a message may get lost on its way): it gives the same answer again, from what it remembers. A site that
    is away has ``grace`` seconds to come back.
    """

    def __init__(
        self,
        grid: FlowerGrid,
        nodes: Mapping[str, int],
        *,
        deadline: float,
        grace: float = 60.0,
        look: Callable[[], Mapping[str, Place]] | None = None,
        poll: float = POLL_SECONDS,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ):
        self._grid = grid
        self._nodes = dict(nodes)
        self._deadline = deadline
        self._poll = poll
        self._grace, self._look = grace, look or self._look_at_nodes
        self._clock = clock
        self._sleep = sleep
        self._question = 0

    @property
    def names(self) -> tuple[str, ...]:
        """The sites that can be asked."""
        return tuple(sorted(self._nodes))

    def deliver(self, requests: Mapping[str, bytes]) -> Iterator[tuple[str, bytes | Lost]]:
        """Yield answers as they come; what has not come at the deadline is lost."""
        self._question += 1
        until = self._clock() + self._deadline
        waiting = {name: _Asked() for name in requests}
        looked = -math.inf
        while waiting and self._clock() < until:
            if self._clock() >= looked + LOOK_SECONDS:
                looked = self._clock()
                self._ask(requests, waiting, until)
                for name in [name for name, asked in waiting.items() if self._given_up(asked)]:
                    yield name, Lost(waiting.pop(name).trouble)
            sent = {message: name for name, asked in waiting.items() for message in asked.messages}
            began = self._clock()
            answered = False
            for reply in self._grid.pull_messages(list(sent)) if sent else ():
                message = reply.metadata.reply_to_message_id
                name = sent.get(message, "")
                if name not in waiting:
                    continue
                if reply.has_error() and reply.error.code in {*GONE, CRASHED}:
                    waiting[name].messages.discard(message)
                    waiting[name].trouble = trouble_of(reply)
                    continue
                del waiting[name]
                answered = True
                yield name, read_reply(reply)
            pause = began + self._poll - self._clock()
            if waiting and not answered and pause > 0:  # a poll that was held has taken its time
                self._sleep(pause)
        for name in waiting:
            yield name, Lost(f"no answer within {self._deadline:g} s")

    def _ask(self, requests: Mapping[str, bytes], waiting: Mapping[str, _Asked], until: float) -> None:
        """Put the question to all who have not got it, or who have been away since they got it."""
        here = self._look()
        now = self._clock()
        new = []
        for name, asked in waiting.items():
            if name not in here:
                asked.away = now if asked.away is None else asked.away
                continue
            asked.away = None
            silent = not asked.repeated and until - now <= self._deadline / 2
            if (silent or asked.place != here[name] or not asked.messages) and asked.times < MOST_TIMES:
                asked.repeated |= silent
                asked.place = here[name]
                asked.times += 1
                new.append(name)
        for name, message in zip(new, self._push(requests, new, here, until - now), strict=True):
            if message:
                waiting[name].messages.add(message)
            else:
                waiting[name].trouble = "Flower did not take the question"
                waiting[name].times = MOST_TIMES

    def _push(
        self, requests: Mapping[str, bytes], names: Sequence[str], here: Mapping[str, Place], seconds: float
    ) -> Sequence[str | None]:
        from flwr.app import ConfigRecord, RecordDict  # optional, 2 s
        from flwr.app import Message as FlowerMessage

        messages = [
            FlowerMessage(
                content=RecordDict({RECORD: ConfigRecord({"request": requests[name]})}),
                dst_node_id=here[name][0],
                message_type=QUESTION,
                group_id=str(self._question),
                ttl=seconds,
            )
            for name in names
        ]
        taken = list(self._grid.push_messages(messages)) if messages else []
        return taken if len(taken) == len(names) else [None] * len(names)  # Flower takes all or, too large, none

    def _given_up(self, asked: _Asked) -> bool:
        if asked.away is not None:
            return self._clock() - asked.away >= self._grace
        return not asked.messages and asked.times >= MOST_TIMES

    def _look_at_nodes(self) -> dict[str, Place]:
        names = {node: name for name, node in self._nodes.items()}
        return {
            names[node.node_id]: (node.node_id, node.last_activated_at)
            for node in self._grid.get_nodes()
            if node.node_id in names
        }


def trouble_of(reply: Message) -> str:
    """Say why a site could not answer."""
    return f"the site could not answer: {printable(reply.error.reason or f'Flower error {reply.error.code}')}"


def read_reply(reply: Message) -> bytes | Lost:
    """Take the answer out of a Flower message, or the reason why there is none."""
    if reply.has_error():
        return Lost(trouble_of(reply))
    try:
        answer = reply.content.config_records[RECORD]["answer"]
    except KeyError:
        return Lost("the site's reply holds no answer")
    return answer if isinstance(answer, bytes) else Lost("the site's reply holds no bytes")
