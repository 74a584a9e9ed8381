"""A node whose answering process died leaves; one that is only slow, or has not begun, is left in peace."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from fedgeom.deploy.log_hints import explain
from fedgeom.engines.flower import watchdog as vigil
from tests.deploy.making import make_coordinator, make_sites


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FLWR_HOME", str(tmp_path))
    return tmp_path


class Clock:
    """A clock that a test moves; the marker's time is moved with it."""

    def __init__(self, home: Path):
        self.now, self._file = 1000.0, home / vigil.MARKER

    def __call__(self) -> float:
        return self.now

    def mark(self, process: int) -> None:
        vigil.write_down(process)
        os.utime(self._file, (self.now, self.now))


def dead() -> int:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def looks(watch: vigil.Vigil, clock: Clock, seconds: float) -> None:
    for _ in range(int(seconds / 0.5) + 1):
        watch.look()
        clock.now += 0.5


def test_a_node_leaves_soon_after_the_process_that_answered_died(home: Path, capsys, monkeypatch) -> None:
    monkeypatch.setattr(vigil.threading, "Timer", lambda *_: SimpleNamespace(start=lambda: None))
    clock = Clock(home)
    watch = vigil.Vigil(home / vigil.MARKER, clock=clock)
    clock.now += 1
    clock.mark(dead())
    with pytest.raises(SystemExit) as left:
        looks(watch, clock, vigil.GONE_SECONDS + 1)
    assert left.value.code == vigil.LEAVING
    assert clock.now <= 1001 + vigil.GONE_SECONDS + 1
    assert vigil.DIED in capsys.readouterr().err


STUBBORN = """
import sys, threading, time
from pathlib import Path
from fedgeom.engines.flower import watchdog as vigil
vigil.POLITE_SECONDS, vigil.GONE_SECONDS = 1.0, 0.0
threading.Thread(target=time.sleep, args=(60,)).start()  # like the thread that serves in Flower's node
watch = vigil.Vigil(Path(sys.argv[1]))
watch._lives = lambda: False
try:
    watch.look()
    watch.look()
finally:
    print("goodbye", flush=True)
"""


def test_a_node_with_a_thread_that_goes_on_leaves_too_after_its_goodbye(home: Path) -> None:
    command = [sys.executable, "-c", STUBBORN, str(home / vigil.MARKER)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)
    assert (done.returncode, done.stdout) == (vigil.LEAVING, "goodbye\n")


def test_a_process_may_take_as_long_as_it_likes(home: Path) -> None:
    clock = Clock(home)
    watch = vigil.Vigil(home / vigil.MARKER, clock=clock)
    clock.mark(os.getpid())
    looks(watch, clock, 3600)


@pytest.mark.parametrize("content", [None, "", "nonsense"])
def test_without_a_process_written_down_nobody_is_missed(home: Path, content: str | None) -> None:
    clock = Clock(home)
    watch = vigil.Vigil(home / vigil.MARKER, clock=clock)
    if content is not None:
        (home / vigil.MARKER).write_text(content)
    looks(watch, clock, 60)


def test_the_process_of_an_earlier_question_is_not_missed(home: Path) -> None:
    """On a busy machine it takes a while until the next one is started."""
    clock = Clock(home)
    watch = vigil.Vigil(home / vigil.MARKER, clock=clock)
    clock.mark(dead())
    clock.now += 1
    watch.begin()
    looks(watch, clock, 60)


def test_every_question_begins_a_new_vigil(home: Path) -> None:
    begun: list[str] = []
    node = ModuleType("node")
    node._pull_and_store_message = lambda state, *, run: begun.append("fetched") or (state, run)
    assert vigil.keep_vigil(node, SimpleNamespace(begin=lambda: begun.append("begun")))
    assert node._pull_and_store_message(1, run=2) == (1, 2)
    assert begun == ["begun", "fetched"]
    assert not vigil.keep_vigil(ModuleType("changed"), SimpleNamespace())


def test_this_flower_can_be_watched() -> None:
    pytest.importorskip("flwr")
    assert hasattr(importlib.import_module("flwr.supernode.start_client_internal"), "_pull_and_store_message")


def test_the_steward_is_told(tmp_path: Path) -> None:
    anna = make_sites(tmp_path, make_coordinator(tmp_path / "c"))["anna"]
    log = anna.path / "site.log"
    log.write_text(f"SuperNode ID: 7\n{vigil.DIED}\n")
    assert "process that answered a question died" in explain(anna, log, 0)
