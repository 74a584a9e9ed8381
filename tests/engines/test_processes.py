"""Processes: ended with all their children, and never mistaken for another program."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from fedgeom.engines import processes
from fedgeom.errors import InputError
from tests.waiting import HANG_SECONDS, until


@pytest.mark.parametrize(
    ("then", "code", "said"),
    [("pass", 0, ""), ("sys.exit(3)", 3, ""), ("sys.exit('why')", 1, "why"), ("1 / 0", 1, "ZeroDivisionError")],
)
def test_a_program_ends_though_a_thread_goes_on(then: str, code: int, said: str) -> None:
    """A thread that goes on must not keep alive what is connected to nobody: a site would be deaf."""
    script = f"""
import sys, threading, time
from fedgeom.engines.processes import run_and_exit
def program():
    threading.Thread(target=time.sleep, args=(3600,)).start()
    {then}
run_and_exit(program)
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=HANG_SECONDS
    )
    assert done.returncode == code
    assert said in done.stderr


def test_programs_end_with_the_one_that_started_them(tmp_path: Path) -> None:
    """A site's program may be killed without warning; its node must not go on without it."""
    child = textwrap.dedent(
        """
        import os, subprocess, sys, time
        from fedgeom.engines.processes import exit_with_parent
        exit_with_parent(os.getppid())
        grandchild = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3600)"])
        print(os.getpid(), grandchild.pid, flush=True)
        time.sleep(3600)
        """
    )
    parent = (
        "import subprocess, sys, time\n"
        f"subprocess.Popen([sys.executable, '-c', {child!r}], start_new_session=True)\ntime.sleep(3600)\n"
    )
    with subprocess.Popen([sys.executable, "-c", parent], stdout=subprocess.PIPE, text=True) as started:
        assert started.stdout is not None
        numbers = [int(word) for word in started.stdout.readline().split()]
        os.kill(started.pid, signal.SIGKILL)
    until(lambda: not any(_runs(number) for number in numbers))


CHILDREN = """
import signal, subprocess, sys, time
signal.signal(signal.SIGTERM, {how})
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3600)"])
print(child.pid, flush=True)
time.sleep(3600)
"""


@pytest.mark.parametrize("how", ["signal.SIG_DFL", "signal.SIG_IGN"])
def test_a_program_is_stopped_with_its_children_also_when_it_does_not_listen(
    tmp_path: Path, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    stop = processes.stop
    monkeypatch.setattr(processes, "stop", lambda process: stop(process, patience=0.5))
    log = tmp_path / "log"
    log.write_text("before\n")
    command = [sys.executable, "-c", CHILDREN.format(how=how)]
    with processes.running(command, dict(os.environ), log) as process:
        until(lambda: len(log.read_text().splitlines()) >= 2)
    kept, child = log.read_text().splitlines()
    assert kept == "before"
    assert process.returncode is not None
    until(lambda: not _runs(int(child.split()[-1])))


def test_a_service_managers_signal_ends_a_program_by_way_of_its_clean_up() -> None:
    before, cleaned = signal.getsignal(signal.SIGTERM), []

    def program() -> None:
        with processes.ending_politely():
            try:
                os.kill(os.getpid(), signal.SIGTERM)
                time.sleep(3600)
            finally:
                cleaned.append(True)

    with pytest.raises(SystemExit) as left:
        program()
    assert left.value.code == 0
    assert cleaned == [True]
    assert signal.getsignal(signal.SIGTERM) is before


def test_ports() -> None:
    port = processes.free_port()
    processes.check_port(f"127.0.0.1:{port}")
    with socket.create_server(("127.0.0.1", port)):
        with pytest.raises(InputError, match=f"another program listens at 127.0.0.1:{port}"):
            processes.check_port(f"127.0.0.1:{port}")
        with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3600)"]) as lives:
            processes.wait_for_port(f"127.0.0.1:{port}", lives)
            lives.kill()


def test_a_program_that_does_not_listen_is_not_waited_for_without_end() -> None:
    address = f"127.0.0.1:{processes.free_port()}"
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3600)"]) as lives:
        with pytest.raises(InputError, match=r"did not listen at .* within 0\.3 s"):
            processes.wait_for_port(address, lives, seconds=0.3)
        lives.kill()
    with subprocess.Popen([sys.executable, "-c", "raise SystemExit(3)"]) as dead:
        dead.wait()
        with pytest.raises(InputError, match=r"ended at once \(code 3\)"):
            processes.wait_for_port(address, dead, seconds=HANG_SECONDS)


def _runs(number: int) -> bool:
    status = subprocess.run(["ps", "-o", "stat=", "-p", str(number)], capture_output=True, text=True, check=False)
    return bool(status.stdout.strip()) and not status.stdout.strip().startswith("Z")


def test_a_log_has_dates_and_no_colours_and_makes_room_when_it_is_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "site.log"
    code = "import sys; print('\\x1b[31mred\\x1b[0m \\x07 bell', flush=True); sys.exit('why')"
    with processes.running([sys.executable, "-c", code], dict(os.environ), log) as process:
        process.wait()
        until(lambda: log.is_file() and len(log.read_text().splitlines()) == 2)
    red, why = log.read_text().splitlines()
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[+-]\d\d:\d\d red \\x07 bell", red)
    assert why.endswith(" why")
    monkeypatch.setattr(processes, "LOG_BYTES", 100)
    told: list[str] = []
    say = processes.logged(told.append, log)
    for number in range(40):
        say(f"line {number}")
    assert told[-1] == "line 39"
    assert log.read_text().splitlines()[-1].endswith("line 39")
    kept = sorted(file.name for file in tmp_path.iterdir())
    assert kept == ["site.log", *(f"site.log.{number}" for number in range(1, processes.LOGS_KEPT + 1))]
    assert all(file.stat().st_mode & 0o077 == 0 for file in tmp_path.iterdir())
    assert all(file.stat().st_size < 200 for file in tmp_path.iterdir())
