"""The ServerApp: holds a method's conversation with the sites of a job and writes its run record."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedgeom.errors import InputError, TooFewSitesError
from fedgeom.federation.engines.flower import FlowerEngine
from fedgeom.federation.record import RunRecord
from fedgeom.federation.run import converse
from fedgeom.federation.sites import Event, Sites
from fedgeom.federation.transcript import Transcript
from fedgeom.service.folders import CoordinatorFolder
from fedgeom.service.jobs import Job, load_job

if TYPE_CHECKING:
    from flwr.app import Context
    from flwr.serverapp import Grid, ServerApp

FOLDER_VARIABLE = "FEDGEOM_COORDINATOR"
"""The environment variable that tells the ServerApp where the coordinator's folder is."""


def conduct(folder: CoordinatorFolder, job: Job, grid: Grid) -> None:
    """Hold a job's conversation; everything that comes of it is in the run's folder."""
    method = job.method()
    record = RunRecord(
        job.run_folder,
        {
            "method": method.name,
            "parameters": method.parameters(),
            "seed": job.file.seed,
            "engine": "flower",
            "sites": {name: {} for name in job.names},
            "job": job.name,
        },
        resume=True,
    )
    try:
        nodes = gather(grid, node_names(folder), job, watch=record.event)
        engine = FlowerEngine(grid, nodes, deadline=job.file.deadline)
        transcript = Transcript(engine, job.run_folder / "transcript.bin")
    except Exception as error:
        record.finish("failed", str(error))
        raise
    sites = Sites(transcript, run=job.run, method=method.name, seed=job.file.seed, roster=folder.roster())
    converse(method, sites, record)
    record.finish()


def node_names(folder: CoordinatorFolder) -> Callable[[bytes], str | None]:
    """Return a function from a node's public key to the name of the site that was admitted with it."""
    from cryptography.hazmat.primitives import serialization

    known = {
        serialization.load_ssh_public_key(line.encode()).public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        ): name
        for name, line in folder.node_keys().items()
    }
    return lambda key: known.get(key) or known.get(key.strip() + b"\n")


def gather(
    grid: Grid,
    name_of: Callable[[bytes], str | None],
    job: Job,
    *,
    watch: Callable[[Event], None] = lambda event: None,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> Mapping[str, int]:
    """Wait for the job's sites: until all are there, or until the waiting time is over and enough are."""
    wanted = set(job.names)
    until = clock() + job.file.wait
    found: dict[str, int] = {}
    while True:
        for node in grid.get_nodes():
            name = name_of(node.public_key)
            if name in wanted and name not in found and node.status in ("online", ""):
                found[name] = node.node_id
                watch(Event(0, "join", name, "joined"))
        if set(found) == wanted or clock() >= until:
            break
        sleep(0.5)
    for name in sorted(wanted - set(found)):
        watch(Event(0, "join", name, "lost", f"did not come within {job.file.wait:g} s"))
    if len(found) < job.file.least:
        raise TooFewSitesError(
            f"{len(found)} of the {job.file.least} sites needed came within {job.file.wait:g} s; missing: "
            f"{', '.join(sorted(wanted - set(found)))}"
        )
    return found


def make_app() -> ServerApp:
    """Return the ServerApp; which job to run comes from the run's configuration, and must lie in the folder."""
    from flwr.serverapp import ServerApp

    app = ServerApp()

    @app.main()
    def main(grid: Grid, context: Context) -> None:
        where = os.environ.get(FOLDER_VARIABLE)
        if not where:
            raise InputError(f"{FOLDER_VARIABLE} is not set; start the coordinator by: fedgeom coordinator start")
        folder = CoordinatorFolder(Path(where))
        name: Any = context.run_config.get("job", "")
        conduct(folder, load_job(folder, str(name)), grid)

    return app
