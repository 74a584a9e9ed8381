"""A question that Flower's node has fetched, answered: what Flower leaves to two more programs and a port on loopback.

The node hands the question's parts on as they came, and reads nothing of them: the process that answers has limited
memory and may die, the node may not.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
import traceback
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn

import msgspec

from fedgeom.engines.answerer import AnswererDiedError, AnswererGoneError
from fedgeom.engines.flower.apps import FAILED, refuse_message
from fedgeom.engines.flower.carrier import Carrier, names_in
from fedgeom.engines.flower.engine import CRASHED
from fedgeom.errors import printable

if TYPE_CHECKING:
    from flwr.app import Message
    from flwr.clientapp import ClientApp

log = logging.getLogger(__name__)

DIED = "fedgeom: the process that answered has died"
"""What the node writes to the log then."""
LEAVING = 75
"""The node's exit code when nothing can be answered any more."""
POLITE_SECONDS = 5.0
"""How long the node may take to say goodbye to the coordinator; a thread that serves would keep it alive."""


class NodeRequest(msgspec.Struct, array_like=True):
    """What the node hands over: a message's number and parts, and the context, as Flower encodes it."""

    number: str
    parts: dict[str, bytes]
    context: bytes


class NodeReply(msgspec.Struct, array_like=True):
    """What comes back: the reply and the context, as Flower encodes them."""

    reply: bytes
    context: bytes


class NodeAnswers:
    """Answers what the node has fetched, and lets the parts of the answer travel with it."""

    def __init__(self, ask: Callable[[bytes], bytes], carrier: Carrier):
        self._ask = ask
        self._carrier = carrier

    def before(self, push: Callable[..., None], insert: Callable[..., None]) -> Callable[..., None]:
        """Return what stands for Flower's function that waits for replies and pushes them.

        ``insert`` is Flower's function that stores a reply.
        """

        def answer_and_push(*, state: Any, object_store: Any, send: Callable[..., Any], push_object: Any) -> None:
            for message in state.get_messages_legacy(is_reply=False):
                insert(self._reply(message, state, object_store), state, object_store)
            for task in state.get_tasks(statuses=["pending"]):  # Flower would start a program for it
                state.finish_task(task.task_id, "stopped", "answered by the node")

            def send_with_parts(message: Any, tree: Any, seconds: float) -> Any:
                self._carrier.bring((name, object_store.get(name) or b"") for name in names_in(tree))
                return send(message, tree, seconds)

            push(state=state, object_store=object_store, send=send_with_parts, push_object=push_object)

        return answer_and_push

    def _reply(self, message: Message, state: Any, store: Any) -> Message:
        from flwr.app import Error  # optional, 2 s
        from flwr.app import Message as FlowerMessage
        from flwr.common import serde
        from flwr.proto import message_pb2 as wire

        number = message.metadata.message_id
        series = state.get_run(message.metadata.run_id).series_id
        state.record_message_processing_start(number)
        parts = {name: store.get(name) for name in names_in(store.get_object_tree(number))}
        context = serde.context_to_proto(state.get_run_series_context(series)).SerializeToString()
        store.delete(number)
        try:
            data = self._ask(msgspec.msgpack.encode(NodeRequest(number, parts, context)))
        except AnswererDiedError as error:
            print(DIED, file=sys.stderr, flush=True)
            return FlowerMessage(Error(CRASHED, str(error)), reply_to=message)
        except AnswererGoneError:
            leave()
        finally:
            state.record_message_processing_end(number)
        answered = msgspec.msgpack.decode(data, type=NodeReply)
        state.set_run_series_context(series, serde.context_from_proto(wire.Context.FromString(answered.context)))
        return serde.message_from_proto(wire.Message.FromString(answered.reply))


def answer_with(app: ClientApp) -> Callable[[bytes], bytes]:
    """Return the function that answers, in the process that does: from `NodeRequest` to `NodeReply`, both encoded."""

    def answer(data: bytes) -> bytes:
        from flwr.common import serde  # optional, 2 s
        from flwr.proto import message_pb2 as wire
        from flwr.supercore.inflatable.inflatable_utils import inflate_object_from_contents

        asked = msgspec.msgpack.decode(data, type=NodeRequest)
        message: Any = inflate_object_from_contents(asked.number, asked.parts)
        message.metadata.__dict__["_message_id"] = asked.number  # its own hash, which it cannot contain
        context = serde.context_from_proto(wire.Context.FromString(asked.context))
        try:
            reply = app(message, context)
        except Exception:  # a kind of message that is not ours
            log.error("the message could not be answered\n%s", printable(traceback.format_exc(), lines=True))
            reply = refuse_message(message, FAILED)
        answered = NodeReply(
            serde.message_to_proto(reply).SerializeToString(), serde.context_to_proto(context).SerializeToString()
        )
        return msgspec.msgpack.encode(answered)

    return answer


def leave() -> NoReturn:
    """End the node by way of Flower's clean-up, which tells the coordinator, and in any case soon."""
    print(DIED, file=sys.stderr, flush=True)
    end = threading.Timer(POLITE_SECONDS, os._exit, [LEAVING])
    end.daemon = True
    end.start()
    raise SystemExit(LEAVING)
