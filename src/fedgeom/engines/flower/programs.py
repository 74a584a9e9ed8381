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

from fedgeom.engines.answerer import Answerer, serve
from fedgeom.engines.flower import patches
from fedgeom.engines.flower.carrier import Carrier
from fedgeom.engines.flower.engine import LOOK_SECONDS
from fedgeom.engines.flower.message_layer import LONGEST_HOLD
from fedgeom.engines.flower.node_answers import NodeAnswers, answer_with
from fedgeom.engines.processes import exit_with_parent, run_and_exit
from fedgeom.storage import locked, make_private_folder, write_text

REPLACED = {
    "flwr-clientapp": "clientapp",
    "flwr-serverapp": "serverapp",
    "flower-supernode": "supernode",
    "flower-superlink": "superlink",
    "flower-superexec": "superexec",
}
"""Flower's programs, and the functions that run them."""
ANSWERER = "flwr-clientapp"
"""The program that a site's node starts, once, and that answers."""
EXECUTOR_HOLD = 5.0
"""For how many seconds the coordinator's executor lets itself be held: in between it looks after what it started."""
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


def clientapp(make_app: Callable[[], Any]) -> None:
    """Stay, and answer what the site's node hands over, with the app that is installed here."""
    serve(answer_with(make_app()))


def serverapp(bundle: Path) -> None:
    """Run Flower's ServerApp process with the app that is installed here, in the folder ``bundle``."""
    from flwr.superlink.cli import flwr_serverapp  # optional, 2 s

    patches.run_installed_server(bundle)
    patches.carry_for_grid(Carrier(lambda: LOOK_SECONDS))
    patches.retry_soon()
    flwr_serverapp()


def supernode() -> None:
    """Run Flower's SuperNode; another program, started once, answers its questions."""
    from flwr.supernode.cli import flower_supernode  # optional, 2 s

    carrier = Carrier(lambda: LONGEST_HOLD)
    patches.answer_in_node(NodeAnswers(Answerer([ANSWERER]), carrier))
    patches.serve_nobody()
    patches.carry_for_node(carrier)
    patches.beat_often()
    patches.retry_soon()
    exit_with_parent(os.getppid())
    # When Flower gives a connection up, a thread that serves keeps the node alive, connected to nobody.
    run_and_exit(flower_supernode)


def superlink() -> None:
    """Run Flower's SuperLink, with only the sites' part of its port open to other machines."""
    from flwr.superlink.cli import flower_superlink  # optional, 2 s

    patches.filter_requests()
    patches.shorten_requests()
    patches.look_up_at_once()
    patches.ask_for_known_replies()
    patches.wait_for_database()
    exit_with_parent(os.getppid())
    flower_superlink()


def superexec() -> None:
    """Run Flower's SuperExec, which starts the process that conducts a run; a site needs none."""
    from flwr.supercore.cli import flower_superexec  # optional, 2 s

    patches.carry_for_executor(Carrier(lambda: EXECUTOR_HOLD))
    flower_superexec()


def refuse() -> None:
    """Take the place of programs that a federation does not need."""
    sys.exit("fedgeom does not run this kind of Flower program")
