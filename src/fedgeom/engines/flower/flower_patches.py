"""Replacements for Flower's programs that would run code from the network.

Flower ships the code of an app to every node, and whoever reaches the coordinator's port may submit a run.
A site must not run a stranger's code. So SuperNode and SuperLink find, first on their path, programs that
ignore the shipped bundle and load the app that is installed here. If Flower changes so that this cannot be
ensured, they stop.
"""

from __future__ import annotations

import importlib
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from fedgeom.engines.flower.processes import end_with
from fedgeom.engines.flower.programs import POLL_VARIABLE, QUICKEST
from fedgeom.engines.flower.watchdog import Vigil, keep_vigil, marker

APP = Path(__file__).with_name("app")
GUARDED = {
    "flwr-clientapp": "clientapp",
    "flwr-serverapp": "serverapp",
    "flower-supernode": "supernode",
    "flower-superlink": "superlink",
    "flower-superexec": "superexec",
}
AWAKE_SECONDS = 60.0
"""How long after a question a site's node asks often; then it asks as rarely as Flower does by itself."""
IDLE_SECONDS = 3.0
"""Flower's own interval."""
HEARTBEAT_SECONDS = 10
"""How often Flower must hear of a node; silent for twice as long, it counts as gone (Flower's default is 30)."""
LOCKED_SECONDS = 60
"""How long the SuperLink waits for its database when many sites answer at once (Flower: 5 s, then one is lost)."""
RETRY_SECONDS = 0.2
"""How soon a part of a message that was announced, but is not there yet, is asked for again (Flower: 1 s, then 2)."""
REFUSED = ("flwr-agentapp", "flwr-connector", "flwr-model", "flwr-simulation")


def write_guards(folder: Path) -> Path:
    """Write the replacing programs to a folder, which goes first on the path."""
    folder.mkdir(parents=True, exist_ok=True)
    for program in (*GUARDED, *REFUSED):
        function = GUARDED.get(program, "refuse")
        text = (
            f"#!{sys.executable}\nfrom fedgeom.engines.flower.flower_patches import {function}\n\n{function}()\n"
        )
        file = folder / program
        if file.is_file() and file.read_text(encoding="utf-8") == text:  # somebody may be starting it just now
            continue
        file.write_text(text, encoding="utf-8")
        file.chmod(0o700)
    return folder


def _replace(module: ModuleType, **replacements: Any) -> None:
    """Replace names of a Flower module; stop when one is not there, because then nothing is sure."""
    missing = [name for name in replacements if not hasattr(module, name)]
    if missing:
        sys.exit(
            f"this version of Flower has no {', '.join(missing)}; fedgeom cannot keep foreign code out: stopping"
        )
    for name, value in replacements.items():
        setattr(module, name, value)


def _ignore_bundle(*_: Any, **__: Any) -> Path:
    """Take the place of the function that unpacks a shipped app."""
    return APP


def retry_soon() -> None:
    """Fetch the parts of a message soon after they are there; if Flower has changed, it is only slower."""
    module = importlib.import_module("flwr.supercore.inflatable.inflatable_utils")
    defaults = getattr(getattr(module, "pull_objects", None), "__kwdefaults__", None) or {}
    if "initial_backoff" in defaults:
        defaults["initial_backoff"] = RETRY_SECONDS


def clientapp() -> None:
    """Run Flower's ClientApp process with the app that is installed here."""
    from flwr.supernode.cli import flwr_clientapp

    from fedgeom.deploy.site_app import make_app

    def load(*_: Any, **__: Any) -> Any:
        return lambda *_: make_app()

    module = importlib.import_module("flwr.supernode.runtime.run_clientapp")
    _replace(module, install_from_fab=_ignore_bundle, get_project_dir=_ignore_bundle, get_load_client_app_fn=load)
    retry_soon()
    flwr_clientapp()


def serverapp() -> None:
    """Run Flower's ServerApp process with the app that is installed here."""
    from flwr.superlink.cli import flwr_serverapp

    module = importlib.import_module("flwr.superlink.runtime.run_serverapp")
    _replace(module, install_from_fab=_ignore_bundle, get_project_dir=_ignore_bundle)
    retry_soon()
    flwr_serverapp()


