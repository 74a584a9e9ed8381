"""Flower's programs as fedgeom runs them: with the changes of `fedgeom.engines.flower.patches`.

Flower's programs start each other by name. So a folder that comes first on their path holds launchers of the same
names, which end up here. What a federation does not need is refused.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fedgeom.engines.flower import forking, patches
from fedgeom.engines.flower.commands import POLL_VARIABLE, QUICKEST
from fedgeom.engines.flower.pacing import IDLE_SECONDS, Pace
from fedgeom.engines.flower.processes import exit_with_parent, run_and_exit
from fedgeom.engines.flower.watchdog import Watchdog, marker_file
from fedgeom.storage import locked, make_private_folder, write_text

REPLACED = {
    "flwr-clientapp": "clientapp",
    "flwr-serverapp": "serverapp",
    "flower-supernode": "supernode",
    "flower-superlink": "superlink",
    "flower-superexec": "superexec",
}
"""Flower's programs, and the functions that run them."""
REFUSED = ("flwr-agentapp", "flwr-connector", "flwr-model", "flwr-simulation")
"""Programs that no federation needs; the function is `refuse`."""


def write_launchers(folder: Path, module: str) -> Path:
    """Write the replacing programs, which call the functions of a module, to a folder that goes first on the path."""
    make_private_folder(folder)
    texts = {
        folder / program: f"#!{sys.executable}\nfrom {module} import {function}\n\n{function}()\n"
        for program, function in {**REPLACED, **dict.fromkeys(REFUSED, "refuse")}.items()
    }
    if any(_differs(file, text) for file, text in texts.items()):
        with locked(folder / "lock"):
            for file, text in texts.items():
                if _differs(file, text):  # somebody may be starting it just now
                    write_text(file, text, private=True).chmod(0o700)
    return folder


def _differs(file: Path, text: str) -> bool:
    return not file.is_file() or file.read_text(encoding="utf-8") != text or not os.access(file, os.X_OK)


def clientapp(make_app: Callable[[], Any], bundle: Path) -> None:
    """Run Flower's ClientApp process with the app that is installed here."""
    from flwr.supernode.cli import flwr_clientapp  # optional, 2 s

    patches.run_installed_client(make_app, bundle)
    patches.retry_soon()
    flwr_clientapp()


def serverapp(bundle: Path) -> None:
    """Run Flower's ServerApp process with the app that is installed here, in the folder ``bundle``."""
    from flwr.superlink.cli import flwr_serverapp  # optional, 2 s

    patches.run_installed_server(bundle)
    patches.retry_soon()
    flwr_serverapp()


def supernode() -> None:
    """Run Flower's SuperNode, asking the coordinator for questions more often than it does by itself."""
    from flwr.supernode.cli import flower_supernode  # optional, 2 s

    file = marker_file()
    watchdog = Watchdog(file) if file is not None else None
    watched = watchdog is not None and patches.call_before_each_question(watchdog.begin)
    look = watchdog.look if watchdog is not None and watched else lambda: None
    quick = float(os.environ.get(POLL_VARIABLE, QUICKEST))
    patches.pace_node(Pace(quick=quick, slow=max(IDLE_SECONDS, quick), sign=1.0, look=look))
    patches.beat_often()
    patches.retry_soon()
    exit_with_parent(os.getppid())
    # When Flower gives a connection up, a thread that serves keeps the node alive, connected to nobody.
    run_and_exit(flower_supernode)


def superlink() -> None:
    """Run Flower's SuperLink, with only the sites' part of its port open to other machines."""
    from flwr.superlink.cli import flower_superlink  # optional, 2 s

    patches.filter_requests()
    patches.wait_for_database()
    exit_with_parent(os.getppid())
    flower_superlink()


def superexec(answer: Callable[[], None] | None, import_ahead: Callable[[], None] = lambda: None) -> None:
    """Run Flower's SuperExec, which starts a process for each question.

    A site's are forked: ``answer`` is what they do, after ``import_ahead`` was done once. A coordinator's executor
    has nothing to answer.
    """
    from flwr.supercore.cli import flower_superexec  # optional, 2 s

    if answer is not None:
        pace = Pace(quick=QUICKEST, slow=1.0)
        if forking.fork_answerers(answer, import_ahead=import_ahead, on_question=pace.wake):
            patches.pace_executor(pace)
    flower_superexec()


def refuse() -> None:
    """Take the place of programs that a federation does not need."""
    sys.exit("fedgeom does not run this kind of Flower program")
