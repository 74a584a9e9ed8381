"""A process per question without starting Python per question.

Flower starts a new program for every message, and two seconds of processor time go into its imports. The
guarded SuperExec of a site has these imports done once and forks: the process that answers is as new, as
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

from fedgeom.engines.flower.processes import end_with
from fedgeom.engines.flower.watchdog import write_down

ANSWERER = "flwr-clientapp"
"""The program that is forked instead of started."""

AHEAD = (
    "flwr.supernode.cli",
    "flwr.supernode.runtime.run_clientapp",
    "fedgeom.deploy.site_app",
    "fedgeom.data.readers",
    "fedgeom.methods.hulls.plain",  # scikit-learn: 2.5 s
)
"""What answers import late."""


def fork_answerers(answer: Callable[[], None], told: Callable[[], None] = lambda: None) -> bool:
    """Let this SuperExec fork the processes that answer, if that can be done.

    ``answer`` is what such a process does; ``told`` is called whenever there is a question.
    """
    if sys.platform != "linux":
        return False
    module = importlib.import_module("flwr.supercore.superexec.executor.subprocess_executor")
    if getattr(module, "subprocess", None) is not subprocess:  # if not, it is only slower
        return False
    import_ahead()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # Flower never waits for its children; nobody has to
    module.subprocess = _Starter(answer, told)  # type: ignore[attr-defined]
    return True


def import_ahead() -> None:
    """Import what every answer needs."""
    from fedgeom.methods import METHODS, method_class

    for name in AHEAD:
        importlib.import_module(name)
    for name in METHODS:
        method_class(name)


class _Starter:
    """Stands for the subprocess module where Flower starts programs."""

    DEVNULL = subprocess.DEVNULL

    def __init__(self, answer: Callable[[], None], told: Callable[[], None]):
        self._answer, self._told = answer, told

    def Popen(self, arguments: Sequence[str], **options: Any) -> Any:  # noqa: N802
        """Start a program; the one that answers is forked."""
        if arguments[0] != ANSWERER:
            return subprocess.Popen(arguments, **options)
        self._told()
        sys.stdout.flush()
        sys.stderr.flush()
        number = os.fork()
        if number == 0:
            self._be(arguments, quiet=options.get("stdout") == subprocess.DEVNULL)
        write_down(number)
        return number

    def _be(self, arguments: Sequence[str], *, quiet: bool) -> None:
        """Be the program, in the child, and end."""

        def program() -> None:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            importlib.import_module("flwr.supercore.exit.exit_handler").registered_exit_handlers.clear()
            if quiet:
                nothing = os.open(os.devnull, os.O_WRONLY)
                os.dup2(nothing, 1)
                os.dup2(nothing, 2)
            sys.argv = list(arguments)
            self._answer()

        end_with(program)
