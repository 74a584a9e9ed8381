"""Answering processes are forked, end by themselves, and look as often as there is something to look for."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from fedgeom.engines.flower import flower_patches as guard

pytest.importorskip("flwr", reason="Flower is not installed")

SCRIPT = """
import os, sys, time
from fedgeom.engines.flower import forking
forking.AHEAD = ()
forking.import_ahead = lambda: None
def answer():
    print("answering", sys.argv[1:], os.getppid() == {parent}, flush=True)
    {then}
assert forking.fork_answerers(answer, lambda: print("told", flush=True))
from flwr.supercore.superexec.executor import subprocess_executor as module
{parent_is}
module.subprocess.Popen(["flwr-clientapp", "--token", "x"])
time.sleep(1)
print("still here", flush=True)
try:
    os.waitpid(-1, 0)
except ChildProcessError:
    print("nobody to wait for", flush=True)
module.subprocess.Popen([sys.executable, "-c", "print('another program')"])
time.sleep(1)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere Flower starts its programs")
@pytest.mark.parametrize("then", ["pass", "sys.exit(3)", "raise RuntimeError('oh')", "os.kill(os.getpid(), 9)"])
def test_an_answering_process_is_a_child_that_ends_whatever_happens_in_it(then: str) -> None:
    script = SCRIPT.format(then=then, parent="parent", parent_is="parent = os.getpid()")
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "told",
        "answering ['--token', 'x'] True",
        "still here",
        "nobody to wait for",
        "another program",
    ]
    assert ("RuntimeError: oh" in done.stderr) == ("raise" in then)


def test_a_loop_is_quick_while_a_run_goes_on_and_slow_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    now, slept = [1000.0], list[float]()
    monkeypatch.setattr(guard.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(guard.time, "sleep", slept.append)
    node, executor = guard.Pace(quick=0.7, slow=3.0, sign=1.0), guard.Pace(quick=0.7, slow=1.0)
    for pace, usual in ((node, 3.0), (executor, 0.2)):
        now[0] = 1000.0
        pace.wake()
        pace.sleep(usual)
        now[0] += guard.AWAKE_SECONDS + 1
        pace.sleep(usual)
    assert slept == [0.7, 3.0, 0.2, 1.0]
    node.sleep(0.5)  # an answer is being made
    node.sleep(3.0)
    assert slept[-2:] == [0.5, 0.7]
    assert node.perf_counter is time.perf_counter  # everything else is the time module's


@pytest.mark.parametrize(
    ("then", "code", "said"),
    [("pass", 0, ""), ("sys.exit(3)", 3, ""), ("sys.exit('why')", 1, "why"), ("1 / 0", 1, "ZeroDivisionError")],
)
def test_a_program_ends_though_a_thread_goes_on(then: str, code: int, said: str) -> None:
    """Flower's node gives a connection up and lives on, because of the thread that serves: a site would be deaf."""
    script = f"""
import sys, threading, time
from fedgeom.engines.flower.processes import end_with
def program():
    threading.Thread(target=time.sleep, args=(60,)).start()
    {then}
end_with(program)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=30)
    assert done.returncode == code
    assert said in done.stderr


def test_programs_end_with_the_one_that_started_them(tmp_path: Path) -> None:
    """A site's program may be killed without warning; its node must not go on without it."""
    child = textwrap.dedent(
        """
        import os, subprocess, sys, time
        from fedgeom.engines.flower.flower_patches import leave_with
        leave_with(os.getppid())
        grandchild = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
        print(os.getpid(), grandchild.pid, flush=True)
        time.sleep(60)
        """
    )
    parent = (
        "import subprocess, sys, time\n"
        f"subprocess.Popen([sys.executable, '-c', {child!r}], start_new_session=True)\ntime.sleep(60)\n"
    )
    with subprocess.Popen([sys.executable, "-c", parent], stdout=subprocess.PIPE, text=True) as started:
        assert started.stdout is not None
        numbers = [int(word) for word in started.stdout.readline().split()]
        os.kill(started.pid, signal.SIGKILL)
    end = time.monotonic() + 30
    while any(_runs(number) for number in numbers) and time.monotonic() < end:
        time.sleep(0.1)
    assert not any(_runs(number) for number in numbers)


def _runs(number: int) -> bool:
    status = subprocess.run(["ps", "-o", "stat=", "-p", str(number)], capture_output=True, text=True, check=False)
    return bool(status.stdout.strip()) and not status.stdout.strip().startswith("Z")
