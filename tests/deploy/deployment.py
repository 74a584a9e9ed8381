"""A real federation on loopback for tests: every site and the coordinator are processes of their own."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

import fedgeom
from fedgeom.data.sites import SiteData
from fedgeom.deploy import submit
from fedgeom.deploy.coordinator_folder import CoordinatorFolder
from fedgeom.deploy.jobs import Job
from fedgeom.deploy.nats_site import LINK, read_link
from fedgeom.deploy.site_folder import SiteFolder
from fedgeom.engines.processes import free_port
from fedgeom.geometry.hyperbolic.sampling import labelled_disc
from fedgeom.storage import write_file
from tests.deploy.cluster import MEMBERS, Cluster
from tests.deploy.making import ask_stewards, loosen

COORDINATE = """
import signal, sys, time
from pathlib import Path
from fedgeom.deploy.coordinator_folder import CoordinatorFolder
from fedgeom.deploy.coordinator import running_coordinator
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
with running_coordinator(CoordinatorFolder(Path(sys.argv[1])), lambda text: print(text, flush=True)):
    print("ready", flush=True)
    while True:
        time.sleep(3600)
"""
"""What `fedgeom coordinator start` does, without the terminal."""

QUIET_SECONDS = 600.0
MOST_SECONDS = 3600.0
"""How long nothing may be written down before a test gives up waiting, and how long it waits at most."""


def parts(n: int, *, rows: int = 200, seed: int = 0) -> list[SiteData]:
    """Draw two classes in the disc and deal them to sites with short names."""
    names = ["anna", "bert", "carl", "dora", "erik", "frida", *(f"site-{k}" for k in range(7, n + 1))][:n]
    drawn = labelled_disc(rows * n, 0.9, 0.1, np.random.default_rng(seed), reference_norm=0.3)
    return fedgeom.split(drawn.X, np.where(drawn.y > 0, "yes", "no"), n, names=names)


@dataclass(frozen=True)
class Process:
    """What the system says about a process."""

    pid: int
    parent: int
    group: int
    command: str


def processes() -> Iterator[Process]:
    """Yield every process there is."""
    listed = subprocess.run(
        ["ps", "-A", "-ww", "-o", "pid=,ppid=,pgid=,args="], capture_output=True, text=True, check=True
    )
    for line in listed.stdout.splitlines():
        pid, parent, group, command = line.split(None, 3)
        yield Process(int(pid), int(parent), int(group), command)


def kill_groups(found: Collection[Process]) -> None:
    """Kill the groups of these processes, but not this process's own; one that has just ended is as good as killed."""
    for group in {process.group for process in found} - {os.getpgrp()}:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(group, signal.SIGKILL)


def has_open(process: Process, file: Path) -> bool:
    """Say whether a process has a file open; where the system does not tell, whether it might have."""
    table = Path(f"/proc/{process.pid}/fd")
    if not Path("/proc/self/fd").exists():
        return True
    try:
        return any(os.path.realpath(entry) == str(file.resolve()) for entry in table.iterdir())
    except OSError:  # it has just ended
        return False


class Line:
    """One connection through a proxy."""

    def __init__(self, near: socket.socket, far: socket.socket):
        self.near = near
        self.far = far
        self.deaf = False
        """Whether its near end stays open though nobody hears it any more."""


class Proxy:
    """Forwards TCP connections on loopback to a port, and holds everything back while it is cut."""

    def __init__(self, target: int):
        self._target = target
        self._flows = threading.Event()
        self._flows.set()
        self._lines: list[Line] = []
        self._closed = False
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        """Let nothing through any more; connections stay open, as on a line that went dead."""
        self._flows.clear()

    def mend(self) -> None:
        """Let everything through again, what was held back first."""
        self._flows.set()

    def halve(self) -> None:
        """Close the far ends of all connections; whoever called in is not told, as when a router forgot them."""
        for line in self._lines:
            line.deaf = True
            with contextlib.suppress(OSError):
                line.far.shutdown(socket.SHUT_RDWR)
            line.far.close()

    def close(self) -> None:
        """Take no more connections."""
        self._closed = True
        self._listener.close()
        self._flows.set()
        for line in self._lines:
            line.near.close()

    def _accept(self) -> None:
        while not self._closed:
            try:
                near, _ = self._listener.accept()
            except OSError:  # whoever called has hung up already, or this is the end
                continue
            threading.Thread(target=self._join, args=(near,), daemon=True).start()

    def _join(self, near: socket.socket) -> None:
        self._flows.wait()
        try:
            far = socket.create_connection(("127.0.0.1", self._target))
        except OSError:
            near.close()
            return
        line = Line(near, far)
        self._lines.append(line)
        threading.Thread(target=self._copy, args=(near, far, line), daemon=True).start()
        self._copy(far, near, line)

    def _copy(self, source: socket.socket, sink: socket.socket, line: Line) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                self._flows.wait()
                if not line.deaf:
                    sink.sendall(data)
        if line.deaf:
            return
        for end in (source, sink):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()


