"""Programs of a federation as processes: started in groups of their own, and stopped with all their children."""

from __future__ import annotations

import contextlib
import datetime
import os
import re
import secrets
import signal
import socket
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

from fedgeom.errors import InputError, printable
from fedgeom.storage import open_to_append

Say = Callable[[str], None]
"""How a program that runs for long tells people what happens."""


@contextmanager
def ending_politely() -> Iterator[None]:
    """Let SIGTERM, by which service managers stop programs, end this one by way of its clean-up."""

    def leave(*_: object) -> None:
        raise SystemExit(0)

    before = signal.signal(signal.SIGTERM, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


PORTS = range(20_000, 32_000)
"""Below those from which systems call out: one of these may be taken between being found and being listened at."""


def free_port() -> int:
    """Return a port on loopback that nobody uses now."""
    while True:
        port = secrets.choice(PORTS)
        with contextlib.suppress(OSError), socket.socket() as probe:
            probe.bind(("127.0.0.1", port))
            return port


LOG_BYTES = 10 * 2**20
"""How long a log may be before it makes room for a new one."""
LOGS_KEPT = 5
"""How many older ones are kept: site.log.1 is the latest of them."""
COLOUR = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")

_logging = threading.Lock()


def write_log(log: Path, line: str) -> None:
    """Add a line to a log, with the time and without colours; a log that has become long makes room first."""
    dated = (
        f"{datetime.datetime.now().astimezone().isoformat(timespec='seconds')} {printable(COLOUR.sub('', line))}"
    )
    with _logging:
        if log.is_file() and log.stat().st_size > LOG_BYTES:
            for number in range(LOGS_KEPT, 0, -1):
                older = log if number == 1 else log.with_name(f"{log.name}.{number - 1}")
                if older.exists():
                    older.replace(log.with_name(f"{log.name}.{number}"))
        with open_to_append(log) as file:
            file.write(dated.encode() + b"\n")


def logged(say: Say, log: Path) -> Say:
    """Return what tells people something, and writes it to a log, too."""

    def tell(text: str) -> None:
        say(text)
        with contextlib.suppress(OSError):  # a full disk ends no program
            for line in text.splitlines():
                write_log(log, line)

    return tell


def start_logged(command: list[str], environment: dict[str, str], log: Path) -> subprocess.Popen[bytes]:
    """Start a program in a group of its own; what it and its children print goes to the log, line by line."""
    process = subprocess.Popen(
        command,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    assert process.stdout is not None
    said = process.stdout

    def keep() -> None:
        with said:
            for line in said:
                with contextlib.suppress(OSError):  # a full disk ends no program
                    write_log(log, line.decode(errors="replace").rstrip("\r\n"))

    threading.Thread(target=keep, name="log", daemon=True).start()
    return process


@contextmanager
def running(command: list[str], environment: dict[str, str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run a program with its children in a group of its own, and stop them all in the end."""
    process = start_logged(command, environment, log)
    try:
        yield process
    finally:
        stop(process)


def run_and_exit(program: Callable[[], None]) -> NoReturn:
    """Run a program in this process and end with it, at once: threads that it left behind must not keep it alive."""
    code = 1
    try:
        program()
        code = 0
    except SystemExit as leaving:
        code = leaving.code if isinstance(leaving.code, int) else int(leaving.code is not None)
        if isinstance(leaving.code, str):
            print(leaving.code, file=sys.stderr)
    except BaseException:
        print(printable(traceback.format_exc(), lines=True), file=sys.stderr)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def exit_with_parent(parent: int) -> None:
    """End this program and its children when the one that started it is gone, even by SIGKILL."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        os.killpg(os.getpgrp(), signal.SIGTERM)
        time.sleep(5)
        os.killpg(os.getpgrp(), signal.SIGKILL)

    if os.getpgrp() == os.getpid():  # only in a group of our own, or others would go too
        threading.Thread(target=watch, daemon=True).start()


def stop(process: subprocess.Popen[bytes], *, patience: float = 10.0) -> None:
    """End a program and its children: politely first."""
    for sign, wait in ((signal.SIGTERM, patience), (signal.SIGKILL, 5.0)):
        try:
            os.killpg(process.pid, sign)
        except ProcessLookupError:
            break
        try:
            process.wait(wait)
        except subprocess.TimeoutExpired:
            continue
    process.poll()


def wait_for_port(address: str, process: subprocess.Popen[bytes], *, seconds: float = 300.0) -> None:
    """Wait until a program listens, or say that it does not."""
    host, port = address.rsplit(":", 1)
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if process.poll() is not None:
            raise InputError(f"the coordinator's server ended at once (code {process.returncode}); see its log")
        try:
            socket.create_connection((host, int(port)), 1).close()
        except OSError:
            time.sleep(0.1)
        else:
            return
    raise InputError(f"the coordinator's server did not listen at {address} within {seconds:g} s")


def check_port(address: str) -> None:
    """Refuse to start where another program listens, or sites would talk to that one."""
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), 1).close()
    except OSError:
        return
    raise InputError(f"another program listens at {address}; stop it, or give another port in coordinator.toml")
