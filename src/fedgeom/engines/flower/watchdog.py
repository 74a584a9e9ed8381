"""Noticing that the process that answers has died while Flower goes on waiting for it.

Flower's node waits for an answer without end. Most deaths it notices by itself, after a minute. But a process that
dies after it took its task and before it took the question, or while it hands its answer over, is waited for
forever: the site is connected and deaf. So the executor writes down which process answers, and the node looks
whether that one still lives. If not, the node leaves, and `fedgeom site start` connects it anew: then the question is
put again, and the site answers from what it remembers.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

from fedgeom.storage import write_text

MARKER = "answerer"
"""The file, in Flower's home, with the number of the process that answers."""
GONE_SECONDS = 3.0
"""How long an answer may be missing after its process ended; an honest process hands it over before it ends."""
DIED = "fedgeom: the process that answered has died"
"""What the node writes to the log when it leaves for this reason."""
LEAVING = 75
"""The node's exit code then."""
POLITE_SECONDS = 5.0
"""How long the node may take to say goodbye to the coordinator; a thread that serves would keep it alive."""


def marker_file() -> Path | None:
    """Return where the number of the answering process is written down, if there is a place for it."""
    home = os.environ.get("FLWR_HOME")
    return Path(home) / MARKER if home else None


def write_marker(process: int) -> None:
    """Say which process answers now."""
    file = marker_file()
    if file is not None:
        write_text(file, str(process), private=True)


class Watchdog:
    """Looks, while the node waits for an answer, whether anybody still works on it."""

    def __init__(self, file: Path, *, clock: Callable[[], float] = time.time):
        self._file, self._clock = file, clock
        self.begin()

    def begin(self) -> None:
        """Forget what was: only a process that is written down from now on can answer the next question."""
        self._began, self._gone = self._clock(), 0.0

    def look(self) -> None:
        """End this program when the process that should answer has been gone for a while."""
        if self._lives():
            self._gone = 0.0
        elif not self._gone:
            self._gone = self._clock()
        elif self._clock() - self._gone >= GONE_SECONDS:
            self._leave()

    def _leave(self) -> NoReturn:
        """Leave by way of Flower's clean-up, which tells the coordinator, and in any case soon."""
        print(DIED, file=sys.stderr, flush=True)
        end = threading.Timer(POLITE_SECONDS, os._exit, [LEAVING])
        end.daemon = True
        end.start()
        raise SystemExit(LEAVING)

    def _lives(self) -> bool:
        """Say whether somebody answers; a question for which no process was started yet counts as being answered."""
        try:
            if self._file.stat().st_mtime < self._began:
                return True
            os.kill(int(self._file.read_text(encoding="utf-8")), 0)
        except (OSError, ValueError) as error:
            return not isinstance(error, ProcessLookupError)
        return True
