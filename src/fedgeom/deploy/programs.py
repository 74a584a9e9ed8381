"""The programs that Flower starts, wired together: what Flower's side needs to know of sites and coordinators.

Flower's programs know nothing of folders and methods, and those know nothing of Flower. Launchers in Flower's home call
the functions of this module, each by the name in `fedgeom.engines.flower.programs.REPLACED`.
"""

from __future__ import annotations

import ctypes
import importlib
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fedgeom.deploy.coordinator_folder import FOLDER_VARIABLE, CoordinatorFolder
from fedgeom.deploy.site_folder import SiteFolder
from fedgeom.engines.flower import programs
from fedgeom.engines.flower.engine import FlowerGrid
from fedgeom.errors import InputError

if sys.platform != "win32":
    import resource

PR_SET_DUMPABLE = 4
"""Linux's number for the call that says whether a process leaves an image of itself."""


def memory_can_be_limited() -> bool:
    """Say whether a limit of memory holds here: only Linux counts what numpy asks for."""
    return sys.platform == "linux"


def limit_memory(megabytes: int) -> None:
    """Let this process, and those it starts, take no more memory than this; 0 sets no limit, nor does another system.

    Asking for more raises `MemoryError`. RLIMIT_DATA counts everything that a process may write to and shares with
    nobody, which numpy's arrays are; the stack of the address space, RLIMIT_AS, would also count libraries and mapped
    files that cost nothing.
    """
    if megabytes and memory_can_be_limited():
        wanted = megabytes * 2**20
        _, hard = resource.getrlimit(resource.RLIMIT_DATA)
        most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_DATA, (most, most))


def leave_no_traces() -> None:
    """See to it that this process leaves no image of its memory on the disk, and files for its owner only.

    An image has rows and keys in it. A limit of 0 stops the kernel's own, for good; a process that is not dumpable
    gives none to a program that collects them either, and nobody of the same account can look into it.
    """
    os.umask(0o077)
    if sys.platform != "win32":
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)


BUNDLE = Path(__file__).with_name("flower_app")
"""The app that Flower believes it ships; everybody runs the installed copy."""

AHEAD = (
    "fedgeom.deploy.answers",
    "fedgeom.data.readers",
    "fedgeom.data.validation",
    "fedgeom.geometry.hyperbolic.svm",  # scikit-learn: 2.5 s
    "safetensors.numpy",
)
"""What answers import late."""


def write_launchers(home: Path) -> Path:
    """Write the launchers to Flower's home; return their folder, which goes first on the path."""
    return programs.write_launchers(home / "guards", __name__)


def client_app(limit: Callable[[int], None] = lambda megabytes: None) -> Any:
    """Return the ClientApp, which answers for the site in the folder that the node's own settings name.

    ``limit`` is told how much memory the site's policy allows before anything of a question is read.
    """
    from fedgeom.deploy import answers  # slow to import, and Flower starts many programs
    from fedgeom.engines.flower.apps import make_client_app

    def answer(place: str, request: bytes, carried: bytes | None) -> tuple[bytes, bytes]:
        folder = SiteFolder(Path(place))
        limit(folder.config().policy.max_memory_mb)
        return answers.answer(folder, request, carried)

    return make_client_app(
        answer=answer,
        introduce=lambda place, number: answers.introduce(SiteFolder(Path(place)), number),
    )


def server_app() -> Any:
    """Return the ServerApp; which job to run comes from the run's settings, and must lie in the folder."""
    # Slow to import, and Flower starts many programs.
    from fedgeom.engines.flower.apps import make_server_app

    return make_server_app(conduct_job)


def conduct_job(name: str, grid: FlowerGrid) -> None:
    """Conduct a job of the coordinator whose folder the environment names."""
    # Slow to import, and Flower starts many programs.
    from fedgeom.deploy.conductor import conduct, reach_by_flower
    from fedgeom.deploy.jobs import load_job

    where = os.environ.get(FOLDER_VARIABLE)
    if not where:
        raise InputError(f"{FOLDER_VARIABLE} is not set; start the coordinator by: fedgeom coordinator start")
    folder = CoordinatorFolder(Path(where))
    conduct(folder, load_job(folder, name), reach_by_flower(grid))


def import_ahead() -> None:
    """Import what every answer needs, once, before processes are forked."""
    from fedgeom.federation.method import METHODS  # slow to import, and Flower starts many programs
    from fedgeom.methods.catalogue import method_class

    for name in AHEAD:
        importlib.import_module(name)
    for name in METHODS:
        method_class(name)


def clientapp() -> None:
    """Run the process that answers for a site, in forks of itself, until its node ends."""
    leave_no_traces()
    import_ahead()
    programs.clientapp(lambda: client_app(limit_memory))


def serverapp() -> None:
    """Run Flower's ServerApp process for a coordinator."""
    leave_no_traces()
    programs.serverapp(BUNDLE)


def supernode() -> None:
    """Run a site's SuperNode."""
    leave_no_traces()
    programs.supernode()


def superlink() -> None:
    """Run a coordinator's SuperLink."""
    leave_no_traces()
    programs.superlink()


def superexec() -> None:
    """Run a coordinator's SuperExec, which starts the processes that conduct."""
    leave_no_traces()
    programs.superexec()


def refuse() -> None:
    """Refuse to run a program that no federation needs."""
    programs.refuse()
