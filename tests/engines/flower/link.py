"""A real SuperLink's web application behind our layer, served over HTTP in this process, for tests."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from fedgeom.engines.flower.carrier import Carrier, WithCarrier
from fedgeom.engines.flower.engine import QUESTION, RECORD
from fedgeom.engines.flower.patches import AccessFilter, shortened, with_limit, with_messages
from fedgeom.engines.processes import free_port
from tests.engines.flower.conftest import question


class Link:
    """What tests do with it: nodes that come, a run, questions for nodes and their answers."""

    def __init__(self, app: Any, address: str):
        self.app, self.address = app, address
        self.layer = with_messages(app)
        self.limited = with_limit(app, self.layer)
        self.passed: list[str] = []
        """The paths of all requests that reached Flower's own application's door, held ones once."""
        self.state = app.state.linkstate_factory.state()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            self.passed.append(scope["path"])
        await AccessFilter(self.limited)(scope, receive, send)

    def node(self, carrier: Carrier | None = None) -> Node:
        """Connect a node: Flower's own, or with a carrier."""
        return Node(self.address, carrier)

    def grid(self) -> Any:
        """Start a run, and return the grid of its ServerApp."""
        from flwr.superlink.federation.noop_federation_manager import NOOP_FEDERATION_ID
        from flwr.superlink.grid.http_grid import HttpGrid

        run_id = self.state.create_run(
            "a/b", "1", "hash", {}, NOOP_FEDERATION_ID, None, "", primary_task_type="flwr-serverapp"
        )
        (task,) = self.state.get_tasks(run_ids=[run_id])
        token = self.state.claim_task(task.task_id)
        assert self.state.activate_task(task.task_id)
        grid = HttpGrid(self.address, insecure=True, token=token)
        grid.set_run(self.state.get_run_info(run_ids=[run_id])[0])
        return grid


class Node:
    """A node as far as the wire knows it: Flower's own HTTP client, with a key of its own."""

    def __init__(self, address: str, carrier: Carrier | None = None):
        from flwr.proto.fleet_pb2 import ActivateNodeRequest, RegisterNodeFleetRequest
        from flwr.proto.node_pb2 import Node as Identity
        from flwr.supercore.primitives.asymmetric import generate_key_pairs, public_key_to_bytes
        from flwr.supernode.fleet_http_client import FleetHttpClient
        from flwr.supernode.node_auth_http_interceptor import NodeAuthHttpInterceptor

        self.keys, self.carrier = generate_key_pairs(), carrier
        made: Any = FleetHttpClient if carrier is None else WithCarrier(FleetHttpClient, carrier)
        self.client = made.from_server_address(
            address, True, None, interceptors=[NodeAuthHttpInterceptor(*self.keys)]
        )
        public = public_key_to_bytes(self.keys[1])
        self.client.RegisterNode(RegisterNodeFleetRequest(public_key=public))
        came = self.client.ActivateNode(ActivateNodeRequest(public_key=public, heartbeat_interval=30))
        self.identity = Identity(node_id=came.node_id)

    def poll(self) -> Any:
        """Ask for a question."""
        from flwr.proto.fleet_pb2 import PullMessagesRequest

        return self.client.PullMessages(PullMessagesRequest(node=self.identity))

    def fetch(self) -> Any:
        """Ask for a question, and fetch and confirm it as Flower's node does."""
        from flwr.supercore.inflatable.inflatable_protobuf_utils import (
            make_confirm_message_received_fn_protobuf,
            make_pull_object_fn_protobuf,
        )
        from flwr.supercore.inflatable.inflatable_utils import pull_and_inflate_object_from_tree

        there = self.poll()
        run = there.messages_list[0].metadata.run_id
        message = pull_and_inflate_object_from_tree(
            there.message_object_trees[0],
            make_pull_object_fn_protobuf(self.client.PullObject, self.identity, run),
            make_confirm_message_received_fn_protobuf(self.client.ConfirmMessageReceived, self.identity, run),
        )
        message.metadata.__dict__["_message_id"] = there.message_object_trees[0].object_id
        return message

    def answer(self, message: Any, answer: bytes) -> None:
        """Answer a question, as Flower's node does."""
        from flwr.app import ConfigRecord, Message, RecordDict
        from flwr.app.message import remove_content_from_message
        from flwr.common.serde import message_to_proto
        from flwr.proto.fleet_pb2 import PushMessagesRequest
        from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects, get_object_tree
        from flwr.supercore.inflatable.inflatable_protobuf_utils import make_push_object_fn_protobuf
        from flwr.supercore.inflatable.inflatable_utils import push_objects

        reply = Message(RecordDict({RECORD: ConfigRecord({"answer": answer})}), reply_to=message)
        reply.metadata.__dict__["_message_id"] = reply.object_id
        parts = get_all_nested_objects(reply)
        if self.carrier is not None:
            self.carrier.bring((name, part.deflate()) for name, part in parts.items())
        told = self.client.PushMessages(
            PushMessagesRequest(
                node=self.identity,
                messages_list=[message_to_proto(remove_content_from_message(reply))],
                message_object_trees=[get_object_tree(reply)],
            )
        )
        run = reply.metadata.run_id
        push = make_push_object_fn_protobuf(self.client.PushObject, self.identity, run, told.session_id)
        push_objects(parts, push, object_ids_to_push=set(told.objects_to_push))


def asked(grid: Any, node: Node, request: bytes = b"who are you?") -> Any:
    """Return a question for a node, as a ServerApp makes it."""
    from flwr.app import ConfigRecord, Message, RecordDict

    content = RecordDict({name: ConfigRecord(fields) for name, fields in question(request).items()})
    message = Message(content, node.identity.node_id, QUESTION, ttl=600.0)
    message.metadata.__dict__["_run_id"] = grid.run.run_id
    return message


@contextmanager
def running_link() -> Iterator[Link]:
    """Serve a SuperLink with its state in memory, in a thread."""
    import uvicorn
    from flwr.superlink import main

    port = free_port()
    layers = shortened(main._get_middleware())
    with patch.object(main, "_get_middleware", lambda: layers):
        link = Link(main.create_app(), f"127.0.0.1:{port}")
    server = uvicorn.Server(uvicorn.Config(link, host="127.0.0.1", port=port, log_level="error", lifespan="off"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.02)
    yield link
    server.should_exit = server.force_exit = True
    thread.join()
