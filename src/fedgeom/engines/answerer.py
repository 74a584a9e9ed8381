"""The site's process that stays: it has everything imported, and answers each question in a fork of itself.

Whoever is connected to the coordinator starts this program once and hands it questions through a pipe that nobody else
has; imports would otherwise take two seconds of processor time a question. The process that answers is new, separate
and short-lived; its memory is limited, and what kills it leaves the others alone. Where forking is not safe (outside
Linux) the program answers by itself.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable
from typing import IO

from fedgeom.engines.processes import run_and_exit

Answer = Callable[[bytes], bytes]
"""From an encoded question to an encoded answer; what they mean is the business of whoever encodes them."""

HEADER = 8
"""The bytes before a frame that say how long it is; the next one says whether it is an answer."""
ANSWERED = b"\x01"
DIED = b"\x00"
CHUNK = 2**20


class AnswererDiedError(Exception):
    """The process that worked on a question has died; the next question may fare better."""


class AnswererGoneError(Exception):
    """The program that answers has ended, and nothing can be answered any more."""


def serve(answer: Answer, *, fork: bool = sys.platform == "linux") -> None:
    """Answer the questions that come by standard input, one after another, until it ends."""
    questions = os.fdopen(os.dup(0), "rb")
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)  # whatever prints, prints to the log
    while (question := _read(questions)) is not None:
        reply = _answer_in_fork(answer, question, questions) if fork else answer(question)
        _write(answers, DIED if reply is None else ANSWERED + reply)


def _answer_in_fork(answer: Answer, question: bytes, line: IO[bytes]) -> bytes | None:
    """Have a question answered by a fork; nothing if it died. It ends with the one who asked."""
    near, far = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    number = os.fork()
    if number == 0:
        os.close(near)
        run_and_exit(lambda: _write_all(far, answer(question)))
    os.close(far)
    parts = []
    done = False
    try:
        while not done:
            ready, _, _ = select.select([near, line.fileno()], [], [])
            if near in ready:
                parts.append(os.read(near, CHUNK))
                done = not parts[-1]
            elif not os.read(line.fileno(), 1):  # nobody asks two things at once: it is the end of the line
                os.kill(number, signal.SIGKILL)
                done = True
    finally:
        os.close(near)
        _, status = os.waitpid(number, 0)
    return b"".join(parts) if os.waitstatus_to_exitcode(status) == 0 else None


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


def _write_all(descriptor: int, data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[os.write(descriptor, left) :]
    os.close(descriptor)


def _read(file: IO[bytes]) -> bytes | None:
    """Read a frame; nothing at the end of the line."""
    head = file.read(HEADER)
    if len(head) < HEADER:
        return None
    length = int.from_bytes(head, "big")
    data = file.read(length)
    return data if len(data) == length else None
