"""The site's process that stays: it has everything imported, and has questions answered by a fork of itself.

Whoever is connected to the coordinator starts this program once and hands it questions through a pipe that nobody else
has; imports would otherwise take two seconds of processor time a question. The process that answers is separate; its
memory is limited, and what kills it leaves the others alone. It may answer several questions, but does not outlive a
failure, a pause, large memory or a change of the site's files. Where forking is not safe (outside Linux) the program
answers by itself.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Hashable
from pathlib import Path
from typing import IO

from fedgeom.engines.processes import run_and_exit

Answer = Callable[[bytes], bytes]
"""From an encoded question to an encoded answer; what they mean is the business of whoever encodes them."""

HEADER = 8
"""The bytes before a frame that say how long it is; the next one says whether it is an answer."""
ANSWERED = b"\x01"
DIED = b"\x00"
STAYS = b"\x01"
LEAVES = b"\x00"
CHUNK = 2**20
IDLE_SECONDS = 20.0
"""After how long without a question the process that answers ends."""
GROWTH = 128 * 2**20
"""By how many bytes it may grow before it makes room for a new one."""

_leaving = False


class AnswererDiedError(Exception):
    """The process that worked on a question has died; the next question may fare better."""


class AnswererGoneError(Exception):
    """The program that answers has ended, and nothing can be answered any more."""


def serve(
    answer: Answer, *, lasts: Callable[[], Hashable] | None = None, fork: bool = sys.platform == "linux"
) -> None:
    """Answer the questions that come by standard input, one after another, until it ends.

    With ``lasts`` one process answers questions as long as what that function returns stays the same, such as when
    the site's files were changed; without it each question has a process of its own.
    """
    questions = os.fdopen(os.dup(0), "rb")
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)  # whatever prints, prints to the log
    worker: AnsweringFork | None = None
    while True:
        if worker is not None and not select.select([questions.fileno()], [], [], IDLE_SECONDS)[0]:
            worker.end()
            worker = None
        question = _read(questions)
        if question is None:
            break
        if not fork:
            _write(answers, ANSWERED + answer(question))
            continue
        state = lasts() if lasts is not None else None
        if worker is not None and (worker.state != state or not worker.waits()):
            worker.end()
            worker = None
        if worker is None:
            worker = AnsweringFork(answer, state, (questions, answers))
        reply = worker.ask(question, questions)
        if reply is None or worker.leaves or lasts is None:
            worker.end()
            worker = None
        _write(answers, DIED if reply is None else ANSWERED + reply)
    if worker is not None:
        worker.end()


def leave_after_this() -> None:
    """Say that the process that answers is to answer no other question: after a failure it may be in disorder."""
    global _leaving
    _leaving = True


class AnsweringFork:
    """A fork of this process that answers what it is handed, until its line ends."""

    def __init__(self, answer: Answer, state: Hashable, others: tuple[IO[bytes], ...]):
        """Fork; ``others`` are files of this process that the fork has no business with."""
        self.state = state
        self.leaves = False
        """Whether it takes no other question."""
        theirs, to_it = os.pipe()
        from_it, ours = os.pipe()
        sys.stdout.flush()
        sys.stderr.flush()
        self._number = os.fork()
        if self._number == 0:
            os.close(to_it)
            os.close(from_it)
            for file in others:
                os.close(file.fileno())
            run_and_exit(lambda: _answer_until_end(answer, theirs, ours))
        os.close(theirs)
        os.close(ours)
        self._to = os.fdopen(to_it, "wb")
        self._from = from_it

    def waits(self) -> bool:
        """Say whether it is there, with nothing to say: one that was killed in a pause costs no question."""
        return not select.select([self._from], [], [], 0)[0]

    def ask(self, question: bytes, line: IO[bytes]) -> bytes | None:
        """Have a question answered; nothing if the process died. It ends with the one who asked."""
        try:
            _write(self._to, question)
        except BrokenPipeError:
            return None
        got = bytearray()
        while len(got) < HEADER or len(got) < HEADER + int.from_bytes(got[:HEADER], "big"):
            ready, _, _ = select.select([self._from, line.fileno()], [], [])
            if self._from in ready:
                part = os.read(self._from, CHUNK)
                if not part:
                    return None
                got += part
            elif not os.read(line.fileno(), 1):  # nobody asks two things at once: it is the end of the line
                os.kill(self._number, signal.SIGKILL)
                return None
        self.leaves = got[HEADER : HEADER + 1] == LEAVES
        return bytes(memoryview(got)[HEADER + 1 :])

    def end(self) -> None:
        """End the process, which is not at work."""
        with contextlib.suppress(BrokenPipeError):
            self._to.close()
        os.close(self._from)
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._number, signal.SIGKILL)
        os.waitpid(self._number, 0)


def _answer_until_end(answer: Answer, theirs: int, ours: int) -> None:
    """Answer what comes, in the fork."""
    before = _resident()
    with os.fdopen(theirs, "rb") as questions, os.fdopen(ours, "wb") as answers:
        while (question := _read(questions)) is not None:
            reply = answer(question)
            ends = _leaving or _resident() > before + GROWTH
            _write(answers, (LEAVES if ends else STAYS) + reply)
            del reply


def _resident() -> int:
    """Return how much memory this process takes."""
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")


class Answerer:
    """The node's end: starts the program that answers, and hands questions over."""

    def __init__(self, command: list[str]):
        self._program = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def __call__(self, question: bytes) -> bytes:
        """Return the answer to a question; raises `AnswererDiedError` when the process that worked on it has died."""
        assert self._program.stdin is not None
        assert self._program.stdout is not None
        try:
            _write(self._program.stdin, question)
            reply = _read(self._program.stdout)
        except OSError as error:
            raise AnswererGoneError("the program that answers has ended") from error
        if reply is None:
            raise AnswererGoneError("the program that answers has ended")
        if reply == DIED:
            raise AnswererDiedError("the process that answered has died")
        return reply[1:]

    def close(self) -> None:
        """Let the program end, if it has not yet."""
        assert self._program.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # a question that it never read is still on its way
            self._program.stdin.close()
        self._program.wait()


def _write(file: IO[bytes], data: bytes) -> None:
    file.write(len(data).to_bytes(HEADER, "big"))
    file.write(data)
    file.flush()


def _read(file: IO[bytes]) -> bytes | None:
    """Read a frame; nothing at the end of the line."""
    head = file.read(HEADER)
    if len(head) < HEADER:
        return None
    length = int.from_bytes(head, "big")
    data = file.read(length)
    return data if len(data) == length else None
