"""What the node does with a question that Flower fetched: handed over as it came, answered, stored for Flower."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from tests.waiting import HANG_SECONDS

pytest.importorskip("flwr", reason="Flower is not installed")

from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects, get_object_tree
from flwr.supercore.object_store import ObjectStoreFactory
from flwr.supercore.run import Run
from flwr.supernode.nodestate import NodeStateFactory

from fedgeom.engines.answerer import AnswererDiedError, AnswererGoneError
from fedgeom.engines.flower import node_answers, patch_table
from fedgeom.engines.flower.apps import FAILED, make_client_app
from fedgeom.engines.flower.carrier import Carrier
from fedgeom.engines.flower.engine import CRASHED, QUESTION, RECORD, read_reply
from fedgeom.engines.flower.node_answers import DIED, LEAVING, NodeAnswers, answer_with
from tests.engines.flower.conftest import flower_context, flower_message, question

pytestmark = pytest.mark.usefixtures("inside_a_task")


class Node:
    """A node's state, into which Flower has put a question."""

    def __init__(self) -> None:
        factory = ObjectStoreFactory()
        self.state, self.store = NodeStateFactory(objectstore_factory=factory).state(), factory.store()
        self.state.store_run(Run.create_empty(1))
        self.series = self.state.get_run(1).series_id
        self.state.set_run_series_context(self.series, flower_context(site="/anna"))
        self.sent: list[Any] = []
        self.brought: dict[str, bytes] = {}

    def put(self, message: Any) -> None:
        self.state.create_task("flwr-clientapp", 1, "hash")
        self.store.preregister(1, get_object_tree(message))
        for name, part in get_all_nested_objects(message).items():
            self.store.put(name, part.deflate())
        self.state.store_message(message)

    def push(self, *, state: Any, object_store: Any, send: Any, push_object: Any) -> None:
        """Do what Flower's function does with the replies."""
        for reply in state.get_messages_legacy(is_reply=True):
            send(reply, object_store.get_object_tree(reply.metadata.message_id), 0.0)

    def answer(self, ask: Any) -> Any:
        """Let the question be answered; return the reply that was sent."""
        carrier = Carrier(lambda: 0.0)
        work = NodeAnswers(ask, carrier).before(self.push, patch_table.NODE_STORES.value())
        send = lambda reply, tree, seconds: self.sent.append(reply)  # noqa: E731
        work(state=self.state, object_store=self.store, send=send, push_object=None)
        self.brought = carrier._going
        return self.sent[-1]


def app(answer: Any) -> Any:
    return answer_with(make_client_app(answer, lambda place, number: ("", b"")))


def test_a_question_is_answered_and_what_is_remembered_is_kept_for_the_next() -> None:
    node, calls = Node(), list[tuple[str, bytes, bytes | None]]()

    def answer(place: str, request: bytes, kept: bytes | None) -> tuple[bytes, bytes]:
        calls.append((place, request, kept))
        return b"re: " + request, b"memory of " + request

    for ask in (b"one", b"two"):
        node.put(message := flower_message(question(ask), QUESTION))
        reply = node.answer(app(answer))
        assert read_reply(reply) == b"re: " + ask
        assert reply.metadata.reply_to_message_id == message.metadata.message_id
        assert len(node.brought) == 3  # all parts of the answer go with it
        assert set(node.brought) <= set(node.store.store)
        assert message.metadata.message_id not in node.store  # the question's are gone
    assert calls == [("/anna", b"one", None), ("/anna", b"two", b"memory of one")]
    assert not node.state.get_tasks(statuses=["pending"])


def test_a_process_that_died_is_told_and_what_was_remembered_stays(capsys: pytest.CaptureFixture[str]) -> None:
    node = Node()
    before = node.state.get_run_series_context(node.series)

    def ask(data: bytes) -> bytes:
        raise AnswererDiedError("the process that answered has died")

    node.put(flower_message(question(b"x"), QUESTION))
    reply = node.answer(ask)
    assert (reply.error.code, reply.error.reason) == (CRASHED, "the process that answered has died")
    assert DIED in capsys.readouterr().err
    assert node.state.get_run_series_context(node.series) == before


def test_a_node_that_cannot_be_answered_any_more_leaves(monkeypatch: pytest.MonkeyPatch) -> None:
    def ask(data: bytes) -> bytes:
        raise AnswererGoneError

    monkeypatch.setattr(node_answers.threading.Timer, "start", lambda timer: None)
    node = Node()
    node.put(flower_message(question(b"x"), QUESTION))
    with pytest.raises(SystemExit) as left:
        node.answer(ask)
    assert left.value.code == LEAVING


STUBBORN = """
import threading, time
from fedgeom.engines.flower import node_answers
node_answers.POLITE_SECONDS = 1.0
threading.Thread(target=time.sleep, args=(3600,)).start()  # like a thread that serves
try:
    node_answers.leave()
finally:
    print("goodbye", flush=True)
"""


def test_a_node_with_a_thread_that_goes_on_leaves_too_after_its_goodbye() -> None:
    done = subprocess.run(
        [sys.executable, "-c", STUBBORN], capture_output=True, text=True, check=False, timeout=HANG_SECONDS
    )
    assert (done.returncode, done.stdout) == (LEAVING, "goodbye\n")


def test_a_message_of_another_kind_is_refused_without_a_word_of_why() -> None:
    node = Node()
    node.put(flower_message({RECORD: {"request": b"x"}}, "train"))
    reply = node.answer(app(lambda *_: (b"", b"")))
    assert reply.error.reason == FAILED
