"""The programs that Flower starts, wired together: what Flower's side needs to know of sites and coordinators.

Flower's programs know nothing of folders and methods, and those know nothing of Flower. Launchers in Flower's home call
the functions of this module, each by the name in `fedgeom.engines.flower.programs.REPLACED`.
"""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path
from typing import Any

from fedgeom.deploy.coordinator_folder import FOLDER_VARIABLE, CoordinatorFolder
from fedgeom.deploy.site_folder import SiteFolder
from fedgeom.engines.flower import programs
from fedgeom.engines.flower.engine import Grid
from fedgeom.errors import InputError

if sys.platform != "win32":
    import resource

BUNDLE = Path(__file__).with_name("flower_app")
"""The app that Flower believes it ships; everybody runs the installed copy."""

AHEAD = (
    "fedgeom.deploy.answering",
    "fedgeom.data.readers",
    "fedgeom.methods.hulls.fitting",  # scikit-learn: 2.5 s
)
"""What answers import late."""


def write_launchers(home: Path) -> Path:
    """Write the launchers to Flower's home; return their folder, which goes first on the path."""
    return programs.write_launchers(home / "guards", __name__)


def client_app() -> Any:
    """Return the ClientApp, which answers for the site in the folder that the node's own settings name."""
    from fedgeom.deploy import answering  # slow to import, and Flower starts many programs
    from fedgeom.engines.flower.client_app import make_client_app

    return make_client_app(
        answer=lambda place, request, carried: answering.answer(SiteFolder(Path(place)), request, carried),
        introduce=lambda place, number: answering.introduce(SiteFolder(Path(place)), number),
    )


def server_app() -> Any:
    """Return the ServerApp; which job to run comes from the run's settings, and must lie in the folder."""
    # Slow to import, and Flower starts many programs.
    from fedgeom.engines.flower.server_app import make_server_app

    return make_server_app(conduct_job)


def conduct_job(name: str, grid: Grid) -> None:
    """Conduct a job of the coordinator whose folder the environment names."""
    from fedgeom.deploy.conducting import conduct  # slow to import, and Flower starts many programs
    from fedgeom.deploy.jobs import load_job

    where = os.environ.get(FOLDER_VARIABLE)
    if not where:
        raise InputError(f"{FOLDER_VARIABLE} is not set; start the coordinator by: fedgeom coordinator start")
    folder = CoordinatorFolder(Path(where))
    conduct(folder, load_job(folder, name), grid)


def import_ahead() -> None:
    """Import what every answer needs, once, before processes are forked."""
    from fedgeom.federation.method import METHODS  # slow to import, and Flower starts many programs
    from fedgeom.methods.catalogue import method_class

    for name in AHEAD:
        importlib.import_module(name)
    for name in METHODS:
        method_class(name)


def no_core_dumps() -> None:
    """See to it that a process that dies leaves no image of its memory, with rows and keys in it, on the disk."""
    if sys.platform != "win32":
        resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))


def clientapp() -> None:
    """Run Flower's ClientApp process for a site."""
    no_core_dumps()
    programs.clientapp(client_app, BUNDLE)


def serverapp() -> None:
    """Run Flower's ServerApp process for a coordinator."""
    programs.serverapp(BUNDLE)


def supernode() -> None:
    """Run a site's SuperNode."""
    no_core_dumps()
    programs.supernode()


def superlink() -> None:
    """Run a coordinator's SuperLink."""
    programs.superlink()


def superexec() -> None:
    """Run Flower's SuperExec, which starts the processes that answer at a site, and that conduct at a coordinator."""
    no_core_dumps()
    at_coordinator = FOLDER_VARIABLE in os.environ
    programs.superexec(None if at_coordinator else clientapp, import_ahead)


def refuse() -> None:
    """Refuse to run a program that no federation needs."""
    programs.refuse()
