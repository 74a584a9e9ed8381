"""A site that runs: connected again when the connection ends, its questions told, its old memories forgotten."""

from __future__ import annotations

import os
import time
from contextlib import contextmanager
from types import SimpleNamespace

import pytest

from fedgeom.deploy import site
from fedgeom.deploy.journal import KEEP_SECONDS, Journal, LocalEntry, StoredMemory
from fedgeom.deploy.nats_site import files_state
from fedgeom.deploy.site import follow, run_site
from fedgeom.engines.flower import commands as flower_commands
from fedgeom.errors import InputError
from fedgeom.storage import locked
from tests.deploy.making import make_coordinator, make_sites


@pytest.fixture
def anna(tmp_path):
    return make_sites(tmp_path, make_coordinator(tmp_path / "c"))["anna"]


def entry(question):
    return LocalEntry(
        time=0.0, run="r", method="hulls", question=question, answer="a", received=1, sent=2, reveals=""
    )


class Process:
    """A program that ends after so many looks at it; something may happen at each."""

    def __init__(self, *happens):
        self._happens = list(happens)

    def poll(self):
        if not self._happens:
            return 1
        self._happens.pop(0)()
        return None


def test_each_question_is_told_once_and_those_of_earlier_are_not(anna, monkeypatch):
    monkeypatch.setattr(site.time, "sleep", lambda seconds: None)
    journal, said = Journal(anna.path), []
    journal.enter(entry("of yesterday"))
    process = Process(lambda: journal.enter(entry("one")), lambda: None, lambda: journal.enter(entry("two")))
    follow(anna, process, said.append)
    assert [text.split()[4] for text in said] == ["one", "two"]


def test_news_of_the_connection_come_before_the_questions(anna, monkeypatch):
    monkeypatch.setattr(site.time, "sleep", lambda seconds: None)
    said, news = [], iter(["connected to h:1", "", ""])
    process = Process(lambda: Journal(anna.path).enter(entry("one")), lambda: None)
    follow(anna, process, said.append, SimpleNamespace(new=lambda: next(news)))
    assert said[0] == "connected to h:1"
    assert len(said) == 2


def test_old_memories_are_forgotten_while_a_site_runs(anna, monkeypatch):
    monkeypatch.setattr(site.time, "sleep", lambda seconds: None)
    journal = Journal(anna.path)
    journal.keep(b"r" * 32, StoredMemory(1, b"secret"))
    past = time.time() - KEEP_SECONDS - 1
    os.utime(anna.path / "memory" / f"{(b'r' * 32).hex()}.bin", (past, past))
    follow(anna, Process(lambda: None), lambda text: None)
    assert journal.newest(b"r" * 32) == StoredMemory(0, b"")


class Stopped(Exception):  # noqa: N818
    """The steward presses Ctrl-C."""


@pytest.fixture
def flower(monkeypatch):
    """Flower's node, which writes a line to its log and ends, until the lines are used up."""
    lines, commands = [], []

    @contextmanager
    def running(command, environment, log):
        if not lines:
            raise Stopped
        commands.append((command, environment))
        with log.open("a") as file:
            file.write(lines.pop(0) + "\n")
        yield Process()

    monkeypatch.setattr(site.commands, "need_flower", lambda: None)
    monkeypatch.setattr(site, "running", running)
    monkeypatch.setattr(site.time, "sleep", lambda seconds: None)
    return lines, commands


def test_a_site_connects_again_and_says_each_reason_once(anna, flower):
    lines, commands = flower
    lines += [flower_commands.NOBODY_LISTENS, flower_commands.NOBODY_LISTENS, flower_commands.FOREIGN_CERTIFICATE]
    said = []
    with pytest.raises(Stopped):
        run_site(anna, said.append, port=7, patience=5)
    assert len(commands) == 3
    assert ["nothing listens" in text for text in said[3:]] == [True, False]
    assert "ca.pem" in said[-1]
    assert all(text.endswith("trying again every 5 s") for text in said[3:])
    command, environment = commands[0]
    assert command[0] == "flower-supernode"
    assert str(anna.node_key) in command
    assert environment["FLWR_HOME"] == str(anna.path / "flower")


def test_a_site_does_not_run_twice(anna, flower):
    with locked(anna.path / "site.lock", "busy"), pytest.raises(InputError, match="is running already"):
        run_site(anna, lambda text: None)
    assert flower[1] == []


def test_a_site_that_is_not_ready_starts_nothing(anna, flower):
    (anna.path / "roster.json").unlink()
    with pytest.raises(InputError, match=r"roster\.json"):
        run_site(anna, lambda text: None)
    assert flower[1] == []
    assert not (anna.path / "site.lock").exists()


def test_whoever_edits_the_site_file_or_the_table_has_a_new_process_answer(anna):
    before = files_state(anna)
    assert files_state(anna) == before
    table = anna.path / anna.config().file
    table.write_bytes(table.read_bytes() + b"\n")
    edited = files_state(anna)
    assert edited != before
    anna.config_file.write_text("name = ", encoding="utf-8")  # half a file, as an editor may leave it for a moment
    assert files_state(anna) != edited
    anna.config_file.unlink()
    assert files_state(anna) == ((0, 0, 0),)
