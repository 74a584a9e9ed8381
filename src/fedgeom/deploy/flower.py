"""A fedgeom run inside somebody's Flower federation: what the two apps of `examples/flower-app` do.

Sites and coordinator have the folders that every deployment has, with approvals, budgets, ledger and journal; Flower
carries the questions in place of NATS.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fedgeom.deploy.conductor import Reach, Watch, conduct, gather
from fedgeom.deploy.coordinator_folder import CoordinatorFolder
from fedgeom.deploy.jobs import Job, create_job, load_job
from fedgeom.deploy.programs import leave_no_traces, limit_memory
from fedgeom.deploy.site_folder import SiteFolder
from fedgeom.engines.flower import (
    FlowerEngine,
    FlowerGrid,
    Introductions,
    make_client_app,
    make_server_app,
    sign_introduction,
)
from fedgeom.errors import InputError


def client_app() -> Any:
    """Return the ClientApp, which answers for the site in the folder that the node's own settings name."""

    def answer(place: str, request: bytes) -> bytes:
        from fedgeom.deploy import answers  # slow to import, and whoever coordinates needs none of it

        leave_no_traces()
        folder = SiteFolder(Path(place))
        limit_memory(folder.config().policy.max_memory_mb)
        return answers.answer(folder, request)

    def introduce(place: str, number: bytes) -> tuple[str, bytes]:
        folder = SiteFolder(Path(place))
        name = folder.config().name
        return name, sign_introduction(folder.identity(), name, number)

    return make_client_app(answer, introduce)


def server_app() -> Any:
    """Return the ServerApp, which conducts a job of a coordinator's folder as the run's settings say."""
    return make_server_app(conduct_by_flower)


def conduct_by_flower(settings: Mapping[str, Any], grid: FlowerGrid) -> None:
    """Conduct the job of a federation file, or go on with one that did not end well.

    ``settings`` has ``coordinator``, the coordinator's folder, and either ``federation``, a file, or ``resume``, the
    name of a job.
    """
    given = {name: str(settings.get(name) or "") for name in ("coordinator", "federation", "resume")}
    if not given["coordinator"] or bool(given["federation"]) == bool(given["resume"]):
        raise InputError(
            f"the run's settings are {given}; wanted coordinator, and either federation or resume: "
            'flwr run APP CONNECTION -c \'coordinator="/path/of/folder" federation="/path/of/file.toml"\''
        )
    leave_no_traces()
    folder = CoordinatorFolder(Path(given["coordinator"]))
    job = load_job(folder, given["resume"]) if given["resume"] else create_job(folder, Path(given["federation"]))
    print(f"run {job.name}: its record will be in {job.run_folder}", flush=True)
    conduct(folder, job, reach_by_flower(grid), engine=FlowerEngine.name)


def reach_by_flower(grid: FlowerGrid) -> Reach:
    """Return how sites are reached that are Flower's nodes."""

    def reach(folder: CoordinatorFolder, job: Job, watch: Watch) -> FlowerEngine:
        look = Introductions(grid, folder.roster())
        found = gather(look, job.names, wait=job.file.wait, min_sites=job.file.min_sites, watch=watch)
        return FlowerEngine(grid, found, look, deadline=job.file.deadline, grace=job.file.wait)

    return reach
