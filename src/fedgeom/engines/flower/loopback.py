"""All sites in one process, through Flower's own messages: what a deployment carries, without its processes.

Every question, every answer and what a site remembers in between is encoded as Flower encodes it, to bytes and back,
and a new ClientApp answers each question. So whatever would not survive a deployment's messages and contexts is noticed
without one: ``fedgeom.run(method, sites, engine="flower-loopback")``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from fedgeom.engines.embedded import EmbeddedEngine
from fedgeom.engines.flower import patches
from fedgeom.engines.flower.apps import make_client_app
from fedgeom.engines.flower.commands import SITE_SETTING, need_flower
from fedgeom.engines.flower.engine import RECORD, FlowerEngine
from fedgeom.errors import InputError, ProtocolError
from fedgeom.federation.coordinator import Lost

if TYPE_CHECKING:
    from flwr.app import Context, Message
    from flwr.clientapp import ClientApp

DEADLINE_SECONDS = 24 * 3600.0
"""How long a site may take: it answers before the coordinator looks, so this only has to be long enough."""


@dataclass
class LoopbackNode:
    """What Flower would tell of a node."""

    node_id: int
    public_key: bytes = b""
    status: str = "online"
    last_activated_at: str = ""


class LoopbackGrid:
    """Stands for Flower's SuperLink and its nodes: messages and contexts pass through it as encoded bytes only."""

    def __init__(
        self, make_app: Callable[[], ClientApp], places: Mapping[int, str], keys: Mapping[int, bytes] | None = None
    ):
        """Take what makes a ClientApp, and for each node where its site is and, if anybody asks, its public key."""
        self._make_app = make_app
        self._places = dict(places)
        self._keys = dict(keys or {})
        self.contexts: dict[int, bytes] = {}
        """What Flower keeps of each node between two questions, encoded."""
        self._replies: dict[str, bytes] = {}
        self._count = 0

    def get_nodes(self) -> list[LoopbackNode]:
        """Return all nodes: they are always connected."""
        return [LoopbackNode(node, self._keys.get(node, b"")) for node in self._places]

    def push_messages(self, messages: Iterable[Message]) -> list[str]:
        """Have each message answered, by an app that knows nothing but the message and the node's context."""
        return [self._push(message) for message in messages]

    def pull_messages(self, message_ids: Iterable[str]) -> list[Message]:
        """Return the replies to these messages, each once."""
        from flwr.common import serde  # optional, 2 s
        from flwr.proto.message_pb2 import Message as Encoded

        there = [self._replies.pop(one) for one in message_ids if one in self._replies]
        return [serde.message_from_proto(Encoded.FromString(data)) for data in there]

    def remember(self, node: int, memory: bytes) -> None:
        """Begin with what a site remembers from before."""
        from flwr.app import ConfigRecord  # optional, 2 s

        context = self._context(node)
        context.state[RECORD] = ConfigRecord({"memory": memory})
        self._keep(node, context)

    def _push(self, message: Message) -> str:
        from flwr.common import serde  # optional, 2 s
        from flwr.proto.message_pb2 import Message as Encoded

        self._count += 1
        node = message.metadata.dst_node_id
        number = f"message {self._count}"
        sent = serde.message_to_proto(message)
        sent.metadata.message_id = number
        arrived = serde.message_from_proto(Encoded.FromString(sent.SerializeToString()))
        context = self._context(node)
        reply = self._make_app()(arrived, context)
        self._keep(node, context)
        self._replies[number] = serde.message_to_proto(reply).SerializeToString()
        return number

    def _context(self, node: int) -> Context:
        from flwr.app import Context, RecordDict  # optional, 2 s
        from flwr.common import serde
        from flwr.proto.message_pb2 import Context as Encoded

        if node in self.contexts:
            return serde.context_from_proto(Encoded.FromString(self.contexts[node]))
        state = RecordDict()
        place = {SITE_SETTING: self._places[node]}
        return Context(run_id=1, node_id=node, node_config={**place}, state=state, run_config={})

    def _keep(self, node: int, context: Context) -> None:
        from flwr.common import serde  # optional, 2 s

        self.contexts[node] = serde.context_to_proto(context).SerializeToString()


class FlowerLoopbackEngine(EmbeddedEngine):
    """Carries questions as `FlowerEngine` does, to sites in the same process; has the embedded engine's interface."""

    name = "flower-loopback"

    def deliver(self, requests: Mapping[str, bytes]) -> Iterator[tuple[str, bytes | Lost]]:
        """Yield the answers once all sites have been asked; who is interfered with is not asked at all."""
        going: dict[str, bytes] = {}
        for name, request in requests.items():
            reason = self._interfere(name, request) if self._interfere else None
            if reason is None:
                going[name] = request
            else:
                yield name, Lost(reason)
        yield from self._flower.deliver(going)

    @cached_property
    def _flower(self) -> FlowerEngine:
        need_flower()
        if not patches.act_as_task():
            raise InputError(
                "the engine 'flower-loopback' does not fit the Flower that is installed; wanted flwr 1.41"
            )
        places = dict(enumerate(self.names, start=1))
        grid = LoopbackGrid(lambda: make_client_app(self._answer, _introduce), places)
        for node, name in places.items():
            if self.memories.get(name):  # the run is resumed
                grid.remember(node, self.memories[name])
        nodes = {name: node for node, name in places.items()}
        return FlowerEngine(grid, nodes, deadline=DEADLINE_SECONDS, poll=0.0)

    def _answer(self, site: str, request: bytes, carried: bytes | None) -> tuple[bytes, bytes]:
        """Answer as a site, from what was carried; the copy of its memory that a resumed run needs is kept first."""
        reply, memory = self.runners[site].answer(request, carried)
        self.memories[site] = memory
        return reply, memory


def _introduce(site: str, number: bytes) -> tuple[str, bytes]:
    raise ProtocolError("the sites of this engine are known by their nodes")