class Federation:
    """A coordinator and its sites in one folder; leaving the context stops every process."""

    def __init__(
        self,
        root: Path,
        data: Sequence[SiteData],
        *,
        proxied: Collection[str] = (),
        environment: Mapping[str, str] | None = None,
        clustered: bool = False,
    ):
        """Make all folders; the ``proxied`` sites reach the coordinator through a line that can be cut.

        Where it is ``clustered``, the coordinator starts no server: three of a cluster run already.
        """
        self.root, self.data = root, {site.name: site for site in data}
        self._environment = dict(environment or {})
        self.port = free_port()
        self.lines = {name: Proxy(self.port) for name in proxied}
        self.cluster = Cluster([free_port() for _ in range(MEMBERS)])
        self.coordinator = CoordinatorFolder.create(
            root / "coordinator",
            names=["localhost"],
            host="127.0.0.1",
            port=self.port,
            servers=self.cluster.addresses if clustered else "",
        )
        self._clustered = clustered
        self.sites: dict[str, SiteFolder] = {}
        for site in data:
            line = self.lines.get(site.name)
            self.admit(self.make_site(site, None if line is None else line.port))
        self.share_roster()
        self.running: dict[str, subprocess.Popen[bytes]] = {}

    def make_site(self, site: SiteData, port: int | None = None) -> SiteFolder:
        """Make a site's folder with its data."""
        address = self.cluster.addresses if self._clustered else f"127.0.0.1:{port or self.port}"
        folder = SiteFolder.create(self.root / site.name, site.name, address)
        np.savez(folder.path / "data.npz", X=site.X, y=site.y)
        text = folder.config_file.read_text(encoding="utf-8")
        text = text.replace('file = "data.csv"', 'file = "data.npz"').replace('label = "label"', 'label = "y"')
        folder.config_file.write_text(text, encoding="utf-8")
        loosen(folder)
        self.sites[site.name] = folder
        return folder

    def admit(self, folder: SiteFolder) -> None:
        """Let a site in."""
        self.coordinator.admit(folder.path / f"{folder.config().name}.pub")

    def share_roster(self) -> None:
        """Give every site the certificate and the roster."""
        for folder in self.sites.values():
            shutil.copy(self.coordinator.path / "ca.pem", folder.path)
            shutil.copy(self.coordinator.roster_file, folder.path)

    def __enter__(self) -> Federation:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in self.running.values():
            process.terminate()
        for process in self.running.values():
            process.wait(QUIET_SECONDS)
        self.cluster.stop()
        self.until(lambda: not self.find(), most=QUIET_SECONDS)
        kill_groups(self.find())
        self.until(lambda: not self.find(), most=QUIET_SECONDS)
        for line in self.lines.values():
            line.close()

    # --- processes ---

    def find(self, word: str = "") -> list[Process]:
        """Return this federation's processes (its folder is in their commands) that have this word in theirs."""
        return [p for p in processes() if str(self.root) in p.command and word in p.command]

    def start_coordinator(self) -> None:
        """Start the coordinator and wait until sites may connect."""
        command = [sys.executable, "-c", COORDINATE, str(self.coordinator.path)]
        self._start("coordinator", command, {})
        self.until(lambda: "ready" in self.said("coordinator") or self.running["coordinator"].poll() is not None)
        assert "ready" in self.said("coordinator"), self.said("coordinator") + self.log("coordinator")[-2000:]
        if self._clustered:
            self.cluster.start(self.coordinator)

    def start_all(self) -> None:
        """Start the coordinator and all sites, and wait until they are connected."""
        self.start_coordinator()
        for name in self.sites:
            self.start_site(name)
        assert self.until(lambda: all(self.connected(name) for name in self.sites))

    def start_site(self, name: str, environment: Mapping[str, str] | None = None) -> None:
        """Start a site as a service manager would."""
        (self.sites[name].path / LINK).unlink(missing_ok=True)  # it may have been killed
        command = [sys.executable, "-m", "fedgeom.deploy.site", str(self.sites[name].path)]
        self._start(name, command, environment or {})

    def connected(self, name: str) -> bool:
        """Say whether the coordinator has let a site in since it was last started."""
        report = read_link(self.sites[name])
        return report is not None and report.since > 0

    def _start(self, name: str, command: list[str], environment: Mapping[str, str]) -> None:
        out = self.root / f"{name}.out"
        with out.open("wb") as file:
            self.running[name] = subprocess.Popen(
                command,
                stdout=file,
                stderr=subprocess.STDOUT,
                env={**os.environ, **self._environment, **environment},
            )

    def said(self, name: str) -> str:
        """Return what a site or the coordinator has printed."""
        return (self.root / f"{name}.out").read_text(encoding="utf-8", errors="replace")

    def log(self, name: str) -> str:
        """Return what the programs of a site or the coordinator wrote."""
        file = self.root / name / ("coordinator.log" if name == "coordinator" else "site.log")
        return file.read_text(encoding="utf-8", errors="replace") if file.exists() else ""

    def kill(self, name: str) -> None:
        """Kill a site, or the coordinator with its server: every process of it at once, without warning."""
        process = self.running.pop(name)
        process.kill()
        process.wait()
        kill_groups(self._parts_of(name))

    def _parts_of(self, name: str) -> list[Process]:
        """Return the processes that a site or the coordinator has started."""
        return [process for process in self.find(f"{self.root}/{name}") if " -m fedgeom." in process.command]

    def hold(self, name: str, kind: str) -> None:
        """Let a site that is cut off (`offline`) work on no question of this kind until it is released."""
        write_file(self.root / f"{name}.held", kind.encode())

    def release(self, name: str) -> None:
        """Let a site that was held go on."""
        (self.root / f"{name}.held").unlink()

    def answering(self, name: str) -> list[int]:
        """Return the processes that answer a question for a site just now: forks of the one that stays."""
        found = self.find(f"answer {self.root}/{name}")
        staying = {process.pid for process in found}
        return [process.pid for process in found if process.parent in staying]

    def servers(self) -> list[int]:
        """Return the server's program: not the one that looks after it."""
        return [process.pid for process in self.find("nats.conf") if " -m fedgeom." not in process.command]

    def kill_conductor(self, job: Job) -> bool:
        """Kill the process that holds a run's conversation, not the server; say whether it was there."""
        conductors = self.find(f"coordinator {job.name}")
        found = [process for process in conductors if has_open(process, job.run_folder / "lock")]
        for process in found:
            with contextlib.suppress(ProcessLookupError):  # it has just ended
                os.kill(process.pid, signal.SIGKILL)
        return bool(found) and self.until(lambda: not submit.is_conducted(job))

    # --- jobs ---

    def submit(
        self, settings: str, *, name: str = "job", prepare: Callable[[Job], None] = lambda job: None
    ) -> Job:
        """Do what `fedgeom submit` does with a federation file of this text; ``prepare`` comes before the start."""
        file = self.root / f"{name}.toml"
        file.write_text(settings, encoding="utf-8")
        job = submit.new_job(self.coordinator, file)
        prepare(job)
        submit.start(self.coordinator, job)
        return job

    def resume(self, job: Job) -> None:
        """Do what `fedgeom submit --resume` does."""
        submit.start(self.coordinator, submit.job_to_resume(self.coordinator, job.name))

    def status(self, job: Job) -> dict[str, Any]:
        """Return what the run's status file says."""
        file = job.run_folder / "status.json"
        try:
            return dict(json.loads(file.read_text(encoding="utf-8")))
        except (OSError, ValueError):
            return {"state": "none"}

    def events(self, job: Job) -> list[dict[str, Any]]:
        """Return what has happened in the run so far; a line that is being written is left out."""
        try:
            lines = (job.run_folder / "events.jsonl").read_bytes().split(b"\n")[:-1]
        except OSError:
            return []
        return [json.loads(line) for line in lines]

    def over(self, job: Job) -> bool:
        """Say whether a run has ended, one way or the other."""
        return self.status(job)["state"] in submit.ENDS

    def wait(self, job: Job, quiet: float = QUIET_SECONDS) -> dict[str, Any]:
        """Wait until the run is over, as long as something moves."""
        self.until(lambda: self.over(job), quiet)
        return self.status(job)

    def until(
        self,
        condition: Callable[[], bool],
        quiet: float = QUIET_SECONDS,
        *,
        most: float = MOST_SECONDS,
        pause: float = 0.2,
    ) -> bool:
        """Wait for a condition as long as something moves; say whether it came true.

        On a busy machine everything takes longer, so the time it takes says nothing. It is given up when nobody has
        written anything down for ``quiet`` seconds, and after ``most`` seconds in any case.
        """
        began = moved = looked = time.monotonic()
        before = self.written()
        while (now := time.monotonic()) < min(moved + quiet, began + most):
            if condition():
                return True
            if now >= looked + 1:
                looked, after = now, self.written()
                if after != before:
                    moved, before = now, after
            time.sleep(pause)
        return condition()

    def written(self) -> dict[Path, tuple[int, int]]:
        """Return the sizes and times of what is written when something happens, and only then.

        That is what sites and the coordinator say, the sites' logs and ledgers, and the folders of runs. The
        coordinator's log grows also while nothing happens.
        """
        found = {}
        for pattern in ("*.out", "*/site.log", "*/ledger.jsonl", "*/memory/*", "coordinator/runs/*/*"):
            for file in self.root.glob(pattern):
                with contextlib.suppress(OSError):  # it was moved to its place meanwhile
                    found[file] = (file.stat().st_size, file.stat().st_mtime_ns)
        return found


@contextlib.contextmanager
def stewarded(root: Path) -> Iterator[Federation]:
    """Run a coordinator and three sites whose stewards have to be asked; in the end no process may be left."""
    with Federation(root, parts(3, rows=100)) as made:
        for folder in made.sites.values():
            ask_stewards(folder)
        made.start_all()
        yield made
    assert made.find() == []
