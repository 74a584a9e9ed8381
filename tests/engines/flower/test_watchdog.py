"""A node whose answering process died leaves; one that is only slow, or has not begun, is left in peace."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from fedgeom.engines.flower import watchdog


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FLWR_HOME", str(tmp_path))
    return tmp_path


class Clock:
    """A clock that a test moves; the marker's time is moved with it."""

    def __init__(self, home: Path):
        self.now, self._file = 1000.0, home / watchdog.MARKER

    def __call__(self) -> float:
        return self.now

    def mark(self, process: int) -> None:
        watchdog.write_marker(process)
        os.utime(self._file, (self.now, self.now))


def dead() -> int:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def looks(watch: watchdog.Watchdog, clock: Clock, seconds: float) -> None:
    for _ in range(int(seconds / 0.5) + 1):
        watch.look()
        clock.now += 0.5


def test_a_node_leaves_soon_after_the_process_that_answered_died(home: Path, capsys, monkeypatch) -> None:
    monkeypatch.setattr(watchdog.threading, "Timer", lambda *_: SimpleNamespace(start=lambda: None))
    clock = Clock(home)
    watch = watchdog.Watchdog(home / watchdog.MARKER, clock=clock)
    clock.now += 1
    clock.mark(dead())
    with pytest.raises(SystemExit) as left:
        looks(watch, clock, watchdog.GONE_SECONDS + 1)
    assert left.value.code == watchdog.LEAVING
    assert clock.now <= 1001 + watchdog.GONE_SECONDS + 1
    assert watchdog.DIED in capsys.readouterr().err


STUBBORN = """
import sys, threading, time
from pathlib import Path
from fedgeom.engines.flower import watchdog
watchdog.POLITE_SECONDS, watchdog.GONE_SECONDS = 1.0, 0.0
threading.Thread(target=time.sleep, args=(60,)).start()  # like the thread that serves in Flower's node
watch = watchdog.Watchdog(Path(sys.argv[1]))
watch._lives = lambda: False
try:
    watch.look()
    watch.look()
finally:
    print("goodbye", flush=True)
"""


def test_a_node_with_a_thread_that_goes_on_leaves_too_after_its_goodbye(home: Path) -> None:
    command = [sys.executable, "-c", STUBBORN, str(home / watchdog.MARKER)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)
    assert (done.returncode, done.stdout) == (watchdog.LEAVING, "goodbye\n")


def test_a_process_may_take_as_long_as_it_likes(home: Path) -> None:
    clock = Clock(home)
    watch = watchdog.Watchdog(home / watchdog.MARKER, clock=clock)
    clock.mark(os.getpid())
    looks(watch, clock, 3600)
    assert clock.now > 4600  # nothing ended the looking


@pytest.mark.parametrize("content", [None, "", "nonsense"])
def test_without_a_process_written_down_nobody_is_missed(home: Path, content: str | None) -> None:
    clock = Clock(home)
    watch = watchdog.Watchdog(home / watchdog.MARKER, clock=clock)
    if content is not None:
        (home / watchdog.MARKER).write_text(content)
    looks(watch, clock, 60)
    assert clock.now > 1060  # nothing ended the looking


def test_the_process_of_an_earlier_question_is_not_missed(home: Path) -> None:
    """On a busy machine it takes a while until the next one is started."""
    clock = Clock(home)
    watch = watchdog.Watchdog(home / watchdog.MARKER, clock=clock)
    clock.mark(dead())
    clock.now += 1
    watch.begin()
    looks(watch, clock, 60)


def test_where_flower_has_no_home_nothing_is_written_down(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FLWR_HOME", raising=False)
    monkeypatch.chdir(tmp_path)
    assert watchdog.marker_file() is None
    watchdog.write_marker(1)
    assert list(tmp_path.iterdir()) == []
