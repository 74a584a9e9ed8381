"""Introductions: a name counts only with a signature, under this very number, of the roster's key for it."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("flwr", reason="Flower is not installed")

from fedgeom.crypto.keys import Identity
from fedgeom.engines.flower import nodes
from fedgeom.engines.flower.nodes import (
    INTRODUCE,
    RECORD,
    ask_names,
    introduce_message,
    read_introduction,
    sign_introduction,
)
from fedgeom.errors import ProtocolError
from tests.engines.flower.conftest import Clock, NodeGrid, flower_message

pytestmark = pytest.mark.usefixtures("inside_a_task")

ANNA, BERT = Identity.generate(), Identity.generate()
ROSTER = {"anna": ANNA.public, "bert": BERT.public}
NUMBER = b"n" * 32


def introduced(identity: Identity, name: str, number: bytes = NUMBER) -> Any:
    message = flower_message({RECORD: {"number": number}}, INTRODUCE)
    return introduce_message(message, lambda given: (name, sign_introduction(identity, name, given)))


def test_a_name_is_believed_with_its_signature_only() -> None:
    reply = introduced(ANNA, "anna")
    assert read_introduction(reply, NUMBER, ROSTER) == "anna"
    assert read_introduction(reply, b"m" * 32, ROSTER) is None  # a replay
    assert read_introduction(reply, NUMBER, {"anna": BERT.public}) is None
    assert read_introduction(reply, NUMBER, {}) is None
    assert read_introduction(introduced(BERT, "anna"), NUMBER, ROSTER) is None
    reply.content.config_records[RECORD]["name"] = "bert"  # anna's signature under another name
    assert read_introduction(reply, NUMBER, ROSTER) is None


@pytest.mark.parametrize(
    "record", [{}, {"name": "anna"}, {"name": "anna", "signature": "text"}, {"name": 7, "signature": b"s"}]
)
def test_a_reply_that_says_nothing_is_nobody(record: dict[str, Any]) -> None:
    assert read_introduction(flower_message({RECORD: record}, INTRODUCE), NUMBER, ROSTER) is None
    assert read_introduction(flower_message({"other": {}}, INTRODUCE), NUMBER, ROSTER) is None


@pytest.mark.parametrize("number", [b"", b"n" * 31, b"n" * 33, "n" * 32])
def test_only_a_number_of_32_bytes_is_signed(number: Any) -> None:
    with pytest.raises(ProtocolError, match="32 bytes"):
        introduced(ANNA, "anna", number)


def test_nodes_are_asked_for_their_names_each_with_a_number_of_its_own(clock: Clock) -> None:
    numbers: list[bytes] = []

    def reply(node: int, message: Any) -> Any:
        number = message.content.config_records[RECORD]["number"]
        numbers.append(number)
        who = {1: (ANNA, "anna"), 2: (BERT, "bert"), 3: (ANNA, "bert")}.get(node)
        return None if who is None else introduced(*who, number)

    grid = NodeGrid(reply=reply)
    found = ask_names(grid, [1, 2, 3, 4], ROSTER, clock=clock, sleep=clock.sleep)
    assert found == {1: "anna", 2: "bert"}  # 3 cannot prove it, 4 says nothing
    assert len(set(numbers)) == 4
    assert nodes.SECONDS <= clock.now < nodes.SECONDS + 1
    assert ask_names(grid, [], ROSTER) == {}
    assert grid.asked == [1, 2, 3, 4]
