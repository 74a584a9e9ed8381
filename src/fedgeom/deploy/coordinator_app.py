"""The ServerApp: holds a method's conversation with the sites of a job and writes its run record."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedgeom.deploy.coordinator_folder import CoordinatorFolder
from fedgeom.deploy.jobs import Job, load_job
from fedgeom.engines.flower.engine import FlowerEngine, Place
from fedgeom.engines.flower.introduction import ask_names
from fedgeom.engines.flower.programs import poll_seconds
from fedgeom.engines.run import converse
from fedgeom.errors import InputError, TooFewSitesError
from fedgeom.federation.conversation import Event, Sites
from fedgeom.federation.record import RunRecord
from fedgeom.federation.transcript import Transcript
from fedgeom.storage import locked, make_private_folder

if TYPE_CHECKING:
    from flwr.app import Context
    from flwr.proto.node_pb2 import NodeInfo
    from flwr.serverapp import Grid, ServerApp

FOLDER_VARIABLE = "FEDGEOM_COORDINATOR"
"""The environment variable that tells the ServerApp where the coordinator's folder is."""


def conduct(folder: CoordinatorFolder, job: Job, grid: Grid) -> None:
    """Hold a job's conversation; everything that comes of it is in the run's folder."""
    make_private_folder(job.run_folder)
    with locked(job.run_folder / "lock", f"run {job.name!r} is being conducted by another process"):
        _conduct(folder, job, grid)


def _conduct(folder: CoordinatorFolder, job: Job, grid: Grid) -> None:
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
        names_of = Introductions(grid, folder.roster()) if folder.config().insecure else node_names(folder)
        nodes = gather(grid, names_of, job, watch=record.event)
        engine = FlowerEngine(
            grid,
            nodes,
            deadline=job.file.deadline,
            grace=job.file.wait,
            look=lambda: connected(grid, names_of),
            poll=poll_seconds(len(nodes)),
        )
        transcript = Transcript(engine, job.run_folder / "transcript.bin")
    except Exception as error:
        record.finish("failed", str(error))
        raise
    sites = Sites(transcript, run=job.run, method=method.name, seed=job.file.seed, roster=folder.roster())
    left_out = LeftOut(sites, record.event)
    sites.listeners.append(left_out)
    try:
        converse(method, sites, record)
    except TooFewSitesError:
        transcript.forgive(left_out.names)  # whoever resumes the run does so because the lost sites are back
        raise
    record.finish()


class LeftOut:
    """Listens for sites which answered, but whose answer a method could not use, and reports them as lost."""

    def __init__(self, sites: Sites, tell: Callable[[Event], None]):
        self._sites, self._tell = sites, tell
        self._gone: set[str] = set()
        self._told: set[str] = set()

    @property
    def names(self) -> set[str]:
        """The sites that were left out; those that gave no answer, or refused, are not among them."""
        return set(self._sites.lost) - self._gone

    def __call__(self, event: Event) -> None:
        """Take note of an event."""
        if event.state == "lost" and event.site not in self._told:
            self._gone.add(event.site)
        for name in self.names - self._told:
            self._told.add(name)
            self._tell(Event(event.step, event.kind, name, "lost", self._sites.lost[name]))


NamesOf = Callable[[Sequence["NodeInfo"]], Mapping[int, str]]
"""From Flower's nodes to the names of the sites they are, by the node's number; strangers are left out."""


class Introductions:
    """Names nodes by asking them, each a few times at most; for insecure federations."""

    def __init__(self, grid: Grid, roster: Mapping[str, bytes], *, times: int = 3):
        self._grid, self._roster, self._times = grid, roster, times
        self._known: dict[int, str] = {}
        self._asked: dict[int, int] = {}

    def __call__(self, nodes: Sequence[NodeInfo]) -> Mapping[int, str]:
        """Return the names of those nodes that could prove them."""
        new = [
            node.node_id
            for node in nodes
            if node.node_id not in self._known and self._asked.get(node.node_id, 0) < self._times
        ]
        for node in new:
            self._asked[node] = self._asked.get(node, 0) + 1
        self._known |= ask_names(self._grid, new, self._roster)
        return self._known


def node_names(folder: CoordinatorFolder) -> NamesOf:
    """Return a function that names nodes by the keys that were admitted."""
    from cryptography.hazmat.primitives import serialization

    known = {
        serialization.load_ssh_public_key(line.encode()).public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        ): name
        for name, line in folder.node_keys().items()
    }
    return lambda nodes: {
        node.node_id: known[key] for node in nodes if (key := node.public_key.strip() + b"\n") in known
    }


def connected(grid: Grid, names_of: NamesOf) -> dict[str, Place]:
    """Return the admitted sites that are connected now."""
    nodes = [node for node in grid.get_nodes() if node.status in ("online", "")]
    names = names_of(nodes)
    return {names[node.node_id]: (node.node_id, node.last_activated_at) for node in nodes if node.node_id in names}


def gather(
    grid: Grid,
    names_of: NamesOf,
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
        for name, (node, _) in connected(grid, names_of).items():
            if name in wanted and name not in found:
                found[name] = node
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
