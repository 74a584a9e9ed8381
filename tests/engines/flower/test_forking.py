"""Answering processes are forked, and end by themselves whatever happens in them."""

from __future__ import annotations

import subprocess
import sys

import pytest

from fedgeom.engines.flower import forking

pytest.importorskip("flwr", reason="Flower is not installed")

SCRIPT = """
import os, sys, time
from fedgeom.engines.flower import forking
forking.AHEAD = ()
def answer():
    print("answering", sys.argv[1:], os.getppid() == {parent}, flush=True)
    {then}
assert forking.fork_answerers(
    answer, import_ahead=lambda: print("imported", flush=True), on_question=lambda: print("told", flush=True)
)
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
        "imported",
        "told",
        "answering ['--token', 'x'] True",
        "still here",
        "nobody to wait for",
        "another program",
    ]
    assert ("RuntimeError: oh" in done.stderr) == ("raise" in then)


def test_where_forking_is_not_safe_flower_starts_its_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []
    monkeypatch.setattr(forking.sys, "platform", "darwin")
    monkeypatch.setattr(forking.patches, "start_programs_by", lambda starter: done.append("replaced") or True)
    assert not forking.fork_answerers(lambda: None, import_ahead=lambda: done.append("imported"))
    monkeypatch.setattr(forking.sys, "platform", "linux")
    monkeypatch.setattr(forking.patches, "start_programs_by", lambda starter: False)
    assert not forking.fork_answerers(lambda: None, import_ahead=lambda: done.append("imported"))
    assert done == []
