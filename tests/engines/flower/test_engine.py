"""The Flower engine against a grid of paper: deadlines, errors, sites that come and go."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("flwr", reason="Flower is not installed")

from fedgeom.engines.flower import MOST_TIMES, QUESTION, RECORD, FlowerEngine
from fedgeom.federation.coordinator import Lost

pytestmark = pytest.mark.usefixtures("inside_a_task")

NODES = {"anna": 11, "bert": 22}
AWAY, CRASHED = 5, 8


def said(answer: Any, *, key: str = "answer", record: str = RECORD) -> SimpleNamespace:
    content = SimpleNamespace(config_records={record: {key: answer}})
    return SimpleNamespace(content=content, has_error=lambda: False)


def failed(code: int, reason: str = "") -> SimpleNamespace:
    return SimpleNamespace(error=SimpleNamespace(code=code, reason=reason), has_error=lambda: True)


class PaperGrid:
    """A grid whose sites do what they are told, on a clock that only moves when somebody sleeps."""

    def __init__(self, site: Callable[[int, bytes], tuple[float, SimpleNamespace] | None]):
        self.now = 0.0
        self.site = site
        """From a node and a request to the seconds it takes and the reply; None: it never replies."""
        self.nodes = dict(NODES)
        self.plans: list[tuple[float, Callable[[], None]]] = []
        self.sent: list[Any] = []
        self.due: dict[str, tuple[float, SimpleNamespace]] = {}
        self.take: Callable[[list[Any]], list[str | None]] | None = None

    def clock(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        for plan in [plan for plan in self.plans if plan[0] <= self.now]:
            self.plans.remove(plan)
            plan[1]()

    def at(self, when: float, do: Callable[[], None]) -> None:
        self.plans.append((when, do))

    def get_node_ids(self) -> list[int]:
        return list(self.nodes.values())

    def push_messages(self, messages: Iterable[Any]) -> list[str | None]:
        identifiers: list[str | None] = []
        for message in messages:
            self.sent.append(message)
            identifier = f"message {len(self.sent)}"
            node = message.metadata.dst_node_id
            reply = self.site(node, message.content.config_records[RECORD]["request"])
            if reply is not None:
                self.due[identifier] = (self.now + reply[0], reply[1])
            identifiers.append(identifier)
        return identifiers if self.take is None else self.take(identifiers)

    def pull_messages(self, identifiers: Iterable[str]) -> list[SimpleNamespace]:
        replies = []
        for identifier in identifiers:
            if identifier in self.due and self.due[identifier][0] <= self.now:
                _, reply = self.due.pop(identifier)
                reply.metadata = SimpleNamespace(reply_to_message_id=identifier)
                replies.append(reply)
        return replies

    def engine(self, **options: Any) -> FlowerEngine:
        given: dict[str, Any] = {"deadline": 100.0, "grace": 30.0, **options}
        return FlowerEngine(self, NODES, lambda: dict(self.nodes), clock=self.clock, sleep=self.sleep, **given)

    def ask(self, **options: Any) -> dict[str, bytes | Lost]:
        return dict(self.engine(**options).deliver({"anna": b"for anna", "bert": b"for bert"}))


def prompt(node: int, request: bytes) -> tuple[float, SimpleNamespace]:
    return 1.0, said(b"re: " + request)


def only_anna(node: int, request: bytes) -> tuple[float, SimpleNamespace] | None:
    return prompt(node, request) if node == NODES["anna"] else None


def test_each_site_gets_its_own_question_and_answers_it() -> None:
    grid = PaperGrid(prompt)
    assert grid.ask() == {"anna": b"re: for anna", "bert": b"re: for bert"}
    assert [m.metadata.dst_node_id for m in grid.sent] == [11, 22]
    assert {m.metadata.message_type for m in grid.sent} == {QUESTION}
    assert {m.metadata.ttl for m in grid.sent} == {100.0}
    assert grid.now < 5


def test_who_does_not_answer_is_lost_at_the_deadline_and_nobody_waits_longer() -> None:
    grid = PaperGrid(only_anna)
    assert grid.ask(deadline=20.0) == {"anna": b"re: for anna", "bert": Lost("no answer within 20 s")}
    assert 20 <= grid.now < 22
    assert len(grid.sent) == 3  # being slow is a reason to be asked again once, at half time


def test_answers_are_given_out_as_they_come() -> None:
    grid = PaperGrid(lambda node, request: (5.0 if node == 11 else 1.0, said(request)))
    assert list(grid.ask()) == ["bert", "anna"]


def test_a_late_answer_is_no_answer_to_the_next_question() -> None:
    grid = PaperGrid(lambda node, request: (30.0 if node == 22 and request == b"one" else 1.0, said(request)))
    engine = grid.engine(deadline=10.0)
    assert dict(engine.deliver({"anna": b"one", "bert": b"one"}))["bert"] == Lost("no answer within 10 s")
    grid.now = 31.0
    assert dict(engine.deliver({"anna": b"two", "bert": b"two"})) == {"anna": b"two", "bert": b"two"}


def test_replies_to_questions_nobody_asked_are_ignored() -> None:
    grid = PaperGrid(prompt)
    pull = grid.pull_messages

    def with_stray(identifiers: Iterable[str]) -> list[SimpleNamespace]:
        stray = said(b"unasked")
        stray.metadata = SimpleNamespace(reply_to_message_id="message 99")
        return [stray, *pull(identifiers), stray]

    grid.pull_messages = with_stray  # type: ignore[method-assign]
    assert grid.ask() == {"anna": b"re: for anna", "bert": b"re: for bert"}


@pytest.mark.parametrize(
    "reply",
    [
        failed(2, "refused: the message speaks protocol version 1; this end speaks 2"),
        failed(7),
        said(b"x", key="other"),
        said(b"x", record="other"),
        said("text"),
        said([1, 2]),
    ],
)
def test_an_error_or_a_reply_without_an_answer_is_a_loss_with_its_reason(reply: SimpleNamespace) -> None:
    grid = PaperGrid(lambda node, request: (1.0, reply) if node == 22 else prompt(node, request))
    outcome = grid.ask()
    assert outcome["anna"] == b"re: for anna"
    lost = outcome["bert"]
    assert isinstance(lost, Lost)
    assert lost.reason
    if reply.has_error():
        assert (reply.error.reason or "Flower error 7") in lost.reason
    assert grid.now < 5


@pytest.mark.parametrize("taken", [lambda ids: [ids[0], ""], lambda ids: [ids[0], None], lambda ids: []])
def test_a_question_that_flower_does_not_take_is_lost_soon(taken: Callable[[list[Any]], list[Any]]) -> None:
    grid = PaperGrid(prompt)
    grid.take = taken
    outcome = grid.ask()
    assert outcome["bert"] == Lost("Flower did not take the question")
    assert grid.now < 10


def test_a_site_that_is_not_connected_has_a_while_to_come() -> None:
    grid = PaperGrid(prompt)
    del grid.nodes["bert"]
    grid.at(12.0, lambda: grid.nodes.update(bert=22))
    assert grid.ask() == {"anna": b"re: for anna", "bert": b"re: for bert"}
    assert 12 < grid.now < 20


def test_a_site_that_stays_away_is_lost_before_the_deadline() -> None:
    grid = PaperGrid(only_anna)
    grid.at(5.0, lambda: grid.nodes.pop("bert"))  # type: ignore[arg-type, return-value]
    assert grid.ask()["bert"] == Lost("the site is not connected")
    assert 35 <= grid.now < 40


def test_a_site_that_was_started_again_is_asked_again() -> None:
    seen: list[int] = []

    def second_time(node: int, request: bytes) -> tuple[float, SimpleNamespace] | None:
        seen.append(node)
        return prompt(node, request) if node in (11, 33) else None

    grid = PaperGrid(second_time)
    grid.at(20.0, lambda: grid.nodes.update(bert=33))  # with another number
    assert grid.ask()["bert"] == b"re: for bert"
    assert seen == [11, 22, 33]
    assert grid.sent[2].metadata.ttl < 81  # what is left of the deadline


def test_a_site_whose_line_was_cut_is_asked_again_and_the_first_answer_counts() -> None:
    """Flower forgets the question when the node is silent; the answer that was on its way comes to nothing."""
    replies = [(25.0, failed(AWAY, "Node Unavailable")), (1.0, said(b"the answer")), (2.0, said(b"again"))]
    grid = PaperGrid(lambda node, request: prompt(node, request) if node == 11 else replies.pop(0))
    grid.at(10.0, lambda: grid.nodes.pop("bert"))  # type: ignore[arg-type, return-value]
    grid.at(30.0, lambda: grid.nodes.update(bert=22))
    assert grid.ask()["bert"] == b"the answer"
    assert 30 < grid.now < 40


def test_a_message_that_got_lost_is_put_again_once_at_half_time() -> None:
    sent = list[int]()

    def loses_the_first_to_bert(node: int, request: bytes) -> tuple[float, SimpleNamespace] | None:
        sent.append(node)
        return prompt(node, request) if node == NODES["anna"] or sent.count(node) > 1 else None

    grid = PaperGrid(loses_the_first_to_bert)
    assert grid.ask(deadline=100.0) == {"anna": b"re: for anna", "bert": b"re: for bert"}
    assert sent == [NODES["anna"], NODES["bert"], NODES["bert"]]
    assert 50 <= grid.now < 60
    silent = PaperGrid(only_anna)
    assert isinstance(silent.ask(deadline=100.0)["bert"], Lost)
    assert len(silent.sent) == 3  # anna's, and bert's twice: not again and again


def test_a_process_that_died_while_answering_is_asked_again_but_not_for_ever() -> None:
    once = [(3.0, failed(CRASHED, "ClientApp stopped responding.")), (1.0, said(b"the answer"))]
    grid = PaperGrid(lambda node, request: prompt(node, request) if node == 11 else once.pop(0))
    assert grid.ask()["bert"] == b"the answer"
    always = PaperGrid(lambda node, request: (1.0, failed(CRASHED, "ClientApp stopped responding.")))
    outcome = always.ask(deadline=600.0)
    assert outcome == dict.fromkeys(NODES, Lost("the site could not answer: ClientApp stopped responding."))
    assert len(always.sent) == 2 * MOST_TIMES
    assert always.now < 60


def test_nothing_to_ask_asks_nobody() -> None:
    grid = PaperGrid(prompt)
    assert dict(grid.engine().deliver({})) == {}
    assert grid.sent == []