class Pace:
    """Stands for the time module in one of Flower's loops: quick while a run goes on, slow when nothing happens.

    Fifty sites that ask twice a second keep a coordinator busy for nothing. A sleep shorter than ``sign`` is a sign of
    a run: Flower's node sleeps half a second while an answer is being made, and three when there is no question.
    Such a sleep is also the moment to ``look`` whether anybody still makes the answer.
    """

    def __init__(self, *, quick: float, slow: float, sign: float = 0.0, look: Callable[[], None] = lambda: None):
        self._quick, self._slow, self._sign, self._look = quick, slow, sign, look
        self.wake()

    def __getattr__(self, name: str) -> Any:
        return getattr(time, name)

    def wake(self) -> None:
        """Be quick for a while."""
        self._awake = time.monotonic() + AWAKE_SECONDS

    def sleep(self, seconds: float) -> None:
        """Sleep, but not longer than our own interval while a run goes on."""
        if seconds < self._sign:
            self.wake()
            self._look()
        awake = time.monotonic() < self._awake
        usual = self._quick if seconds >= IDLE_SECONDS else min(seconds, self._quick)
        time.sleep(usual if awake else max(seconds, self._slow))


def supernode() -> None:
    """Run Flower's SuperNode, asking the coordinator for questions more often than it does by itself."""
    from flwr.supernode.cli import flower_supernode

    module = importlib.import_module("flwr.supernode.start_client_internal")
    file = marker()
    vigil = Vigil(file) if file is not None else None
    look = vigil.look if vigil is not None and keep_vigil(module, vigil) else lambda: None
    if getattr(module, "time", None) is time:  # if not, it is only slower
        quick = float(os.environ.get(POLL_VARIABLE, QUICKEST))
        module.time = Pace(quick=quick, slow=max(IDLE_SECONDS, quick), sign=1.0, look=look)  # type: ignore[attr-defined]
    beat = "HEARTBEAT_DEFAULT_INTERVAL"
    names = ("flwr.supernode.fleet_http_connection", "flwr.supercore.heartbeat")
    places = [importlib.import_module(name) for name in names]
    if all(hasattr(place, beat) for place in places):  # promised and kept, or left alone
        for place in places:
            setattr(place, beat, HEARTBEAT_SECONDS)
    retry_soon()
    leave_with(os.getppid())
    # When Flower gives a connection up, a thread that serves keeps the node alive, connected to nobody.
    end_with(flower_supernode)


class _GatedServer:
    """Stands for the web server's module in Flower's SuperLink: what is served passes our gate."""

    def __init__(self, server: Any):
        self._server = server

    def __getattr__(self, name: str) -> Any:
        return getattr(self._server, name)

    def run(self, app: Any, **options: Any) -> None:
        """Serve the application; a forwarded address is not believed, because the gate asks for the real one."""
        from fedgeom.engines.flower.access_filter import Gate

        self._server.run(app=Gate(app), **options, proxy_headers=False)


def wait_for_the_database() -> None:
    """Let a busy SuperLink be slow rather than lose messages; if Flower has changed, it is as it was."""
    module = importlib.import_module("flwr.supercore.sql_mixin")
    settings = dict(getattr(module, "SQLITE_PRAGMAS", ()))
    if "busy_timeout" in settings:
        module.SQLITE_PRAGMAS = tuple((settings | {"busy_timeout": str(1000 * LOCKED_SECONDS)}).items())  # type: ignore[attr-defined]


def superlink() -> None:
    """Run Flower's SuperLink, with only the sites' part of its port open to other machines."""
    from flwr.superlink.cli import flower_superlink

    module = importlib.import_module("flwr.superlink.cli.flower_superlink")
    _replace(module, uvicorn=_GatedServer(getattr(module, "uvicorn", None)))
    wait_for_the_database()
    leave_with(os.getppid())
    flower_superlink()


def superexec() -> None:
    """Run Flower's SuperExec, which starts a process for each question; a site's are forked."""
    from flwr.supercore.cli import flower_superexec

    from fedgeom.deploy.coordinator_app import FOLDER_VARIABLE
    from fedgeom.engines.flower.forking import fork_answerers

    if FOLDER_VARIABLE not in os.environ:  # a coordinator answers nothing
        module = importlib.import_module("flwr.supercore.superexec.run_superexec")
        pace = Pace(quick=QUICKEST, slow=1.0)
        if fork_answerers(clientapp, pace.wake) and getattr(module, "time", None) is time:
            module.time = pace  # type: ignore[attr-defined]
    flower_superexec()


def leave_with(parent: int) -> None:
    """End this program and its children when the one that started it is gone, even by SIGKILL."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        os.killpg(os.getpgrp(), signal.SIGTERM)
        time.sleep(5)
        os.killpg(os.getpgrp(), signal.SIGKILL)

    if os.getpgrp() == os.getpid():  # only in a group of our own, or others would go too
        threading.Thread(target=watch, daemon=True).start()


def refuse() -> None:
    """Take the place of programs that a federation does not need."""
    sys.exit("fedgeom does not run this kind of Flower program")
