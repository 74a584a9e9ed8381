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
def connecting(monkeypatch):
    """What would be started to connect a site; it ends at once, the fourth time for good."""
    commands = []

    @contextmanager
    def running(command, environment, log):
        if len(commands) == 3:
            raise Stopped
        commands.append(command)
        yield Process()

    monkeypatch.setattr(site, "running", running)
    monkeypatch.setattr(site.time, "sleep", lambda seconds: None)
    return commands


def test_a_site_starts_anew_what_connects_it_and_says_why_once(anna, connecting):
    said = []
    with pytest.raises(Stopped):
        run_site(anna, said.append, patience=5)
    assert len(connecting) == 3
    assert connecting[0][-2:] == ["connect", str(anna.path)]
    told = [text for text in said if "trying again every 5 s" in text]
    assert len(told) == 1
    assert "site.log says why" in told[0]


def test_a_site_does_not_run_twice(anna, connecting):
    with locked(anna.path / "site.lock", "busy"), pytest.raises(InputError, match="is running already"):
        run_site(anna, lambda text: None)
    assert connecting == []


def test_a_site_that_is_not_ready_starts_nothing(anna, connecting):
    (anna.path / "roster.json").unlink()
    with pytest.raises(InputError, match=r"roster\.json"):
        run_site(anna, lambda text: None)
    assert connecting == []
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
