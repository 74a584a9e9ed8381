"""The two apps and introductions: questions in, answers out, no text of an error to anybody else."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("flwr", reason="Flower is not installed")

from fedgeom import __version__
from fedgeom.crypto.keys import Identity
from fedgeom.deploy import flower
from fedgeom.deploy.jobs import create_job
from fedgeom.engines.flower import (
    FAILED,
    INTRODUCE,
    INTRODUCTION_SECONDS,
    MOST_INTRODUCTIONS,
    QUESTION,
    Introductions,
    make_client_app,
    make_message,
    read_introduction,
    read_reply,
    sign_introduction,
)
from fedgeom.errors import DecodeError, InputError
from fedgeom.federation.messages import unpack
from tests.deploy.making import make_coordinator, make_sites
from tests.deploy.test_answering import hello
from tests.engines.flower.conftest import AppGrid, Clock

pytestmark = pytest.mark.usefixtures("inside_a_task")

ANNA, BERT = Identity.generate(), Identity.generate()
ROSTER = {"anna": ANNA.public, "bert": BERT.public}
NUMBER = b"n" * 32


def app(answer: Any = None, introduce: Any = None) -> Any:
    def unwanted(*_: Any) -> Any:
        raise AssertionError("nobody asked that")

    return make_client_app(answer or unwanted, introduce or unwanted)


def put(made: Any, content: dict[str, Any], kind: str = QUESTION, site: str = "/anna") -> Any:
    """Put a message to an app and return the reply."""
    grid = AppGrid(made, {1: site})
    (reply,) = grid.pull_messages(grid.push_messages([make_message(content, 1, kind, 60.0)]))
    return reply


def test_the_site_is_the_one_that_the_nodes_own_settings_name() -> None:
    made = app(answer=lambda place, request: f"{place}: {request.decode()}".encode())
    assert read_reply(put(made, {"request": b"hello"})) == b"/anna: hello"
    nobody = put(made, {"request": b"hello"}, site="")
    assert nobody.error.reason == FAILED


@pytest.mark.parametrize("content", [{}, {"other": b"x"}, {"request": 5}, {"request": "text"}])
def test_a_message_without_a_question_is_refused(content: dict[str, Any]) -> None:
    reply = put(app(answer=lambda place, request: b""), content)
    assert reply.error.reason.startswith("refused: the Flower message")


def test_errors_reach_flower_without_their_text(caplog: pytest.LogCaptureFixture) -> None:
    def fail(*_: Any) -> Any:
        raise ValueError("could not convert string to float: 'Mueller'")

    made = app(answer=fail, introduce=fail)
    for kind, content in ((QUESTION, {"request": b"x"}), (INTRODUCE, {"number": NUMBER})):
        with caplog.at_level(logging.ERROR):
            assert put(made, content, kind).error.reason == FAILED
        assert "Mueller" in caplog.text  # at the site it can be read
        caplog.clear()


def test_what_cannot_be_read_is_named_with_the_sites_version() -> None:
    def refuse(*_: Any) -> Any:
        raise DecodeError("not a fedgeom frame")

    reply = put(app(answer=refuse), {"request": b"nonsense"})
    assert reply.error.reason == f"refused: not a fedgeom frame (the site runs fedgeom {__version__})"


# --- introductions ---


def introducing(*who: tuple[Identity, str]) -> Callable[..., Any]:
    """Return an app whose sites introduce themselves as the one at the place that is their number."""

    def introduce(place: str, number: bytes) -> tuple[str, bytes]:
        identity, name = who[int(place)]
        return name, sign_introduction(identity, name, number)

    return app(introduce=introduce)  # type: ignore[no-any-return]


def introduced(identity: Identity, name: str) -> Any:
    return put(introducing((identity, name)), {"number": NUMBER}, INTRODUCE, "0")


def test_a_name_is_believed_with_its_signature_only() -> None:
    reply = introduced(ANNA, "anna")
    assert read_introduction(reply, NUMBER, ROSTER) == "anna"
    assert read_introduction(reply, b"m" * 32, ROSTER) is None  # a replay
    assert read_introduction(reply, NUMBER, {"anna": BERT.public}) is None
    assert read_introduction(reply, NUMBER, {}) is None
    assert read_introduction(introduced(BERT, "anna"), NUMBER, ROSTER) is None
    reply.content.config_records["fedgeom"]["name"] = "bert"  # anna's signature under another name
    assert read_introduction(reply, NUMBER, ROSTER) is None


@pytest.mark.parametrize("number", [b"", b"n" * 31, b"n" * 33, "n" * 32])
def test_only_a_number_of_32_bytes_is_signed(number: Any) -> None:
    assert put(introducing((ANNA, "anna")), {"number": number}, INTRODUCE, "0").has_error()


def test_nodes_are_asked_for_their_names_and_strangers_are_passed_over(clock: Clock) -> None:
    made = introducing((ANNA, "anna"), (BERT, "bert"), (ANNA, "bert"))
    grid = AppGrid(made, {11: "0", 22: "1", 33: "2", 44: "none"})
    asked: list[int] = []
    push = grid.push_messages

    def count(messages: Any) -> list[str]:
        messages = list(messages)
        asked.extend(message.metadata.dst_node_id for message in messages)
        return push(messages)

    grid.push_messages = count  # type: ignore[method-assign]
    look = Introductions(grid, ROSTER, clock=clock, sleep=clock.sleep)
    for _ in range(5):
        assert look() == {"anna": 11, "bert": 22}
    assert sorted(asked) == [11, 22, *[33] * MOST_INTRODUCTIONS, *[44] * MOST_INTRODUCTIONS]
    silent = AppGrid(made, {11: "0"})
    silent.pull_messages = lambda message_ids: []  # type: ignore[method-assign]
    assert Introductions(silent, ROSTER, clock=clock, sleep=clock.sleep)() == {}
    assert clock.now >= INTRODUCTION_SECONDS


# --- wired to folders ---


def test_the_client_app_answers_for_the_site_in_its_folder_and_introduces_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for limit in ("leave_no_traces", "limit_memory"):  # or they would hold for this process, too
        monkeypatch.setattr(flower, limit, lambda *given: None)
    coordinator = make_coordinator(tmp_path / "c")
    anna = make_sites(tmp_path, coordinator)["anna"]
    made, place = flower.client_app(), str(anna.path)
    assert "refused: not a fedgeom frame" in put(made, {"request": b"nonsense"}, site=place).error.reason
    answer = read_reply(put(made, {"request": hello()}, site=place))
    assert isinstance(answer, bytes)
    assert unpack(answer).kind == "join.keys"
    reply = put(made, {"number": NUMBER}, INTRODUCE, place)
    assert read_introduction(reply, NUMBER, coordinator.roster()) == "anna"


def test_a_run_names_a_coordinator_and_one_thing_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    coordinator = make_coordinator(tmp_path / "c")
    make_sites(tmp_path, coordinator)
    (tmp_path / "study.toml").write_text('method = "hulls"\n')
    job = create_job(coordinator, tmp_path / "study.toml")
    conducted: list[Any] = []
    monkeypatch.setattr(flower, "leave_no_traces", lambda: None)
    monkeypatch.setattr(flower, "conduct", lambda *given, engine: conducted.append((*given[:2], engine)))
    folder, file = str(coordinator.path), str(tmp_path / "study.toml")
    for wrong in (
        {},
        {"coordinator": folder},
        {"federation": file},
        {"coordinator": folder, "federation": file, "resume": job.name},
        {"coordinator": folder, "resume": "../c"},
        {"coordinator": folder, "resume": "none-1"},
    ):
        with pytest.raises(InputError):
            flower.conduct_by_flower(wrong, AppGrid(app(), {}))
    flower.conduct_by_flower({"coordinator": folder, "resume": job.name}, AppGrid(app(), {}))
    flower.conduct_by_flower({"coordinator": folder, "federation": file}, AppGrid(app(), {}))
    assert [(where, one.name, engine) for where, one, engine in conducted] == [
        (coordinator, "study-1", "flower"),
        (coordinator, "study-2", "flower"),
    ]
