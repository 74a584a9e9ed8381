"""A process per question without starting Python per question.

Flower starts a new program for every message, and two seconds of processor time go into its imports. A site's
SuperExec, as fedgeom runs it, has these imports done once and forks: the process that answers is as new, as
separate and as short-lived as before. Where forking is not safe (outside Linux) everything is as Flower
does it.
"""

from __future__ import annotations

import importlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from typing import Any

from fedgeom.engines.flower import patches, watchdog
from fedgeom.engines.flower.processes import run_and_exit

ANSWERER = "flwr-clientapp"
"""The program that is forked instead of started."""

AHEAD = ("flwr.supernode.cli", "flwr.supernode.runtime.run_clientapp")
"""What Flower's part of an answer imports."""


def fork_answerers(
    answer: Callable[[], None],
    *,
    import_ahead: Callable[[], None] = lambda: None,
    on_question: Callable[[], None] = lambda: None,
) -> bool:
    """Let this SuperExec fork the processes that answer, if that can be done; say whether it can.

    ``answer`` is what such a process does; ``import_ahead`` imports what it needs beside Flower; ``on_question`` is
    called whenever there is a question.
    """
    if sys.platform != "linux" or not patches.start_programs_by(ForkingStarter(answer, on_question)):
        return False
    for name in AHEAD:
        importlib.import_module(name)
    import_ahead()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # Flower never waits for its children; nobody has to
    return True


class ForkingStarter:
    """Stands for the subprocess module where Flower starts programs."""

    DEVNULL = subprocess.DEVNULL

    def __init__(self, answer: Callable[[], None], on_question: Callable[[], None]):
        self._answer, self._on_question = answer, on_question

    def Popen(self, arguments: Sequence[str], **options: Any) -> Any:  # noqa: N802
        """Start a program; the one that answers is forked."""
        if arguments[0] != ANSWERER:
            return subprocess.Popen(arguments, **options)
        self._on_question()
        sys.stdout.flush()
        sys.stderr.flush()
        number = os.fork()
        if number == 0:
            self._be(arguments, quiet=options.get("stdout") == subprocess.DEVNULL)
        watchdog.write_marker(number)
        return number

    def _be(self, arguments: Sequence[str], *, quiet: bool) -> None:
        """Be the program, in the child, and end."""

        def program() -> None:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            patches.forget_exit_handlers()
            if quiet:
                nothing = os.open(os.devnull, os.O_WRONLY)
                os.dup2(nothing, 1)
                os.dup2(nothing, 2)
            sys.argv = list(arguments)
            self._answer()

        run_and_exit(program)
