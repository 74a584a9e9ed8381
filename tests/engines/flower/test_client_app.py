"""The site's end: questions in, answers out, memory in the context, and no text of an error to anybody else."""

from __future__ import annotations

import logging
from typing import Any

import pytest

pytest.importorskip("flwr", reason="Flower is not installed")

from fedgeom import __version__
from fedgeom.engines.flower.apps import FAILED, answer_message, make_client_app
from fedgeom.engines.flower.engine import QUESTION, RECORD, read_reply
from fedgeom.engines.flower.nodes import INTRODUCE
from fedgeom.errors import DecodeError
from tests.engines.flower.conftest import flower_context, flower_message, question

pytestmark = pytest.mark.usefixtures("inside_a_task")


def test_a_site_answers_a_message_and_its_memory_travels_in_the_context() -> None:
    context, calls = flower_context(), list[tuple[bytes, bytes | None]]()

    def answer(request: bytes, kept: bytes | None) -> tuple[bytes, bytes]:
        calls.append((request, kept))
        return b"re: " + request, b"memory %d" % len(calls)

    for ask in (b"one", b"two"):
        reply = answer_message(flower_message(question(ask), QUESTION), context, answer)
        assert read_reply(reply) == b"re: " + ask
    assert calls == [(b"one", None), (b"two", b"memory 1")]


@pytest.mark.parametrize(
    "content", [{}, {"other": {"request": b"x"}}, {RECORD: {"x": b"x"}}, {RECORD: {"request": 5}}]
)
def test_a_message_without_a_question_is_refused(content: dict[str, Any]) -> None:
    with pytest.raises(DecodeError):
        answer_message(flower_message(content, QUESTION), flower_context(), lambda request, kept: (b"", b""))


def app(answer: Any = None, introduce: Any = None) -> Any:
    def unwanted(*_: Any) -> Any:
        raise AssertionError("nobody asked that")

    return make_client_app(answer or unwanted, introduce or unwanted)


def test_the_site_is_the_one_that_the_nodes_own_settings_name() -> None:
    made = app(answer=lambda place, request, kept: (f"{place}: {request.decode()}".encode(), b""))
    reply = made(message=flower_message(question(b"hello"), QUESTION), context=flower_context(site="/anna"))
    assert read_reply(reply) == b"/anna: hello"


def test_errors_reach_flower_without_their_text(caplog: pytest.LogCaptureFixture) -> None:
    def fail(*_: Any) -> Any:
        raise ValueError("could not convert string to float: 'Mueller'")

    made = app(answer=fail, introduce=fail)
    for kind, content in ((QUESTION, question(b"x")), (INTRODUCE, {"introduction": {"number": b"n" * 32}})):
        with caplog.at_level(logging.ERROR):
            reply = made(message=flower_message(content, kind), context=flower_context(site="/anna"))
        assert reply.has_error()
        assert reply.error.reason == FAILED
        assert "Mueller" in caplog.text  # at the site it can be read
        caplog.clear()


def test_what_cannot_be_read_is_named_with_the_sites_version() -> None:
    def refuse(*_: Any) -> Any:
        raise DecodeError("not a fedgeom frame")

    reply = app(answer=refuse)(
        message=flower_message(question(b"nonsense"), QUESTION), context=flower_context(site="/anna")
    )
    assert reply.error.reason == f"refused: not a fedgeom frame (the site runs fedgeom {__version__})"


def test_a_number_of_another_length_is_not_signed() -> None:
    signed: list[bytes] = []

    def introduce(place: str, number: bytes) -> tuple[str, bytes]:
        signed.append(number)
        return "anna", b"signature"

    made = app(introduce=introduce)
    for number in (b"n" * 32, b"short", b"n" * 33, 7):
        message = flower_message({"introduction": {"number": number}}, INTRODUCE)
        reply = made(message=message, context=flower_context(site="/anna"))
        assert reply.has_error() == (number != b"n" * 32)
    assert signed == [b"n" * 32]
