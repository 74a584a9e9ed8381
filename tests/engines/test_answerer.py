"""The process that stays: forks that answer, and what kills a fork kills nothing else."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from fedgeom.engines import answerer
from fedgeom.engines.answerer import Answerer, AnswererDiedError, AnswererGoneError
from tests.waiting import until

SERVE = """
import os, sys, time
from fedgeom.engines.answerer import leave_after_this, serve
kept = []
def answer(question):
    print("whatever prints", flush=True)  # must not reach the node as an answer
    kept.append(question)
    word = question.split()[0] if question else b""
    if word == b"raise":
        raise RuntimeError("oh")
    if word == b"exit":
        sys.exit(3)
    if word == b"die":
        os.kill(os.getpid(), 9)
    if word == b"end":
        os.kill(os.getppid(), 9)
    if word == b"sleep":
        print("sleeping", os.getpid(), flush=True)
        time.sleep(3600)
    if word == b"leave":
        leave_after_this()
    if word == b"grow":
        kept.append(b"x" * 200_000_000)
    if word == b"who":
        return b"%d %d" % (os.getpid(), len(kept))
    return question * 3
serve(answer)
"""

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere nothing is forked")


@pytest.fixture
def ask() -> Iterator[Answerer]:
    made = Answerer([sys.executable, "-c", SERVE])
    yield made
    made.close()


def test_questions_of_any_size_are_answered_each_in_a_process_of_its_own(ask: Answerer) -> None:
    for question in (b"", b"x", b"y" * 3_000_000):
        assert ask(question) == question * 3
    one, other = ask(b"who").split(), ask(b"who").split()
    assert one[0] != other[0]
    assert one[1] == other[1] == b"1"  # what one remembers the next does not know


@pytest.fixture
def ask_lasting(tmp_path: Path) -> Iterator[Answerer]:
    script = SERVE.replace(
        "serve(answer)", f"serve(answer, lasts=lambda: os.path.exists({str(tmp_path / 'new')!r}))"
    )
    made = Answerer([sys.executable, "-c", script])
    yield made
    made.close()


def test_one_process_answers_many_questions_until_the_files_change(ask_lasting: Answerer, tmp_path: Path) -> None:
    first = ask_lasting(b"who").split()
    assert ask_lasting(b"y" * 3_000_000) == b"y" * 9_000_000
    again = ask_lasting(b"who").split()
    assert again == [first[0], b"3"]
    (tmp_path / "new").touch()
    other = ask_lasting(b"who").split()
    assert other[0] != first[0]
    assert other[1] == b"1"
    until(lambda: not is_running(int(first[0])))


@pytest.mark.parametrize("word", [b"leave", b"grow"])
def test_a_process_in_disorder_or_with_large_memory_answers_no_other_question(
    ask_lasting: Answerer, word: bytes
) -> None:
    first = ask_lasting(b"who").split()
    assert ask_lasting(word) == word * 3
    other = ask_lasting(b"who").split()
    assert other[0] != first[0]


def test_a_lasting_process_that_dies_is_replaced(ask_lasting: Answerer) -> None:
    ask_lasting(b"x")
    for how in (b"raise", b"exit", b"die"):
        with pytest.raises(AnswererDiedError):
            ask_lasting(how)
        assert ask_lasting(b"x") == b"xxx"


def test_a_lasting_process_that_is_killed_in_a_pause_costs_no_question(ask_lasting: Answerer) -> None:
    first = int(ask_lasting(b"who").split()[0])
    os.kill(first, signal.SIGKILL)
    until(lambda: Path(f"/proc/{first}/stat").read_text(encoding="ascii").split()[2] == "Z")
    assert int(ask_lasting(b"who").split()[0]) != first


@pytest.mark.parametrize("how", [b"raise", b"exit", b"die"])
def test_what_kills_a_fork_leaves_the_next_question_alone(ask: Answerer, how: bytes) -> None:
    for _ in range(2):
        with pytest.raises(AnswererDiedError):
            ask(how)
    assert ask(b"x") == b"xxx"


def test_when_the_program_itself_has_ended_it_is_said(ask: Answerer) -> None:
    for _ in range(2):
        with pytest.raises(AnswererGoneError):
            ask(b"end")


def is_running(number: int) -> bool:
    """Say whether there is a process of this number."""
    try:
        os.kill(number, 0)
    except ProcessLookupError:
        return False
    return True


def test_a_fork_ends_with_the_one_who_asked() -> None:
    program = subprocess.Popen(
        [sys.executable, "-c", SERVE], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert program.stdin is not None
    assert program.stderr is not None
    answerer._write(program.stdin, b"sleep")
    line = b""
    while not line.startswith(b"sleeping"):
        line = program.stderr.readline()
    fork = int(line.split()[1])
    program.stdin.close()  # the node is gone
    program.wait()
    until(lambda: not is_running(fork))


def test_where_forking_is_not_safe_the_program_answers_by_itself() -> None:
    script = SERVE.replace("serve(answer)", "serve(answer, fork=False)")
    made = Answerer([sys.executable, "-c", script])
    one, other = made(b"who").split(), made(b"who").split()
    made.close()
    assert one[0] == other[0]
    assert (one[1], other[1]) == (b"1", b"2")
